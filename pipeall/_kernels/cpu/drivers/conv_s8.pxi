# Part of kernels.pyx: convolutions of 8-bit integers, by GEMM and depthwise ones.

PRODUCT, SUM = 2**15, 2**31  # a product is below the one; a sum, with its bias, stays below the other


cdef int add_conv_s8(CpuProgram self, step) except -1:
    cdef pa_conv_s8_op *op = <pa_conv_s8_op *>self.new(sizeof(pa_conv_s8_op))
    cdef pa_conv_op *conv = &op.conv
    cdef const pa_kernel_row *row
    p = step.params
    qparams_fit(self, step, p["qparams"])
    op.depthwise, op.float_dst = is_depthwise(step), step.dst.dtype == "float32"
    types_are(self, step, {"src": ("int8",), "dst": ("int8",) if op.depthwise else ("int8", "float32")})
    plain = not op.float_dst or (len(step.src) == 1 and "table" not in p)
    self.check(plain, step, "nothing to follow a convolution of float32", p)
    row = self.row_of(step, "depthwise" if op.depthwise else "gemm", "s8")
    if op.depthwise and by_rows(self, step, row):
        add_depthwise_rows(self, step)
        return 0
    fill_conv(self, step, conv, row)
    fill_epilogue(self, step, &op.epilogue)
    if op.depthwise:
        conv.groups = 1
    op.gather_window = not row.flags & PA_CHEAP_TAPS
    if row.flags & PA_UNSIGNED_A and not op.depthwise:
        op.unsign = self.row_of(step, "unsign", "s8")
    if op.float_dst:
        op.to = pa_requantize(lo=p["lo"], hi=p["hi"], zero=0)
    else:
        op.to = requantized(p["qparams"], p["lo"], p["hi"])
    pa_conv_s8_plan(op, self.threads)
    small = bool(row.flags & PA_SMALL_SUMS) and not op.float_dst and small_with_residual(step)
    key = (place_of(step.weight), place_of(step.bias), "s8", <uintptr_t>row, conv.groups, conv.tap_rows, op.float_dst, small)
    weights = self.packed.get(key)
    if weights is None:
        added = 128 if row.flags & PA_UNSIGNED_A else 0
        weights = WeightsS8(self, step, conv.groups, row.nr, added, pa_conv_s8_packed_bytes(op), small)
        weights.zero[:] = np.array(p["qparams"][0][1] + (added if op.unsign else 0)).astype(np.int8)
        if self.pack:
            pa_conv_s8_pack(op, <const int8_t *>pointer(weights.integers), pointer(weights.panels))
        self.packed[key] = weights
    self.keep.append(weights)
    conv.weight, conv.zero, conv.bias = pointer(weights.panels), pointer(weights.zero), pointer(weights.bias)
    op.scale, op.small = f32_pointer(weights.scale), weights.small
    self.append(pa_conv_s8_step, op, conv.scratch_bytes)
    return 0


cdef bint by_rows(CpuProgram self, step, const pa_kernel_row *row) except -1:
    """Whether whole rows are computed: where an instruction set has a kernel of these, or of nothing else."""
    cdef const pa_kernel_row *rows = self.row_of(step, "depthwise_rows", "s8")
    return rows.isa != b"ref" or row.isa == b"ref"


cdef int add_depthwise_rows(CpuProgram self, step) except -1:
    cdef pa_depthwise_s8_op *op = <pa_depthwise_s8_op *>self.new(sizeof(pa_depthwise_s8_op))
    cdef const pa_kernel_row *row = self.row_of(step, "depthwise_rows", "s8")
    p = step.params
    op.src, op.dst, op.window = self.view(step, step.src[0]), self.view(step, step.dst), self.window(step)
    self.rows_fit(step, op.window)
    op.kernel, op.to = row, requantized(p["qparams"], p["lo"], p["hi"])
    fill_epilogue(self, step, &op.epilogue)
    pa_depthwise_s8_plan(op, self.threads)
    nbytes = pa_depthwise_s8_packed_bytes(op)
    small = bool(row.flags & PA_SMALL_SUMS)
    key = (place_of(step.weight), place_of(step.bias), "s8", <uintptr_t>row, nbytes, p["strides"][1], p["dilations"][1])
    weights = self.packed.get(key)
    if weights is None:
        weights = WeightsS8(self, step, 1, row.nr, 0, nbytes, small)
        weights.zero[:] = np.int8(p["qparams"][0][1])
        if self.pack:
            pa_depthwise_s8_pack(op, <const int8_t *>pointer(weights.integers), pointer(weights.panels))
        self.packed[key] = weights
    self.keep.append(weights)
    op.packed, op.zero, op.bias = pointer(weights.panels), <int8_t *>pointer(weights.zero), <int32_t *>pointer(weights.bias)
    op.scale, op.small = f32_pointer(weights.scale), weights.small
    self.append(pa_depthwise_s8_step, op, op.scratch_bytes)
    return 0


cdef int fill_epilogue(CpuProgram self, step, pa_epilogue_s8 *to) except -1:
    if "table" in step.params:
        fill_table(self, step, to.table)
        to.lut = self.row_of(step, "lut", "s8")
    self.check((len(step.src) > 1) == ("add" in step.params), step, "a residual where there is a sum", len(step.src))
    if len(step.src) > 1:
        qparams_fit(self, step, step.params["add"]["qparams"])
        to.residual, to.sum = self.view(step, step.src[1]), binary_s8(step, "add", step.params["add"])
        to.add = self.row_of(step, "add", "s8")
    return 0


def weights_s8(step):
    """The weights of a convolution on integers, checked."""
    shape = (step.dst.c, step.src[0].c // step.params["groups"], *step.params["kernel"])
    if step.weight.shape != shape or step.weight.dtype != np.int8:
        raise ArgumentError(
            f"step {step.node}: weight: expected int8 of {shape}, got {step.weight.dtype} {step.weight.shape}")
    return np.ascontiguousarray(step.weight)


class WeightsS8:
    """What steps of the same weights share: packed ``panels``, and per output, in panels of ``nr``, the bias in quanta of the
    sums and the scale. The kernel multiplies activations with ``added`` to them. ``zero`` is room for padding. Keeps the
    step's arrays, whose identity is the key. ``small``: all sums are (pa_gemm_s8_args), if they are to be."""

    def __init__(self, program, step, groups, nr, added, nbytes, small=False):
        self.source = step.weight, step.bias
        (x_scale, x_zero), *made = step.params["qparams"]
        y_scale = made[0][0] if made else 1.0  # of integers; real numbers are what they are
        count = step.dst.c
        self.integers = weights_s8(step)
        factor = np.float64(x_scale) * np.asarray(step.params["scales"], np.float64)
        sums = self.integers.reshape(count, -1).sum(1, dtype=np.int64)
        bias = np.rint(packable(step.bias, (count,), f"step {step.node}: bias") / factor)
        if not self.integers[0].size * PRODUCT + np.abs(bias).max() < SUM:
            raise ArgumentError(f"step {step.node}: bias: expected sums below {SUM}, got {np.abs(bias).max():g} and "
                                f"{self.integers[0].size} products")
        self.panels = program.bytes_of(nbytes)
        bias -= (x_zero + added) * sums
        self.small = small and small_sums(self.integers.reshape(count, -1), bias, factor / y_scale)
        self.bias, self.scale = (
            panelled(program, values, groups, nr, dtype)
            for values, dtype in ((bias + (PA_BITS if self.small else 0), np.int32), (factor / y_scale, np.float32)))
        self.zero = program.bytes_of(step.params["kernel"][1] * step.src[0].c + nr + PA_S8_SPARE)


def small_with_residual(step):
    """Whether the sum of any result and any residual is small."""
    if "add" not in step.params:
        return True
    (a_scale, _), (b_scale, _), (y_scale, _) = step.params["add"]["qparams"]
    return 255 * (a_scale + b_scale) / y_scale < PA_SMALL_RESULT


def small_sums(weights, bias, scale):
    """Whether the sums of any input are small, and what they are scaled to. Long sums, which gain little, are not looked at."""
    if weights.shape[1] > 4096:
        return False
    positive = np.maximum(weights, 0).sum(1, dtype=np.int64)
    negative = np.minimum(weights, 0).sum(1, dtype=np.int64)
    most = np.maximum(127 * positive - 128 * negative + bias, 128 * positive - 127 * negative - bias)
    return bool(most.max() < PA_SMALL_SUM and (most * scale).max() < PA_SMALL_RESULT)


def panelled(program, values, int groups, int nr, dtype):
    """Values of the outputs as they lie in panels of each group; what is beyond the last output is 1."""
    columns = len(values) // groups
    padded = np.ones((groups, -(-columns // nr) * nr), dtype)
    padded[:, :columns] = values.reshape(groups, columns)
    kept = program.bytes_of(padded.nbytes).view(dtype)
    kept[:] = padded.reshape(-1)
    return kept
