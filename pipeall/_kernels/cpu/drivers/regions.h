/* Convolutions so dilated that many of their taps see padding alone: the output falls into regions, rectangles whose pixels
 * have the same live taps, and each region is a convolution of its own. The packed weights stay as they are, so that the taps
 * of a region are those from its first live one to the last: at rate 24 on 28 x 28 pixels a quarter of all products are left,
 * where 0.18 of them see the input. */
#ifndef PIPEALL_REGIONS_H
#define PIPEALL_REGIONS_H

#include "indirection.h"

enum { SPANS = 5 }; /* of 3 taps along an axis at most */

/* Output positions [begin, end) along an axis, under whose windows taps [first, last] are live. */
typedef struct live_span {
    int32_t begin, end, first, last;
} live_span;

/* The taps at position i that see one of `size` inputs; the first alone where none does. */
static inline live_span live_at(int64_t i, int64_t taps, int64_t stride, int64_t dilation, int64_t pad, int64_t size) {
    live_span s = {(int32_t)i, (int32_t)i + 1, -1, 0};
    for (int64_t k = 0, at = i * stride - pad; k < taps; k++, at += dilation) {
        if (at < 0 || at >= size) continue;
        if (s.first < 0) s.first = (int32_t)k;
        s.last = (int32_t)k;
    }
    s.first = s.first < 0 ? 0 : s.first;
    return s;
}

/* The spans of an axis of n outputs; more than SPANS are one. */
static inline int live_spans(int64_t n, int64_t taps, int64_t stride, int64_t dilation, int64_t pad, int64_t size,
                             live_span *spans) {
    int count = 0;
    for (int64_t i = 0; i < n; i++) {
        const live_span s = live_at(i, taps, stride, dilation, pad, size);
        if (count && spans[count - 1].first == s.first && spans[count - 1].last == s.last) {
            spans[count - 1].end = s.end;
        } else if (count < SPANS) {
            spans[count++] = s;
        } else {
            spans[0] = (live_span){0, (int32_t)n, 0, (int32_t)taps - 1};
            return 1;
        }
    }
    return count;
}

typedef struct regions {
    int rows, columns;
    live_span row[SPANS], column[SPANS];
} regions;

static inline regions regions_of(const pa_conv_op *p) {
    regions r;
    r.rows = live_spans(p->dst.h, p->kh, p->stride_y, p->dilation_y, p->pad_top, p->src.h, r.row);
    r.columns = live_spans(p->dst.w, p->kw, p->stride_x, p->dilation_x, p->pad_left, p->src.w, r.column);
    return r;
}

/* The convolution of a region, whose output has the layout of `dst`. */
static inline pa_conv_op region_op(const pa_conv_op *p, const live_span *row, const live_span *column) {
    pa_conv_op part = *p;
    part.pad_top -= row->begin * p->stride_y, part.pad_left -= column->begin * p->stride_x;
    part.dst.h = row->end - row->begin, part.dst.w = column->end - column->begin;
    part.tap = row->first * p->kw + column->first;
    part.live_taps = row->last * p->kw + column->last + 1 - part.tap;
    return part;
}

/* Whether the pixels of a region lie one behind the other in the output; else they are computed beside it. */
static inline int lies_in_place(const pa_conv_op *p, const pa_conv_op *part) {
    return part->dst.h == 1 || part->dst.w == p->dst.w;
}

/* Bytes of the largest region that does not lie in place; -1 where regions are not worth it. */
static inline int64_t region_bytes(const pa_conv_op *p) {
    if (p->tap_rows || taps_of(p) == 1 || p->has_residual) return -1;
    const regions r = regions_of(p);
    int64_t most = 0, products = 0;
    for (int y = 0; y < r.rows; y++) {
        for (int x = 0; x < r.columns; x++) {
            const pa_conv_op part = region_op(p, &r.row[y], &r.column[x]);
            const int64_t pixels = (int64_t)part.dst.h * part.dst.w;
            products += pixels * part.live_taps;
            if (!lies_in_place(p, &part)) most = max64(most, pixels * p->dst.c * p->item_bytes);
        }
    }
    const int64_t all = (int64_t)p->dst.h * p->dst.w * taps_of(p);
    return 10 * products < 9 * all ? round_up(most, 64) : -1;
}

/* The rows of a region that was computed beside the output. */
typedef struct region_copy {
    const pa_conv_op *conv, *part;
    const char *from;
    char *to;
} region_copy;

static inline void copy_region_row(const void *arg, int64_t y, int thread) {
    (void)thread;
    const region_copy *r = arg;
    const int64_t bytes = r->part->dst.c * r->part->item_bytes, apart = r->conv->dst.stride * r->conv->item_bytes;
    const char *from = r->from + y * r->part->dst.w * bytes;
    char *to = r->to + y * r->conv->dst.w * apart;
    for (int64_t x = 0; x < r->part->dst.w; x++, from += bytes, to += apart) memcpy(to, from, (size_t)bytes);
}

/* One region after the other; `beside` has room for the largest. */
static inline void run_regions(const pa_conv_op *p, const context *all, char *beside, pa_team *team, pa_piece_fn run) {
    const regions r = regions_of(p);
    for (int y = 0; y < r.rows; y++) {
        for (int x = 0; x < r.columns; x++) {
            pa_conv_op part = region_op(p, &r.row[y], &r.column[x]);
            const int64_t first = (int64_t)r.row[y].begin * p->dst.w + r.column[x].begin;
            char *to = all->dst + first * p->dst.stride * p->item_bytes;
            const int in_place = lies_in_place(p, &part);
            context ctx = *all;
            ctx.op = ctx.conv = &part;
            ctx.dst = in_place ? to : beside;
            if (!in_place) part.dst.stride = part.dst.c;
            run_chunks(&ctx, team, run);
            if (!in_place) pa_team_run(team, copy_region_row, &(region_copy){p, &part, beside, to}, part.dst.h);
        }
    }
}

#endif
