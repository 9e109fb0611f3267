# Part of kernels.pyx: convolutions of groups too narrow for a panel of the GEMM.


cdef add_depthwise(CpuProgram self, step):
    cdef pa_depthwise_op *op = <pa_depthwise_op *>self.new(sizeof(pa_depthwise_op))
    cdef const pa_kernel_row *row = self.row(step, "depthwise")
    op.src, op.dst, op.window = self.view(step, step.src[0]), self.view(step, step.dst), self.window(step)
    op.has_residual = len(step.src) > 1
    if op.has_residual:
        op.residual = self.view(step, step.src[1])
    op.groups, op.lo, op.hi = step.params["groups"], step.params["lo"], step.params["hi"]
    self.rows_fit(step, op.window)
    if step.dst.dtype == "float16" and op.window.kh * op.window.kw * (op.src.c // op.groups) > PA_F16_BLOCK:
        row = reference_row(b"depthwise", b"f16")  # whose sums are floats
    op.kernel, op.item_bytes = row, item_bytes(step.dst.dtype)
    pa_depthwise_plan(op, self.threads)
    shape = (op.dst.c, op.src.c // op.groups, op.window.kh, op.window.kw)
    key = (id(step.weight), id(step.bias), "direct", <uintptr_t>row, op.groups)
    weights = self.packed.get(key)
    if weights is None:
        weights = self.packed[key] = PackedWeights(step)
        weight = packable(step.weight, shape, f"step {step.node}: weight")
        bias = packable(step.bias, (op.dst.c,), f"step {step.node}: bias")
        weights.panels = self.bytes_of(pa_depthwise_packed_bytes(op))
        if self.pack:
            pa_depthwise_pack(op, pointer(weight), pointer(bias), pointer(weights.panels))
    op.packed = pointer(weights.panels)
    self.append(pa_depthwise_step, op, op.scratch_bytes)


cdef const pa_kernel_row *reference_row(const char *op, const char *type_) except NULL:
    """What every core has, last in kernels.inc."""
    rows = [i for i in range(pa_kernel_row_count) if (pa_kernel_rows[i].op, pa_kernel_rows[i].type) == (op, type_)]
    return &pa_kernel_rows[<int>rows[-1]]
