# Part of kernels.pyx: convolutions of halves, by GEMM or Winograd.


def add_conv_f16(CpuProgram self, step, algorithm):
    cdef const pa_kernel_row *row = self.row(step, "gemm")
    cdef pa_winograd_op *op = <pa_winograd_op *>self.new(sizeof(pa_winograd_op))
    cdef pa_conv_op *conv = &op.conv
    cdef pa_window window = self.window(step)
    conv.src, conv.dst, conv.has_residual = self.view(step, step.src[0]), self.view(step, step.dst), len(step.src) > 1
    if conv.has_residual:
        r, dst = step.src[1], step.dst
        self.check((r.h, r.w, r.c) == (dst.h, dst.w, dst.c), step, "a residual of the output's shape", r)
        conv.residual = self.view(step, r)
    conv.kh, conv.kw, conv.stride_y, conv.stride_x = window.kh, window.kw, window.stride_y, window.stride_x
    conv.pad_top, conv.pad_left, conv.dilation_y, conv.dilation_x = (
        window.pad_top, window.pad_left, window.dilation_y, window.dilation_x)
    conv.groups, conv.lo, conv.hi = step.params["groups"], step.params["lo"], step.params["hi"]
    conv.mr, conv.nr = row.mr, row.nr
    shaped = step
    if algorithm != GEMM:
        shaped = in_phases(step, window, &op.phases)
        conv.kh, conv.kw = shaped.params["kernel"]
    op.f16.gemm = <pa_gemm_f16_fn>row.function
    key = (id(step.weight), id(step.bias), "f16", algorithm, <uintptr_t>row, conv.groups, window.stride_x)
    weights = self.packed.get(key)
    if weights is None:
        weights = self.packed[key] = PackedWeights(step)
        weights.bias = self.halves(conv.groups * panels_of(conv) * conv.nr)
        weights.zero = self.halves(max(conv.src.c, conv.kw * (conv.src.c // conv.groups), conv.nr))
        weights.panels = pack_f16(self, shaped, conv, algorithm == GEMM, weights.bias)
    op.f16.bias, op.f16.zero = <const uint16_t *>pointer(weights.bias), <const uint16_t *>pointer(weights.zero)
    if algorithm == GEMM:
        add_gemm_f16(self, op, weights)
    else:
        add_winograd_f16(self, shaped, algorithm, op, weights)


cdef int64_t panels_of(const pa_conv_op *conv):
    return (conv.dst.c // conv.groups + conv.nr - 1) // conv.nr


cdef pack_f16(CpuProgram self, step, const pa_conv_op *conv, bint halves, bias_to):
    """Panels, of halves that last or of floats that Winograd transforms; the bias, of halves, goes to ``bias_to``."""
    cdef int64_t channels = step.src[0].c // conv.groups, taps = conv.kh * conv.kw, cout = conv.dst.c
    cdef int64_t count = conv.groups * panels_of(conv) * taps * channels * conv.nr
    weight = packable(step.weight, (step.dst.c, channels, *step.params["kernel"]), f"step {step.node}: weight")
    bias = packable(step.bias, (step.dst.c,), f"step {step.node}: bias")
    panels, floats = self.halves(count) if halves else aligned(count), aligned(len(bias_to))
    cdef const void *from_weight = f32_pointer(weight)
    cdef const void *from_bias = f32_pointer(bias)
    cdef float *to_weight = f32_pointer(panels)
    cdef float *to_bias = f32_pointer(floats)
    cdef int32_t groups = conv.groups, nr = conv.nr
    cdef bint pack = self.pack
    with nogil:
        if pack:
            pa_conv_pack(from_weight, from_bias, cout, channels, taps, groups, nr, halves, to_weight, to_bias)
    if pack:
        with np.errstate(over="ignore"):
            bias_to[:] = floats.astype(np.float16).view(np.uint16)
    return panels


cdef int add_gemm_f16(CpuProgram self, const pa_winograd_op *like, weights) except -1:
    cdef pa_conv_f16_op *op = <pa_conv_f16_op *>self.new(sizeof(pa_conv_f16_op))
    cdef const pa_conv_op *conv = &like.conv
    op.src, op.dst, op.residual, op.has_residual = conv.src, conv.dst, conv.residual, conv.has_residual
    op.kh, op.kw, op.stride_y, op.stride_x = conv.kh, conv.kw, conv.stride_y, conv.stride_x
    op.pad_top, op.pad_left, op.dilation_y, op.dilation_x = (
        conv.pad_top, conv.pad_left, conv.dilation_y, conv.dilation_x)
    op.groups, op.lo, op.hi, op.mr, op.nr = conv.groups, conv.lo, conv.hi, conv.mr, conv.nr
    op.gemm, op.bias, op.zero = like.f16.gemm, like.f16.bias, like.f16.zero
    op.weight = <const uint16_t *>pointer(weights.panels)
    pa_conv_f16_plan(op, self.threads)
    self.append(pa_conv_f16_step, op, op.scratch_bytes)
    return 0
