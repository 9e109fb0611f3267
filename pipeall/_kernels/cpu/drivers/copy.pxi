# Part of kernels.pyx: copies.


def add_copy(CpuProgram self, step):
    cdef pa_copy_op *op = <pa_copy_op *>self.new(sizeof(pa_copy_op))
    cdef int d
    op.src, op.dst = self.view(step, step.src[0]), self.view(step, step.dst)
    sizes, sources, targets = (step.params[key] for key in ("dims", "src_strides", "dst_strides"))
    self.check(len(sizes) == len(sources) == len(targets) <= PA_COPY_DIMS, step,
               f"at most {PA_COPY_DIMS} dimensions", sizes)
    op.item_bytes = item_bytes(step.dst.dtype)
    fill_walk(self, step, &op.axes, sizes, (targets, sources))
    op.transpose = self.row_of(step, "transpose", "f32")
    for view, strides in ((step.src[0], sources), (step.dst, targets)):
        end = op.item_bytes * (view.offset + sum((size - 1) * stride for size, stride in zip(sizes, strides)) + 1)
        self.check(min(sizes) >= 1 and min(strides, default=0) >= 0 and end <= self.sizes[view.base], step,
                   f"at most {self.sizes[view.base]} bytes in the {BASES[view.base]}", end)
    pa_copy_plan(op)
    self.append(pa_copy_step, op, 0)


BUILDERS.update(copy=add_copy)
