# Part of kernels.pyx: layers that compute the frames of a batch together (together.h).

cdef int add_together(CpuProgram self, step, algorithm) except -1:
    """Lets the last step compute frames together: a row of each, one below the other."""
    cdef pa_together *made = <pa_together *>self.new(sizeof(pa_together))
    cdef int64_t at = 0
    cdef int i, frames
    cdef uintptr_t run, args
    stacked = []
    for i, view in enumerate((step.dst, *step.src)):
        rows = view.h * view.w * view.stride
        stacked.append((replace(view, base=0, offset=at // item_bytes(view.dtype)), rows))
        operand = pa_stacked(base=view.base, offset=view.offset * item_bytes(view.dtype),
                             bytes=(rows - view.stride + view.c) * item_bytes(view.dtype), at=at,
                             apart=rows * item_bytes(view.dtype))
        if i:
            made.src[i - 1] = operand
        else:
            made.dst = operand
        at += -(-self.batch * operand.apart // LINE_BYTES) * LINE_BYTES + LINE_BYTES
    made.sources = len(step.src)
    sizes, self.sizes, self.parts = self.sizes, (at, 0, 0, 0), []
    try:
        for frames in range(2, self.batch + 1):
            self.frames = frames
            dst, *src = (replace(view, h=frames * view.h) for view, _ in stacked)
            params = {**step.params, "strides": (step.src[0].h, step.params["strides"][1])}
            add_convolution(self, replace(step, src=tuple(src), dst=dst, params=params), algorithm)
    finally:
        self.frames, self.sizes, built, self.parts = 1, sizes, self.parts, None
    for i, (run, args) in enumerate(built):
        made.run[i].run, made.run[i].args = <pa_step_fn>run, <void *>args
    if at > self.rows.nbytes:
        self.rows = aligned(at, np.uint8)
    self.program.rows = <char *>pointer(self.rows)
    self.program.steps[self.program.step_count - 1].together = made
    return 0
