# The C side of the kernels: kernels.h, dispatch.h, program_cpu.h and the drivers' argument structs.
from libc.stdint cimport int32_t, int64_t

from ..program cimport atomic_int, pa_program


cdef extern from "kernels.h" nogil:
    ctypedef struct pa_team:
        pass
    ctypedef struct pa_view:
        int32_t base, h, w, c
        int64_t offset, stride
    enum: PA_DIMS
    ctypedef struct pa_strided:
        int32_t base, rank, type, item_bytes
        int64_t offset
        int64_t *size
        int64_t *stride
        const void *constant
    ctypedef void (*pa_step_fn)(const void *, void *const *, void *, pa_team *) noexcept nogil
    ctypedef struct pa_step:
        pa_step_fn run
        void *args
        int64_t scratch_bytes
    ctypedef void (*pa_gemm_f32_fn)(const void *) noexcept nogil
    ctypedef void (*pa_winograd_input_f32_fn)(const void *) noexcept nogil
    ctypedef void (*pa_winograd_weight_f32_fn)(const void *) noexcept nogil
    ctypedef void (*pa_winograd_output_f32_fn)(const void *) noexcept nogil
    ctypedef void (*pa_strassen_split_f32_fn)(const void *) noexcept nogil
    ctypedef void (*pa_strassen_join_f32_fn)(const void *) noexcept nogil

cdef extern from "../gate.h" nogil:
    int64_t pa_now_ns()

cdef extern from "<stdatomic.h>" nogil:
    void atomic_init(atomic_int *, int)

cdef extern from "dispatch.h":
    ctypedef void (*pa_any_fn)() noexcept nogil
    ctypedef struct pa_kernel_row:
        const char *op
        const char *type
        const char *name
        const char *isa
        const char *core
        int mr, nr
        pa_any_fn function
    const pa_kernel_row *pa_kernel_rows
    int pa_kernel_row_count
    const char *pa_unary_names[]
    const char *pa_binary_names[]
    enum: PA_TYPED
    const int pa_unary_forms[]
    const int pa_binary_forms[]

cdef extern from "program_cpu.h" nogil:
    ctypedef struct pa_cpu_program:
        pa_program program
        pa_step *steps
        int64_t step_count
        void *arena
        void *scratch
        const int *cores
        int core_count
        char *name
    void pa_cpu_program_init(pa_cpu_program *)

cdef extern from "drivers/conv.h" nogil:
    ctypedef struct pa_conv_op:
        pa_view src, dst, residual
        int32_t has_residual
        int32_t kh, kw, stride_y, stride_x, pad_top, pad_left, dilation_y, dilation_x, groups
        float lo, hi
        const float *weight
        const float *bias
        const float *zero
        pa_gemm_f32_fn gemm
        int32_t mr, nr
        int64_t scratch_floats
    void pa_conv_plan(pa_conv_op *, int threads)
    void pa_conv_step(const void *, void *const *, void *, pa_team *)
    void pa_conv_pack(const void *, const void *, int64_t, int64_t, int64_t, int32_t, int32_t, float *, float *)

cdef extern from "drivers/winograd.h" nogil:
    ctypedef struct pa_winograd_op:
        pa_conv_op conv
        int32_t n, m
        pa_winograd_input_f32_fn input
        pa_winograd_weight_f32_fn transform
        pa_winograd_output_f32_fn output
        const float *points
        int64_t scratch_floats
    void pa_winograd_plan(pa_winograd_op *, int threads)
    int64_t pa_winograd_points_floats(const pa_winograd_op *)
    void pa_winograd_points(const pa_winograd_op *, float *)
    void pa_winograd_step(const void *, void *const *, void *, pa_team *)

cdef extern from "drivers/strassen.h" nogil:
    ctypedef struct pa_strassen_op:
        pa_conv_op conv
        pa_strassen_split_f32_fn split
        pa_strassen_join_f32_fn join
        const float *quarters
        int64_t scratch_floats
    void pa_strassen_plan(pa_strassen_op *, int threads)
    int64_t pa_strassen_quarters_floats(const pa_strassen_op *)
    void pa_strassen_quarters(const pa_strassen_op *, float *)
    void pa_strassen_step(const void *, void *const *, void *, pa_team *)

cdef extern from "kernels.h" nogil:
    ctypedef float (*pa_peak_f32_fn)(int64_t, const float *) noexcept nogil
    ctypedef void (*pa_depthwise_f32_fn)(const void *) noexcept nogil
    ctypedef void (*pa_pool_f32_fn)(const void *) noexcept nogil
    ctypedef void (*pa_lrn_f32_fn)(const void *) noexcept nogil
    ctypedef void (*pa_softmax_f32_fn)(int64_t, const float *, float *) noexcept nogil
    ctypedef void (*pa_layernorm_f32_fn)(int64_t, const float *, float *, float) noexcept nogil
    ctypedef void (*pa_binary_f32_fn)(const void *) noexcept nogil
    ctypedef void (*pa_unary_f32_fn)(const void *) noexcept nogil
    enum: PA_UNARY_COUNT, PA_BINARY_COUNT

cdef extern from "drivers/window.h" nogil:
    enum: PA_KERNEL_ROWS_MAX
    ctypedef struct pa_window:
        int32_t kh, kw, stride_y, stride_x, pad_top, pad_left, dilation_y, dilation_x
    ctypedef struct pa_depthwise_op:
        pa_view src, dst, residual
        int32_t has_residual
        pa_window window
        float lo, hi
        const float *packed
        pa_depthwise_f32_fn kernel
        int64_t scratch_floats
    ctypedef struct pa_pool_op:
        pa_view src, dst
        pa_window window
        int32_t average, count_pads, pad_bottom, pad_right
        pa_pool_f32_fn kernel
        int64_t scratch_floats
    int64_t pa_depthwise_packed_floats(int64_t, int64_t, int64_t)
    void pa_depthwise_pack(const void *, const void *, int64_t, int64_t, int64_t, float *)
    void pa_depthwise_plan(pa_depthwise_op *, int threads)
    void pa_pool_plan(pa_pool_op *)
    void pa_depthwise_step(const void *, void *const *, void *, pa_team *)
    void pa_pool_step(const void *, void *const *, void *, pa_team *)


cdef extern from "drivers/channels.h" nogil:
    ctypedef struct pa_lrn_op:
        pa_view src, dst
        int32_t size
        float alpha, beta, bias
        pa_lrn_f32_fn kernel
        int64_t scratch_floats
    ctypedef struct pa_softmax_op:
        pa_view src, dst
        pa_softmax_f32_fn kernel
    ctypedef struct pa_layernorm_op:
        pa_view src, dst
        float epsilon
        pa_layernorm_f32_fn kernel
    void pa_lrn_plan(pa_lrn_op *)
    void pa_lrn_step(const void *, void *const *, void *, pa_team *)
    void pa_softmax_step(const void *, void *const *, void *, pa_team *)
    void pa_layernorm_step(const void *, void *const *, void *, pa_team *)


cdef extern from "drivers/elementwise.h" nogil:
    ctypedef struct pa_binary_op:
        pa_view a, b, dst
        const float *constant
        int32_t op
        float lo, hi
        pa_binary_f32_fn kernel
    ctypedef struct pa_unary_op:
        pa_view src, dst
        int32_t op
        float p0, p1
        pa_unary_f32_fn kernel
    ctypedef struct pa_fill_op:
        pa_view dst
        int32_t item_bytes
        char *element
    void pa_binary_step(const void *, void *const *, void *, pa_team *)
    void pa_unary_step(const void *, void *const *, void *, pa_team *)
    void pa_fill_step(const void *, void *const *, void *, pa_team *)


cdef extern from "drivers/copy.h" nogil:
    enum: PA_COPY_DIMS
    ctypedef struct pa_copy_op:
        pa_view src, dst
        int32_t item_bytes, rank
        int64_t *size
        int64_t *src_stride
        int64_t *dst_stride
    void pa_copy_plan(pa_copy_op *)
    void pa_copy_step(const void *, void *const *, void *, pa_team *)


cdef extern from "kernels.h" nogil:
    ctypedef struct pa_matvec_args:
        int64_t rows, columns, a_stride
        const float *a
        const float *x
        const float *bias
        float *y
    ctypedef struct pa_outer_args:
        int64_t rows, columns, a_stride
        float *a
        const float *dz
        const float *x
        float *dx
        float alpha
    ctypedef void (*pa_matvec_f32_fn)(const pa_matvec_args *) noexcept nogil
    ctypedef void (*pa_outer_f32_fn)(const pa_outer_args *) noexcept nogil
    pa_team *pa_team_open(const int *, int, const char *, const char **)
    void pa_team_close(pa_team *)

cdef extern from "drivers/matrix.h" nogil:
    enum:
        PA_PRODUCT_SCRATCH
    ctypedef struct pa_product_op:
        int64_t rows, k, columns
        const float *a
        const float *b
        const float *start
        float *c
        int64_t a_stride, b_row, b_column, c_stride
        int32_t accumulate
        pa_gemm_f32_fn gemm
        int32_t mr, nr
    void pa_product(const pa_product_op *, float *, pa_team *)
    void pa_matvec(pa_matvec_f32_fn, const pa_matvec_args *, pa_team *)
    void pa_outer(pa_outer_f32_fn, const pa_outer_args *, pa_team *)


cdef extern from "drivers/pointwise.h" nogil:
    enum: PA_OF_ONE, PA_OF_TWO, PA_WHERE, PA_CAST
    ctypedef struct pa_pointwise_op:
        pa_strided *src
        pa_strided dst
        int32_t form, op
        float p0, p1, lo, hi
        int64_t least, most
        pa_unary_f32_fn unary
        pa_binary_f32_fn binary
    int pa_pointwise_plan(pa_pointwise_op *)
    void pa_pointwise_step(const void *, void *const *, void *, pa_team *)


cdef extern from "drivers/reduce.h" nogil:
    ctypedef void (*pa_reduce_f32_fn)(const void *) noexcept nogil
    ctypedef void (*pa_fold_f32_fn)(const void *) noexcept nogil
    ctypedef struct pa_reduce_op:
        pa_strided src, dst
        int32_t how
        int32_t *folded
        pa_reduce_f32_fn reduce
        pa_fold_f32_fn fold
        int64_t scratch_bytes
    ctypedef struct pa_arg_op:
        pa_strided src, dst
        int32_t axis, least, last
        pa_reduce_f32_fn reduce
    ctypedef struct pa_cumsum_op:
        pa_strided src, dst
        int32_t axis, exclusive, reverse
    void pa_reduce_plan(pa_reduce_op *)
    void pa_reduce_step(const void *, void *const *, void *, pa_team *)
    void pa_arg_plan(pa_arg_op *)
    void pa_arg_step(const void *, void *const *, void *, pa_team *)
    void pa_cumsum_plan(pa_cumsum_op *)
    void pa_cumsum_step(const void *, void *const *, void *, pa_team *)


cdef extern from "drivers/normalise.h" nogil:
    ctypedef void (*pa_softmax_columns_f32_fn)(const void *) noexcept nogil
    ctypedef void (*pa_shifted_f32_fn)(const void *) noexcept nogil
    ctypedef struct pa_softmax_nd_op:
        pa_strided src, dst
        int32_t axis, log
        pa_softmax_f32_fn softmax
        pa_softmax_columns_f32_fn columns
        pa_reduce_f32_fn reduce
        pa_binary_f32_fn binary
        int64_t scratch_floats
    ctypedef struct pa_layernorm_nd_op:
        pa_reduce_op sums
        int32_t center
        float epsilon
        pa_layernorm_f32_fn layernorm
        pa_shifted_f32_fn shifted
        pa_binary_f32_fn binary
    void pa_softmax_nd_plan(pa_softmax_nd_op *)
    void pa_softmax_nd_step(const void *, void *const *, void *, pa_team *)
    void pa_layernorm_nd_plan(pa_layernorm_nd_op *)
    void pa_layernorm_nd_step(const void *, void *const *, void *, pa_team *)
cdef extern from "drivers/product.h" nogil:
    ctypedef struct pa_matmul_op:
        pa_strided a, b, dst
        float alpha
        pa_gemm_f32_fn gemm
        pa_outer_f32_fn outer
        pa_matvec_f32_fn matvec
        int32_t mr, nr
        int64_t scratch_floats
    void pa_matmul_plan(pa_matmul_op *, int threads)
    void pa_matmul_step(const void *, void *const *, void *, pa_team *)


cdef extern from "kernels.h" nogil:
    ctypedef void (*pa_powers_f32_fn)(int64_t, int64_t, float *, int64_t, float *) noexcept nogil

cdef extern from "drivers/attention.h" nogil:
    ctypedef struct pa_attention_op:
        pa_strided q, k, v, mask, dst
        int32_t masked, causal
        float scale
        pa_gemm_f32_fn gemm
        pa_powers_f32_fn powers
        int32_t mr, nr
        int64_t scratch_floats
    void pa_attention_plan(pa_attention_op *)
    void pa_attention_step(const void *, void *const *, void *, pa_team *)
cdef extern from "drivers/resize.h" nogil:
    ctypedef void (*pa_resample_f32_fn)(const void *) noexcept nogil
    ctypedef struct pa_resize_axis:
        int64_t size, src, dst, taps
        const int32_t *index
        const float *weight
    ctypedef struct pa_resize_op:
        pa_strided src, dst
        int32_t moves, rank
        pa_resize_axis *axis
        pa_resample_f32_fn kernel
        int64_t spread, scratch_bytes
    void pa_resize_plan(pa_resize_op *, int threads)
    void pa_resize_step(const void *, void *const *, void *, pa_team *)


cdef extern from "drivers/walk.h" nogil:
    ctypedef struct pa_walk:
        int32_t rank, operands
        int64_t *size
        int64_t step[3][8]

cdef extern from "drivers/index.h" nogil:
    ctypedef struct pa_indexing:
        pa_strided index
        int32_t depth
        int64_t component
        int64_t *limit
        int64_t *step
        pa_walk walk
    ctypedef struct pa_gather_op:
        pa_strided src, dst
        pa_indexing by
    enum pa_reduction: PA_PUT, PA_ADD, PA_MUL, PA_MAX, PA_MIN
    ctypedef struct pa_scatter_op:
        pa_strided src, updates, dst
        int32_t reduction
        pa_walk copy
        pa_indexing by
    ctypedef struct pa_topk_op:
        pa_strided src, dst
        pa_walk walk
        int64_t n, k, src_step, dst_step
        int32_t largest, places
        int64_t scratch_bytes
    ctypedef struct pa_nms_op:
        pa_strided boxes, scores, dst
        int64_t most
        float iou, score
        int32_t center_box
        int64_t scratch_bytes
    void pa_gather_plan(pa_gather_op *)
    void pa_gather_step(const void *, void *const *, void *, pa_team *)
    void pa_scatter_plan(pa_scatter_op *)
    void pa_scatter_step(const void *, void *const *, void *, pa_team *)
    void pa_topk_plan(pa_topk_op *)
    void pa_topk_step(const void *, void *const *, void *, pa_team *)
    void pa_nms_plan(pa_nms_op *)
    void pa_nms_step(const void *, void *const *, void *, pa_team *)

cdef extern from "drivers/sample.h" nogil:
    enum pa_padding: PA_ZEROS, PA_BORDER, PA_REFLECTION
    ctypedef struct pa_grid_op:
        pa_strided src, grid, dst
        int32_t taps, padding, align_corners
    ctypedef struct pa_roi_op:
        pa_strided src, rois, batch, dst
        int32_t maximum, half_pixel
        int64_t ratio
        double scale
    ctypedef struct pa_places_op:
        pa_strided src, dst
        pa_window window
        int32_t column_major
    ctypedef struct pa_unpool_op:
        pa_strided src, index, dst
        pa_walk walk, zeros
    ctypedef struct pa_col2im_op:
        pa_strided src, dst
        int32_t rank
        int64_t *block
        int64_t *count
        int64_t *stride
        int64_t *dilation
        int64_t *pad
    void pa_grid_step(const void *, void *const *, void *, pa_team *)
    void pa_roi_step(const void *, void *const *, void *, pa_team *)
    void pa_places_step(const void *, void *const *, void *, pa_team *)
    void pa_unpool_step(const void *, void *const *, void *, pa_team *)
    void pa_col2im_step(const void *, void *const *, void *, pa_team *)

cdef extern from "drivers/recurrent.h" nogil:
    enum pa_cell: PA_RNN, PA_GRU, PA_LSTM
    enum pa_activation:
        PA_SIGMOID, PA_TANH, PA_RELU, PA_AFFINE, PA_LEAKYRELU, PA_THRESHOLDEDRELU, PA_SCALEDTANH, PA_HARDSIGMOID, PA_ELU
        PA_SOFTSIGN, PA_SOFTPLUS
    enum: PA_FUNCTIONS
    ctypedef struct pa_function:
        int32_t code
        float alpha, beta
    ctypedef struct pa_recurrent_op:
        pa_strided x, w, r, b, h0, c0, p, dst
        int32_t cell, gates, cells, option
        int32_t *backwards
        pa_function function[2][3]
        float clip
        pa_gemm_f32_fn gemm
        int32_t mr, nr
        pa_matvec_f32_fn matvec
        pa_unary_f32_fn unary
        int64_t scratch_bytes
    void pa_recurrent_plan(pa_recurrent_op *, int threads)
    void pa_recurrent_step(const void *, void *const *, void *, pa_team *)
