/* Panels of a GEMM in an order that suits the caches: for each part of the sum, for some panels of B that stay in L2, for
 * some tiles of A that stay in L1 while one panel after the other passes by.
 *
 * A tile of 8 x 8 reads, for each k, half a line of A and half a line of B. With all tiles on one panel after the other,
 * each line of A comes from L2 every time. With three tiles in L1 it is the lines of B that do, once for the three. A line
 * from L2 costs a Cortex-A73 about 15 cycles, as much as the multiply-adds of one k: MobileNet takes 97 in place of 111 ms
 * (modelled). x86 cores have more L2 bandwidth, and a larger KC: there all tiles go through one panel before the next.
 */
#include "gemm.h"

#include "../../intmath.h"

enum {
    LINE = 16, /* floats of a cache line */
#ifdef __aarch64__
    L1_A = 18 << 8,  /* floats: 18 KB */
    L2_B = 16 << 10, /* 64 KB: two Cortex-A53 of an A311D share 256 */
#else
    L1_A = 1 << 30,
    L2_B = 1 << 30,
#endif
};

/* The panels of one part of the sum. */
static void add_part(const pa_panels *p, const pa_gemm_args *part) {
    const int64_t k = part->taps * part->k, count = ceil_div(p->columns, p->kernel->nr);
    const int64_t panels = max64(L2_B / (k * p->kernel->nr), 1), tiles = max64(L1_A / (k * p->kernel->mr), 1);
    for (int64_t panel0 = 0; panel0 < count; panel0 += panels) {
        const int64_t end = min64(panel0 + panels, count);
        for (int64_t tile = 0; tile < part->tiling.tiles; tile += tiles) {
            const int64_t row = pa_rows_before(&part->tiling, tile);
            pa_gemm_args g = *part;
            g.tiling = pa_tiling_part(&part->tiling, tile, tiles);
            g.a += tile * g.a_step;
            for (int64_t panel = panel0; panel < end; panel++) {
                const int64_t column = panel * p->kernel->nr;
                g.n = (int32_t)min64(p->kernel->nr, p->columns - column);
                g.far = part->far && panel == 0;
                g.b = part->b + panel * p->b_step;
                g.next = panel + 1 < count ? g.b + p->b_step : part->next;
                g.c = part->c + row * g.c_stride + column;
                if (part->bias) g.bias = part->bias + panel * p->bias_step;
                if (part->r) g.r = part->r + row * g.r_stride + column;
                PA_FUNCTION(gemm, f32, p->kernel)(&g);
            }
        }
    }
}

void pa_gemm_panels(const pa_panels *p, const pa_gemm_args *all) {
    const int64_t k = all->k, k_step = min64(round_up(ceil_div(k, ceil_div(k, p->kc)), LINE), k);
    const int64_t taps = all->taps, tap_step = k < p->kc ? min64(p->kc / k, taps) : 1;
    for (int64_t t = 0; t < taps; t += tap_step) {
        for (int64_t k0 = 0; k0 < k; k0 += k_step) {
            const int first = t == 0 && k0 == 0, last = t + tap_step >= taps && k0 + k_step >= k;
            pa_gemm_args part = *all;
            part.taps = (int32_t)min64(tap_step, taps - t);
            part.k = min64(k_step, k - k0);
            part.a_offset += k0;
            part.a += t * p->kernel->mr;
            part.b += (t * k + k0) * p->kernel->nr;
            if (!first) part.bias = NULL;
            if (!last) {
                part.next = part.b + part.taps * part.k * p->kernel->nr;
                part.r = NULL;
                part.lo = -__builtin_inff();
                part.hi = __builtin_inff();
            }
            add_part(p, &part);
        }
    }
}
