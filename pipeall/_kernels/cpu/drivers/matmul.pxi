# Part of kernels.pyx: products of two computed operands, strided and of float32; a fully connected layer in training.

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
    cdef pa_strided result = self.strided(step, operand)
    cdef int d
    fits = all(n in (1, m) for n, m in zip(operand.shape[:-2], shape[:-2]))
    self.check(fits, step, f"an operand that broadcasts to {tuple(shape)}", operand.shape)
    for d in range(result.rank - 2):
        if result.size[d] == 1:
            result.size[d], result.stride[d] = shape[d], 0
    return result


def add_matmul(CpuProgram self, step):
    cdef pa_matmul_op *op = <pa_matmul_op *>self.new(sizeof(pa_matmul_op))
    self.check(len(step.src) == 2, step, "2 operands", len(step.src))
    a, b = step.src
    f32_operands(self, step, (a, b, step.dst))
    shape = (*step.dst.shape[:-2], a.shape[-2], b.shape[-1])
    self.check(a.shape[-1] == b.shape[-2], step, f"a second operand of {a.shape[-1]} rows", b.shape)
    self.check(tuple(step.dst.shape) == shape, step, f"a result of {shape}", step.dst.shape)
    op.a, op.b, op.dst = batched(self, step, a, shape), batched(self, step, b, shape), written(self, step)
    op.alpha = step.params["alpha"]
    op.gemm, op.ger, op.gemv_t = self.row(step, "gemm"), self.row(step, "ger"), self.row(step, "gemv_t")
    pa_matmul_plan(op, self.threads)
    self.append(pa_matmul_step, op, 4 * op.scratch_floats)


BUILDERS.update(matmul=add_matmul)


@cython.no_gc  # refers to nothing that could refer back; __dealloc__ needs its members
cdef class Crew:
    """Kernels and threads for ``Dense``: ``kernels`` as of ``table.choose``; no thread is pinned."""

    cdef pa_team *team
    cdef const pa_kernel_row *gemm
    cdef const pa_kernel_row *gemv_t
    cdef const pa_kernel_row *ger
    cdef object scratch

    def __init__(self, kernels, int threads=1):
        cdef char error[PA_TEAM_ERROR]
        cdef int32_t[::1] cores
        if threads < 1:
            raise ArgumentError(f"threads: expected at least 1, got {threads}")
        by_name = {pa_kernel_rows[i].name.decode(): i for i in range(pa_kernel_row_count)}
        self.gemm = &pa_kernel_rows[<int>by_name[kernels["gemm", "f32"]]]
        self.gemv_t = &pa_kernel_rows[<int>by_name[kernels["gemv_t", "f32"]]]
        self.ger = &pa_kernel_rows[<int>by_name[kernels["ger", "f32"]]]
        self.scratch = aligned(PA_MATMUL_SCRATCH * threads)
        cores = np.full(threads, -1, np.int32)
        self.team = pa_team_open(<const int *>&cores[0], threads, b"mlp", error)
        if self.team == NULL:
            raise DeviceError((<bytes>error).decode())

    def __dealloc__(self):
        pa_team_close(self.team)


cdef float *matrix(str name, array, shape) except NULL:
    """A C-contiguous float32 array of ``shape``, which may have no element."""
    if array.dtype != np.float32 or not array.flags.c_contiguous or array.shape != shape:
        raise ArgumentError(f"{name}: expected contiguous float32 of shape {shape}, got {array.dtype} {array.shape}")
    return f32_pointer(array)


cdef class Dense:
    """z = W x + bias and its way back, bound to its arrays: weight (m, k), bias (m) or None, x and dx (k, b), z and
    dz (m, b), b samples; all C-contiguous float32. The arrays stay where they are while this object lives."""

    cdef Crew crew
    cdef object keep, weight, dz_by_sample, dx, dx_by_sample, scaled
    cdef int64_t m, k, b
    cdef float *w
    cdef float *bias
    cdef float *x
    cdef float *z
    cdef float *dz
    cdef float *dx_data
    cdef float *scratch

    def __init__(self, Crew crew, weight, bias, x, z, dz, dx):
        m, k = weight.shape
        b = x.shape[1]
        self.crew, self.m, self.k, self.b = crew, m, k, b
        self.keep = (weight, bias, x, z, dz, dx)
        self.w, self.x = matrix("weight", weight, (m, k)), matrix("x", x, (k, b))
        self.bias = NULL if bias is None else matrix("bias", bias, (m,))
        self.z, self.dz, self.dx_data = matrix("z", z, (m, b)), matrix("dz", dz, (m, b)), matrix("dx", dx, (k, b))
        self.weight, self.dx = weight, dx
        self.scratch = f32_pointer(crew.scratch)
        if b > 1:
            self.dz_by_sample, self.dx_by_sample = np.empty((b, m), np.float32), np.empty((b, k), np.float32)
            self.scaled = np.empty((m, b), np.float32)

    def forward(self):
        """z = W x + bias"""
        cdef pa_gemv_t_args vector
        cdef Crew crew = self.crew
        if self.b == 1:
            vector = pa_gemv_t_args(rows=self.m, columns=self.k, a_stride=self.k, a=self.w, x=self.x, bias=self.bias, y=self.z)
            with nogil:
                pa_gemv_t(crew.gemv_t, &vector, crew.team)
        else:
            self.keep[3][...] = 0 if self.keep[1] is None else self.keep[1][:, None]
            self.add_product(self.m, self.k, self.b, self.w, self.x, self.b, 1, self.z)

    def input_gradient(self):
        """dx = transposed W times dz"""
        if self.b == 1:
            memset(self.dx_data, 0, self.k * sizeof(float))
            self.both(self.w, self.m, self.dz, NULL, self.dx_data, 0)
        else:
            self.dz_by_sample[...], self.dx_by_sample[...] = self.keep[4].T, 0
            self.add_product(self.b, self.m, self.k, f32_pointer(self.dz_by_sample), self.w, self.k, 1,
                             f32_pointer(self.dx_by_sample))
            self.dx[...] = self.dx_by_sample.T

    def accumulate(self, target, double alpha, int64_t begin, int64_t end):
        """target += alpha dz times transposed x, in rows [begin, end) of a matrix shaped as W."""
        cdef float *to = self.w if target is self.weight else matrix("target", target, self.weight.shape)
        cdef float *scaled
        if not 0 <= begin <= end <= self.m:
            raise ArgumentError(f"rows: expected a range in 0 to {self.m}, got {begin} to {end}")
        to += begin * self.k
        if self.b == 1:
            self.both(to, end - begin, self.dz + begin, self.x, NULL, <float>alpha)
        else:
            np.multiply(self.keep[4], np.float32(alpha), out=self.scaled)
            scaled = f32_pointer(self.scaled) + begin * self.b
            self.add_product(end - begin, self.b, self.k, scaled, self.x, 1, self.b, to)

    def backward(self, double alpha):
        """``input_gradient`` and the whole ``accumulate`` into W; one pass over W where there is one sample."""
        if self.b == 1:
            memset(self.dx_data, 0, self.k * sizeof(float))
            self.both(self.w, self.m, self.dz, self.x, self.dx_data, <float>alpha)
        else:
            self.input_gradient()
            self.accumulate(self.weight, alpha, 0, self.m)

    cdef int both(self, float *a, int64_t rows, float *dz, float *x, float *dx, float alpha) except -1:
        cdef Crew crew = self.crew
        cdef pa_ger_args args = pa_ger_args(rows=rows, columns=self.k, a_stride=self.k, a=a, dz=dz, x=x, dx=dx, alpha=alpha)
        with nogil:
            pa_ger(crew.ger, &args, crew.team)
        return 0

    cdef int add_product(self, int64_t rows, int64_t k, int64_t columns, float *a, float *b, int64_t b_row, int64_t b_column,
                         float *c) except -1:
        """c += a b; a and c lie in rows."""
        cdef Crew crew = self.crew
        cdef pa_matrix left = pa_matrix(data=a, rows=rows, columns=k, row_stride=k, column_stride=1)
        cdef pa_matrix right = pa_matrix(data=b, rows=k, columns=columns, row_stride=b_row, column_stride=b_column)
        cdef pa_matrix to = pa_matrix(data=c, rows=rows, columns=columns, row_stride=columns, column_stride=1)
        with nogil:
            pa_matmul_add(crew.gemm, left, right, to, self.scratch, crew.team)
        return 0
