# Part of kernels.pyx: steps on 8-bit integers that stand for real numbers. A step's "levels" are the scale and zero point of
# each operand and then of the result.

PRODUCT, SUM = 2**15, 2**31  # a product is below the one; a sum, with its bias, stays below the other


cdef int levels_fit(CpuProgram self, step, levels, int64_t least=-128, int64_t most=127) except -1:
    for scale, zero in levels:
        self.check(0 < scale < inf, step, "a finite scale above 0", scale)
        self.check(least <= zero <= most, step, f"a zero point from {least} to {most}", zero)
    return 0


def add_conv_s8(CpuProgram self, step):
    cdef pa_conv_s8_op *op = <pa_conv_s8_op *>self.new(sizeof(pa_conv_s8_op))
    levels_fit(self, step, step.params["levels"])
    depthwise, op.reals = is_depthwise(step), step.dst.dtype == "float32"
    types_are(self, step, {"src": ("int8",), "dst": ("int8",) if depthwise else ("int8", "float32")})
    plain = not op.reals or (len(step.src) == 1 and "table" not in step.params)
    self.check(plain, step, "nothing to follow a convolution of float32", step.params)
    cdef const pa_kernel_row *row = self.row_of(step, "depthwise" if depthwise else "gemm", "s8")
    cdef pa_window window = self.window(step)
    op.src, op.dst = self.view(step, step.src[0]), self.view(step, step.dst)
    op.kh, op.kw, op.stride_y, op.stride_x = window.kh, window.kw, window.stride_y, window.stride_x
    op.pad_top, op.pad_left, op.dilation_y, op.dilation_x = (
        window.pad_top, window.pad_left, window.dilation_y, window.dilation_x)
    fill_after(self, step, &op.after)
    op.mr, op.nr, op.depth = row.mr, row.nr, row.kr
    if depthwise:
        op.groups, op.depthwise = 1, <pa_depthwise_s8_fn>row.function
    else:
        op.groups, op.gemm = step.params["groups"], <pa_gemm_s8_fn>row.function
        op.whole = not row.flags & PA_CHEAP_TAPS
    if op.reals:
        op.to = pa_requantise(lo=step.params["lo"], hi=step.params["hi"], zero=0)
    else:
        op.to = requantised(step.params["levels"], step.params["lo"], step.params["hi"])
    pa_conv_s8_plan(op, self.threads)
    key = (id(step.weight), id(step.bias), "s8", <uintptr_t>row, op.groups, op.rows, op.reals)
    weights = self.packed.get(key)
    if weights is None:
        weights = self.packed[key] = WeightsS8(self, step, op.groups, op.nr, pa_conv_s8_packed_bytes(op))
        if self.pack:
            pa_conv_s8_pack(op, <const int8_t *>pointer(weights.integers), pointer(weights.panels))
    op.weight, op.zero = pointer(weights.panels), <const int8_t *>pointer(weights.zero)
    op.bias, op.sums = <const int32_t *>pointer(weights.bias), <const int32_t *>pointer(weights.sums)
    op.scale = f32_pointer(weights.scale)
    self.append(pa_conv_s8_step, op, op.scratch_bytes)


cdef int fill_after(CpuProgram self, step, pa_after_s8 *to) except -1:
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


cdef int fill_winograd_s8(CpuProgram self, step, pa_winograd_op *op) except -1:
    levels_fit(self, step, step.params["levels"])
    (_, op.s8.src_zero), (_, op.s8.dst_zero) = step.params["levels"]
    op.s8.dequantise = <pa_dequantise_s8_fn>kernel_s8(self, step, "dequantise")
    op.s8.quantise = <pa_quantise_s8_fn>kernel_s8(self, step, "quantise")
    return fill_after(self, step, &op.s8.after)


def in_quanta(step):
    """A convolution on integers as one in float32, from integers less their zero point to multiples of the output's scale."""
    (x_scale, _), (y_scale, _) = step.params["levels"]
    weight = weights_s8(step)
    factor = np.float64(x_scale) / y_scale * np.asarray(step.params["scales"], np.float64)
    bounds = {name: step.params[name] / y_scale for name in ("lo", "hi")}
    return replace(
        step, src=step.src[:1], dst=replace(step.dst, dtype="float32"), params={**step.params, **bounds},
        weight=(weight * factor.reshape(-1, 1, 1, 1)).astype(np.float32), bias=step.bias / np.float64(y_scale))


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


cdef pa_requantise requantised(levels, lo=-inf, hi=inf) except *:
    """How results are stored: between ``lo`` and ``hi``, in real numbers, where that is less than all levels."""
    scale, zero = levels[-1]
    bounds = [float(np.clip(np.rint(bound / scale), -128 - zero, 127 - zero)) for bound in (lo, hi)]
    return pa_requantise(lo=bounds[0], hi=bounds[1], zero=zero)


cdef int add_pool_s8(CpuProgram self, step, bint average) except -1:
    cdef pa_pool_s8_op *op = <pa_pool_s8_op *>self.new(sizeof(pa_pool_s8_op))
    op.src, op.dst, op.window = self.view(step, step.src[0]), self.view(step, step.dst), self.window(step)
    self.check(op.src.c == op.dst.c, step, f"{op.src.c} channels out", op.dst.c)
    op.kernel = <pa_pool_s8_fn>self.function(step, "pool")
    op.average, op.count_pads = average, average and step.params["count_include_pad"]
    op.pad_bottom, op.pad_right = step.params["pads"][2:]
    if average:
        levels_fit(self, step, step.params["levels"])
        (x_scale, x_zero), (y_scale, _) = step.params["levels"]
        op.a_zero, op.factor, op.to = x_zero, x_scale / y_scale, requantised(step.params["levels"])
    self.append(pa_pool_s8_step, op, 0)
    return 0


cdef pa_levels_op *new_levels(CpuProgram self, step, int form, sources, results) except NULL:
    cdef pa_levels_op *op = <pa_levels_op *>self.new(sizeof(pa_levels_op))
    cdef int k
    types_are(self, step, {"src": sources, "dst": results})
    for k, operand in enumerate(step.src):
        self.check(tuple(operand.shape) == tuple(step.dst.shape), step, f"operands of {step.dst.shape}", operand.shape)
        op.src[k] = self.strided(step, operand)
    op.dst, op.form = written(self, step), form
    return op


cdef pa_any_fn kernel_s8(CpuProgram self, step, op) except? NULL:
    return self.row_of(step, op, "s8").function


def add_quantize(CpuProgram self, step):
    cdef pa_levels_op *op = new_levels(self, step, PA_QUANTISE, ("float32",), ("int8", "uint8"))
    levels_fit(self, step, [(step.params["scale"], step.params["zero"])], -128, 255)
    op.scale, op.zero = step.params["scale"], step.params["zero"]
    op.quantise = <pa_quantise_s8_fn>kernel_s8(self, step, "quantise")
    pa_levels_plan(op)
    self.append(pa_levels_step, op, 0)


def add_dequantize(CpuProgram self, step):
    cdef pa_levels_op *op = new_levels(self, step, PA_DEQUANTISE, ("int8", "uint8", "int32"), ("float32",))
    levels_fit(self, step, [(step.params["scale"], step.params["zero"])], -2**31, 2**31 - 1)
    op.scale, op.zero = step.params["scale"], step.params["zero"]
    op.dequantise = <pa_dequantise_s8_fn>kernel_s8(self, step, "dequantise")
    pa_levels_plan(op)
    self.append(pa_levels_step, op, 0)


cdef int fill_table(CpuProgram self, step, int8_t *to) except -1:
    cdef bytes table = step.params["table"].tobytes()
    self.check(len(table) == 256, step, "a table of 256 entries", len(table))
    memcpy(to, <const char *>table, 256)
    return 0


def add_table(CpuProgram self, step):
    cdef pa_levels_op *op = new_levels(self, step, PA_TABLE, ("int8",), ("int8",))
    fill_table(self, step, op.table)
    op.by_table = <pa_lut_s8_fn>kernel_s8(self, step, "lut")
    pa_levels_plan(op)
    self.append(pa_levels_step, op, 0)


cdef pa_binary_s8_args binary_s8(step, name, params) except *:
    cdef pa_binary_s8_args args
    (a_scale, args.a_zero), (b_scale, args.b_zero), (y_scale, _) = params["levels"]
    args.a_factor, args.b_factor = a_scale / y_scale, b_scale / y_scale
    if name == "mul":
        args.a_factor = args.b_factor = a_scale * b_scale / y_scale
    args.to = requantised(params["levels"], params["lo"], params["hi"])
    return args


def add_integers(CpuProgram self, step):
    cdef pa_levels_op *op = new_levels(self, step, PA_INTEGERS, ("int8",), ("int8",))
    name = step.params["op"]
    self.check(name in ("add", "mul"), step, "add or mul", name)
    levels_fit(self, step, step.params["levels"])
    op.args = binary_s8(step, name, step.params)
    op.integers = <pa_add_s8_fn>kernel_s8(self, step, name)
    pa_levels_plan(op)
    self.append(pa_levels_step, op, 0)


cdef int add_softmax_s8(CpuProgram self, step) except -1:
    cdef pa_softmax_s8_op *op = <pa_softmax_s8_op *>self.new(sizeof(pa_softmax_s8_op))
    cdef float[::1] powers
    self.check(step.kind == "softmax_nd", step, "softmax, of integers", step.kind)
    alike(self, step)
    types_are(self, step, {"src": ("int8",), "dst": ("int8",)})
    levels_fit(self, step, step.params["levels"])
    (op.src_scale, op.src_zero), (op.dst_scale, op.dst_zero) = step.params["levels"]
    op.src, op.dst, op.axis = self.strided(step, step.src[0]), written(self, step), axis_of(self, step)
    powers = np.exp(np.arange(256) * -np.float64(op.src_scale)).astype(np.float32)
    memcpy(op.powers, &powers[0], 256 * sizeof(float))
    op.quantise = <pa_quantise_s8_fn>kernel_s8(self, step, "quantise")
    op.dequantise = <pa_dequantise_s8_fn>kernel_s8(self, step, "dequantise")
    op.softmax = <pa_softmax_f32_fn>kernel_f32(self, step, "softmax")
    op.columns = <pa_softmax_columns_f32_fn>kernel_f32(self, step, "softmax_columns")
    pa_softmax_s8_plan(op)
    self.append(pa_softmax_s8_step, op, op.scratch_bytes)
    return 0


BUILDERS.update(quantize=add_quantize, dequantize=add_dequantize, table=add_table, integers=add_integers)
OPERANDS["integers"] = (2,)
