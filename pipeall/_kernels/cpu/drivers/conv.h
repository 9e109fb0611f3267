/* Convolution and fully connected layers: the ops of all drivers of convolutions, one after the other. */
#ifndef PIPEALL_CONV_H
#define PIPEALL_CONV_H

#include "../dispatch.h"
#include "../kernels_f16.h"
#include "../kernels_s8.h"
#include "../kernels_sparse.h"
#include "../kernels_strassen.h"

/* ---- conv.c: by indirect GEMM ----
 *
 * dst (H, W, Cout) = clamp(conv(src (Hin, Win, Cin)) + residual (H, W, Cout), lo, hi), or with `silu`
 * silu(clamp(conv(src), lo, hi)) + residual. Elements, packed weights, bias and zeros are of float32 or float16; of 8-bit
 * integers in pa_conv_s8_op. */
typedef enum pa_weight_type { PA_WEIGHTS_F32, PA_WEIGHTS_F16, PA_WEIGHTS_BF16 } pa_weight_type;

typedef struct pa_conv_op {
    pa_view src, dst, residual;
    int32_t has_residual;
    int32_t kh, kw, stride_y, stride_x, pad_top, pad_left, dilation_y, dilation_x, groups;
    float lo, hi;
    int32_t item_bytes; /* of an element of src: its type */
    const pa_kernel_row *kernel, *silu; /* silu: NULL where there is none */
    const void *weight; /* packed: [groups][panels][kh * kw * Cin / groups][NR], columns beyond Cout / groups are 0; of a KR
                           above 1, [taps][k / KR][NR][KR], zeros behind the last k */
    int32_t weight_type; /* pa_weight_type: of these */
    const void *bias;    /* packed: [groups][panels][NR] */
    const void *zero;    /* what padding points to: max(kw * Cin, NR) zeros */
    int64_t kc;          /* products of a block of the sum at most; 0: the sum is one block, however long it is */
    /* set by plan */
    int32_t tap_rows; /* A tap is one contiguous run of the input. 1: a row of the kernel; kh: the whole window; 0: a pixel */
    int64_t row_block, panel_block; /* of a chunk */
    int32_t by_panels;              /* chunks that follow each other have their panels in common, not their rows */
    int32_t tap, live_taps;         /* of a region: its first tap, and how many from it on; 0: all (regions.h) */
    int64_t thread_bytes;           /* of a thread's own scratch */
    int64_t beside_bytes;           /* of all, for regions of the output before it; -1: the output is one region */
    int64_t scratch_bytes;          /* per thread, of both */
} pa_conv_op;

/* Fills the last members from the rest, for a team of `threads`. */
void pa_conv_plan(pa_conv_op *op, int threads);
void pa_conv_step(const void *op, void *const *bases, void *scratch, pa_team *team);

/* weight: ONNX order [Cout][Cin / groups][kh][kw], of so many channels a group; packed as pa_conv_op says, in so many
 * elements. Of a KR above 1 after the plan, which has the taps. */
int64_t pa_conv_packed_elements(const pa_conv_op *op, int64_t channels);
void pa_conv_pack(const pa_conv_op *op, int64_t channels, const void *weight, const void *bias, void *packed_weight,
                  void *packed_bias);

/* ---- conv_s8.c: the same of 8-bit integers ---- */

enum { PA_S8_SPARE = 16 }; /* KR at most: a GEMM reads rows of A up to a multiple of its KR, so many bytes beyond their end */

/* What follows a convolution, while its results are in a cache: `lut` replaces each by its entry of `table`, then `add` adds
 * `residual`. A kernel that is NULL does nothing. */
typedef struct pa_epilogue_s8 {
    const pa_kernel_row *lut, *add;
    int8_t table[256];
    pa_view residual;
    pa_binary_s8_args sum;
} pa_epilogue_s8;

/* Runs it on n channels of so many pixels, c_stride apart; r: the residual of the first. */
void pa_epilogue_s8_run(const pa_epilogue_s8 *epilogue, int64_t pixels, int64_t n, int8_t *c, int64_t c_stride,
                        const int8_t *r);

/* conv: has_residual and residual are those of the epilogue; weights are packed [groups][panels] as the kernel reads them; bias
 * is of int32_t; zero points to kw * Cin + PA_S8_SPARE bytes that are src's zero point. With `unsign` 128 is added to what the
 * kernel reads: to zero and, by 128 times the sums of the weights taken from it, to bias beforehand; to src by each chunk. */
typedef struct pa_conv_s8_op {
    pa_conv_op conv;
    int32_t depthwise;     /* the kernel is one of depthwise convolutions, and groups is 1; else a GEMM */
    int32_t float_dst;     /* the result is of floats, and no epilogue follows; of a GEMM alone */
    int32_t gather_window; /* a window of few channels is gathered to one tap: for kernels without PA_CHEAP_TAPS */
    int32_t small;         /* sums are, as pa_gemm_s8_args has it */
    pa_requantize to;
    const pa_kernel_row *unsign; /* for kernels with PA_UNSIGNED_A, else NULL */
    const float *scale;          /* packed like the bias */
    pa_epilogue_s8 epilogue;
    /* set by plan: */
    int64_t src_stride;          /* between the pixels of src; conv.src lies in a chunk's scratch where they are unsigned */
} pa_conv_s8_op;

void pa_conv_s8_plan(pa_conv_s8_op *op, int threads);
void pa_conv_s8_step(const void *op, void *const *bases, void *scratch, pa_team *team);

/* Bytes of the packed weights, after the plan. */
int64_t pa_conv_s8_packed_bytes(const pa_conv_s8_op *op);

/* weight: ONNX order [Cout][Cin / groups][kh][kw]; packed as the kernel reads it. */
void pa_conv_s8_pack(const pa_conv_s8_op *op, const int8_t *weight, void *packed);

/* ---- depthwise_s8.c: depthwise convolution of 8-bit integers by kernels that take whole rows ---- */

/* Weights are packed as pa_depthwise_rows_s8_args says, bias and scale up to a multiple of NR; zero: src's zero point, of each
 * channel and 16 more. */
typedef struct pa_depthwise_s8_op {
    pa_view src, dst;
    pa_window window;
    pa_requantize to;
    const void *packed;
    const int32_t *bias;
    const float *scale;
    const int8_t *zero;
    const pa_kernel_row *kernel;
    int32_t small; /* as of pa_conv_s8_op */
    pa_epilogue_s8 epilogue;
    /* set by plan: */
    int32_t panels, band, ring_rows; /* vectors and output rows of a unit */
    int64_t scratch_bytes;           /* per thread, the ring */
} pa_depthwise_s8_op;

void pa_depthwise_s8_plan(pa_depthwise_s8_op *op, int threads);
void pa_depthwise_s8_step(const void *op, void *const *bases, void *scratch, pa_team *team);

/* Bytes of the packed weights, and how to fill them from ONNX order: [C][1][kh][kw]. */
int64_t pa_depthwise_s8_packed_bytes(const pa_depthwise_s8_op *op);
void pa_depthwise_s8_pack(const pa_depthwise_s8_op *op, const int8_t *weight, void *packed);

/* ---- winograd.c: by Winograd's minimal filtering, with strides by their phases ---- */

/* Where src and dst are integers: what is computed are the real numbers over the scale of the output, so that weights, bias
 * and bounds are those of the model by the scale of the input and over that of the output. dequantize is NULL elsewhere. */
typedef struct pa_winograd_s8 {
    const pa_kernel_row *dequantize, *quantize;
    int32_t src_zero, dst_zero;
    pa_epilogue_s8 epilogue;
} pa_winograd_s8;

/* Of floats, of halves or of integers, as conv.item_bytes says. Transformed weights, bias and zeros are floats, of halves
 * halves. */
typedef struct pa_winograd_op {
    pa_conv_op conv; /* geometry, operands, bias, zero (all channels), GEMM kernel; weight as packed for the GEMM */
    int32_t n, m;    /* tiles of n x n points give m x m pixels; n = m + kh - 1 is 4, 6 or 8, kh = kw 2 to 5 */
    int32_t stride;  /* above 1: s x s pixels of conv.src are one of s * s times the channels, their phases (space_to_depth.py),
                        of which kh and kw are taps */
    const pa_kernel_row *input, *transform, *output;
    const pa_kernel_row *products, *columns; /* in place of GEMM and output: or NULL */
    pa_winograd_s8 s8;
    int32_t lazy;            /* weights are transformed anew in every frame */
    const void *transformed; /* else what pa_winograd_transform made of them */

    int32_t tiles_y, tiles_x;
    int32_t k_blocks;      /* of the channels of a group: the blocks of the GEMMs' sums */
    int64_t kc;           /* channels of a block */
    int64_t block, split; /* tiles transformed at a time; of them, tiles of a chunk */
    int64_t panel_block;  /* panels of a chunk */
    int32_t by_panels;    /* as of pa_conv_op */
    int32_t by_rows;      /* products and columns compute it: the k of all blocks are as these want them */
    int64_t scratch_floats; /* per thread */
} pa_winograd_op;

/* Fills what follows transformed, for a team of `threads`; conv, n, m, stride and lazy are set. */
void pa_winograd_plan(pa_winograd_op *op, int threads);
int64_t pa_winograd_transformed_floats(const pa_winograd_op *op);
/* Transforms conv.weight, after the plan; `halves` gets the result where it is not NULL, and `transformed` is room then. */
void pa_winograd_transform(const pa_winograd_op *op, float *transformed, uint16_t *halves);
void pa_winograd_step(const void *op, void *const *bases, void *scratch, pa_team *team);

/* ---- strassen.c: 1x1 convolution with seven products of quarters in place of eight ---- */

/* Of floats or halves, as conv.item_bytes says. */
typedef struct pa_strassen_op {
    pa_conv_op conv; /* 1x1, one group, no padding; Cin even, Cout a multiple of 2 NR; weight of floats as packed for the
                        GEMM, which pa_strassen_pack reads and no frame does */
    const pa_kernel_row *split, *join;
    const void *packed; /* what the products take of the weights (pa_strassen_pack) */

    int64_t pairs;                   /* of rows of a chunk */
    int64_t rows_at, scratch_floats; /* per thread, and where pointers to rows lie in them */
} pa_strassen_op;

/* Fills what follows packed, for a team of `threads`; conv is set. */
void pa_strassen_plan(pa_strassen_op *op, int threads);
int64_t pa_strassen_packed_elements(const pa_strassen_op *op);
/* [7][panel][Cin / 2][NR], in the order in which the products read them. */
void pa_strassen_pack(const pa_strassen_op *op, void *packed);
void pa_strassen_step(const void *op, void *const *bases, void *scratch, pa_team *team);

/* ---- sparse.c: 1x1 convolution without the zeros of blocks of filters ---- */

/* conv: 1x1, one group, no padding; `weight` is not used. Rows [starts[i], starts[i + 1]) of `values`, NR floats each, are
 * of panel i / blocks, and of the channels k[row] of the block i % blocks of PA_SPARSE_BLOCK channels. */
enum { PA_SPARSE_BLOCK = 512 };
typedef struct pa_sparse_op {
    pa_conv_op conv;
    const pa_kernel_row *transpose;
    const int32_t *starts, *k;
    const float *values;
    /* set by plan: */
    int64_t rows, panels;         /* output pixels and panels of a chunk */
    int64_t to[PA_SPARSE_BLOCK];  /* where the elements of a pixel go in a tile, in bytes */
    int64_t scratch_bytes;        /* per thread: a tile */
} pa_sparse_op;

void pa_sparse_plan(pa_sparse_op *op, int threads);
void pa_sparse_step(const void *op, void *const *bases, void *scratch, pa_team *team);

/* ---- depthwise.c: depthwise convolution and convolution of narrow groups ---- */

/* dst = clamp(conv(src) + residual, lo, hi), of floats or halves. */
typedef struct pa_depthwise_op {
    pa_view src, dst, residual;
    int32_t has_residual, groups;
    pa_window window;
    float lo, hi;
    const void *packed; /* pa_depthwise_pack; 64-byte aligned */
    const pa_kernel_row *kernel, *silu; /* silu: as of pa_conv_op */
    int32_t item_bytes; /* of an element: its type */
    /* set by plan: */
    pa_grouping grouping;
    int32_t slices, vectors, band, bands, ring_rows, columns; /* vectors and output rows of a unit */
    int32_t lanes[PA_LANES_MAX];
    int64_t scratch_bytes; /* per thread, the ring */
} pa_depthwise_op;

/* Call it once, after all other fields but `packed` are set. */
void pa_depthwise_plan(pa_depthwise_op *op, int threads);
void pa_depthwise_step(const void *op, void *const *bases, void *scratch, pa_team *team);

/* Bytes of `packed`, and how to fill it from ONNX order: weight [Cout][Cin / groups][kh][kw], bias [Cout]. */
int64_t pa_depthwise_packed_bytes(const pa_depthwise_op *op);
void pa_depthwise_pack(const pa_depthwise_op *op, const void *weight, const void *bias, void *packed);

#endif
