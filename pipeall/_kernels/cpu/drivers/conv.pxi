# Part of kernels.pyx: convolutions as native steps, by the algorithm that is chosen.


def add_convolution(CpuProgram self, step, algorithm):
    src, dst, groups = step.src[0], step.dst, step.params["groups"]
    self.check(groups >= 1 and src.c % groups == 0 and dst.c % groups == 0, step,
               "groups that divide the channels", groups)
    if len(step.src) > 1:
        r = step.src[1]
        self.check((r.h, r.w, r.c) == (dst.h, dst.w, dst.c), step, "a residual of the output's shape", r)
    if src.dtype == "int8" and algorithm in (None, GEMM):
        add_conv_s8(self, step)
    elif algorithm is None or algorithm == DIRECT:
        add_depthwise(self, step)
    elif algorithm == STRASSEN:
        add_strassen(self, step)
    elif algorithm.kind == "winograd":
        add_winograd(self, step, algorithm)
    else:
        add_gemm(self, step, algorithm)


cdef int fill_conv(CpuProgram self, step, pa_conv_op *op, const pa_kernel_row *kernel) except -1:
    """Operands, geometry and kernel of a convolution."""
    cdef pa_window window = self.window(step)
    p = step.params
    op.src, op.dst, op.has_residual = self.view(step, step.src[0]), self.view(step, step.dst), len(step.src) > 1
    if op.has_residual:
        op.residual = self.view(step, step.src[1])
    op.kh, op.kw, op.stride_y, op.stride_x = window.kh, window.kw, window.stride_y, window.stride_x
    op.pad_top, op.pad_left, op.dilation_y, op.dilation_x = (
        window.pad_top, window.pad_left, window.dilation_y, window.dilation_x)
    op.groups, op.lo, op.hi, op.kernel = p["groups"], p["lo"], p["hi"], kernel
    op.item_bytes = item_bytes(step.src[0].dtype)
    return 0


cdef const pa_kernel_row *gemm_row(CpuProgram self, step) except NULL:
    """The float32 kernel for the outputs of a convolution: of one pixel, or of many."""
    return self.row_of(step, "gemv" if step.dst.h * step.dst.w == 1 else "gemm", "f32")


cdef int add_gemm(CpuProgram self, step, algorithm) except -1:
    cdef pa_conv_op *op = <pa_conv_op *>self.new(sizeof(pa_conv_op))
    cdef const pa_kernel_row *row
    cdef int pixels = 1
    halves = step.dst.dtype == "float16"
    self.window(step)  # checks it
    if algorithm in HALVED:
        row = self.row_of(step, "gemv", "f32_f16w_f16acc" if algorithm == GEMV_HALVES else "f32_f16w")
    elif halves:
        row = self.row(step, "gemm")
    else:
        row = gemm_row(self, step)
        pixels = fold(step, row.nr)
    fill_conv(self, folded(step, pixels) if pixels > 1 else step, op, row)
    op.f16_weights = halves or algorithm in HALVED
    if halves:
        op.kc = PA_F16_BLOCK
    else:  # a single row reuses no weights: blocks are the kernel's
        op.kc = 0 if pixels > 1 or op.dst.h * op.dst.w == 1 else KC
    use_weights(self, step, step, op, algorithm, pixels)
    pa_conv_plan(op, self.threads)
    self.append(pa_conv_step, op, op.scratch_bytes)
    return 0


cdef object use_weights(CpuProgram self, step, shaped, pa_conv_op *op, algorithm, int pixels=1):
    """Packs the weights of ``shaped``, which the algorithm makes of ``step``, unless a step of the same weights has."""
    key = (id(step.weight), id(step.bias), algorithm, <uintptr_t>op.kernel, op.groups, pixels, op.kw, op.stride_x)
    weights = self.packed.get(key)
    if weights is None:
        weights = self.packed[key] = PackedWeights(step)
        pack_weights(self, shaped, op, algorithm, pixels, weights)
    op.bias, op.zero, op.weight = pointer(weights.bias), pointer(weights.zero), NULL
    if weights.panels is not None:
        op.weight = pointer(weights.panels)
    return weights


class PackedWeights:
    """What steps of the same weights share, the images of a batch or the tiles of an image: packed ``panels``, or what an
    algorithm made of them, then without the panels, ``transformed``. Keeps the step's arrays, whose identity is the key."""

    def __init__(self, step):
        self.source = step.weight, step.bias
        self.panels = self.bias = self.zero = self.transformed = None


cdef int pack_weights(CpuProgram self, step, pa_conv_op *op, algorithm, int pixels, weights) except -1:
    cdef int64_t channels = step.src[0].c // op.groups, nr = op.kernel.nr
    cdef int64_t columns = op.groups * ((op.dst.c // op.groups + nr - 1) // nr) * nr
    weight = packable(step.weight, (step.dst.c, channels, *step.params["kernel"]), f"step {step.node}: weight")
    bias = packable(step.bias, (step.dst.c,), f"step {step.node}: bias")
    if pixels > 1:
        weight, bias = folded_weights(step, pixels)
    lasting = aligned if algorithm.keeps_transform else self.halves if op.f16_weights else self.weights
    elements = self.halves if step.dst.dtype == "float16" else self.weights
    weights.panels = lasting(columns * op.kh * op.kw * channels)
    weights.bias, weights.zero = elements(columns), elements(max(op.src.c, op.kw * channels, nr))
    cdef const void *from_weight = f32_pointer(weight)
    cdef const void *from_bias = f32_pointer(bias)
    cdef void *to_weight = pointer(weights.panels)
    cdef void *to_bias = pointer(weights.bias)
    cdef bint pack = self.pack
    with nogil:  # pipelines go on meanwhile: AlexNet has 61 million weights
        if pack:
            pa_conv_pack(op, channels, from_weight, from_bias, to_weight, to_bias)
    return 0


BUILDERS.update(conv=add_convolution)
