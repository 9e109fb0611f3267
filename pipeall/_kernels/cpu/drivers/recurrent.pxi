# Part of kernels.pyx: recurrent layers on strided tensors.

ACTIVATIONS = {
    "sigmoid": PA_SIGMOID, "tanh": PA_TANH, "relu": PA_RELU, "affine": PA_AFFINE, "leakyrelu": PA_LEAKYRELU,
    "thresholdedrelu": PA_THRESHOLDEDRELU, "scaledtanh": PA_SCALEDTANH, "hardsigmoid": PA_HARDSIGMOID, "elu": PA_ELU,
    "softsign": PA_SOFTSIGN, "softplus": PA_SOFTPLUS}
DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
CELLS = {  # kind -> its code, gates, functions, results, and the attribute that is its option
    "rnn": (PA_RNN, 1, 1, ("y", "h"), None),
    "gru": (PA_GRU, 3, 2, ("y", "h"), "linear_before_reset"),
    "lstm": (PA_LSTM, 4, 3, ("y", "h", "c", "yc"), "input_forget")}


cdef int recurrent_shapes(CpuProgram self, step, operands, int gates) except -1:
    p, target = step.params, step.dst
    self.check(len(operands) == (7 if gates == 4 else 5), step, f"{7 if gates == 4 else 5} inputs", len(operands))
    all_floats(self, step, (*operands, target))
    has_rank(self, step, operands[0], 3, "input")
    (steps, batch, width), count, rows = operands[0].shape, len(DIRECTIONS[p["direction"]]), gates * p["hidden"]
    state = (count, batch, p["hidden"])
    shapes = [(count, rows, width), (count, rows, p["hidden"]), (count, 2 * rows), state, state, (count, 3 * p["hidden"])]
    for operand, shape in zip(operands[1:], shapes):
        has_shape(self, step, operand, shape, "weights and states")
    rows = {"y": (steps,), "yc": (steps + 1,)}.get(p["result"], ())
    return has_shape(self, step, target, (*rows, *state), "output")


cdef int recurrent_functions(CpuProgram self, step, pa_recurrent_op *op, int each) except -1:
    cdef int d, i
    p = step.params
    backwards = DIRECTIONS[p["direction"]]
    for name in ("activations", "alphas", "betas"):
        self.check(len(p[name]) == each * len(backwards), step, f"{each * len(backwards)} {name}", p[name])
    for d in range(len(backwards)):
        op.backwards[d] = backwards[d]
        for i in range(each):
            name = p["activations"][d * each + i]
            self.check(name in ACTIVATIONS, step, f"one of {', '.join(ACTIVATIONS)}", name)
            op.function[d][i] = pa_function(
                code=ACTIVATIONS[name], alpha=p["alphas"][d * each + i], beta=p["betas"][d * each + i])
    return 0


cdef int pack_recurrent(CpuProgram self, step, pa_recurrent_op *op) except -1:
    """W, R and the plan: W and R that are constants are packed, once for all steps that have them."""
    cdef bint pack = self.pack
    cdef float *packed
    w, r = step.src[1:3]
    kept, weight_bytes = len(self.keep), self.weight_bytes
    op.w, op.r = self.strided(step, w), self.strided(step, r)
    if {w.base, r.base} != {CONSTANT}:
        pa_recurrent_plan(op, self.threads)
        return 0
    sources, self.weight_bytes = self.keep[kept:], weight_bytes  # it is the packed ones that stay
    del self.keep[kept:]
    op.packed = <const float *>op.w.constant  # until it is
    pa_recurrent_plan(op, self.threads)
    places = [(place_of(at.array), at.offset, at.shape, at.strides) for at in (w, r)]
    key = (*places, op.cell, <uintptr_t>op.input, <uintptr_t>op.state)
    weights = self.packed.get(key)
    if weights is None:
        weights = PackedWeights(w.array, r.array)
        weights.panels = self.weights(pa_recurrent_packed_floats(op))
        packed = f32_pointer(weights.panels)
        with nogil:
            if pack:
                pa_recurrent_pack(op, NULL, packed)
        self.packed[key] = weights
    self.keep.append(weights)
    op.packed = f32_pointer(weights.panels)
    return 0


def has_kernel(step) -> bool:
    """Whether a kernel computes the cells: of sigmoid and tanh, without a clip and peepholes."""
    p = step.params
    usual = {"lstm": ("sigmoid", "tanh", "tanh"), "gru": ("sigmoid", "tanh")}.get(step.kind)
    if usual is None or p["activations"] != usual * len(DIRECTIONS[p["direction"]]) or p["clip"] != inf:
        return False
    if step.kind == "gru":
        return p["linear_before_reset"]
    return not p["input_forget"] and step.src[6].base == CONSTANT and not step.src[6].array.any()


def add_recurrent(CpuProgram self, step):
    cdef pa_recurrent_op *op = <pa_recurrent_op *>self.new(sizeof(pa_recurrent_op))
    cdef int code, gates, functions
    p, operands = step.params, step.src
    code, gates, functions, results, option = CELLS[step.kind]
    self.check(p["direction"] in DIRECTIONS, step, f"one of {', '.join(DIRECTIONS)}", p["direction"])
    self.check(p["result"] in results, step, f"one of {', '.join(results)}", p["result"])
    recurrent_shapes(self, step, operands, gates)
    recurrent_functions(self, step, op, functions)
    op.x, op.b, op.h0 = self.strided(step, operands[0]), self.strided(step, operands[3]), self.strided(step, operands[4])
    op.dst = self.strided(step, step.dst)
    if code == PA_LSTM:
        op.c0, op.p = self.strided(step, operands[5]), self.strided(step, operands[6])
    op.cell, op.gates, op.cells, op.clip = code, gates, "c" in p["result"], p["clip"]
    op.option = option is not None and p[option]
    op.gemm, op.gemv, op.unary = self.row(step, "gemm"), self.row(step, "gemv"), self.row(step, "unary")
    op.kernel = self.row(step, step.kind) if has_kernel(step) else NULL
    pack_recurrent(self, step, op)
    self.append(pa_recurrent_step, op, op.scratch_bytes)


BUILDERS.update(rnn=add_recurrent, gru=add_recurrent, lstm=add_recurrent)
