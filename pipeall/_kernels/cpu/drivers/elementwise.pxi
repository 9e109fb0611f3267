# Part of kernels.pyx: elementwise steps on pixels.


def add_binary(CpuProgram self, step):
    cdef pa_binary_op *op = <pa_binary_op *>self.new(sizeof(pa_binary_op))
    self.same_shape(step)
    op.a, op.dst = self.view(step, step.src[0]), self.view(step, step.dst)
    if len(step.src) > 1:
        op.b = self.view(step, step.src[1])
    else:
        h, w, c = np.shape(step.weight)
        constant = self.weights(h * w * c)
        constant[:] = np.asarray(step.weight, np.float32).reshape(-1)
        op.constant = f32_pointer(constant)
        op.b = pa_view(base=0, h=h, w=w, c=c, offset=0, stride=c)
    for size, full in ((op.b.h, op.dst.h), (op.b.w, op.dst.w), (op.b.c, op.dst.c)):
        self.check(size in (1, full), step, f"a second operand of 1 or {full}", size)
    op.op, op.lo, op.hi = self.code(step, BINARY_F32), step.params["lo"], step.params["hi"]
    op.kernel = self.row(step, "binary")
    self.append(pa_binary_step, op, 0)


def add_unary(CpuProgram self, step):
    cdef pa_unary_op *op = <pa_unary_op *>self.new(sizeof(pa_unary_op))
    self.same_shape(step)
    op.src, op.dst = self.view(step, step.src[0]), self.view(step, step.dst)
    op.op, op.p0, op.p1 = self.code(step, UNARY_F32), step.params["p0"], step.params["p1"]
    op.kernel = self.row(step, "unary")
    self.append(pa_unary_step, op, 0)


def add_fill(CpuProgram self, step):
    cdef pa_fill_op *op = <pa_fill_op *>self.new(sizeof(pa_fill_op))
    cdef bytes element = np.array(step.params["value"], step.dst.dtype).tobytes()
    op.dst, op.item_bytes = self.view(step, step.dst), len(element)
    memcpy(op.element, <const char *>element, len(element))
    self.append(pa_fill_step, op, 0)


BUILDERS.update(binary=add_binary, unary=add_unary, fill=add_fill)
