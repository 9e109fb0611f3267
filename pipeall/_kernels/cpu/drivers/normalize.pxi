# Part of kernels.pyx: normalization over the channels of pixels, or along axes of strided operands.


def add_lrn(CpuProgram self, step):
    cdef pa_lrn_op *op = <pa_lrn_op *>self.new(sizeof(pa_lrn_op))
    self.same_shape(step)
    op.src, op.dst = self.view(step, step.src[0]), self.view(step, step.dst)
    p = step.params
    op.size, op.alpha, op.beta, op.bias = p["size"], p["alpha"], p["beta"], p["bias"]
    self.check(op.size >= 1, step, "a window of at least 1 channel", op.size)
    op.kernel = <pa_lrn_f32_fn>self.function(step, "lrn")
    pa_lrn_plan(op)
    self.append(pa_lrn_step, op, 4 * op.scratch_floats)


def add_layernorm(CpuProgram self, step):
    cdef pa_layernorm_op *op = <pa_layernorm_op *>self.new(sizeof(pa_layernorm_op))
    self.same_shape(step)
    op.src, op.dst, op.epsilon = self.view(step, step.src[0]), self.view(step, step.dst), step.params["epsilon"]
    op.kernel = <pa_layernorm_f32_fn>self.function(step, "layernorm")
    self.append(pa_layernorm_step, op, 0)


def add_layernorm_nd(CpuProgram self, step):
    cdef pa_layernorm_nd_op *op = <pa_layernorm_nd_op *>self.new(sizeof(pa_layernorm_nd_op))
    alike(self, step)
    types_are(self, step, {"src": ("float32",), "dst": ("float32",)})
    op.sums.src, op.sums.dst = self.strided(step, step.src[0]), written(self, step)
    for axis in axes_of(self, step, step.params["axes"]):
        op.sums.folded[<int>axis] = 1
    op.center, op.epsilon = bool(step.params["center"]), step.params["epsilon"]
    op.sums.reduce = <pa_reduce_f32_fn>kernel_f32(self, step, "reduce")
    op.sums.reduce_columns = <pa_reduce_columns_f32_fn>kernel_f32(self, step, "reduce_columns")
    op.layernorm = <pa_layernorm_f32_fn>kernel_f32(self, step, "layernorm")
    op.normalize = <pa_normalize_f32_fn>kernel_f32(self, step, "normalize")
    op.binary = <pa_binary_f32_fn>kernel_f32(self, step, "binary")
    pa_layernorm_nd_plan(op)
    self.append(pa_layernorm_nd_step, op, 0)


BUILDERS.update(lrn=add_lrn, layernorm=add_layernorm, layernorm_nd=add_layernorm_nd)
