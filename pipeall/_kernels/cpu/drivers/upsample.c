#include "upsample.h"

#include "../../intmath.h"

/* Whether pixel i has the weights of its phase, and the taps that kernels_resize.h says. */
static int fits(const pa_resize_op *p, int64_t i) {
    const pa_resize_axis *x = &p->x;
    const int64_t n = x->taps, last = x->size / p->factor - 1, phase = i % p->factor;
    const int64_t first = i / p->factor + 1 - n / 2 - (phase < p->factor / 2 ? p->phase_offset : 0);
    for (int64_t k = 0; k < n; k++) {
        if (x->index[i * n + k] != max64(0, min64(first + k, last))) return 0;
        if (x->weight[i * n + k] != x->weight[phase * n + k]) return 0;
    }
    return 1;
}

void pa_upsample_plan(pa_resize_op *p) {
    const pa_resize_axis *x = &p->x;
    const int64_t least = p->run == 1 ? PA_LANES_MAX : 1;
    p->factor = 0;
    if (p->moves || p->outer_taps || (x->taps != 2 && x->taps != 4)) return;
    for (p->factor = 4; p->factor > 1; p->factor /= 2)
        for (p->phase_offset = 0; p->phase_offset <= 1; p->phase_offset++) {
            int good = x->size % p->factor == 0 && x->size / p->factor >= least;
            for (int64_t i = 0; i < x->size && good; i++) good = fits(p, i);
            if (good) return;
        }
    p->factor = 0;
}

int pa_upsample_whole(const pa_resize_op *p) { return p->factor && p->run >= PA_LANES_MAX && p->y.taps == p->x.taps; }

void pa_upsample_rows(const pa_resize_op *p, const float *src, float *dst, int64_t begin, int64_t end) {
    const int64_t taps = p->y.taps;
    pa_upsample_args g = {
        .channels = p->run,
        .size = p->x.size / p->factor,
        .taps = taps,
        .factor = p->factor,
        .phase_offset = p->phase_offset,
        .weight = p->x.weight,
        .x_step = p->x.src,
        .out_pixel = p->x.dst,
    };
    for (int64_t y = begin, last; y < end; y = last + 1) {
        last = y + min64(2, pa_resize_alike(&p->y, y, end)) - 1;
        for (int64_t k = 0; k < taps; k++) g.row[k] = src + p->y.index[y * taps + k] * p->y.src;
        g.down[0] = p->y.weight + y * taps, g.down[1] = p->y.weight + last * taps;
        g.out[0] = dst + y * p->y.dst, g.out[1] = dst + last * p->y.dst;
        PA_FUNCTION(upsample, f32, p->upsample)(&g);
    }
}
