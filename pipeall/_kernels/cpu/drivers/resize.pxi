# Part of kernels.pyx: resizing of strided tensors.

TAPS_MAX = 2**24  # of one output element, over all axes


cdef object table(CpuProgram self, step, array, dtype, str what):
    """An array of a step's parameters, kept as long as the program."""
    kept = np.ascontiguousarray(array, dtype)
    self.check(kept.ndim == 2 and kept.shape[1] >= 1, step, f"{what} of shape (output size, taps)", kept.shape)
    self.keep.append(kept)
    self.weight_bytes += kept.nbytes
    return kept


cdef object into_quanta(CpuProgram self, step):
    """By what the weights of one axis are multiplied, so that sums of integers are quanta of the output."""
    if "qparams" not in step.params:
        return 1
    qparams_fit(self, step, step.params["qparams"])
    (x_scale, _), (y_scale, _) = step.params["qparams"]
    return np.float64(x_scale) / y_scale


cdef int fill_resize_s8(CpuProgram self, step, pa_resize_op *op) except -1:
    if "qparams" not in step.params:
        return self.check(step.dst.dtype == "float32", step, "float32, where taps have weights", step.dst.dtype)
    self.check(step.dst.dtype == "int8", step, "int8, where there are levels", step.dst.dtype)
    self.check(len(step.params["taps"]) <= 2, step, "taps of two axes at most", len(step.params["taps"]))
    (_, op.s8.src_zero), (_, op.s8.dst_zero) = step.params["qparams"]
    op.s8.dequantize = self.row_of(step, "dequantize", "s8")
    op.s8.quantize = self.row_of(step, "quantize", "s8")
    return 0


def add_resize(CpuProgram self, step):
    cdef pa_resize_op *op = <pa_resize_op *>self.new(sizeof(pa_resize_op))
    cdef int d
    (source,), target, given = step.src, step.dst, step.params["taps"]
    rank = len(target.shape)
    op.src, op.dst, op.rank, op.moves = self.strided(step, source), self.strided(step, target), rank, True
    self.check(len(source.shape) == rank and source.dtype == target.dtype, step,
               f"input and output of one rank and type, {source.shape} {source.dtype}", f"{target.shape} {target.dtype}")
    self.check(all(axis in range(rank) for axis in given), step, f"taps of axes below {rank}", tuple(given))
    factor, every = into_quanta(self, step), 1
    for d in range(rank):
        op.axis[d].size, op.axis[d].src, op.axis[d].dst = target.shape[d], source.strides[d], target.strides[d]
        if d not in given:
            self.check(source.shape[d] == target.shape[d], step, f"axis {d} of {source.shape[d]}", target.shape[d])
            continue
        indices = table(self, step, given[d][0], np.int32, "indices")
        weights = table(self, step, given[d][1] * factor, np.float32, "weights")
        factor = 1
        self.check(indices.shape == weights.shape and len(indices) == target.shape[d], step,
                   f"taps of {target.shape[d]} positions along axis {d}", f"{indices.shape} and {weights.shape}")
        self.check(0 <= indices.min() and indices.max() < source.shape[d], step,
                   f"indices below {source.shape[d]} along axis {d}", f"{indices.min()} to {indices.max()}")
        op.axis[d].taps, every = indices.shape[1], every * indices.shape[1]
        op.axis[d].index, op.axis[d].weight = <const int32_t *>pointer(indices), f32_pointer(weights)
        if every > 1 or (weights != 1).any():
            op.moves = False
    self.check(every <= TAPS_MAX, step, f"at most {TAPS_MAX} taps", every)
    if not op.moves:
        fill_resize_s8(self, step, op)
        op.kernel = self.row_of(step, "resample", "f32")
        op.upsample = self.row_of(step, "upsample", "f32")
    pa_resize_plan(op, self.threads)
    reach = sum((size - 1) * abs(stride) for size, stride in zip(source.shape, source.strides))
    self.check(not op.outer_taps or reach < 2**31, step, "an input of at most 2^31 elements", reach)
    self.append(pa_resize_step, op, op.scratch_bytes)


BUILDERS.update(resize=add_resize)
