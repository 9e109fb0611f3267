# Part of kernels.pyx: padding of strided tensors.


cdef int pad_fits(CpuProgram self, step) except -1:
    (x,), out, p = step.src, step.dst, step.params
    has_type(self, step, x, (out.dtype,), "input and output of one type,")
    for key in ("pads_begin", "pads_end", "places"):
        self.check(len(p[key]) == len(x.shape), step, f"{key} of {len(x.shape)} axes", len(p[key]))
    sides = zip(p["pads_begin"], x.shape, p["pads_end"])
    has_shape(self, step, out, tuple(begin + size + end for begin, size, end in sides), "output")
    least = -1 if p["mode"] == "constant" else 0
    for places, begin, size, whole in zip(p["places"], p["pads_begin"], x.shape, out.shape):
        fits = begin >= 0 and len(places) == whole and np.array_equal(places[begin:begin + size], np.arange(size))
        self.check(fits and least <= min(places) and max(places) < size, step, f"places from {least} to {size - 1}", places)
    return 0


cdef const int64_t *offsets_of(CpuProgram self, places, int64_t step) except NULL:
    """Where positions lie, so many elements apart; kept as long as the program."""
    kept = np.where(places < 0, PA_OUTSIDE, places * step).astype(np.int64)
    self.keep.append(kept)
    self.weight_bytes += kept.nbytes
    return <const int64_t *>pointer(kept)


cdef int fill_row(CpuProgram self, step, pa_pad_op *op, list axes) except -1:
    """The fastest axis, and those behind it that are not padded, where they lie together in both tensors. Takes them off
    the list."""
    (x,), out, p, unit = step.src, step.dst, step.params, 1
    axis = axes.pop()
    op.src_step, op.dst_step = x.strides[axis], out.strides[axis]
    while axes and x.shape[axis] == out.shape[axis]:
        reach = unit * x.shape[axis]
        if (x.strides[axes[-1]], out.strides[axes[-1]]) != (reach * op.src_step, reach * op.dst_step):
            break
        unit, axis = reach, axes.pop()
    begin, size, end = p["pads_begin"][axis], x.shape[axis], p["pads_end"][axis]
    op.before, op.inside, op.after = begin * unit, size * unit, end * unit
    if p["mode"] != "constant" and begin + end:
        margins = np.concatenate([p["places"][axis][:begin], p["places"][axis][begin + size:]])
        op.margins = offsets_of(self, (margins[:, None] * unit + np.arange(unit)).reshape(-1), op.src_step)
    return 0


def add_pad(CpuProgram self, step):
    cdef pa_pad_op *op = <pa_pad_op *>self.new(sizeof(pa_pad_op))
    cdef int d
    (x,), out = step.src, step.dst
    op.src, op.dst = self.strided(step, x), self.strided(step, out)
    self.check(len(out.shape) > 0, step, "an axis", out.shape)
    pad_fits(self, step)
    axes = sorted((d for d, size in enumerate(out.shape) if size > 1), key=lambda axis: -out.strides[axis]) or [0]
    fill_row(self, step, op, axes)
    fill_walk(self, step, &op.rows, [out.shape[axis] for axis in axes], ([out.strides[axis] for axis in axes],))
    for d, axis in enumerate(axes):
        op.from_[d] = offsets_of(self, step.params["places"][axis], x.strides[axis])
    if not axes:  # one row
        op.rows.rank, op.rows.size[0] = 1, 1
        op.from_[0] = offsets_of(self, np.zeros(1, np.int64), 0)
    value = np.array(step.params["value"], out.dtype)
    op.value = int(value.view(f"uint{8 * value.itemsize}"))
    self.append(pa_pad_step, op, 0)


BUILDERS.update(pad=add_pad)
