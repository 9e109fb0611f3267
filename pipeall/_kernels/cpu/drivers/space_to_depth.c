#include "space_to_depth.h"

#include "../../intmath.h"

typedef struct context {
    const pa_space_to_depth *phases;
    const pa_view *src;
    const char *x;
    char *image;
} context;

static void copy_row(const void *arg, int64_t row, int thread) {
    const context *ctx = arg;
    const pa_space_to_depth *p = ctx->phases;
    const int64_t pixel = (int64_t)ctx->src->c * p->item_bytes, stride = (int64_t)ctx->src->stride * p->item_bytes;
    const int64_t y = row - p->pad_top, left = min64(p->pad_left, p->columns);
    const int64_t inside = y >= 0 && y < ctx->src->h ? min64(ctx->src->w, p->columns - left) : 0;
    char *to = ctx->image + row * p->columns * pixel;
    const char *from = inside > 0 ? ctx->x + y * ctx->src->w * stride : ctx->x;
    (void)thread;
    memset(to, 0, (size_t)(left * pixel));
    to += left * pixel;
    if (stride == pixel && inside > 0)
        memcpy(to, from, (size_t)(inside * pixel));
    else
        for (int64_t i = 0; i < inside; i++) memcpy(to + i * pixel, from + i * stride, (size_t)pixel);
    memset(to + inside * pixel, 0, (size_t)((p->columns - left - inside) * pixel));
}

void pa_space_to_depth_copy(const pa_space_to_depth *p, const pa_view *src, const void *x, void *image, pa_team *team) {
    const context ctx = {p, src, x, image};
    pa_team_run(team, copy_row, &ctx, p->rows);
}
