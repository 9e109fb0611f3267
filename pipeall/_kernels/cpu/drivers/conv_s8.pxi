# Part of kernels.pyx: convolutions of 8-bit integers by GEMM.

PRODUCT, SUM = 2**15, 2**31  # a product is below the one; a sum, with its bias, stays below the other


def add_conv_s8(CpuProgram self, step):
    cdef pa_conv_s8_op *op = <pa_conv_s8_op *>self.new(sizeof(pa_conv_s8_op))
    levels_fit(self, step, step.params["levels"])
    depthwise, op.float_dst = is_depthwise(step), step.dst.dtype == "float32"
    types_are(self, step, {"src": ("int8",), "dst": ("int8",) if depthwise else ("int8", "float32")})
    plain = not op.float_dst or (len(step.src) == 1 and "table" not in step.params)
    self.check(plain, step, "nothing to follow a convolution of float32", step.params)
    cdef const pa_kernel_row *row = self.row_of(step, "depthwise" if depthwise else "gemm", "s8")
    cdef pa_window window = self.window(step)
    op.src, op.dst = self.view(step, step.src[0]), self.view(step, step.dst)
    op.kh, op.kw, op.stride_y, op.stride_x = window.kh, window.kw, window.stride_y, window.stride_x
    op.pad_top, op.pad_left, op.dilation_y, op.dilation_x = (
        window.pad_top, window.pad_left, window.dilation_y, window.dilation_x)
    fill_epilogue(self, step, &op.epilogue)
    op.mr, op.nr, op.kr = row.mr, row.nr, row.kr
    if depthwise:
        op.groups, op.depthwise = 1, <pa_depthwise_s8_fn>row.function
    else:
        op.groups, op.gemm = step.params["groups"], <pa_gemm_s8_fn>row.function
        op.gather_window = not row.flags & PA_CHEAP_TAPS
    if op.float_dst:
        op.to = pa_requantize(lo=step.params["lo"], hi=step.params["hi"], zero=0)
    else:
        op.to = requantized(step.params["levels"], step.params["lo"], step.params["hi"])
    pa_conv_s8_plan(op, self.threads)
    key = (id(step.weight), id(step.bias), "s8", <uintptr_t>row, op.groups, op.tap_rows, op.float_dst)
    weights = self.packed.get(key)
    if weights is None:
        weights = self.packed[key] = WeightsS8(self, step, op.groups, op.nr, pa_conv_s8_packed_bytes(op))
        if self.pack:
            pa_conv_s8_pack(op, <const int8_t *>pointer(weights.integers), pointer(weights.panels))
    op.weight, op.zero = pointer(weights.panels), <const int8_t *>pointer(weights.zero)
    op.bias, op.sums = <const int32_t *>pointer(weights.bias), <const int32_t *>pointer(weights.sums)
    op.scale = f32_pointer(weights.scale)
    self.append(pa_conv_s8_step, op, op.scratch_bytes)


cdef int fill_epilogue(CpuProgram self, step, pa_epilogue_s8 *to) except -1:
    if "table" in step.params:
        fill_table(self, step, to.table)
        to.by_table = <pa_lut_s8_fn>kernel_s8(self, step, "lut")
    self.check((len(step.src) > 1) == ("add" in step.params), step, "a residual where there is a sum", len(step.src))
    if len(step.src) > 1:
        r, dst = step.src[1], step.dst
        self.check((r.h, r.w, r.c) == (dst.h, dst.w, dst.c), step, "a residual of the output's shape", r)
        levels_fit(self, step, step.params["add"]["levels"])
        to.residual, to.sum = self.view(step, r), binary_s8(step, "add", step.params["add"])
        to.add = <pa_add_s8_fn>kernel_s8(self, step, "add")
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
    sums, the sums of weights and the scale. Keeps the step's arrays, whose identity is the key."""

    def __init__(self, program, step, groups, nr, nbytes):
        self.source = step.weight, step.bias
        (x_scale, x_zero), *made = step.params["levels"]
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
        self.bias, self.sums, self.scale = (
            panelled(program, values, groups, nr, dtype)
            for values, dtype in ((bias - x_zero * sums, np.int32), (sums, np.int32), (factor / y_scale, np.float32)))
        self.zero = program.bytes_of(step.params["kernel"][1] * step.src[0].c + nr + PA_S8_SPARE)
        self.zero[:] = x_zero


def panelled(program, values, int groups, int nr, dtype):
    """Values of the outputs as they lie in panels of each group; what is beyond the last output is 1."""
    columns = len(values) // groups
    padded = np.ones((groups, -(-columns // nr) * nr), dtype)
    padded[:, :columns] = values.reshape(groups, columns)
    kept = program.bytes_of(padded.nbytes).view(dtype)
    kept[:] = padded.reshape(-1)
    return kept
