# Part of kernels.pyx: steps on pixels, and copies.


def add_pool(CpuProgram self, step, bint average):
    if step.dst.dtype == "int8":
        return add_pool_s8(self, step, average)
    cdef pa_pool_op *op = <pa_pool_op *>self.new(sizeof(pa_pool_op))
    op.src, op.dst, op.window = self.view(step, step.src[0]), self.view(step, step.dst), self.window(step)
    self.check(op.src.c == op.dst.c, step, f"{op.src.c} channels out", op.dst.c)
    self.rows_fit(step, op.window)
    op.average, op.count_pads = average, average and step.params["count_include_pad"]
    op.pad_bottom, op.pad_right = step.params["pads"][2:]
    op.kernel, op.item_bytes = <pa_pool_f32_fn>self.function(step, "pool"), item_bytes(step.dst.dtype)
    pa_pool_plan(op)
    self.append(pa_pool_step, op, 4 * op.scratch_floats)


def add_maxpool(CpuProgram self, step):
    add_pool(self, step, False)


def add_avgpool(CpuProgram self, step):
    add_pool(self, step, True)


def add_lrn(CpuProgram self, step):
    cdef pa_lrn_op *op = <pa_lrn_op *>self.new(sizeof(pa_lrn_op))
    self.same_shape(step)
    op.src, op.dst = self.view(step, step.src[0]), self.view(step, step.dst)
    p = step.params
    op.size, op.alpha, op.beta, op.bias = p["size"], p["alpha"], p["beta"], p["bias"]
    self.check(op.size >= 1, step, "a window of at least 1 channel", op.size)
    op.kernel = <pa_lrn_f32_fn>self.function(step, "lrn")
    pa_lrn_plan(op)
    self.append(pa_lrn_step, op, 4 * op.scratch_floats)


def add_softmax(CpuProgram self, step):
    cdef pa_softmax_op *op = <pa_softmax_op *>self.new(sizeof(pa_softmax_op))
    self.same_shape(step)
    op.src, op.dst = self.view(step, step.src[0]), self.view(step, step.dst)
    op.kernel = <pa_softmax_f32_fn>self.function(step, "softmax")
    self.append(pa_softmax_step, op, 0)


def add_layernorm(CpuProgram self, step):
    cdef pa_layernorm_op *op = <pa_layernorm_op *>self.new(sizeof(pa_layernorm_op))
    self.same_shape(step)
    op.src, op.dst, op.epsilon = self.view(step, step.src[0]), self.view(step, step.dst), step.params["epsilon"]
    op.kernel = <pa_layernorm_f32_fn>self.function(step, "layernorm")
    self.append(pa_layernorm_step, op, 0)


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
    op.kernel = <pa_binary_f32_fn>self.function(step, "binary")
    self.append(pa_binary_step, op, 0)


def add_unary(CpuProgram self, step):
    cdef pa_unary_op *op = <pa_unary_op *>self.new(sizeof(pa_unary_op))
    self.same_shape(step)
    op.src, op.dst = self.view(step, step.src[0]), self.view(step, step.dst)
    op.op, op.p0, op.p1 = self.code(step, UNARY_F32), step.params["p0"], step.params["p1"]
    op.kernel = <pa_unary_f32_fn>self.function(step, "unary")
    self.append(pa_unary_step, op, 0)


def add_copy(CpuProgram self, step):
    cdef pa_copy_op *op = <pa_copy_op *>self.new(sizeof(pa_copy_op))
    cdef int d
    op.src, op.dst = self.view(step, step.src[0]), self.view(step, step.dst)
    sizes, sources, targets = (step.params[key] for key in ("dims", "src_strides", "dst_strides"))
    self.check(len(sizes) == len(sources) == len(targets) <= PA_COPY_DIMS, step,
               f"at most {PA_COPY_DIMS} dimensions", sizes)
    op.item_bytes = item_bytes(step.dst.dtype)
    fill_walk(self, step, &op.axes, sizes, (targets, sources))
    op.transpose = <pa_transpose_f32_fn>kernel_f32(self, step, "transpose")
    for view, strides in ((step.src[0], sources), (step.dst, targets)):
        end = op.item_bytes * (view.offset + sum((size - 1) * stride for size, stride in zip(sizes, strides)) + 1)
        self.check(min(sizes) >= 1 and min(strides, default=0) >= 0 and end <= self.sizes[view.base], step,
                   f"at most {self.sizes[view.base]} bytes in the {BASES[view.base]}", end)
    pa_copy_plan(op)
    self.append(pa_copy_step, op, 0)


def add_fill(CpuProgram self, step):
    cdef pa_fill_op *op = <pa_fill_op *>self.new(sizeof(pa_fill_op))
    cdef bytes element = np.array(step.params["value"], step.dst.dtype).tobytes()
    op.dst, op.item_bytes = self.view(step, step.dst), len(element)
    memcpy(op.element, <const char *>element, len(element))
    self.append(pa_fill_step, op, 0)


BUILDERS.update(
    conv=add_convolution, maxpool=add_maxpool, avgpool=add_avgpool, lrn=add_lrn, softmax=add_softmax,
    layernorm=add_layernorm, binary=add_binary, unary=add_unary, copy=add_copy, fill=add_fill)
