# Part of kernels.pyx: steps on strided tensors that find their elements by indices computed at run time.

SCATTERS = {"none": PA_SCATTER_PUT, "add": PA_SCATTER_ADD, "mul": PA_SCATTER_MUL, "max": PA_SCATTER_MAX, "min": PA_SCATTER_MIN}
REDUCED = ("float32", "int8", "uint8", "int32", "int64")  # element types that reductions compute in
INDEX_TYPES = ("int32", "int64")


cdef int has_shape(CpuProgram self, step, operand, expected, str what) except -1:
    return self.check(tuple(operand.shape) == tuple(expected), step, f"{what} of shape {tuple(expected)}", operand.shape)


cdef int has_type(CpuProgram self, step, operand, types, str what) except -1:
    return self.check(operand.dtype in types, step, f"{what} of {' or '.join(types)}", operand.dtype)


cdef int at_axis(CpuProgram self, step, rank) except -1:
    axis = step.params["axis"]
    self.check(0 <= axis < rank, step, f"an axis below {rank}", axis)
    return axis


cdef int fill_walk(CpuProgram self, step, pa_axes *walk, sizes, steps) except -1:
    """Loops over ``sizes`` with the steps of each operand."""
    cdef int o, d
    self.check(len(sizes) <= PA_DIMS, step, f"at most {PA_DIMS} dimensions", len(sizes))
    walk.rank, walk.operands = len(sizes), len(steps)
    for d in range(len(sizes)):
        walk.size[d] = sizes[d]
        for o in range(len(steps)):
            walk.stride[o][d] = steps[o][d]
    return 0


cdef int fill_indexing(CpuProgram self, step, pa_indexing *by, indices, component, limits, steps) except -1:
    """Along which axes of the data the numbers of an index go."""
    cdef int c
    has_type(self, step, indices, INDEX_TYPES, "indices")
    by.index, by.depth, by.component = self.strided(step, indices), len(limits), component
    for c in range(len(limits)):
        by.limit[c], by.step[c] = limits[c], steps[c]
    return 0


cdef int along_axis(CpuProgram self, step, pa_indexing *by, data, indices, each) except -1:
    """One number for every element of ``each``, which has the shape of the indices, along the step's axis of the data."""
    axis = at_axis(self, step, len(data.shape))
    fits = len(indices.shape) == len(data.shape)
    fits = fits and all(few <= n for d, (few, n) in enumerate(zip(indices.shape, data.shape)) if d != axis)
    self.check(fits, step, f"indices that fit {data.shape} along axis {axis}", indices.shape)
    has_shape(self, step, each, indices.shape, "elements")
    fill_indexing(self, step, by, indices, 0, data.shape[axis:axis + 1], data.strides[axis:axis + 1])
    others = [0 if d == axis else stride for d, stride in enumerate(data.strides)]
    return fill_walk(self, step, &by.walk, indices.shape, (each.strides, others, indices.strides))


cdef int along_tuples(CpuProgram self, step, pa_indexing *by, data, indices, each, batch) except -1:
    """Tuples of numbers, the last axis of the indices, for rows of ``each`` that are as long as in the data."""
    depth = indices.shape[-1] if indices.shape else 0
    fits = 0 <= batch < len(indices.shape) and batch + depth <= len(data.shape)
    self.check(fits and tuple(data.shape[:batch]) == tuple(indices.shape[:batch]), step,
               f"tuples of indices into {data.shape} behind {batch} axes", indices.shape)
    behind = batch + depth
    has_shape(self, step, each, (*indices.shape[:-1], *data.shape[behind:]), "elements")
    fill_indexing(self, step, by, indices, indices.strides[-1], data.shape[batch:behind], data.strides[batch:behind])
    tuples, rest = len(indices.shape) - 1, len(data.shape) - behind
    whole = (*data.strides[:batch], *(0,) * (tuples - batch), *data.strides[behind:])
    return fill_walk(self, step, &by.walk, each.shape, (each.strides, whole, (*indices.strides[:-1], *(0,) * rest)))


cdef pa_gather_op *new_gather(CpuProgram self, step) except NULL:
    cdef pa_gather_op *op = <pa_gather_op *>self.new(sizeof(pa_gather_op))
    data, _ = step.src
    has_type(self, step, step.dst, (data.dtype,), "output")
    op.src, op.dst = self.strided(step, data), self.strided(step, step.dst)
    return op


def add_gather(CpuProgram self, step):
    cdef pa_gather_op *op = new_gather(self, step)
    data, indices = step.src
    axis, count, rest = at_axis(self, step, len(data.shape)), len(indices.shape), data.strides[step.params["axis"] + 1:]
    has_shape(self, step, step.dst, (*data.shape[:axis], *indices.shape, *data.shape[axis + 1:]), "output")
    fill_indexing(self, step, &op.by, indices, 0, data.shape[axis:axis + 1], data.strides[axis:axis + 1])
    steps = (step.dst.strides, (*data.strides[:axis], *(0,) * count, *rest),
             (*(0,) * axis, *indices.strides, *(0,) * len(rest)))
    fill_walk(self, step, &op.by.walk, step.dst.shape, steps)
    pa_gather_plan(op)
    self.append(pa_gather_step, op, 0)


def add_gather_elements(CpuProgram self, step):
    cdef pa_gather_op *op = new_gather(self, step)
    along_axis(self, step, &op.by, step.src[0], step.src[1], step.dst)
    pa_gather_plan(op)
    self.append(pa_gather_step, op, 0)


def add_gather_nd(CpuProgram self, step):
    cdef pa_gather_op *op = new_gather(self, step)
    along_tuples(self, step, &op.by, step.src[0], step.src[1], step.dst, step.params["batch_dims"])
    pa_gather_plan(op)
    self.append(pa_gather_step, op, 0)


cdef pa_scatter_op *new_scatter(CpuProgram self, step) except NULL:
    cdef pa_scatter_op *op = <pa_scatter_op *>self.new(sizeof(pa_scatter_op))
    (data, _, updates), target, reduction = step.src, step.dst, step.params["reduction"]
    self.check(reduction in SCATTERS, step, f"one of {', '.join(SCATTERS)}", reduction)
    has_type(self, step, target, (data.dtype,) if reduction == "none" else REDUCED, "output")
    for operand in (data, updates):
        has_type(self, step, operand, (target.dtype,), "input and updates")
    has_shape(self, step, target, data.shape, "output")
    op.src, op.updates, op.dst = self.strided(step, data), self.strided(step, updates), self.strided(step, target)
    op.reduction = SCATTERS[reduction]
    fill_walk(self, step, &op.copy, data.shape, (target.strides, data.strides))
    return op


def add_scatter_elements(CpuProgram self, step):
    cdef pa_scatter_op *op = new_scatter(self, step)
    along_axis(self, step, &op.by, step.dst, step.src[1], step.src[2])
    pa_scatter_plan(op)
    self.append(pa_scatter_step, op, 0)


def add_scatter_nd(CpuProgram self, step):
    cdef pa_scatter_op *op = new_scatter(self, step)
    along_tuples(self, step, &op.by, step.dst, step.src[1], step.src[2], 0)
    pa_scatter_plan(op)
    self.append(pa_scatter_step, op, 0)


def add_topk(CpuProgram self, step):
    cdef pa_topk_op *op = <pa_topk_op *>self.new(sizeof(pa_topk_op))
    (data,), target, p = step.src, step.dst, step.params
    axis, k = at_axis(self, step, len(data.shape)), p["k"]
    self.check(1 <= k <= data.shape[axis], step, f"1 to {data.shape[axis]} elements", k)
    has_shape(self, step, target, (*data.shape[:axis], k, *data.shape[axis + 1:]), "output")
    has_type(self, step, target, ("int64",) if p["indices"] else (data.dtype,), "output")
    op.src, op.dst, op.n, op.k = self.strided(step, data), self.strided(step, target), data.shape[axis], k
    op.src_step, op.dst_step, op.largest, op.places = data.strides[axis], target.strides[axis], p["largest"], p["indices"]
    others = [d for d in range(len(data.shape)) if d != axis]
    fill_walk(self, step, &op.walk, [data.shape[d] for d in others],
              ([target.strides[d] for d in others], [data.strides[d] for d in others]))
    pa_topk_plan(op)
    self.append(pa_topk_step, op, op.scratch_bytes)


def add_nms(CpuProgram self, step):
    cdef pa_nms_op *op = <pa_nms_op *>self.new(sizeof(pa_nms_op))
    (boxes, scores), p = step.src, step.params
    self.check(len(scores.shape) == 3 and p["max_output"] >= 1, step, "scores (N, C, B) and at least 1 box to keep", scores.shape)
    n, classes, count = scores.shape
    most = min(p["max_output"], count)
    has_shape(self, step, boxes, (n, count, 4), "boxes")
    has_shape(self, step, step.dst, (n * classes * most, 3), "output")
    has_type(self, step, step.dst, ("int64",), "output")
    for operand in step.src:
        has_type(self, step, operand, ("float32",), "input")
    op.boxes, op.scores, op.dst = self.strided(step, boxes), self.strided(step, scores), self.strided(step, step.dst)
    op.most, op.iou, op.score, op.center_box = most, p["iou"], p["score"], p["center_box"]
    pa_nms_plan(op)
    self.append(pa_nms_step, op, op.scratch_bytes)


BUILDERS.update(
    gather=add_gather, gather_elements=add_gather_elements, gather_nd=add_gather_nd, topk=add_topk, nms=add_nms,
    scatter_elements=add_scatter_elements, scatter_nd=add_scatter_nd)
