# Part of kernels.pyx: convolutions by Winograd, of floats, halves and integers.


cdef object in_phases(step, pa_window window, pa_space_to_depth *phases):
    """The convolution that Winograd computes: of stride 1, with the weights of one with strides by their phases."""
    phases.stride, phases.item_bytes = phases_of(step), item_bytes(step.src[0].dtype)
    phases.pad_top, phases.pad_left = window.pad_top, window.pad_left
    return step if phases.stride == 1 else replace(phased(step), weight=phased_weight(step))


cdef int add_winograd(CpuProgram self, step, algorithm, pa_winograd_op *winograd, weights) except -1:
    cdef float *transformed
    cdef bint pack = self.pack
    winograd.m, winograd.n = tile(step, algorithm)
    winograd.input = <pa_winograd_input_f32_fn>self.function(step, "winograd_input")
    winograd.transform = <pa_winograd_weight_f32_fn>self.function(step, "winograd_weight")
    winograd.output = <pa_winograd_output_f32_fn>self.function(step, "winograd_output")
    if not algorithm.lazy:
        winograd.transformed = winograd.conv.bias  # for the plan: they are kept
    pa_winograd_plan(winograd, self.threads)
    if not algorithm.lazy:
        if weights.transformed is None:
            weights.transformed = self.weights(pa_winograd_transformed_floats(winograd))
            transformed = f32_pointer(weights.transformed)
            with nogil:
                if pack:
                    pa_winograd_transform(winograd, transformed)
            weights.panels = None
        winograd.transformed, winograd.conv.weight = f32_pointer(weights.transformed), NULL
    self.append(pa_winograd_step, winograd, 4 * winograd.scratch_floats)
    return 0


cdef int add_winograd_f16(CpuProgram self, step, algorithm, pa_winograd_op *op, weights) except -1:
    cdef float *on_the_way
    cdef uint16_t *halves
    cdef bint pack = self.pack
    op.m, op.n = tile(step, algorithm)
    op.f16.input = <pa_winograd_input_f16_fn>self.function(step, "winograd_input")
    op.f16.output = <pa_winograd_output_f16_fn>self.function(step, "winograd_output")
    op.transform = <pa_winograd_weight_f32_fn>self.row_of(step, "winograd_weight", "f32").function
    op.transformed = <const float *>op.f16.zero  # for the plan: they are kept
    pa_winograd_plan(op, self.threads)
    if weights.transformed is None:
        weights.transformed = self.halves(pa_winograd_transformed_floats(op))
        room = aligned(pa_winograd_transformed_floats(op) if pack else 1)
        op.conv.weight = f32_pointer(weights.panels)
        on_the_way, halves = f32_pointer(room), <uint16_t *>pointer(weights.transformed)
        with nogil:
            if pack:
                pa_winograd_transform_f16(op, on_the_way, halves)
        weights.panels = None
    op.conv.weight, op.f16.transformed = NULL, <const uint16_t *>pointer(weights.transformed)
    self.append(pa_winograd_step, op, 4 * op.scratch_floats)
    return 0


cdef int fill_winograd_s8(CpuProgram self, step, pa_winograd_op *op) except -1:
    levels_fit(self, step, step.params["levels"])
    (_, op.s8.src_zero), (_, op.s8.dst_zero) = step.params["levels"]
    op.s8.dequantize = <pa_dequantize_s8_fn>kernel_s8(self, step, "dequantize")
    op.s8.quantize = <pa_quantize_s8_fn>kernel_s8(self, step, "quantize")
    return fill_epilogue(self, step, &op.s8.epilogue)


def in_quanta(step):
    """A convolution on integers as one in float32, from integers less their zero point to multiples of the output's scale."""
    (x_scale, _), (y_scale, _) = step.params["levels"]
    weight = weights_s8(step)
    factor = np.float64(x_scale) / y_scale * np.asarray(step.params["scales"], np.float64)
    bounds = {name: step.params[name] / y_scale for name in ("lo", "hi")}
    return replace(
        step, src=step.src[:1], dst=replace(step.dst, dtype="float32"), params={**step.params, **bounds},
        weight=(weight * factor.reshape(-1, 1, 1, 1)).astype(np.float32), bias=step.bias / np.float64(y_scale))
