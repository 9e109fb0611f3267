# Part of kernels.pyx: steps that fold axes of strided operands.

REDUCTIONS = {pa_reductions[i].name.decode(): i for i in range(pa_reduction_count)}  # of reductions.inc
WHOLE_TYPES = ("int8", "uint8", "int32", "int64")


cdef only(CpuProgram self, step):
    """The single operand of a step."""
    self.check(len(step.src) == 1, step, "one operand", len(step.src))
    return step.src[0]


cdef axes_of(CpuProgram self, step, axes):
    """Different axes of the operand, counted from the front."""
    rank = len(step.src[0].shape)
    axes = tuple(axes)
    good = len(set(axes)) == len(axes) and all(isinstance(axis, int) and 0 <= axis < rank for axis in axes)
    self.check(good, step, f"different axes below {rank}", axes)
    return axes


cdef int32_t axis_of(CpuProgram self, step) except -1:
    return axes_of(self, step, (step.params["axis"],))[0]


cdef int alike(CpuProgram self, step) except -1:
    """Operand and result have one shape and type."""
    x, y = only(self, step), step.dst
    self.check((tuple(x.shape), x.dtype) == (tuple(y.shape), y.dtype), step, f"a result of {x.shape} {x.dtype}",
               f"{y.shape} {y.dtype}")
    return 0


cdef pa_strided folded_dst(CpuProgram self, step, axes) except *:
    """The result with an axis of one element where an axis was folded, which a step may keep or drop."""
    cdef pa_strided given, result
    cdef int d, at
    shape, keeps = step.src[0].shape, bool(step.params["keepdims"])
    expected = tuple(1 if d in axes else n for d, n in enumerate(shape) if keeps or d not in axes)
    self.check(tuple(step.dst.shape) == expected, step, f"a result of {expected}", step.dst.shape)
    given = written(self, step)
    result, at = given, 0
    result.rank = len(shape)
    for d in range(result.rank):
        if d in axes:
            result.size[d], result.stride[d] = 1, 0
            at += keeps
        else:
            result.size[d], result.stride[d] = given.size[at], given.stride[at]
            at += 1
    return result


def add_reduce(CpuProgram self, step):
    cdef pa_reduce_op *op = <pa_reduce_op *>self.new(sizeof(pa_reduce_op))
    x, how = only(self, step), step.params["how"]
    axes = axes_of(self, step, step.params["axes"])
    self.check(how in REDUCTIONS, step, f"one of {', '.join(REDUCTIONS)}", how)
    types = ("float32", *WHOLE_TYPES, "bool") if how in ("max", "min") else ("float32", *WHOLE_TYPES)
    types_are(self, step, {"src": types, "dst": (x.dtype,)})
    op.src, op.dst = self.strided(step, x), folded_dst(self, step, axes)
    cdef const pa_reduction *reduction = &pa_reductions[<int>REDUCTIONS[how]]
    op.fold, op.finish = reduction.fold, reduction.finish
    for axis in axes:
        op.folded[<int>axis] = 1
    op.reduce = self.row_of(step, "reduce", "f32")
    op.reduce_columns = self.row_of(step, "reduce_columns", "f32")
    op.unary = self.row_of(step, "unary", "f32")
    pa_reduce_plan(op)
    self.append(pa_reduce_step, op, op.scratch_bytes)


def add_argmax(CpuProgram self, step):
    cdef pa_argmax_op *op = <pa_argmax_op *>self.new(sizeof(pa_argmax_op))
    p = step.params
    x = only(self, step)
    op.axis = axis_of(self, step)
    self.check(p["how"] in ("max", "min"), step, "max or min", p["how"])
    types_are(self, step, {"src": ("float32", *WHOLE_TYPES, "bool"), "dst": ("int64",)})
    op.src, op.dst = self.strided(step, x), folded_dst(self, step, (op.axis,))
    op.least, op.last = p["how"] == "min", bool(p["last"])
    op.reduce = self.row_of(step, "reduce", "f32")
    op.argmax_rows = self.row_of(step, "argmax_rows", "f32")
    op.argmax_columns = self.row_of(step, "argmax_columns", "f32")
    pa_argmax_plan(op)
    self.append(pa_argmax_step, op, 0)


def add_cumsum(CpuProgram self, step):
    cdef pa_cumsum_op *op = <pa_cumsum_op *>self.new(sizeof(pa_cumsum_op))
    alike(self, step)
    types_are(self, step, {"src": ("float32", *WHOLE_TYPES), "dst": (step.src[0].dtype,)})
    op.axis = axis_of(self, step)
    op.src, op.dst = self.strided(step, step.src[0]), written(self, step)
    op.exclusive, op.reverse = bool(step.params["exclusive"]), bool(step.params["reverse"])
    pa_cumsum_plan(op)
    self.append(pa_cumsum_step, op, 0)


BUILDERS.update(reduce=add_reduce, arg=add_argmax, cumsum=add_cumsum)
