# The C side of steps on strided operands: the drivers' argument structs, as kernels.pxd has those of steps on pixels.
from libc.stdint cimport int8_t, int32_t, int64_t, uint64_t

from .kernels cimport (
    pa_binary_s8_args, pa_gemv_t_args, pa_ger_args, pa_kernel_row, pa_requantize, pa_strided, pa_team, pa_view, pa_window,
)


cdef extern from "drivers/pointwise.h" nogil:
    enum: PA_OF_ONE, PA_OF_TWO, PA_WHERE, PA_CAST
    ctypedef struct pa_pointwise_op:
        pa_strided *src
        pa_strided dst
        int32_t form, op
        float p0, p1, lo, hi
        int64_t least, most
        const pa_kernel_row *unary
        const pa_kernel_row *binary
    int pa_pointwise_plan(pa_pointwise_op *)
    void pa_pointwise_step(const void *, void *const *, void *, pa_team *)


cdef extern from "drivers/reduce.h" nogil:
    ctypedef struct pa_reduction:
        const char *name
        int fold, finish
    const pa_reduction *pa_reductions
    int pa_reduction_count
    ctypedef struct pa_reduce_op:
        pa_strided src, dst
        int32_t fold, finish
        int32_t *folded
        const pa_kernel_row *reduce
        const pa_kernel_row *reduce_columns
        const pa_kernel_row *unary
        int64_t scratch_bytes
    ctypedef struct pa_argmax_op:
        pa_strided src, dst
        int32_t axis, least, last
        const pa_kernel_row *reduce
        const pa_kernel_row *argmax_rows
        const pa_kernel_row *argmax_columns
    ctypedef struct pa_cumsum_op:
        pa_strided src, dst
        int32_t axis, exclusive, reverse
    void pa_reduce_plan(pa_reduce_op *)
    void pa_reduce_step(const void *, void *const *, void *, pa_team *)
    void pa_argmax_plan(pa_argmax_op *)
    void pa_argmax_step(const void *, void *const *, void *, pa_team *)
    void pa_cumsum_plan(pa_cumsum_op *)
    void pa_cumsum_step(const void *, void *const *, void *, pa_team *)


cdef extern from "drivers/softmax.h" nogil:
    ctypedef struct pa_softmax_nd_op:
        pa_strided src, dst
        int32_t axis, log
        const pa_kernel_row *softmax
        const pa_kernel_row *columns
        const pa_kernel_row *reduce
        const pa_kernel_row *binary
        int64_t scratch_floats
    void pa_softmax_nd_plan(pa_softmax_nd_op *)
    void pa_softmax_nd_step(const void *, void *const *, void *, pa_team *)


cdef extern from "drivers/normalize.h" nogil:
    ctypedef struct pa_layernorm_nd_op:
        pa_reduce_op sums
        int32_t center
        float epsilon
        const pa_kernel_row *layernorm
        const pa_kernel_row *normalize
        const pa_kernel_row *binary
    void pa_layernorm_nd_plan(pa_layernorm_nd_op *)
    void pa_layernorm_nd_step(const void *, void *const *, void *, pa_team *)

cdef extern from "drivers/softmax.h" nogil:
    ctypedef struct pa_softmax_s8_op:
        pa_strided src, dst
        int32_t axis, src_zero, dst_zero
        float src_scale, dst_scale
        float *powers
        const pa_kernel_row *dequantize
        const pa_kernel_row *quantize
        const pa_kernel_row *softmax
        const pa_kernel_row *columns
        int64_t scratch_bytes
    void pa_softmax_s8_plan(pa_softmax_s8_op *)
    void pa_softmax_s8_step(const void *, void *const *, void *, pa_team *)
cdef extern from "drivers/matmul.h" nogil:
    ctypedef struct pa_matmul_op:
        pa_strided a, b, dst
        float alpha
        const pa_kernel_row *gemm
        const pa_kernel_row *ger
        const pa_kernel_row *gemv_t
        int64_t scratch_floats
    void pa_matmul_plan(pa_matmul_op *, int threads)
    void pa_matmul_step(const void *, void *const *, void *, pa_team *)
    enum:
        PA_MATMUL_SCRATCH
    ctypedef struct pa_matrix:
        const float *data
        int64_t rows, columns, row_stride, column_stride
    void pa_matmul_add(const pa_kernel_row *, pa_matrix, pa_matrix, pa_matrix, float *, pa_team *)
    void pa_gemv_t(const pa_kernel_row *, const pa_gemv_t_args *, pa_team *)
    void pa_ger(const pa_kernel_row *, const pa_ger_args *, pa_team *)


cdef extern from "drivers/attention.h" nogil:
    ctypedef struct pa_attention_op:
        pa_strided q, k, v, mask, dst
        int32_t masked, causal
        float scale
        const pa_kernel_row *gemm
        const pa_kernel_row *softmax_exp
        int64_t scratch_floats
    void pa_attention_plan(pa_attention_op *)
    void pa_attention_step(const void *, void *const *, void *, pa_team *)
cdef extern from "drivers/picture.h" nogil:
    enum: PA_PICTURE_WORDS, PA_PICTURE_SIDE, PA_RGB, PA_GRAY, PA_NV12, PA_I420, PA_YUYV
    enum: PA_PICTURE_BILINEAR, PA_PICTURE_ANTIALIAS, PA_PICTURE_AREA, PA_PICTURE_NEAREST
    ctypedef struct pa_picture_axis:
        int32_t *start
        float *weight
    ctypedef struct pa_picture_op:
        pa_strided src, dst
        int32_t filter, format, backwards
        float *factor
        float *offset
        float value
        int64_t *example
        const pa_kernel_row *mix
        const pa_kernel_row *spread
        pa_picture_axis rows, columns
        int64_t scratch_bytes
    int64_t pa_picture_table(int64_t)
    void pa_picture_plan(pa_picture_op *)
    void pa_picture_step(const void *, void *const *, void *, pa_team *)

cdef extern from "drivers/resize.h" nogil:
    ctypedef struct pa_resize_axis:
        int64_t size, src, dst, taps
        const int32_t *index
        const float *weight
    ctypedef struct pa_resize_s8:
        const pa_kernel_row *dequantize
        const pa_kernel_row *quantize
        int32_t src_zero, dst_zero
    ctypedef struct pa_resize_op:
        pa_strided src, dst
        int32_t moves, rank
        pa_resize_axis *axis
        const pa_kernel_row *kernel
        const pa_kernel_row *upsample
        pa_resize_s8 s8
        int64_t outer_taps, scratch_bytes
    void pa_resize_plan(pa_resize_op *, int threads)
    void pa_resize_step(const void *, void *const *, void *, pa_team *)


cdef extern from "drivers/nd_loop.h" nogil:
    ctypedef struct pa_axes:
        int32_t rank, operands
        int64_t *size
        int64_t stride[4][8]


cdef extern from "drivers/copy.h" nogil:
    enum: PA_COPY_DIMS
    ctypedef struct pa_copy_op:
        pa_view src, dst
        int32_t item_bytes
        pa_axes axes
        const pa_kernel_row *transpose
    void pa_copy_plan(pa_copy_op *)
    void pa_copy_step(const void *, void *const *, void *, pa_team *)


cdef extern from "drivers/pad.h" nogil:
    int64_t PA_OUTSIDE
    ctypedef struct pa_pad_op:
        pa_strided src, dst
        pa_axes rows
        const int64_t **from_ "from"
        int64_t before, inside, after, src_step, dst_step
        const int64_t *margins
        uint64_t value
    void pa_pad_step(const void *, void *const *, void *, pa_team *)


cdef extern from "drivers/index.h" nogil:
    ctypedef struct pa_indexing:
        pa_strided index
        int32_t depth
        int64_t component
        int64_t *limit
        int64_t *step
        pa_axes walk
    ctypedef struct pa_gather_op:
        pa_strided src, dst
        pa_indexing by
    enum pa_scatter_how: PA_SCATTER_PUT, PA_SCATTER_ADD, PA_SCATTER_MUL, PA_SCATTER_MAX, PA_SCATTER_MIN
    ctypedef struct pa_scatter_op:
        pa_strided src, updates, dst
        int32_t reduction
        pa_axes copy
        pa_indexing by
    ctypedef struct pa_topk_op:
        pa_strided src, dst
        pa_axes walk
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
        pa_axes walk, zeros
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
        const pa_kernel_row *gemm
        const pa_kernel_row *gemv
        const pa_kernel_row *unary
        const pa_kernel_row *kernel
        const float *packed
        const pa_kernel_row *input
        const pa_kernel_row *state
        int64_t scratch_bytes
    void pa_recurrent_plan(pa_recurrent_op *, int threads)
    int64_t pa_recurrent_packed_floats(const pa_recurrent_op *)
    void pa_recurrent_pack(const pa_recurrent_op *, void *const *, float *)
    void pa_recurrent_step(const void *, void *const *, void *, pa_team *)


cdef extern from "drivers/pool.h" nogil:
    ctypedef struct pa_pool_s8_op:
        pa_view src, dst
        pa_window window
        const pa_kernel_row *kernel
        int32_t average, count_pads, pad_bottom, pad_right, a_zero
        float factor
        pa_requantize to
    void pa_pool_s8_step(const void *, void *const *, void *, pa_team *)

cdef extern from "drivers/quantize.h" nogil:
    enum: PA_QUANTIZE, PA_DEQUANTIZE, PA_TABLE, PA_INTEGERS
    ctypedef struct pa_quantize_op:
        pa_strided *src
        pa_strided dst
        int32_t form
        float scale
        int32_t zero
        int8_t *table
        pa_binary_s8_args args
        const pa_kernel_row *quantize
        const pa_kernel_row *dequantize
        const pa_kernel_row *by_table
        const pa_kernel_row *integers
    void pa_quantize_plan(pa_quantize_op *)
    void pa_quantize_step(const void *, void *const *, void *, pa_team *)
