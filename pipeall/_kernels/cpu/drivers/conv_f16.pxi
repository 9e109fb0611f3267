# Part of kernels.pyx: convolutions of halves by GEMM.


cdef int add_conv_f16(CpuProgram self, step) except -1:
    cdef pa_conv_op *op = <pa_conv_op *>self.new(sizeof(pa_conv_op))
    fill_conv(self, step, op, self.row(step, "gemm"))
    op.kc = PA_F16_BLOCK
    use_weights_f16(self, step, step, op, GEMM)
    pa_conv_f16_plan(op, self.threads)
    self.append(pa_conv_f16_step, op, op.scratch_bytes)
    return 0


cdef object use_weights_f16(CpuProgram self, step, shaped, pa_conv_op *op, algorithm):
    """As ``use_weights``."""
    key = (id(step.weight), id(step.bias), "f16", algorithm, <uintptr_t>op.kernel, op.groups, op.stride_x)
    weights = self.packed.get(key)
    if weights is None:
        weights = self.packed[key] = PackedWeights(step)
        weights.bias = self.halves(op.groups * panels_of(op) * op.kernel.nr)
        weights.zero = self.halves(max(op.src.c, op.kw * (op.src.c // op.groups), op.kernel.nr))
        weights.panels = pack_f16(self, shaped, op, algorithm == GEMM, weights.bias)
    op.bias, op.zero, op.weight = pointer(weights.bias), pointer(weights.zero), NULL
    if weights.panels is not None:
        op.weight = pointer(weights.panels)
    return weights


cdef pack_f16(CpuProgram self, step, const pa_conv_op *conv, bint halves, bias_to):
    """Panels, of halves that last or of floats that Winograd transforms; the bias, of halves, goes to ``bias_to``."""
    cdef int64_t channels = step.src[0].c // conv.groups, taps = conv.kh * conv.kw, cout = conv.dst.c
    cdef int64_t count = conv.groups * panels_of(conv) * taps * channels * conv.kernel.nr
    weight = packable(step.weight, (step.dst.c, channels, *step.params["kernel"]), f"step {step.node}: weight")
    bias = packable(step.bias, (step.dst.c,), f"step {step.node}: bias")
    panels, floats = self.halves(count) if halves else aligned(count), aligned(len(bias_to))
    cdef const void *from_weight = f32_pointer(weight)
    cdef const void *from_bias = f32_pointer(bias)
    cdef float *to_weight = f32_pointer(panels)
    cdef float *to_bias = f32_pointer(floats)
    cdef int32_t groups = conv.groups, nr = conv.kernel.nr
    cdef bint pack = self.pack
    with nogil:
        if pack:
            pa_conv_pack(from_weight, from_bias, cout, channels, taps, groups, nr, halves, to_weight, to_bias)
    if pack:
        with np.errstate(over="ignore"):
            bias_to[:] = floats.astype(np.float16).view(np.uint16)
    return panels
