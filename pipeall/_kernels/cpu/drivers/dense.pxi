# Part of kernels.pyx: a fully connected layer in training, on the products of dense.h.

@cython.no_gc  # refers to nothing that could refer back; __dealloc__ needs its members
cdef class Crew:
    """Kernels and threads for ``Dense``: ``kernels`` as of ``table.choose``; no thread is pinned."""

    cdef pa_team *team
    cdef pa_gemm_f32_fn gemm
    cdef pa_gemv_t_f32_fn gemv_t
    cdef pa_ger_f32_fn ger
    cdef int mr, nr
    cdef object scratch

    def __init__(self, kernels, int threads=1):
        cdef char error[PA_TEAM_ERROR]
        cdef int32_t[::1] cores
        if threads < 1:
            raise ArgumentError(f"threads: expected at least 1, got {threads}")
        by_name = {pa_kernel_rows[i].name.decode(): i for i in range(pa_kernel_row_count)}
        row = pa_kernel_rows[<int>by_name[kernels["gemm", "f32"]]]
        self.gemm, self.mr, self.nr = <pa_gemm_f32_fn>row.function, row.mr, row.nr
        self.gemv_t = <pa_gemv_t_f32_fn>pa_kernel_rows[<int>by_name[kernels["gemv_t", "f32"]]].function
        self.ger = <pa_ger_f32_fn>pa_kernel_rows[<int>by_name[kernels["ger", "f32"]]].function
        self.scratch = aligned(PA_PRODUCT_SCRATCH * threads)
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
            self.product(self.m, self.k, self.b, self.w, self.k, self.x, self.b, 1, self.bias, self.z, self.b, False)

    def input_gradient(self):
        """dx = transposed W times dz"""
        if self.b == 1:
            memset(self.dx_data, 0, self.k * sizeof(float))
            self.both(self.w, self.m, self.dz, NULL, self.dx_data, 0)
        else:
            self.dz_by_sample[...] = self.keep[4].T
            self.product(self.b, self.m, self.k, f32_pointer(self.dz_by_sample), self.m, self.w, self.k, 1, NULL,
                         f32_pointer(self.dx_by_sample), self.k, False)
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
            self.product(end - begin, self.b, self.k, scaled, self.b, self.x, 1, self.b, NULL, to, self.k, True)

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

    cdef int product(self, int64_t rows, int64_t k, int64_t columns, float *a, int64_t a_stride, float *b, int64_t b_row,
                     int64_t b_column, float *start, float *c, int64_t c_stride, bint accumulate) except -1:
        cdef Crew crew = self.crew
        cdef pa_product_op op = pa_product_op(
            rows=rows, k=k, columns=columns, a=a, b=b, start=start, c=c, a_stride=a_stride, b_row=b_row,
            b_column=b_column, c_stride=c_stride, accumulate=accumulate, gemm=crew.gemm, mr=crew.mr, nr=crew.nr)
        with nogil:
            pa_product(&op, self.scratch, crew.team)
        return 0
