/* A picture of any size into a network's input: fitted, resampled, normalised and laid out in one pass over its rows.
 * The op is a struct that its step function takes as `args`; the struct owns nothing. */
#ifndef PIPEALL_PICTURE_H
#define PIPEALL_PICTURE_H

#include "../kernels.h"

enum { PA_PICTURE_WORDS = 15, PA_PICTURE_SIDE = 1 << 14 }; /* picture.py has them too */
enum { PA_RGB, PA_GRAY, PA_NV12, PA_I420, PA_YUYV };          /* how a frame's bytes lie; BGR is RGB backwards */
enum { PA_PICTURE_BILINEAR, PA_PICTURE_ANTIALIAS, PA_PICTURE_AREA, PA_PICTURE_NEAREST };

/* What each output position of an axis reads: `taps` pixels from start[i] on, weight[i * taps + k] of each. */
typedef struct pa_picture_axis {
    int64_t taps;
    int32_t *start;
    float *weight;
} pa_picture_axis;

typedef struct pa_picture_op {
    pa_strided src, dst; /* PA_PICTURE_WORDS int64 (picture.py); float32 [rows][columns][channels] */
    int32_t filter, format, backwards; /* backwards: the network has the frame's channels in the other order */
    float factor[3], offset[3];        /* of the network's channels: level * factor + offset */
    float value;                       /* the level of the border beside the picture */
    int64_t example[PA_PICTURE_WORDS]; /* what is read where the words are 0; its frame outlives the op */
    pa_picture_rows_f32_fn mix;
    pa_picture_pixels_f32_fn spread;

    /* Memory for the frame that is computed; rows: PA_PICTURE_TABLE(rows), and columns likewise. */
    pa_picture_axis rows, columns;
    int64_t scratch_bytes; /* per thread; set by plan */
} pa_picture_op;

/* Floats, or integers, that a table of so many outputs needs at most. */
static inline int64_t pa_picture_table(int64_t outputs) { return 2 * PA_PICTURE_SIDE + 4 * outputs; }

void pa_picture_plan(pa_picture_op *op);
void pa_picture_step(const void *op, void *const *bases, void *scratch, pa_team *team);

#endif
