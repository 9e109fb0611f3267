# Part of kernels.pyx: steps on 8-bit integers that stand for real numbers. A step's "qparams" are the scale and zero point of
# each operand and then of the result.


cdef int qparams_fit(CpuProgram self, step, qparams, int64_t least=-128, int64_t most=127) except -1:
    for scale, zero in qparams:
        self.check(0 < scale < inf, step, "a finite scale above 0", scale)
        self.check(least <= zero <= most, step, f"a zero point from {least} to {most}", zero)
    return 0


cdef pa_requantize requantized(qparams, lo=-inf, hi=inf) except *:
    """How results are stored: between ``lo`` and ``hi``, in real numbers, where that is less than all levels."""
    scale, zero = qparams[-1]
    bounds = [float(np.clip(np.rint(bound / scale), -128 - zero, 127 - zero)) for bound in (lo, hi)]
    return pa_requantize(lo=bounds[0], hi=bounds[1], zero=zero)


cdef pa_quantize_op *new_quantize(CpuProgram self, step, int form, sources, results) except NULL:
    cdef pa_quantize_op *op = <pa_quantize_op *>self.new(sizeof(pa_quantize_op))
    cdef int k
    types_are(self, step, {"src": sources, "dst": results})
    for k, operand in enumerate(step.src):
        self.check(tuple(operand.shape) == tuple(step.dst.shape), step, f"operands of {step.dst.shape}", operand.shape)
        op.src[k] = self.strided(step, operand)
    op.dst, op.form = written(self, step), form
    return op


def add_quantize(CpuProgram self, step):
    cdef pa_quantize_op *op = new_quantize(self, step, PA_QUANTIZE, ("float32",), ("int8", "uint8"))
    qparams_fit(self, step, [(step.params["scale"], step.params["zero"])], -128, 255)
    op.scale, op.zero = step.params["scale"], step.params["zero"]
    op.quantize = self.row_of(step, "quantize", "s8")
    pa_quantize_plan(op)
    self.append(pa_quantize_step, op, 0)


def add_dequantize(CpuProgram self, step):
    cdef pa_quantize_op *op = new_quantize(self, step, PA_DEQUANTIZE, ("int8", "uint8", "int32"), ("float32",))
    qparams_fit(self, step, [(step.params["scale"], step.params["zero"])], -2**31, 2**31 - 1)
    op.scale, op.zero = step.params["scale"], step.params["zero"]
    op.dequantize = self.row_of(step, "dequantize", "s8")
    pa_quantize_plan(op)
    self.append(pa_quantize_step, op, 0)


cdef int fill_table(CpuProgram self, step, int8_t *to) except -1:
    cdef bytes table = step.params["table"].tobytes()
    self.check(len(table) == 256, step, "a table of 256 entries", len(table))
    memcpy(to, <const char *>table, 256)
    return 0


def add_table(CpuProgram self, step):
    cdef pa_quantize_op *op = new_quantize(self, step, PA_TABLE, ("int8",), ("int8",))
    fill_table(self, step, op.table)
    op.by_table = self.row_of(step, "lut", "s8")
    pa_quantize_plan(op)
    self.append(pa_quantize_step, op, 0)


cdef pa_binary_s8_args binary_s8(step, name, params) except *:
    cdef pa_binary_s8_args args
    (a_scale, args.a_zero), (b_scale, args.b_zero), (y_scale, _) = params["qparams"]
    args.a_factor, args.b_factor = a_scale / y_scale, b_scale / y_scale
    if name == "mul":
        args.a_factor = args.b_factor = a_scale * b_scale / y_scale
    args.to = requantized(params["qparams"], params["lo"], params["hi"])
    return args


def add_integers(CpuProgram self, step):
    cdef pa_quantize_op *op = new_quantize(self, step, PA_INTEGERS, ("int8",), ("int8",))
    name = step.params["op"]
    self.check(name in ("add", "mul"), step, "add or mul", name)
    qparams_fit(self, step, step.params["qparams"])
    op.args = binary_s8(step, name, step.params)
    op.integers = self.row_of(step, name, "s8")
    pa_quantize_plan(op)
    self.append(pa_quantize_step, op, 0)


BUILDERS.update(quantize=add_quantize, dequantize=add_dequantize, table=add_table, integers=add_integers)
OPERANDS["integers"] = (2,)
