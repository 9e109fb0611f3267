# Part of kernels.pyx: normalization over the channels of pixels, or along axes of strided operands.


def add_lrn(CpuProgram self, step):
    cdef pa_lrn_op *op = <pa_lrn_op *>self.new(sizeof(pa_lrn_op))
    self.same_shape(step)
    op.src, op.dst = self.view(step, step.src[0]), self.view(step, step.dst)
    p = step.params
    op.size, op.alpha, op.beta, op.bias = p["size"], p["alpha"], p["beta"], p["bias"]
    self.check(op.size >= 1, step, "a window of at least 1 channel", op.size)
    op.type, op.kernel = ELEMENT[step.dst.dtype], self.row_of(step, "lrn", "f32")
    if step.dst.dtype == "int8":
        qparams_fit(self, step, p["qparams"])
        (op.src_scale, op.src_zero), (op.dst_scale, op.dst_zero) = p["qparams"]
        op.dequantize, op.quantize = self.row_of(step, "dequantize", "s8"), self.row_of(step, "quantize", "s8")
    else:
        self.check(step.dst.dtype in ("float32", "float16"), step, "floats, halves or int8", step.dst.dtype)
    pa_lrn_plan(op)
    self.append(pa_lrn_step, op, 4 * op.scratch_floats)


def add_layernorm(CpuProgram self, step):
    cdef pa_layernorm_op *op = <pa_layernorm_op *>self.new(sizeof(pa_layernorm_op))
    self.same_shape(step)
    op.src, op.dst, op.epsilon = self.view(step, step.src[0]), self.view(step, step.dst), step.params["epsilon"]
    op.kernel = self.row(step, "layernorm")
    self.append(pa_layernorm_step, op, 0)


def add_layernorm_nd(CpuProgram self, step):
    cdef pa_layernorm_nd_op *op = <pa_layernorm_nd_op *>self.new(sizeof(pa_layernorm_nd_op))
    alike(self, step)
    types_are(self, step, {"src": ("float32",), "dst": ("float32",)})
    op.sums.src, op.sums.dst = self.strided(step, step.src[0]), written(self, step)
    for axis in axes_of(self, step, step.params["axes"]):
        op.sums.folded[<int>axis] = 1
    op.center, op.epsilon = bool(step.params["center"]), step.params["epsilon"]
    op.sums.reduce = self.row_of(step, "reduce", "f32")
    op.sums.reduce_columns = self.row_of(step, "reduce_columns", "f32")
    op.layernorm = self.row_of(step, "layernorm", "f32")
    op.normalize = self.row_of(step, "normalize", "f32")
    op.binary = self.row_of(step, "binary", "f32")
    pa_layernorm_nd_plan(op)
    self.append(pa_layernorm_nd_step, op, 0)


BUILDERS.update(lrn=add_lrn, layernorm=add_layernorm, layernorm_nd=add_layernorm_nd)
