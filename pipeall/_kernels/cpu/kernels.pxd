# The C side of the kernels: kernels.h, dispatch.h, program_cpu.h and the drivers' argument structs.
from libc.stdint cimport int8_t, int32_t, int64_t, uint16_t

from ..program cimport PA_BATCH_MAX, atomic_int, pa_program


cdef extern from "kernels.h" nogil:
    ctypedef struct pa_team:
        pass
    ctypedef struct pa_view:
        int32_t base, h, w, c
        int64_t offset, stride
    ctypedef struct pa_window:
        int32_t kh, kw, stride_y, stride_x, pad_top, pad_left, dilation_y, dilation_x
    enum: PA_DIMS
    ctypedef struct pa_strided:
        int32_t base, rank, type, item_bytes
        int64_t offset
        int64_t *size
        int64_t *stride
        const void *constant
    ctypedef void (*pa_step_fn)(const void *, void *const *, void *, pa_team *) noexcept nogil
    ctypedef struct pa_team_choice:
        int32_t number
    ctypedef struct pa_together
    ctypedef struct pa_step:
        pa_step_fn run
        void *args
        int64_t scratch_bytes
        pa_team_choice choice
        const pa_together *together

cdef extern from "../eventcount.h" nogil:
    int64_t pa_now_ns()

cdef extern from "<stdatomic.h>" nogil:
    void atomic_init(atomic_int *, int)

cdef extern from "cpu_features.h":
    ctypedef struct pa_feature:
        const char *name
        int present
    const pa_feature *pa_features()

cdef extern from "dispatch.h":
    ctypedef void (*pa_any_fn)() noexcept nogil
    ctypedef struct pa_kernel_row:
        const char *op
        const char *type
        const char *name
        const char *isa
        const char *core
        int mr, nr, kr, flags
        pa_any_fn function
    enum: PA_NARROW_WEIGHTS, PA_CHEAP_TAPS, PA_UNSIGNED_A, PA_SMALL_SUMS
    const pa_kernel_row *pa_kernel_rows
    int pa_kernel_row_count
    const char *pa_unary_names[]
    const char *pa_binary_names[]
    enum: PA_TYPED
    const int pa_unary_forms[]
    const int pa_binary_forms[]

cdef extern from "tiling.h" nogil:
    ctypedef struct pa_tiled_steps:
        int32_t first, last, bands
        const int64_t *band_ends
        const pa_step *tile_steps
        const int32_t *step_of
    ctypedef struct pa_thread_memory:
        char *local
        char *scratch
        int64_t local_bytes, scratch_bytes

cdef extern from "together.h" nogil:
    ctypedef struct pa_stacked:
        int32_t base
        int64_t offset, bytes, at, apart
    ctypedef struct pa_together:
        pa_stacked dst
        pa_stacked *src
        int32_t sources
        pa_step *run

cdef extern from "program_cpu.h" nogil:
    ctypedef struct pa_cpu_program:
        pa_program program
        pa_step *steps
        int64_t step_count
        const pa_tiled_steps **tiled
        int64_t tiled_count
        int64_t *spent
        pa_cpu_program *owner
        char *rows
        char *arena
        int64_t arena_bytes
        pa_thread_memory memory
        const int *cores
        int core_count
        char *name
    void pa_cpu_program_init(pa_cpu_program *, int32_t)

cdef extern from "kernels_s8.h" nogil:
    ctypedef int32_t (*pa_peak_s8_fn)(int64_t, const int8_t *) noexcept nogil
    ctypedef struct pa_requantize:
        float lo, hi
        int32_t zero
    ctypedef struct pa_binary_s8_args:
        int32_t a_zero, b_zero
        float a_factor, b_factor
        pa_requantize to

cdef extern from "kernels_f16.h" nogil:
    enum: PA_F16_BLOCK

cdef extern from "drivers/divide.h" nogil:
    ctypedef struct pa_product:
        int64_t rows, panels, groups, unit, most, line, widest, work, input_bytes, panel_bytes
        int by_panels
    ctypedef struct pa_chunk_size:
        int64_t rows, panels
    pa_chunk_size pa_divide(const pa_product *, int threads)

cdef extern from "drivers/conv.h" nogil:
    enum: PA_WEIGHTS_F32, PA_WEIGHTS_F16, PA_WEIGHTS_BF16
    ctypedef struct pa_conv_op:
        pa_view src, dst, residual
        int32_t has_residual
        int32_t kh, kw, stride_y, stride_x, pad_top, pad_left, dilation_y, dilation_x, groups
        float lo, hi
        int32_t item_bytes
        const pa_kernel_row *kernel
        const pa_kernel_row *silu
        const void *weight
        int32_t weight_type
        const void *bias
        const void *zero
        int64_t kc
        int32_t tap_rows
        int64_t scratch_bytes
    void pa_conv_plan(pa_conv_op *, int threads)
    int64_t pa_conv_packed_elements(const pa_conv_op *, int64_t)
    void pa_conv_step(const void *, void *const *, void *, pa_team *)
    void pa_conv_pack(const pa_conv_op *, int64_t, const void *, const void *, void *, void *)

    enum: PA_S8_SPARE, PA_BITS, PA_SMALL_SUM, PA_SMALL_RESULT
    ctypedef struct pa_epilogue_s8:
        const pa_kernel_row *lut
        const pa_kernel_row *add
        int8_t *table
        pa_view residual
        pa_binary_s8_args sum
    ctypedef struct pa_conv_s8_op:
        pa_conv_op conv
        int32_t depthwise, float_dst, gather_window, small
        pa_requantize to
        const pa_kernel_row *unsign
        const float *scale
        pa_epilogue_s8 epilogue
    void pa_conv_s8_plan(pa_conv_s8_op *, int threads)
    void pa_conv_s8_step(const void *, void *const *, void *, pa_team *)
    int64_t pa_conv_s8_packed_bytes(const pa_conv_s8_op *)
    void pa_conv_s8_pack(const pa_conv_s8_op *, const int8_t *, void *)

    ctypedef struct pa_depthwise_s8_op:
        pa_view src, dst
        pa_window window
        pa_requantize to
        const void *packed
        const int32_t *bias
        const float *scale
        const int8_t *zero
        const pa_kernel_row *kernel
        int32_t small
        pa_epilogue_s8 epilogue
        int64_t scratch_bytes
    void pa_depthwise_s8_plan(pa_depthwise_s8_op *, int threads)
    void pa_depthwise_s8_step(const void *, void *const *, void *, pa_team *)
    int64_t pa_depthwise_s8_packed_bytes(const pa_depthwise_s8_op *)
    void pa_depthwise_s8_pack(const pa_depthwise_s8_op *, const int8_t *, void *)

    ctypedef struct pa_winograd_s8:
        const pa_kernel_row *dequantize
        const pa_kernel_row *quantize
        int32_t src_zero, dst_zero
        pa_epilogue_s8 epilogue
    ctypedef struct pa_winograd_op:
        pa_conv_op conv
        int32_t n, m, stride
        const pa_kernel_row *input
        const pa_kernel_row *transform
        const pa_kernel_row *output
        const pa_kernel_row *products
        const pa_kernel_row *columns
        pa_winograd_s8 s8
        int32_t lazy
        const void *transformed
        int64_t scratch_floats
    void pa_winograd_plan(pa_winograd_op *, int threads)
    int64_t pa_winograd_transformed_floats(const pa_winograd_op *)
    void pa_winograd_transform(const pa_winograd_op *, float *, uint16_t *)
    void pa_winograd_step(const void *, void *const *, void *, pa_team *)

    ctypedef struct pa_strassen_op:
        pa_conv_op conv
        const pa_kernel_row *split
        const pa_kernel_row *join
        const void *packed
        int64_t scratch_floats
    void pa_strassen_plan(pa_strassen_op *, int threads)
    int64_t pa_strassen_packed_elements(const pa_strassen_op *)
    void pa_strassen_pack(const pa_strassen_op *, void *)
    void pa_strassen_step(const void *, void *const *, void *, pa_team *)

    ctypedef struct pa_sparse_op:
        pa_conv_op conv
        const pa_kernel_row *transpose
        const int32_t *starts
        const int32_t *k
        const float *values
        int64_t scratch_bytes
    void pa_sparse_plan(pa_sparse_op *, int threads)
    void pa_sparse_step(const void *, void *const *, void *, pa_team *)

    ctypedef struct pa_depthwise_op:
        pa_view src, dst, residual
        int32_t has_residual, groups
        pa_window window
        float lo, hi
        const void *packed
        const pa_kernel_row *kernel
        const pa_kernel_row *silu
        int32_t item_bytes
        int64_t scratch_bytes
    void pa_depthwise_plan(pa_depthwise_op *, int threads)
    void pa_depthwise_step(const void *, void *const *, void *, pa_team *)
    int64_t pa_depthwise_packed_bytes(const pa_depthwise_op *)
    void pa_depthwise_pack(const pa_depthwise_op *, const void *, const void *, void *)

cdef extern from "kernels.h" nogil:
    ctypedef float (*pa_peak_f32_fn)(int64_t, const float *) noexcept nogil
    enum: PA_UNARY_COUNT, PA_BINARY_COUNT

cdef extern from "drivers/pool.h" nogil:
    enum: PA_KERNEL_ROWS_MAX
    ctypedef struct pa_pool_op:
        pa_view src, dst
        pa_window window
        int32_t average, count_pads, pad_bottom, pad_right
        const pa_kernel_row *kernel
        int32_t item_bytes
        int64_t scratch_floats
    void pa_pool_plan(pa_pool_op *)
    void pa_pool_step(const void *, void *const *, void *, pa_team *)


cdef extern from "drivers/softmax.h" nogil:
    ctypedef struct pa_softmax_op:
        pa_view src, dst
        const pa_kernel_row *kernel
    void pa_softmax_step(const void *, void *const *, void *, pa_team *)


cdef extern from "drivers/normalize.h" nogil:
    ctypedef struct pa_lrn_op:
        pa_view src, dst
        int32_t type, size
        float alpha, beta, bias, src_scale, dst_scale
        int32_t src_zero, dst_zero
        const pa_kernel_row *kernel
        const pa_kernel_row *dequantize
        const pa_kernel_row *quantize
        int64_t scratch_floats
    ctypedef struct pa_layernorm_op:
        pa_view src, dst
        float epsilon
        const pa_kernel_row *kernel
    void pa_lrn_plan(pa_lrn_op *)
    void pa_lrn_step(const void *, void *const *, void *, pa_team *)
    void pa_layernorm_step(const void *, void *const *, void *, pa_team *)

cdef extern from "drivers/elementwise.h" nogil:
    ctypedef struct pa_binary_op:
        pa_view a, b, dst
        const float *constant
        int32_t op
        float lo, hi
        const pa_kernel_row *kernel
    ctypedef struct pa_unary_op:
        pa_view src, dst
        int32_t op
        float p0, p1
        const pa_kernel_row *kernel
    ctypedef struct pa_fill_op:
        pa_view dst
        int32_t item_bytes
        char *element
    void pa_binary_step(const void *, void *const *, void *, pa_team *)
    void pa_unary_step(const void *, void *const *, void *, pa_team *)
    void pa_fill_step(const void *, void *const *, void *, pa_team *)


cdef extern from "kernels.h" nogil:
    ctypedef struct pa_gemv_t_args:
        int64_t rows, columns, a_stride
        const float *a
        const float *x
        const float *bias
        float *y
    ctypedef struct pa_ger_args:
        int64_t rows, columns, a_stride
        float *a
        const float *dz
        const float *x
        float *dx
        float alpha
    enum:
        PA_TEAM_ERROR
    pa_team *pa_team_open(const int *, int, const char *, char *)
    void pa_team_close(pa_team *)
