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
    elif algorithm == SPARSE:
        add_sparse(self, step)
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
    op.item_bytes, op.silu = item_bytes(step.src[0].dtype), silu_row(self, step)
    return 0


cdef const pa_kernel_row *silu_row(CpuProgram self, step) except? NULL:
    return self.row(step, "silu") if step.params.get("silu") else NULL


cdef const pa_kernel_row *gemm_row(CpuProgram self, step) except NULL:
    """The float32 kernel for the outputs of a convolution: of one pixel of each frame, or of many."""
    return self.row_of(step, "gemv" if step.dst.h * step.dst.w == self.frames else "gemm", "f32")


cdef int add_gemm(CpuProgram self, step, algorithm) except -1:
    cdef pa_conv_op *op = <pa_conv_op *>self.new(sizeof(pa_conv_op))
    cdef const pa_kernel_row *row
    cdef int pixels = 1
    halves = step.dst.dtype == "float16"
    self.window(step)  # checks it
    if algorithm == BF16_GEMM:
        row = self.row_of(step, "gemm", "f32_bf16w")
        pixels = fold(step, row.nr)
    elif algorithm in HALVED:
        row = self.row_of(step, "gemv", "f32_f16w_f16acc" if algorithm == GEMV_HALVES else "f32_f16w")
    elif halves:
        row = self.row(step, "gemm")
    else:
        row = gemm_row(self, step)
        pixels = fold(step, row.nr)
    fill_conv(self, folded(step, pixels) if pixels > 1 else step, op, row)
    if halves or algorithm in HALVED:
        op.weight_type = PA_WEIGHTS_F16
    elif algorithm == BF16_GEMM:
        op.weight_type = PA_WEIGHTS_BF16
    if halves:
        op.kc = PA_F16_BLOCK
    else:  # a row of each frame: blocks are the kernel's
        op.kc = 0 if pixels > 1 or op.dst.h * op.dst.w == self.frames else KC
    pa_conv_plan(op, self.threads)
    use_weights(self, step, step, op, algorithm, pixels)
    self.append(pa_conv_step, op, op.scratch_bytes)
    return 0


cdef object use_weights(CpuProgram self, step, shaped, pa_conv_op *op, algorithm, int pixels=1):
    """Packs the weights of ``shaped``, which the algorithm makes of ``step``, unless a step of the same weights has."""
    key = (place_of(step.weight), place_of(step.bias), algorithm, <uintptr_t>op.kernel, op.groups, pixels, op.kw, op.stride_x,
           op.tap_rows if op.kernel.kr > 1 else 0)
    weights = self.packed.get(key)
    if weights is None:
        weights = PackedWeights(step.weight, step.bias)
        pack_weights(self, shaped, op, algorithm, pixels, weights)
        self.packed[key] = weights  # whole, where another thread may find it
    self.keep.append(weights)
    op.bias, op.zero, op.weight = pointer(weights.bias), pointer(weights.zero), NULL
    if weights.panels is not None:
        op.weight = pointer(weights.panels)
    return weights


class PackedWeights:
    """What steps of the same weights share, the images of a batch or the tiles of an image: packed ``panels``, or what an
    algorithm made of them, then without the panels, ``transformed``. Keeps the step's arrays, whose identity is the key."""

    def __init__(self, *arrays):
        self.source = arrays
        self.panels = self.bias = self.zero = self.transformed = None


cdef int pack_weights(CpuProgram self, step, pa_conv_op *op, algorithm, int pixels, weights) except -1:
    cdef int64_t channels = step.src[0].c // op.groups, nr = op.kernel.nr
    cdef int64_t columns = op.groups * ((op.dst.c // op.groups + nr - 1) // nr) * nr
    weight = packable(step.weight, (step.dst.c, channels, *step.params["kernel"]), f"step {step.node}: weight")
    bias = packable(step.bias, (step.dst.c,), f"step {step.node}: bias")
    if pixels > 1:
        weight, bias = folded_weights(step, pixels)
    lasting = aligned if algorithm.keeps_transform else self.halves if op.weight_type != PA_WEIGHTS_F32 else self.weights
    elements = self.halves if step.dst.dtype == "float16" else self.weights
    weights.panels = lasting(pa_conv_packed_elements(op, channels))
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


cdef int add_strassen(CpuProgram self, step) except -1:
    cdef pa_strassen_op *op = <pa_strassen_op *>self.new(sizeof(pa_strassen_op))
    cdef const pa_kernel_row *row = self.row(step, "gemm")
    cdef void *packed
    cdef bint pack = self.pack
    fill_conv(self, step, &op.conv, row)
    self.check(op.conv.dst.c % (2 * row.nr) == 0, step, f"a multiple of {2 * row.nr} channels", op.conv.dst.c)
    weights = use_weights(self, step, step, &op.conv, STRASSEN)
    op.split, op.join = self.row(step, "strassen_split"), self.row(step, "strassen_join")
    pa_strassen_plan(op, self.threads)
    if weights.transformed is None:
        made = self.halves if step.dst.dtype == "float16" else self.weights
        weights.transformed = made(pa_strassen_packed_elements(op))
        packed = pointer(weights.transformed)
        with nogil:
            if pack:
                pa_strassen_pack(op, packed)
        weights.panels = None
    op.packed, op.conv.weight = pointer(weights.transformed), NULL
    self.append(pa_strassen_step, op, 4 * op.scratch_floats)
    return 0


cdef int add_sparse(CpuProgram self, step) except -1:
    cdef pa_sparse_op *op = <pa_sparse_op *>self.new(sizeof(pa_sparse_op))
    cdef const pa_kernel_row *row = self.row(step, "gemm_sparse")
    fill_conv(self, step, &op.conv, row)
    op.transpose = self.row_of(step, "transpose", "f32")
    key = (place_of(step.weight), place_of(step.bias), SPARSE, <uintptr_t>row)
    weights = self.packed.get(key)
    if weights is None:
        weights = PackedWeights(step.weight, step.bias)
        shape = (step.dst.c, step.src[0].c, 1, 1)
        weight = packable(step.weight, shape, f"step {step.node}: weight")
        bias = packable(step.bias, (step.dst.c,), f"step {step.node}: bias")
        starts, k, values = kept_rows(weight.reshape(shape[:2]))
        weights.panels, weights.bias = self.weights(values.size), self.weights(padded(step.dst.c, SPARSE_COLUMNS))
        weights.transformed = starts, k
        if self.pack:
            weights.panels[:], weights.bias[:step.dst.c] = values.reshape(-1), bias
        self.packed[key] = weights
    self.keep.append(weights)
    starts, k = weights.transformed
    op.starts, op.k = <const int32_t *>pointer(starts), <const int32_t *>pointer(k)
    op.values, op.conv.bias = f32_pointer(weights.panels), pointer(weights.bias)
    pa_sparse_plan(op, self.threads)
    self.append(pa_sparse_step, op, op.scratch_bytes)
    return 0


cdef object in_phases(step, pa_winograd_op *op):
    """The convolution that Winograd computes: of stride 1, with the weights of one with strides by their phases."""
    op.stride = phases_of(step)
    shaped = step if op.stride == 1 else replace(phased(step), weight=phased_weight(step))
    op.conv.kh, op.conv.kw = shaped.params["kernel"]
    return shaped


cdef int add_winograd(CpuProgram self, step, algorithm) except -1:
    cdef pa_winograd_op *op = <pa_winograd_op *>self.new(sizeof(pa_winograd_op))
    cdef bint halves = step.dst.dtype == "float16"
    real = "f16" if halves else "f32"
    fill_conv(self, step, &op.conv, self.row(step, "gemm") if halves else gemm_row(self, step))
    shaped = in_phases(fill_winograd_s8(self, step, op) if step.dst.dtype == "int8" else step, op)
    op.m, op.n = tile(shaped, algorithm)
    op.transform = self.row_of(step, "winograd_weight", "f32")
    op.input, op.output = self.row_of(step, "winograd_input", real), self.row_of(step, "winograd_output", real)
    op.products, op.columns = self.row_of(step, "winograd_products", real), self.row_of(step, "winograd_columns", real)
    if op.n < 6 or <bytes>op.products.isa != <bytes>op.conv.kernel.isa:  # x86 has none but the reference
        op.products = op.columns = NULL
    weights = use_weights(self, step, shaped, &op.conv, algorithm)
    op.lazy = algorithm.lazy
    pa_winograd_plan(op, self.threads)
    if not op.lazy:
        if weights.transformed is None:
            weights.transformed = transformed_weights(self, op, halves)
            weights.panels = None
        op.transformed, op.conv.weight = pointer(weights.transformed), NULL
    self.append(pa_winograd_step, op, 4 * op.scratch_floats)
    return 0


cdef object transformed_weights(CpuProgram self, const pa_winograd_op *op, bint halves):
    cdef int64_t count = pa_winograd_transformed_floats(op)
    made = self.halves(count) if halves else self.weights(count)
    room = aligned(count) if halves and self.pack else made  # floats, of which the halves are made
    cdef float *floats = f32_pointer(room)
    cdef uint16_t *bits = <uint16_t *>pointer(made) if halves else NULL
    cdef bint pack = self.pack
    with nogil:
        if pack:
            pa_winograd_transform(op, floats, bits)
    return made


cdef object fill_winograd_s8(CpuProgram self, step, pa_winograd_op *op):
    """The convolution in float32 that one on integers is, its residual being the epilogue's."""
    qparams_fit(self, step, step.params["qparams"])
    (_, op.s8.src_zero), (_, op.s8.dst_zero) = step.params["qparams"]
    op.s8.dequantize, op.s8.quantize = self.row_of(step, "dequantize", "s8"), self.row_of(step, "quantize", "s8")
    fill_epilogue(self, step, &op.s8.epilogue)
    real = in_quanta(step)
    op.conv.has_residual, op.conv.lo, op.conv.hi = False, real.params["lo"], real.params["hi"]
    return real


def in_quanta(step):
    """A convolution on integers as one in float32, from integers less their zero point to multiples of the output's scale."""
    (x_scale, _), (y_scale, _) = step.params["qparams"]
    weight = weights_s8(step)
    factor = np.float64(x_scale) / y_scale * np.asarray(step.params["scales"], np.float64)
    bounds = {name: step.params[name] / y_scale for name in ("lo", "hi")}
    return replace(
        step, src=step.src[:1], dst=replace(step.dst, dtype="float32"), params={**step.params, **bounds},
        weight=(weight * factor.reshape(-1, 1, 1, 1)).astype(np.float32), bias=step.bias / np.float64(y_scale))


cdef add_depthwise(CpuProgram self, step):
    cdef pa_depthwise_op *op = <pa_depthwise_op *>self.new(sizeof(pa_depthwise_op))
    cdef const pa_kernel_row *row = self.row(step, "depthwise")
    op.src, op.dst, op.window = self.view(step, step.src[0]), self.view(step, step.dst), self.window(step)
    op.has_residual = len(step.src) > 1
    if op.has_residual:
        op.residual = self.view(step, step.src[1])
    op.groups, op.lo, op.hi = step.params["groups"], step.params["lo"], step.params["hi"]
    self.rows_fit(step, op.window)
    if step.dst.dtype == "float16" and op.window.kh * op.window.kw * (op.src.c // op.groups) > PA_F16_BLOCK:
        row = reference_row(b"depthwise", b"f16")  # whose sums are floats
    op.kernel, op.silu, op.item_bytes = row, silu_row(self, step), item_bytes(step.dst.dtype)
    pa_depthwise_plan(op, self.threads)
    shape = (op.dst.c, op.src.c // op.groups, op.window.kh, op.window.kw)
    key = (place_of(step.weight), place_of(step.bias), "direct", <uintptr_t>row, op.groups)
    weights = self.packed.get(key)
    if weights is None:
        weights = PackedWeights(step.weight, step.bias)
        weight = packable(step.weight, shape, f"step {step.node}: weight")
        bias = packable(step.bias, (op.dst.c,), f"step {step.node}: bias")
        weights.panels = self.bytes_of(pa_depthwise_packed_bytes(op))
        if self.pack:
            pa_depthwise_pack(op, pointer(weight), pointer(bias), pointer(weights.panels))
        self.packed[key] = weights
    self.keep.append(weights)
    op.packed = pointer(weights.panels)
    self.append(pa_depthwise_step, op, op.scratch_bytes)


cdef const pa_kernel_row *reference_row(const char *op, const char *type_) except NULL:
    """What every core has, last in kernels.inc."""
    rows = [i for i in range(pa_kernel_row_count) if (pa_kernel_rows[i].op, pa_kernel_rows[i].type) == (op, type_)]
    return &pa_kernel_rows[<int>rows[-1]]


BUILDERS.update(conv=add_convolution)


def divided(int threads, **product):
    """(rows, panels) of a chunk of a ``pa_product``, whose members are given by name."""
    cdef pa_product p = product
    cdef pa_chunk_size size = pa_divide(&p, threads)
    return size.rows, size.panels
