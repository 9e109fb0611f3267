# Part of kernels.pyx: products of two computed operands, strided and of float32.

AXIS_MAX = 2**31 - 1  # elements of an axis: products with strides inside memory stay far inside 64 bits


cdef int f32_operands(CpuProgram self, step, operands) except -1:
    """All float32 of one rank of at least 2."""
    rank = len(step.dst.shape)
    for operand in operands:
        self.check(operand.dtype == "float32", step, "operands of float32", operand.dtype)
        self.check(len(operand.shape) == rank >= 2, step, "operands of one rank of at least 2", operand.shape)
        self.check(max(operand.shape) <= AXIS_MAX, step, f"axes of at most {AXIS_MAX} elements", operand.shape)
    return 0


cdef pa_strided batched(CpuProgram self, step, operand, shape) except *:
    """An operand that broadcasts to ``shape`` in the axes that are 1; the last two are its own."""
    cdef pa_strided found = self.strided(step, operand)
    cdef int d
    fits = all(n in (1, m) for n, m in zip(operand.shape[:-2], shape[:-2]))
    self.check(fits, step, f"an operand that broadcasts to {tuple(shape)}", operand.shape)
    for d in range(found.rank - 2):
        if found.size[d] == 1:
            found.size[d], found.stride[d] = shape[d], 0
    return found


def add_matmul(CpuProgram self, step):
    cdef pa_matmul_op *op = <pa_matmul_op *>self.new(sizeof(pa_matmul_op))
    cdef const pa_kernel_row *row
    self.check(len(step.src) == 2, step, "2 operands", len(step.src))
    a, b = step.src
    f32_operands(self, step, (a, b, step.dst))
    shape = (*step.dst.shape[:-2], a.shape[-2], b.shape[-1])
    self.check(a.shape[-1] == b.shape[-2], step, f"a second operand of {a.shape[-1]} rows", b.shape)
    self.check(tuple(step.dst.shape) == shape, step, f"a result of {shape}", step.dst.shape)
    op.a, op.b, op.dst = batched(self, step, a, shape), batched(self, step, b, shape), written(self, step)
    op.alpha = step.params["alpha"]
    row = self.row(step, "gemm")
    op.gemm, op.mr, op.nr = <pa_gemm_f32_fn>row.function, row.mr, row.nr
    op.ger, op.gemv_t = <pa_ger_f32_fn>self.function(step, "ger"), <pa_gemv_t_f32_fn>self.function(step, "gemv_t")
    pa_matmul_plan(op, self.threads)
    self.append(pa_matmul_step, op, 4 * op.scratch_floats)


BUILDERS.update(matmul=add_matmul)
