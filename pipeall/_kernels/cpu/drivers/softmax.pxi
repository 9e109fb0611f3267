# Part of kernels.pyx: softmax.


def add_softmax(CpuProgram self, step):
    cdef pa_softmax_op *op = <pa_softmax_op *>self.new(sizeof(pa_softmax_op))
    self.same_shape(step)
    op.src, op.dst = self.view(step, step.src[0]), self.view(step, step.dst)
    op.kernel = self.row(step, "softmax")
    self.append(pa_softmax_step, op, 0)


def add_softmax_nd(CpuProgram self, step):
    if step.dst.dtype == "int8":
        add_softmax_s8(self, step)
        return
    cdef pa_softmax_nd_op *op = <pa_softmax_nd_op *>self.new(sizeof(pa_softmax_nd_op))
    alike(self, step)
    types_are(self, step, {"src": ("float32",), "dst": ("float32",)})
    op.axis, op.log = axis_of(self, step), step.kind == "logsoftmax"
    op.src, op.dst = self.strided(step, step.src[0]), written(self, step)
    op.softmax = self.row_of(step, "softmax", "f32")
    op.columns = self.row_of(step, "softmax_columns", "f32")
    op.reduce = self.row_of(step, "reduce", "f32")
    op.binary = self.row_of(step, "binary", "f32")
    pa_softmax_nd_plan(op)
    self.append(pa_softmax_nd_step, op, 4 * op.scratch_floats)


cdef int add_softmax_s8(CpuProgram self, step) except -1:
    cdef pa_softmax_s8_op *op = <pa_softmax_s8_op *>self.new(sizeof(pa_softmax_s8_op))
    cdef float[::1] powers
    self.check(step.kind == "softmax_nd", step, "softmax, of integers", step.kind)
    alike(self, step)
    types_are(self, step, {"src": ("int8",), "dst": ("int8",)})
    qparams_fit(self, step, step.params["qparams"])
    (op.src_scale, op.src_zero), (op.dst_scale, op.dst_zero) = step.params["qparams"]
    op.src, op.dst, op.axis = self.strided(step, step.src[0]), written(self, step), axis_of(self, step)
    powers = np.exp(np.arange(256) * -np.float64(op.src_scale)).astype(np.float32)
    memcpy(op.powers, &powers[0], 256 * sizeof(float))
    op.quantize = self.row_of(step, "quantize", "s8")
    op.dequantize = self.row_of(step, "dequantize", "s8")
    op.softmax = self.row_of(step, "softmax", "f32")
    op.columns = self.row_of(step, "softmax_columns", "f32")
    pa_softmax_s8_plan(op)
    self.append(pa_softmax_s8_step, op, op.scratch_bytes)
    return 0


BUILDERS.update(softmax=add_softmax, softmax_nd=add_softmax_nd, logsoftmax=add_softmax_nd)
