# Part of kernels.pyx: attention on strided float32 operands.


def add_attention(CpuProgram self, step):
    cdef pa_attention_op *op = <pa_attention_op *>self.new(sizeof(pa_attention_op))
    self.check(len(step.src) in (3, 4), step, "3 or 4 operands", len(step.src))
    q, k, v = step.src[:3]
    f32_operands(self, step, (q, k, v, step.dst))
    shape = (*step.dst.shape[:-2], q.shape[-2], v.shape[-1])
    fits = q.shape[-1] == k.shape[-1] and k.shape[-2] == v.shape[-2]
    self.check(fits, step, "q and k of one width, k and v of one length", (q.shape, k.shape, v.shape))
    self.check(tuple(step.dst.shape) == shape, step, f"a result of {shape}", step.dst.shape)
    op.q, op.k = batched(self, step, q, shape), batched(self, step, k, shape)
    op.v, op.dst = batched(self, step, v, shape), written(self, step)
    if len(step.src) > 3:
        mask, scores = step.src[3], (*shape[:-1], k.shape[-2])
        self.check(mask.dtype in ("float32", "bool"), step, "a mask of float32 or bool", mask.dtype)
        fits = len(mask.shape) == len(scores) and all(n in (1, m) for n, m in zip(mask.shape, scores))
        self.check(fits, step, f"a mask that broadcasts to {scores}", mask.shape)
        op.mask, op.masked = batched(self, step, mask, scores), True
        if mask.shape[-2] == 1:
            op.mask.stride[op.mask.rank - 2] = 0
        if mask.shape[-1] == 1:
            op.mask.stride[op.mask.rank - 1] = 0
    op.scale, op.causal = step.params["scale"], bool(step.params["causal"])
    op.gemm, op.softmax_exp = self.row(step, "gemm"), self.row(step, "softmax_exp")
    pa_attention_plan(op)
    self.append(pa_attention_step, op, 4 * op.scratch_floats)


BUILDERS.update(attention=add_attention)
