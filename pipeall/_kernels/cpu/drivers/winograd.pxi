# Part of kernels.pyx: convolutions by Winograd, of floats, halves and integers.


cdef object in_phases(step, pa_winograd_op *op):
    """The convolution that Winograd computes: of stride 1, with the weights of one with strides by their phases."""
    op.phases.stride = phases_of(step)
    op.phases.pad_top, op.phases.pad_left = op.conv.pad_top, op.conv.pad_left
    shaped = step if op.phases.stride == 1 else replace(phased(step), weight=phased_weight(step))
    op.conv.kh, op.conv.kw = shaped.params["kernel"]
    return shaped


cdef int add_winograd(CpuProgram self, step, algorithm) except -1:
    cdef pa_winograd_op *op = <pa_winograd_op *>self.new(sizeof(pa_winograd_op))
    cdef bint halves = step.dst.dtype == "float16"
    fill_conv(self, step, &op.conv, self.row(step, "gemm") if halves else gemm_row(self, step))
    shaped = in_phases(fill_winograd_s8(self, step, op) if step.dst.dtype == "int8" else step, op)
    op.m, op.n = tile(shaped, algorithm)
    op.transform = self.row_of(step, "winograd_weight", "f32")
    op.input = self.row_of(step, "winograd_input", "f16" if halves else "f32")
    op.output = self.row_of(step, "winograd_output", "f16" if halves else "f32")
    weights = use_weights(self, step, shaped, &op.conv, algorithm)
    op.lazy = algorithm.lazy
    pa_winograd_plan(op, self.threads)
    if not op.lazy:
        if weights.transformed is None:
            weights.transformed = transformed_weights(self, op, halves)
            weights.panels = None
        op.transformed, op.conv.weight = pointer(weights.transformed), NULL
    self.append(pa_winograd_step, op, 4 * op.scratch_floats)
    return 0


cdef object transformed_weights(CpuProgram self, const pa_winograd_op *op, bint halves):
    cdef int64_t count = pa_winograd_transformed_floats(op)
    made = self.halves(count) if halves else self.weights(count)
    room = aligned(count) if halves and self.pack else made  # floats, of which the halves are made
    cdef float *floats = f32_pointer(room)
    cdef uint16_t *bits = <uint16_t *>pointer(made) if halves else NULL
    cdef bint pack = self.pack
    with nogil:
        if pack:
            pa_winograd_transform(op, floats, bits)
    return made


cdef object fill_winograd_s8(CpuProgram self, step, pa_winograd_op *op):
    """The convolution in float32 that one on integers is, its residual being the epilogue's."""
    levels_fit(self, step, step.params["levels"])
    (_, op.s8.src_zero), (_, op.s8.dst_zero) = step.params["levels"]
    op.s8.dequantize, op.s8.quantize = self.row_of(step, "dequantize", "s8"), self.row_of(step, "quantize", "s8")
    fill_epilogue(self, step, &op.s8.epilogue)
    real = in_quanta(step)
    op.conv.has_residual, op.conv.lo, op.conv.hi = False, real.params["lo"], real.params["hi"]
    return real


def in_quanta(step):
    """A convolution on integers as one in float32, from integers less their zero point to multiples of the output's scale."""
    (x_scale, _), (y_scale, _) = step.params["levels"]
    weight = weights_s8(step)
    factor = np.float64(x_scale) / y_scale * np.asarray(step.params["scales"], np.float64)
    bounds = {name: step.params[name] / y_scale for name in ("lo", "hi")}
    return replace(
        step, src=step.src[:1], dst=replace(step.dst, dtype="float32"), params={**step.params, **bounds},
        weight=(weight * factor.reshape(-1, 1, 1, 1)).astype(np.float32), bias=step.bias / np.float64(y_scale))
