# Part of kernels.pyx: convolutions as native steps, by the algorithm that is chosen.


def add_convolution(CpuProgram self, step, algorithm):
    src, dst, groups = step.src[0], step.dst, step.params["groups"]
    self.check(groups >= 1 and src.c % groups == 0 and dst.c % groups == 0, step,
               "groups that divide the channels", groups)
    if src.dtype == "int8" and algorithm in (None, GEMM):
        return add_conv_s8(self, step)
    if algorithm is None or algorithm == DIRECT:
        return add_depthwise(self, step)
    if dst.dtype == "float16":
        return add_conv_f16(self, step, algorithm)
    cdef void *args = self.new(max(sizeof(pa_winograd_op), sizeof(pa_strassen_op)))
    cdef pa_conv_op *op = <pa_conv_op *>args  # the first member of both
    cdef pa_window window = self.window(step)
    real = step if dst.dtype == "float32" else in_quanta(step)
    cdef bint halves = algorithm in HALVED
    cdef const pa_kernel_row *row = \
        self.row_of(real, "gemv", "f32_f16w_f16acc" if algorithm == GEMV_HALVES else "f32_f16w") if halves else \
        self.row(real, "gemv" if dst.h * dst.w == 1 else "gemm")
    op.has_residual = len(real.src) > 1
    if op.has_residual:
        r = step.src[1]
        self.check((r.h, r.w, r.c) == (dst.h, dst.w, dst.c), step, "a residual of the output's shape", r)
    cdef int pixels = fold(step, row.nr) if algorithm == GEMM else 1
    done = folded(step, pixels) if pixels > 1 else step
    if algorithm.kind == "winograd":
        real = in_phases(real, window, &(<pa_winograd_op *>args).phases)
    window = self.window(done)
    op.src, op.dst = self.view(step, done.src[0]), self.view(step, done.dst)
    if op.has_residual:
        op.residual = self.view(step, done.src[1])
    op.kh, op.kw, op.stride_y, op.stride_x = window.kh, window.kw, window.stride_y, window.stride_x
    op.pad_top, op.pad_left, op.dilation_y, op.dilation_x = (
        window.pad_top, window.pad_left, window.dilation_y, window.dilation_x)
    op.groups, op.lo, op.hi = groups, real.params["lo"], real.params["hi"]
    if algorithm.kind == "winograd":
        op.kh, op.kw = real.params["kernel"]
    op.gemm, op.mr, op.nr, op.one_block = <pa_gemm_f32_fn>row.function, row.mr, row.nr, pixels > 1
    op.f16_weights = halves
    cdef object key = (id(step.weight), id(step.bias), algorithm, <uintptr_t>row, groups, pixels, window.kw,
                       window.stride_x)
    cdef object weights = self.packed.get(key)
    if weights is None:
        weights = self.packed[key] = PackedWeights(step)
        pack_weights(self, real, op, algorithm, pixels, weights)
    op.bias, op.zero, op.weight = f32_pointer(weights.bias), f32_pointer(weights.zero), NULL
    if weights.panels is not None:
        op.weight = f32_pointer(weights.panels)
    if algorithm == GEMM or halves:
        pa_conv_plan(op, self.threads)
        self.append(pa_conv_step, op, 4 * op.scratch_floats)
    elif algorithm == STRASSEN:
        add_strassen(self, step, <pa_strassen_op *>args, weights)
    else:
        if dst.dtype != "float32":
            fill_winograd_s8(self, step, <pa_winograd_op *>args)
        add_winograd(self, real, algorithm, <pa_winograd_op *>args, weights)


class PackedWeights:
    """What steps of the same weights share, the images of a batch or the strips of an image: packed ``panels``, or what an
    algorithm made of them, then without the panels, ``transformed``. Keeps the step's arrays, whose identity is the key."""

    def __init__(self, step):
        self.source = step.weight, step.bias
        self.panels = self.bias = self.zero = self.transformed = None


cdef int pack_weights(CpuProgram self, step, pa_conv_op *op, algorithm, int pixels, weights) except -1:
    cdef int64_t cout = op.dst.c, channels = step.src[0].c // op.groups, taps = op.kh * op.kw
    cdef int64_t panels = (op.dst.c // op.groups + op.nr - 1) // op.nr
    weight = packable(step.weight, (step.dst.c, channels, *step.params["kernel"]), f"step {step.node}: weight")
    bias = packable(step.bias, (step.dst.c,), f"step {step.node}: bias")
    if pixels > 1:
        weight, bias = folded_weights(step, pixels)
    lasting = aligned if algorithm.keeps_transform else self.weights
    weights.panels = lasting(op.groups * panels * taps * channels * op.nr >> op.f16_weights)
    weights.bias = self.weights(op.groups * panels * op.nr)
    weights.zero = self.weights(max(op.src.c, op.kw * channels, op.nr))
    cdef const void *from_weight = f32_pointer(weight)
    cdef const void *from_bias = f32_pointer(bias)
    cdef float *to_weight = f32_pointer(weights.panels)
    cdef float *to_bias = f32_pointer(weights.bias)
    cdef bint pack = self.pack
    with nogil:  # pipelines go on meanwhile: AlexNet has 61 million weights
        if pack:
            pa_conv_pack(from_weight, from_bias, cout, channels, taps, op.groups, op.nr, op.f16_weights, to_weight, to_bias)
    return 0


BUILDERS.update(conv=add_convolution)
