/* Panels of a GEMM in an order that suits the caches: for each block of the sum, for some panels of B that stay in L2, for
 * some tiles of A that stay in L1 while one panel after the other passes by.
 *
 * A tile of 8 x 8 reads, for each k, half a line of A and half a line of B. With all tiles on one panel after the other,
 * each line of A comes from L2 every time. With three tiles in L1 it is the lines of B that do, once for the three. A line
 * from L2 costs a Cortex-A73 about 15 cycles, as much as the multiply-adds of one k: MobileNet takes 97 in place of 111 ms
 * (modelled). x86 cores have more L2 bandwidth, and a larger KC: there all tiles go through one panel before the next.
 *
 * Integers have longer k in as many bytes. Where panels of 64 columns fit, they stay, and all tiles pass by: a line of C is
 * written at once, and one of a residual read at once. Elsewhere lines of C are halfway written while others are, often a power
 * of two apart, so that they share few sets of the cache: half of it is left to them. Modelled on a Cortex-A73, ms of 1x1
 * layers of ResNet-50, against six tiles that stay for one panel at a time: 64 channels to 256 with a residual 6.1 in place of
 * 7.0 (with the add in registers), 256 to 64 3.85 in place of 4.07, 256 to 1024 with a residual 4.2 in place of 4.5.
 *
 * Windows of neighbouring pixels overlap: a tile of a 3x3 convolution reads a third of what its pointers point to anew, so that
 * three times as many tiles stay. ms of 256 channels to 256, 3x3 of 14 x 14: Cortex-A73 8.9 in place of 11.4, A55 4.9 of 5.4.
 *
 * Where few tiles have room, sums of integers are made of parts, so short that panels of 64 columns fit. ms of 7 x 7 pixels:
 * 3x3 of 512 channels to 512 takes a Cortex-A73 8.9 in place of 10.8, an A53 14.7 of 15.6; 1x1 of 2048 channels to 512 takes
 * the A73 4.0 of 4.6, the A53 6.6 of 6.8.
 *
 * Sums of halves lie beside the output while they are not whole, those of integers in scratch. They are of a few panels only,
 * and stay in L1 or L2.
 */
#include "gemm.h"

#include "../../intmath.h"

/* How the loops of an element type are cut; numbers of elements, but tiles and panels. */
typedef struct cut {
    int64_t line;   /* blocks of k are a multiple of it: of floats a cache line */
    int64_t l1_a;   /* of tiles that stay in L1 while panels pass by, beside those and lines of C */
    int64_t l1_b;   /* of panels that stay there instead, where they are a line of C wide; a quarter of it passes at a time */
    int64_t l2_b;   /* of panels that stay in L2 meanwhile */
    int64_t panels; /* whose sums are made whole before those of the next */
} cut;
#define ALL ((int64_t)1 << 30)
#ifdef __aarch64__ /* two Cortex-A53 of an A311D share an L2 of 256 KB */
static const cut f32_cut = {16, 18 << 8, 0, 16 << 10, ALL}, s8_cut = {PA_S8_K, 16 << 10, 18 << 10, 64 << 10, ALL};
#else
static const cut f32_cut = {16, ALL, 0, ALL, ALL}, s8_cut = {PA_S8_K, ALL, 0, ALL, ALL};
#endif
static const cut f16_cut = {32, 8 << 10, 0, ALL, PA_F16_PANELS};

/* What one call of a micro-kernel does: taps, k and tiles from the first ones on, of one panel. */
typedef struct block {
    int first, last; /* of the blocks of the sum */
    int64_t tap, taps, k0, k;
    int64_t tile, row, panel, column;
    pa_tiling tiling;
    int32_t n;
    int64_t b, b_step, next; /* in elements of B, between panels; next: -1 behind the last block */
} block;
typedef void (*call_fn)(const pa_panels *p, const void *all, const block *s);

/* The panels [s.panel, end) of one block of the sum. next: what is read after them. */
PA_INLINE void add_block(const pa_panels *p, const cut *c, const void *all, const pa_tiling *tiling, block s, int64_t end,
                         int64_t next, call_fn call) {
    const int64_t nr = p->kernel->nr, k = s.taps * s.k, first = s.b - s.panel * s.b_step;
    const int64_t fit = max64(min64(c->l1_b / (k * nr), end - s.panel), 0); /* panels */
    const int stay = fit * nr >= min64(PA_S8_LINE, p->columns - s.panel * nr); /* these do, and tiles pass by */
    const int64_t a_tile = p->a_tile ? p->a_tile : k * p->kernel->mr;
    const int64_t tiles = stay ? ALL : max64(c->l1_a / a_tile, 1);
    const int64_t panels = stay ? fit : max64(c->l2_b / (k * nr), 1), together = stay ? fit : max64(fit / 4, 1);
    for (int64_t panel0 = s.panel; panel0 < end; panel0 += panels) {
        for (s.tile = 0; s.tile < tiling->tiles; s.tile += tiles) {
            s.row = pa_rows_before(tiling, s.tile);
            s.tiling = pa_tiling_part(tiling, s.tile, tiles);
            for (s.panel = panel0; s.panel < min64(panel0 + panels, end); s.panel += together) {
                const int64_t past = min64(s.panel + together, min64(panel0 + panels, end));
                s.column = s.panel * nr;
                s.n = (int32_t)(min64(past * nr, p->columns) - s.column);
                s.b = first + s.panel * s.b_step;
                s.next = past < end ? first + past * s.b_step : next;
                call(p, all, &s);
            }
        }
    }
}

/* interleaved: B is as pa_gemm_s8_panels has it. */
PA_INLINE void run(const pa_panels *p, const cut *c, int64_t taps, int64_t k, const pa_tiling *tiling, const void *all,
                   call_fn call, const int interleaved) {
    const int64_t nr = p->kernel->nr, count = ceil_div(p->columns, nr);
    const int64_t kr = min64(p->kernel->kr, 8), depth = round_up(k, kr); /* of 16 the last 8 may lie together (kernels_s8.h) */
    const pa_blocks of = pa_blocks_of(taps, k, p->kc, c->line);
    block s;
    for (int64_t panel = 0, end; panel < count; panel = end) {
        const int64_t beside = interleaved ? (p->first + panel) % c->panels : 0; /* of the panels that lie together */
        const int64_t start = panel - beside, together = interleaved ? min64(c->panels, p->all - p->first - start) : 1;
        end = min64(start + c->panels, count);
        for (s.tap = 0; s.tap < taps; s.tap += of.taps) {
            for (s.k0 = 0; s.k0 < k; s.k0 += of.k) {
                s.first = s.tap == 0 && s.k0 == 0;
                s.last = s.tap + of.taps >= taps && s.k0 + of.k >= k;
                s.taps = min64(of.taps, taps - s.tap);
                s.k = min64(of.k, k - s.k0);
                s.panel = panel;
                s.b_step = interleaved ? s.taps * s.k * nr : p->b_step;
                s.b = start * p->b_step + (s.tap * depth + s.k0) * together * nr + beside * s.b_step;
                const int64_t elements = s.taps * round_up(s.k, kr) * nr;
                const int64_t next = !s.last ? s.b + elements : end < count ? end * p->b_step : -1;
                add_block(p, c, all, tiling, s, end, next, call);
            }
        }
    }
}

/* weight_bytes: of an element of B, a constant */
PA_INLINE pa_gemm_args args_of(const pa_panels *p, const pa_gemm_args *all, const block *s, const int64_t weight_bytes) {
    pa_gemm_args g = *all;
    g.n = s->n, g.taps = (int32_t)s->taps, g.k = s->k, g.tiling = s->tiling;
    g.far = s->panel ? all->far & PA_FAR_C : all->far;
    g.a_offset += s->k0;
    g.a += s->tile * g.a_step + s->tap * p->kernel->mr;
    g.b = (const float *)((const char *)all->b + s->b * weight_bytes);
    g.next = s->next < 0 ? all->next : (const float *)((const char *)all->b + s->next * weight_bytes);
    g.bias = all->bias && s->first ? all->bias + s->panel * p->bias_step : NULL;
    g.c += s->row * g.c_stride + s->column;
    g.r = all->r && s->last ? all->r + s->row * g.r_stride + s->column : NULL;
    if (!s->last) g.lo = -__builtin_inff(), g.hi = __builtin_inff();
    return g;
}

static void call_f32(const pa_panels *p, const void *args, const block *s) {
    const pa_gemm_args g = args_of(p, args, s, sizeof(float));
    PA_FUNCTION(gemm, f32, p->kernel)(&g);
}

static void call_f32_w16(const pa_panels *p, const void *args, const block *s) {
    const pa_gemm_args g = args_of(p, args, s, sizeof(uint16_t));
    PA_FUNCTION(gemm, f32, p->kernel)(&g);
}

static void call_f16(const pa_panels *p, const void *args, const block *s) {
    const pa_gemm_f16_args *all = args;
    pa_gemm_f16_args g = *all;
    g.n = s->n, g.taps = (int32_t)s->taps, g.k = s->k, g.tiling = s->tiling;
    g.first = s->first && all->first, g.last = s->last && all->last;
    g.a_offset += s->k0;
    g.a += s->tile * g.a_step + s->tap * p->kernel->mr;
    g.b += s->b;
    g.next = s->next < 0 ? all->next : all->b + s->next;
    g.sums += s->row * g.sums_stride + s->panel % PA_F16_PANELS * p->kernel->nr;
    g.bias += s->panel * p->bias_step;
    g.c += s->row * g.c_stride + s->column;
    if (all->r) g.r += s->row * g.r_stride + s->column;
    PA_FUNCTION(gemm, f16, p->kernel)(&g);
}

static void call_s8(const pa_panels *p, const void *args, const block *s) {
    pa_gemm_s8_args g = *(const pa_gemm_s8_args *)args;
    g.n = s->n, g.taps = (int32_t)s->taps, g.k = s->k, g.tiling = s->tiling;
    g.go_on = !s->first, g.open = !s->last;
    g.a_offset += s->k0;
    g.a += s->tile * g.a_step + s->tap * p->kernel->mr;
    g.b += s->b;
    if (g.sums) g.sums += (p->first + s->panel) % pa_s8_panels(p->kernel) * g.sums_step + s->row * p->kernel->nr;
    g.bias += s->panel * p->bias_step, g.scale += s->panel * p->bias_step;
    g.c = (char *)g.c + (s->row * g.c_stride + s->column) * (g.float_dst ? (int64_t)sizeof(float) : 1);
    if (g.r) g.r += s->row * g.r_stride + s->column;
    PA_FUNCTION(gemm, s8, p->kernel)(&g);
}

void pa_gemm_f32_panels(const pa_panels *p, const pa_gemm_args *all) {
    run(p, &f32_cut, all->taps, all->k, &all->tiling, all, call_f32, 0);
}

void pa_gemm_f32_w16_panels(const pa_panels *p, const pa_gemm_args *all) {
    run(p, &f32_cut, all->taps, all->k, &all->tiling, all, call_f32_w16, 0);
}

void pa_gemm_f16_panels(const pa_panels *p, const pa_gemm_f16_args *all) {
    run(p, &f16_cut, all->taps, all->k, &all->tiling, all, call_f16, 0);
}

void pa_gemm_s8_panels(const pa_panels *p, const pa_gemm_s8_args *all) {
    cut c = s8_cut;
    if (p->kc) c.panels = pa_s8_panels(p->kernel);
    run(p, &c, all->taps, all->k, &all->tiling, all, call_s8, p->kc > 0);
}
