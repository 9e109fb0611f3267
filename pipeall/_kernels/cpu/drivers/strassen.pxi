# Part of kernels.pyx: 1x1 convolutions by Strassen's products.


cdef int add_strassen(CpuProgram self, step) except -1:
    cdef pa_strassen_op *op = <pa_strassen_op *>self.new(sizeof(pa_strassen_op))
    cdef const pa_kernel_row *row = gemm_row(self, step)
    cdef float *packed
    cdef bint pack = self.pack
    fill_conv(self, step, &op.conv, row)
    op.conv.kc = KC
    self.check(op.conv.dst.c % (2 * row.nr) == 0, step, f"a multiple of {2 * row.nr} channels", op.conv.dst.c)
    weights = use_weights(self, step, step, &op.conv, STRASSEN)
    op.split, op.join = self.row(step, "strassen_split"), self.row(step, "strassen_join")
    op.add = self.row(step, "binary")
    pa_strassen_plan(op, self.threads)
    if weights.transformed is None:
        weights.transformed = self.weights(pa_strassen_packed_floats(op))
        packed = f32_pointer(weights.transformed)
        with nogil:
            if pack:
                pa_strassen_pack(op, packed)
        weights.panels = None
    op.packed, op.conv.weight = f32_pointer(weights.transformed), NULL
    self.append(pa_strassen_step, op, 4 * op.scratch_floats)
    return 0
