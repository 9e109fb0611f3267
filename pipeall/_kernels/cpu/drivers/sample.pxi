# Part of kernels.pyx: steps on strided images that read between or around their elements.

PADDINGS = {"zeros": PA_ZEROS, "border": PA_BORDER, "reflection": PA_REFLECTION}
GRID_TAPS = {"nearest": 1, "linear": 2, "cubic": 4}
RATIO_MAX = 2**20  # samples along a side of a region's bin


cdef int all_floats(CpuProgram self, step, operands) except -1:
    for operand in operands:
        has_type(self, step, operand, ("float32",), "inputs and output")
    return 0


cdef int has_rank(CpuProgram self, step, operand, int rank, str what) except -1:
    return self.check(len(operand.shape) == rank, step, f"{what} of {rank} dimensions", operand.shape)


def add_grid_sample(CpuProgram self, step):
    cdef pa_grid_op *op = <pa_grid_op *>self.new(sizeof(pa_grid_op))
    (image, grid), p = step.src, step.params
    all_floats(self, step, (image, grid, step.dst))
    has_rank(self, step, image, 4, "an image")
    has_rank(self, step, step.dst, 4, "output")
    has_shape(self, step, step.dst, (*image.shape[:2], *step.dst.shape[2:]), "output")
    has_shape(self, step, grid, (image.shape[0], *step.dst.shape[2:], 2), "a grid")
    self.check(p["mode"] in GRID_TAPS and p["padding"] in PADDINGS, step,
               f"one of {', '.join(GRID_TAPS)} and one of {', '.join(PADDINGS)}", (p["mode"], p["padding"]))
    op.src, op.grid, op.dst = self.strided(step, image), self.strided(step, grid), self.strided(step, step.dst)
    op.taps, op.padding, op.align_corners = GRID_TAPS[p["mode"]], PADDINGS[p["padding"]], p["align_corners"]
    self.append(pa_grid_step, op, 0)


def add_roi_align(CpuProgram self, step):
    cdef pa_roi_op *op = <pa_roi_op *>self.new(sizeof(pa_roi_op))
    (image, rois, batch), p = step.src, step.params
    all_floats(self, step, (image, rois, step.dst))
    has_type(self, step, batch, INDEX_TYPES, "batch indices")
    has_rank(self, step, image, 4, "an image")
    has_rank(self, step, batch, 1, "batch indices")
    has_shape(self, step, rois, (batch.shape[0], 4), "regions")
    has_shape(self, step, step.dst, (batch.shape[0], image.shape[1], *p["size"]), "output")
    self.check(p["mode"] in ("avg", "max") and 0 <= p["sampling_ratio"] <= RATIO_MAX, step,
               f"avg or max and at most {RATIO_MAX} samples", (p["mode"], p["sampling_ratio"]))
    op.src, op.rois, op.batch = self.strided(step, image), self.strided(step, rois), self.strided(step, batch)
    op.dst, op.maximum, op.half_pixel = self.strided(step, step.dst), p["mode"] == "max", p["half_pixel"]
    op.ratio, op.scale = p["sampling_ratio"], p["spatial_scale"]
    self.append(pa_roi_step, op, 0)


def add_maxpool_indices(CpuProgram self, step):
    cdef pa_places_op *op = <pa_places_op *>self.new(sizeof(pa_places_op))
    (image,), target = step.src, step.dst
    has_type(self, step, image, ("float32",), "input")
    has_type(self, step, target, ("int64",), "output")
    has_rank(self, step, image, 4, "an image")
    has_rank(self, step, target, 4, "output")
    has_shape(self, step, target, (*image.shape[:2], *target.shape[2:]), "output")
    op.src, op.dst, op.window = self.strided(step, image), self.strided(step, target), self.window(step)
    op.column_major = step.params["column_major"]
    self.append(pa_places_step, op, 0)


def add_max_unpool(CpuProgram self, step):
    cdef pa_unpool_op *op = <pa_unpool_op *>self.new(sizeof(pa_unpool_op))
    (data, indices), target = step.src, step.dst
    has_type(self, step, indices, INDEX_TYPES, "indices")
    has_type(self, step, target, (data.dtype,), "output")
    has_shape(self, step, indices, data.shape, "indices")
    has_shape(self, step, target, step.params["shape"], "output")
    op.src, op.index, op.dst = self.strided(step, data), self.strided(step, indices), self.strided(step, target)
    fill_walk(self, step, &op.walk, data.shape, (data.strides, indices.strides))
    fill_walk(self, step, &op.zeros, target.shape, (target.strides,))
    self.append(pa_unpool_step, op, 0)


def add_col2im(CpuProgram self, step):
    cdef pa_col2im_op *op = <pa_col2im_op *>self.new(sizeof(pa_col2im_op))
    cdef int d, rank
    (columns,), target, p = step.src, step.dst, step.params
    all_floats(self, step, (columns, target))
    has_rank(self, step, columns, 3, "input")
    rank = op.rank = len(p["image"])
    self.check(1 <= rank <= PA_DIMS - 2, step, f"an image of 1 to {PA_DIMS - 2} dimensions", p["image"])
    lengths = [len(p[name]) for name in ("block", "strides", "dilations")] + [len(p["pads"]) // 2]
    self.check(set(lengths) == {rank}, step, f"block, strides, dilations and pads of {rank} dimensions", lengths)
    self.check(min(*p["image"], *p["block"], *p["strides"], *p["dilations"]) >= 1 and min(p["pads"]) >= 0, step,
               "positive sizes, blocks, strides and dilations", dict(p))
    self.check(max(*p["image"], *p["block"], *p["strides"], *p["dilations"], *p["pads"]) < 2**31, step, "sizes below 2^31", dict(p))
    taps = positions = 1
    for d in range(rank):
        op.block[d], op.stride[d], op.dilation[d] = p["block"][d], p["strides"][d], p["dilations"][d]
        op.pad[d] = p["pads"][d]
        op.count[d] = (p["image"][d] + p["pads"][d] + p["pads"][rank + d]
                       - p["dilations"][d] * (p["block"][d] - 1) - 1) // p["strides"][d] + 1
        self.check(op.count[d] >= 1, step, "blocks that fit the padded image", p["block"])
        taps, positions = taps * p["block"][d], positions * op.count[d]
    has_shape(self, step, target, (columns.shape[0], columns.shape[1] // taps, *p["image"]), "output")
    has_shape(self, step, columns, (target.shape[0], target.shape[1] * taps, positions), "input")
    op.src, op.dst = self.strided(step, columns), self.strided(step, target)
    self.append(pa_col2im_step, op, 0)


BUILDERS.update(
    grid_sample=add_grid_sample, roi_align=add_roi_align, maxpool_indices=add_maxpool_indices,
    max_unpool=add_max_unpool, col2im=add_col2im)
