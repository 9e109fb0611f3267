/* GEMM micro-kernel, NEON, 8 x 8 floats (kernels.h: pa_gemm_fn).
 *
 * Per four k: one load of four A values from each of eight rows, eight loads of B, 64 multiply-adds by
 * lane. Registers: 16 accumulators, 8 of A, 2 to 4 of B. Bound: multiply-add; 16 loads per 64 multiply-adds.
 *
 * Tiles compared by llvm-mca's models of the loop (k = 256, gcc 12), in flop per cycle on Cortex-A53 / A73:
 * 8x8 4.52 / 7.76, 6x12 4.67 / 7.78, 4x16 4.03 / 7.54, 6x8 4.11 / 7.72; 7x12 and 5x16 spill. 6x12 would lose
 * more than its gain to padding: 8 divides the channel counts of the usual networks, 12 makes 72 of 64.
 */
#if defined(__aarch64__)
#include <arm_neon.h>
#include <string.h>

#include "kernels.h"

enum { MR = 8, NR = 8 };

static inline __attribute__((always_inline)) void tile(const pa_gemm_args *g, const int m) {
    float32x4_t sum[MR][2];
    const float *b = g->b;
    float border[NR];
    const int whole = g->n == NR;

    PA_UNROLL
    for (int i = 0; i < m; i++) {
        const float *start = g->bias;
        if (!start) {
            start = g->c + i * g->c_stride;
            if (!whole) start = memcpy(border, start, (size_t)g->n * sizeof(float));
        }
        sum[i][0] = vld1q_f32(start);
        sum[i][1] = vld1q_f32(start + 4);
    }
    for (int t = 0; t < g->taps; t++) {
        const float *a[MR];
        PA_UNROLL
        for (int i = 0; i < m; i++) a[i] = g->a[t * MR + i] + g->a_offset;
        int64_t k = g->k;
        for (; k >= 4; k -= 4, b += 4 * NR) {
            float32x4_t av[MR];
            PA_UNROLL
            for (int i = 0; i < m; i++) {
                av[i] = vld1q_f32(a[i]);
                a[i] += 4;
            }
#define LANE(l)                                                                     \
    do {                                                                            \
        const float32x4_t b0 = vld1q_f32(b + l * NR), b1 = vld1q_f32(b + l * NR + 4); \
        PA_UNROLL                                                                   \
        for (int i = 0; i < m; i++) {                                               \
            sum[i][0] = vfmaq_laneq_f32(sum[i][0], b0, av[i], l);                   \
            sum[i][1] = vfmaq_laneq_f32(sum[i][1], b1, av[i], l);                   \
        }                                                                           \
    } while (0)
            LANE(0);
            LANE(1);
            LANE(2);
            LANE(3);
#undef LANE
        }
        for (; k > 0; k--, b += NR) {
            const float32x4_t b0 = vld1q_f32(b), b1 = vld1q_f32(b + 4);
            PA_UNROLL
            for (int i = 0; i < m; i++) {
                const float ai = *a[i]++;
                sum[i][0] = vfmaq_n_f32(sum[i][0], b0, ai);
                sum[i][1] = vfmaq_n_f32(sum[i][1], b1, ai);
            }
        }
    }
    const float32x4_t lo = vdupq_n_f32(g->lo), hi = vdupq_n_f32(g->hi);
    PA_UNROLL
    for (int i = 0; i < m; i++) {
        float *c = g->c + i * g->c_stride;
        if (g->r) {
            const float *r = g->r + i * g->r_stride;
            if (!whole) r = memcpy(border, r, (size_t)g->n * sizeof(float));
            sum[i][0] = vaddq_f32(sum[i][0], vld1q_f32(r));
            sum[i][1] = vaddq_f32(sum[i][1], vld1q_f32(r + 4));
        }
        float *out = whole ? c : border;
        vst1q_f32(out, vminq_f32(vmaxq_f32(sum[i][0], lo), hi));
        vst1q_f32(out + 4, vminq_f32(vmaxq_f32(sum[i][1], lo), hi));
        if (!whole) memcpy(c, border, (size_t)g->n * sizeof(float));
    }
}

void pa_gemm_f32_neon_8x8(const pa_gemm_args *g) {
    switch (g->m) {
    case 1: tile(g, 1); break;
    case 2: tile(g, 2); break;
    case 3: tile(g, 3); break;
    case 4: tile(g, 4); break;
    case 5: tile(g, 5); break;
    case 6: tile(g, 6); break;
    case 7: tile(g, 7); break;
    default: tile(g, 8);
    }
}
#endif
