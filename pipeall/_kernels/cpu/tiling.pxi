# Part of kernels.pyx: steps in tiles of rows (tiling.h).


def add_tiled(CpuProgram self, tiling, steps, algorithms):
    """Appends steps, with their algorithms, that are computed in parts (``steps.Strips``); errors as ``CpuProgram.add``."""
    cdef pa_tiled_steps *made = <pa_tiled_steps *>self.new(sizeof(pa_tiled_steps))
    cdef pa_step *parts
    cdef int64_t i
    cdef uintptr_t run, args
    numbers, ends = [], []
    self.threads, self.parts = 1, []
    try:
        for band in tiling.bands:
            for number, step in band:
                self.add(step, algorithms[number - tiling.first] if step.kind == "conv" else None)
                numbers += [number - tiling.first] * (len(self.parts) - len(numbers))
            ends.append(len(numbers))
    finally:
        self.threads, built, self.parts = self.program.core_count, self.parts, None
    parts = <pa_step *>self.new(len(built) * sizeof(pa_step))
    for i, (run, args) in enumerate(built):
        parts[i].run, parts[i].args = <pa_step_fn>run, <void *>args
    arrays = np.array(ends, np.int64), np.array(numbers, np.int32), np.zeros(self.threads * len(steps), np.int64)
    self.keep += arrays
    made.first, made.last, made.bands, made.tile_steps = tiling.first, tiling.last, len(ends), parts
    made.band_ends, made.step_of = <const int64_t *>pointer(arrays[0]), <const int32_t *>pointer(arrays[1])
    for step, algorithm in zip(steps, algorithms, strict=True):
        self.append(NULL, NULL, 0)
        self.steps.append((step.kind, step.node, algorithm))
    self.tiled = np.append(self.tiled, np.uintp(<uintptr_t>made))
    self.program.tiled, self.program.tiled_count = <const pa_tiled_steps **>pointer(self.tiled), len(self.tiled)
    if self.spent is None or self.spent.size < arrays[2].size:
        self.spent = arrays[2]
        self.program.spent = <int64_t *>pointer(self.spent)
