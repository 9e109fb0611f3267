/* Convolution and fully connected layers by indirect GEMM: the driver above the GEMM micro-kernels. */
#ifndef PIPEALL_CONV_H
#define PIPEALL_CONV_H

#include "kernels.h"

typedef struct pa_conv_op {
    pa_view src, dst, residual;
    int32_t has_residual;
    int32_t kh, kw, stride_y, stride_x, pad_top, pad_left, dilation_y, dilation_x, groups;
    float lo, hi;
    const float *weight; /* packed: [groups][panels][kh * kw * Cin / groups][NR], columns beyond Cout / groups are 0 */
    const float *bias;   /* packed: [groups][panels][NR] */
    const float *zero;   /* max(Cin, NR) zeros: the row that padding points to */
    pa_gemm_fn gemm;
    int32_t mr, nr;
    int32_t gather;          /* rows are copied to scratch before the GEMM: few channels per tap (pa_conv_plan) */
    int64_t row_block;       /* rows of a chunk */
    int64_t panel_block;     /* panels of a chunk */
    int64_t scratch_floats;  /* per thread */
} pa_conv_op;

/* Fills gather, row_block, panel_block and scratch_floats from the rest, for a team of `threads`. */
void pa_conv_plan(pa_conv_op *args, int threads);
void pa_conv_step(const void *args, float *const *bases, float *scratch, pa_team *team);

/* Rows of a GEMM in tiles, as equally as can be: a tile of one row would wait for its own multiply-adds. */
typedef struct pa_tiling {
    int64_t tiles, least, larger; /* rows of a tile at least; the first so many tiles have one more */
} pa_tiling;

static inline pa_tiling pa_tiling_of(int64_t rows, int mr) {
    const int64_t tiles = (rows + mr - 1) / mr;
    return (pa_tiling){tiles, rows / tiles, rows % tiles};
}

static inline int64_t pa_tile_rows(const pa_tiling *t, int64_t tile) { return t->least + (tile < t->larger); }

/* The tiles of a block of weights, with p's kernel. g: the first tile's arguments, but for m and next; the tiles'
 * row pointers are a_step apart. `next`: the block of weights after this one, of the same size. In a network weights
 * come from memory; the first tile to read a block would wait for it, so each of these may prefetch a part. */
void pa_gemm_tiles(const pa_conv_op *p, pa_gemm_args *g, const pa_tiling *tiling, int64_t a_step, const float *next);

/* weight: ONNX order [Cout][Cin / groups][kh][kw]; packed as pa_conv_op says. */
void pa_conv_pack(const void *weight, const void *bias, int64_t cout, int64_t cin_group, int64_t taps, int32_t groups,
                  int32_t nr, float *packed_weight, float *packed_bias);

#endif
