#include "phases.h"

#include "../../sizes.h"

typedef struct copying {
    const pa_phases *phases;
    const pa_view *src;
    const char *x;
    char *image;
} copying;

static void copy_row(const void *context, int64_t row, int thread) {
    const copying *c = context;
    const pa_phases *p = c->phases;
    const int64_t pixel = (int64_t)c->src->c * p->item_bytes, stride = (int64_t)c->src->stride * p->item_bytes;
    const int64_t y = row - p->pad_top, left = min64(p->pad_left, p->columns);
    const int64_t inside = y >= 0 && y < c->src->h ? min64(c->src->w, p->columns - left) : 0;
    char *to = c->image + row * p->columns * pixel;
    const char *from = inside > 0 ? c->x + y * c->src->w * stride : c->x;
    (void)thread;
    memset(to, 0, (size_t)(left * pixel));
    to += left * pixel;
    if (stride == pixel && inside > 0)
        memcpy(to, from, (size_t)(inside * pixel));
    else
        for (int64_t i = 0; i < inside; i++) memcpy(to + i * pixel, from + i * stride, (size_t)pixel);
    memset(to + inside * pixel, 0, (size_t)((p->columns - left - inside) * pixel));
}

void pa_phases_copy(const pa_phases *p, const pa_view *src, const void *x, void *image, pa_team *team) {
    const copying c = {p, src, x, image};
    pa_team_run(team, copy_row, &c, p->rows);
}
