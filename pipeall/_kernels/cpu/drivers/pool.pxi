# Part of kernels.pyx: pooling.


def add_pool(CpuProgram self, step, bint average):
    if step.dst.dtype == "int8":
        return add_pool_s8(self, step, average)
    cdef pa_pool_op *op = <pa_pool_op *>self.new(sizeof(pa_pool_op))
    op.src, op.dst, op.window = self.view(step, step.src[0]), self.view(step, step.dst), self.window(step)
    self.check(op.src.c == op.dst.c, step, f"{op.src.c} channels out", op.dst.c)
    self.rows_fit(step, op.window)
    op.average, op.count_pads = average, average and step.params["count_include_pad"]
    op.pad_bottom, op.pad_right = step.params["pads"][2:]
    op.kernel, op.item_bytes = self.row(step, "pool"), item_bytes(step.dst.dtype)
    pa_pool_plan(op)
    self.append(pa_pool_step, op, 4 * op.scratch_floats)


cdef int add_pool_s8(CpuProgram self, step, bint average) except -1:
    cdef pa_pool_s8_op *op = <pa_pool_s8_op *>self.new(sizeof(pa_pool_s8_op))
    op.src, op.dst, op.window = self.view(step, step.src[0]), self.view(step, step.dst), self.window(step)
    self.check(op.src.c == op.dst.c, step, f"{op.src.c} channels out", op.dst.c)
    op.kernel = self.row(step, "pool")
    op.average, op.count_pads = average, average and step.params["count_include_pad"]
    op.pad_bottom, op.pad_right = step.params["pads"][2:]
    if average:
        qparams_fit(self, step, step.params["qparams"])
        (x_scale, x_zero), (y_scale, _) = step.params["qparams"]
        op.a_zero, op.factor, op.to = x_zero, x_scale / y_scale, requantized(step.params["qparams"])
    self.append(pa_pool_s8_step, op, 0)
    return 0


def add_maxpool(CpuProgram self, step):
    add_pool(self, step, False)


def add_avgpool(CpuProgram self, step):
    add_pool(self, step, True)


BUILDERS.update(maxpool=add_maxpool, avgpool=add_avgpool)
