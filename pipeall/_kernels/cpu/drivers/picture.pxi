# Part of kernels.pyx: pictures into a network's input.

PICTURE_FORMATS = {"RGB": PA_RGB, "BGR": PA_RGB, "GRAY": PA_GRAY, "NV12": PA_NV12, "I420": PA_I420, "YUYV": PA_YUYV}
PICTURE_FILTERS = {
    "bilinear": PA_PICTURE_BILINEAR, "antialias": PA_PICTURE_ANTIALIAS, "area": PA_PICTURE_AREA,
    "nearest": PA_PICTURE_NEAREST,
}


cdef int new_axis(CpuProgram self, pa_picture_axis *axis, int64_t outputs) except -1:
    """Memory for the table of a frame."""
    memory = np.zeros(2 * pa_picture_table(outputs), np.float32)
    self.keep.append(memory)
    axis.weight = f32_pointer(memory)
    axis.start = <int32_t *>(axis.weight + pa_picture_table(outputs))
    return 0


def add_picture(CpuProgram self, step):
    cdef pa_picture_op *op = <pa_picture_op *>self.new(sizeof(pa_picture_op))
    cdef int c
    (source,), target, p = step.src, step.dst, step.params
    picture = p["picture"]
    self.check(source.shape == (PA_PICTURE_WORDS,) and source.strides == (1,) and source.dtype == "int64", step,
               f"{PA_PICTURE_WORDS} words", f"{source.dtype} {source.shape}")
    self.check(len(target.shape) == 3 and target.shape[2] in (1, 3) and target.dtype == "float32", step,
               "a result of (H, W, 1 or 3), float32", f"{target.dtype} {target.shape}")
    self.check(max(target.shape) <= PA_PICTURE_SIDE, step, f"sides up to {PA_PICTURE_SIDE}", target.shape)
    op.src, op.dst = self.strided(step, source), self.strided(step, target)
    op.filter, op.format = PICTURE_FILTERS[picture.filter], PICTURE_FORMATS[picture.frames]
    op.backwards = (picture.frames == "BGR") != (picture.channels == "BGR")
    for c in range(target.shape[2]):
        op.factor[c], op.offset[c] = p["factors"][c], p["offsets"][c]
    op.value = picture.value
    frame, words = p["example"]
    self.keep.append(frame)
    for c in range(PA_PICTURE_WORDS):
        op.example[c] = words[c]
    op.mix = self.row(step, "picture_rows")
    op.spread = self.row(step, "picture_pixels")
    new_axis(self, &op.rows, target.shape[0])
    new_axis(self, &op.columns, target.shape[1])
    pa_picture_plan(op)
    self.append(pa_picture_step, op, op.scratch_bytes)


BUILDERS.update(picture=add_picture)
