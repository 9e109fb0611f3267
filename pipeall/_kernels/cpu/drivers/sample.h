/* Steps that read images (N, C, H, W) between or around their elements: sampling along a grid, regions of fixed size, the
 * places of maxima, and the ways back from windows. Float32 but for indices; no coordinate reaches beyond the image.
 * Each op is a struct that its step function takes as `args`; the struct owns nothing. */
#ifndef PIPEALL_SAMPLE_H
#define PIPEALL_SAMPLE_H

#include "index.h"

typedef enum pa_padding { PA_ZEROS, PA_BORDER, PA_REFLECTION } pa_padding;

/* dst (N, C, OH, OW) = src where the grid (N, OH, OW, 2) points: x, y from -1 to 1. NaN is far to the upper left. */
typedef struct pa_grid_op {
    pa_strided src, grid, dst;
    int32_t taps; /* per axis: 1 nearest, 2 linear, 4 cubic */
    int32_t padding, align_corners;
} pa_grid_op;
void pa_grid_step(const void *op, void *const *bases, void *scratch, pa_team *team);

/* dst (R, C, OH, OW): means, or maxima, over samples in the bins of regions (R, 4) of images batch (R,), int32 or int64. */
typedef struct pa_roi_op {
    pa_strided src, rois, batch, dst;
    int32_t maximum, half_pixel;
    int64_t ratio; /* samples along a side of a bin; 0: as many as it has elements */
    double scale;
} pa_roi_op;
void pa_roi_step(const void *op, void *const *bases, void *scratch, pa_team *team);

/* dst: int64 flat places, in the tensor as it is packed, of the first largest element of each window; -1 where a window meets
 * none. `column_major` counts the elements of a channel down its columns. */
typedef struct pa_places_op {
    pa_strided src, dst;
    pa_window window;
    int32_t column_major;
} pa_places_op;
void pa_places_step(const void *op, void *const *bases, void *scratch, pa_team *team);

/* dst = zeros, then src at flat indices into dst, in order; of any type and rank. */
typedef struct pa_unpool_op {
    pa_strided src, index, dst;
    pa_axes walk, zeros; /* operands: src, index; dst. Set whole, not merged */
} pa_unpool_op;
void pa_unpool_step(const void *op, void *const *bases, void *scratch, pa_team *team);

/* dst (N, C, image...) = sum of blocks src (N, C * block, positions), blocks and positions in row-major order. */
typedef struct pa_col2im_op {
    pa_strided src, dst;
    int32_t rank; /* of the image */
    int64_t block[PA_DIMS], count[PA_DIMS], stride[PA_DIMS], dilation[PA_DIMS], pad[PA_DIMS];
} pa_col2im_op;
void pa_col2im_step(const void *op, void *const *bases, void *scratch, pa_team *team);

#endif
