/* Rows first, while they are bytes: an output row is the weighted sum of some rows of the frame, as floats in a buffer
 * that stays in L1 or L2; then each of its pixels is the weighted sum of some of the buffer's, normalized and stored where
 * the network reads it. So every byte is converted once for each output row that reads it, and nothing is written twice.
 *
 * Tables of weights depend on the frame's size; they take some microseconds, and are made anew for each frame.
 */
#include "picture.h"

#include "parallel_for.h"

enum { LANES = 16, ROW_FLOATS = 3 * PA_PICTURE_SIDE + LANES, ROW_BYTES = 3 * PA_PICTURE_SIDE + LANES };

typedef struct shared {
    const pa_picture_op *op;
    frame f;
} shared;

static inline uint8_t level(int32_t x) { return (uint8_t)(x < 0 ? 0 : x > (255 << 16) ? 255 : (x + (1 << 15)) >> 16); }

static inline void rgb(const colours *from, int32_t y, int32_t u, int32_t v, uint8_t *to) {
    const int32_t grey = from->grey * (y - from->black);
    u -= 128, v -= 128;
    to[0] = level(grey + from->red_v * v);
    to[1] = level(grey + from->green_u * u + from->green_v * v);
    to[2] = level(grey + from->blue_u * u);
}

/* Pixels [first, first + count) of row y as RGB; first is even. */
static void convert(const pa_picture_op *op, const frame *f, int64_t y, uint8_t *to) {
    const uint8_t *luma = f->pixels + y * f->stride, *u, *v;
    int64_t luma_step = 1, step = 1;
    const colours from = f->from; /* not read again after each store */
    if (op->format == PA_YUYV) {
        u = luma + 1, v = luma + 3, luma_step = 2, step = 4;
    } else if (op->format == PA_NV12) {
        u = f->pixels + (f->h + y / 2) * f->stride, v = u + 1, step = 2;
    } else {
        u = f->pixels + f->h * f->stride + y / 2 * (f->w / 2), v = u + f->h / 2 * (f->w / 2);
    }
    for (int64_t i = 0, x = f->first; i < f->count; i++, x++)
        rgb(&from, luma[x * luma_step], u[x / 2 * step], v[x / 2 * step], to + 3 * i);
}

/* Output row y of those that show the picture: the sum of its rows, into floats. */
static void mix_row(const shared *s, int64_t y, float *row, uint8_t *converted) {
    const pa_picture_op *op = s->op;
    const frame *f = &s->f;
    const int64_t taps = op->rows.taps, n = f->count * f->channels;
    const int packed = op->format <= PA_GRAY;
    for (int64_t k = 0; k < taps; k += 2) {
        const int64_t from = op->rows.start[y] + k, both = k + 1 < taps;
        const uint8_t *a = f->pixels + from * f->stride + f->first * f->channels, *b = both ? a + f->stride : a;
        if (!packed) {
            convert(op, f, from, converted);
            if (both) convert(op, f, from + 1, converted + ROW_BYTES);
            a = converted, b = both ? converted + ROW_BYTES : a;
        }
        PA_FUNCTION(picture_rows, f32, op->mix)(&(pa_picture_rows_args){n, a, b, op->rows.weight[y * taps + k],
            both ? op->rows.weight[y * taps + k + 1] : 0,
                                        k > 0, row});
    }
}

static void border(const pa_picture_op *op, int64_t y, int64_t begin, int64_t end, float *dst) {
    for (int64_t x = begin; x < end; x++)
        for (int64_t c = 0; c < op->dst.size[2]; c++)
            dst[y * op->dst.stride[0] + x * op->dst.stride[1] + c * op->dst.stride[2]] =
                op->value * op->factor[c] + op->offset[c];
}

static void picture_range(const context *ctx, int64_t begin, int64_t end, int thread) {
    const shared *s = ctx->op;
    const pa_picture_op *op = s->op;
    const frame *f = &s->f;
    const int64_t right = f->left + f->columns, *stride = op->dst.stride;
    float *dst = pa_at(&op->dst, ctx->bases), *row = (float *)((char *)ctx->scratch + thread * op->scratch_bytes);
    for (int64_t y = begin; y < end; y++) {
        if (y < f->top || y >= f->top + f->rows) {
            border(op, y, 0, op->dst.size[1], dst);
            continue;
        }
        mix_row(s, y - f->top, row, (uint8_t *)(row + ROW_FLOATS));
        PA_FUNCTION(picture_pixels, f32, op->spread)(&(pa_picture_pixels_args){
            .count = f->columns, .taps = op->columns.taps, .channels = f->channels, .out_channels = op->dst.size[2],
            .first = f->first, .start = op->columns.start, .weight = op->columns.weight, .row = row,
            .backwards = op->backwards, .factor = op->factor, .offset = op->offset,
            .out = dst + y * stride[0] + f->left * stride[1], .out_pixel = stride[1], .out_channel = stride[2],
        });
        border(op, y, 0, f->left, dst);
        border(op, y, right, op->dst.size[1], dst);
    }
}

void pa_picture_plan(pa_picture_op *op) { op->scratch_bytes = round_up(ROW_FLOATS * (int64_t)sizeof(float) + 2 * ROW_BYTES, 64); }

void pa_picture_step(const void *args, void *const *bases, void *scratch, pa_team *team) {
    const pa_picture_op *op = args;
    shared s = {op, frame_of((const int64_t *)pa_at(&op->src, bases), op->example, op->format)};
    pa_picture_op planned = *op; /* the numbers of taps are this frame's */
    frame *f = &s.f;
    table(op->filter, f->h, f->window[0], f->window[2], f->rows, &planned.rows);
    table(op->filter, f->w, f->window[1], f->window[3], f->columns, &planned.columns);
    const pa_picture_axis *x = &planned.columns;
    f->first = x->start[0] & ~(int64_t)1;
    f->count = x->start[f->columns - 1] + x->taps - f->first;
    s.op = &planned;
    parallel_for(&s, bases, scratch, team, picture_range, op->dst.size[0], op->dst.size[1] * op->dst.size[2]);
}
