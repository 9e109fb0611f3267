/* Sizes of what Winograd's driver has in scratch, from a planned op. */
#ifndef PIPEALL_WINOGRAD_SIZES_H
#define PIPEALL_WINOGRAD_SIZES_H

#include "../../intmath.h"
#include "winograd.h"

enum {
    SLICE = 64, /* channels of a tile of integers that are floats at a time: 16 KB of 8 x 8 points */
    PAD = 16,   /* floats between points, whose distance would else often be a multiple of 4 KB */
    PHASE_LANES = 8, /* what the channels of a phase are rounded up to */
};

static inline int is_f16(const pa_winograd_op *op) { return op->f16.input != NULL; }
static inline int points_of(const pa_winograd_op *op) { return op->n * op->n; }
static inline int64_t channels_of(const pa_winograd_op *op) {
    return (int64_t)op->conv.src.c * op->phases.stride * op->phases.stride / op->conv.groups;
}
static inline int64_t panels_of(const pa_winograd_op *op) { return ceil_div(op->conv.dst.c / op->conv.groups, op->conv.kernel->nr); }
static inline int64_t tiles_of(const pa_winograd_op *op) { return (int64_t)op->tiles_y * op->tiles_x; }

/* Floats between points of the transformed input, of transformed taps in scratch, and of the GEMMs' results. */
static inline int64_t input_stride(const pa_winograd_op *op) { return op->block * op->kc + PAD; }
static inline int64_t lazy_stride(const pa_winograd_op *op) { return op->kc * op->conv.kernel->nr + PAD; }
static inline int64_t m_stride(const pa_winograd_op *op) { return op->split * op->panel_block * op->conv.kernel->nr + PAD; }

static inline int64_t input_floats(const pa_winograd_op *op) {
    return round_up(op->conv.groups * op->k_blocks * points_of(op) * input_stride(op), 16);
}

/* With what the last vector of pixels reads behind it. */
static inline int64_t image_floats(const pa_winograd_op *op) {
    const int64_t bytes = pa_space_to_depth_bytes(&op->phases, op->conv.src.c);
    return bytes ? round_up(ceil_div(bytes, (int64_t)sizeof(float)) + PHASE_LANES, 16) : 0;
}

/* A thread's own scratch: M, taps, a tile of integers as floats, and a pointer for each row of a GEMM. */
static inline int64_t m_floats(const pa_winograd_op *op) { return points_of(op) * m_stride(op); }
static inline int64_t taps_floats(const pa_winograd_op *op) {
    return !op->lazy ? 0 : op->panel_block * points_of(op) * lazy_stride(op);
}
static inline int64_t float_tile_at(const pa_winograd_op *op) { return m_floats(op) + taps_floats(op); }
static inline int64_t float_tile_floats(const pa_winograd_op *op) {
    return op->s8.dequantize ? points_of(op) * max64(SLICE, op->panel_block * op->conv.kernel->nr) : 0;
}
static inline int64_t own_floats(const pa_winograd_op *op) {
    const int64_t pointers = round_up(op->split, op->conv.kernel->mr) * (int64_t)sizeof(float *) / (int64_t)sizeof(float);
    return round_up(float_tile_at(op) + float_tile_floats(op) + pointers, 16);
}

/* Where the rows of a phase begin, in elements of the image, and the channels of each. */
static inline int64_t phase_at(const pa_winograd_op *op, int64_t phase) {
    return phase * op->phases.columns * op->conv.src.c;
}
static inline int64_t phase_channels(const pa_winograd_op *op) { return channels_of(op) / op->phases.stride; }

/* Channels of a phase that are transformed: whole vectors, since the pixel behind and the phase behind follow. */
static inline int64_t phase_width(const pa_winograd_op *op) {
    return op->phases.stride > 1 ? round_up(phase_channels(op), PHASE_LANES) : channels_of(op);
}

#endif
