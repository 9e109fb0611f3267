# Part of kernels.pyx: steps on single elements of strided operands of any type.

FORMS = {"where": PA_WHERE, "cast": PA_CAST, **dict.fromkeys(UNARY, PA_OF_ONE), **dict.fromkeys(BINARY, PA_OF_TWO)}
INPUTS = {PA_OF_ONE: 1, PA_OF_TWO: 2, PA_WHERE: 3, PA_CAST: 1}


cdef pa_strided written(CpuProgram self, step) except *:
    """What a strided step writes: no constant, and no two elements at one place, since several threads write it."""
    dst, reach = step.dst, 0
    self.check(dst.base != CONSTANT, step, "a place to write to", "a constant")
    for stride, size in sorted((abs(stride), size) for size, stride in zip(dst.shape, dst.strides) if size > 1):
        self.check(stride > reach, step, "a result whose elements do not overlap", dst.strides)
        reach += stride * (size - 1)
    return self.strided(step, dst)


cdef int types_are(CpuProgram self, step, dict allowed) except -1:
    """Each operand, "src" and "dst", has one of the types that ``allowed`` lists for it."""
    for operand in step.src:
        self.check(operand.dtype in allowed["src"], step, f"operands of {', '.join(allowed['src'])}", operand.dtype)
    self.check(step.dst.dtype in allowed["dst"], step, f"a result of {', '.join(allowed['dst'])}", step.dst.dtype)
    return 0


def whole_bounds(lo, hi, dtype) -> tuple:
    """lo and hi as an integer type can hold them."""
    info = np.iinfo(dtype)
    least, most = int(info.min), int(info.max)
    return ceil(min(max(lo, least), most)), floor(max(min(hi, most), least))


def add_pointwise(CpuProgram self, step):
    cdef pa_pointwise_op *op = <pa_pointwise_op *>self.new(sizeof(pa_pointwise_op))
    cdef int k
    p, name, shape = step.params, step.params["op"], tuple(step.dst.shape)
    op.form = self.code(step, FORMS)
    self.check(len(step.src) == INPUTS[op.form], step, f"{INPUTS[op.form]} operands", len(step.src))
    for k, operand in enumerate(step.src):
        self.check(tuple(operand.shape) == shape, step, f"operands of shape {shape}", operand.shape)
        op.src[k] = self.strided(step, operand)
    op.dst = written(self, step)
    op.op = UNARY[name] if op.form == PA_OF_ONE else BINARY[name] if op.form == PA_OF_TWO else 0
    op.p0, op.p1, op.lo, op.hi = p.get("p0", 0.0), p.get("p1", 0.0), p.get("lo", -inf), p.get("hi", inf)
    if step.dst.dtype.strip("u").startswith("int"):
        bounds = (p["p0"], p["p1"]) if name == "clip" else (p.get("lo", -inf), p.get("hi", inf))
        op.least, op.most = whole_bounds(*bounds, step.dst.dtype)
    op.unary = self.row_of(step, "unary", "f32")
    op.binary = self.row_of(step, "binary", "f32")
    types = ", ".join(operand.dtype for operand in step.src)
    self.check(pa_pointwise_plan(op), step, f"types that {name} takes", f"{types} to {step.dst.dtype}")
    self.append(pa_pointwise_step, op, 0)


BUILDERS.update(pointwise=add_pointwise)
