/* Reference GEMM and depthwise convolutions: the contract of kernels_s8.h in plain C. */
#include <math.h>

#include "../kernels_s8.h"

/* What a sum becomes (pa_requantize). */
static inline float pa_real(int32_t sum, float scale, const pa_requantize *to) {
    const float x = (float)sum * scale, least = x < to->lo ? to->lo : x;
    return least > to->hi ? to->hi : least;
}

static inline int8_t pa_requantized(int32_t sum, float scale, const pa_requantize *to) {
    return (int8_t)((int32_t)rintf(pa_real(sum, scale, to)) + to->zero);
}

enum { MR = 4, NR = 8, DEPTH = 4 };

void pa_gemm_s8_ref_4x8(const pa_gemm_s8_args *g) {
    const int8_t *const *rows = g->a;
    for (int64_t tile = 0, row = 0; tile < g->tiling.tiles; tile++, rows += g->a_step) {
        for (int i = 0; i < pa_tile_rows(&g->tiling, tile); i++, row++) {
            for (int j = 0; j < g->n; j++) {
                const int8_t *b = g->b + j / NR * NR * g->taps * g->k + j % NR * DEPTH;
                int32_t *part = g->sums ? g->sums + (j / NR * g->sums_step + row * NR + j % NR) : NULL;
                int32_t sum = g->go_on ? *part : g->bias[j];
                for (int t = 0; t < g->taps; t++) {
                    const int8_t *a = rows[t * MR + i] + g->a_offset;
                    for (int64_t k = 0; k < g->k; k += DEPTH, b += NR * DEPTH)
                        for (int d = 0; d < DEPTH; d++) sum += a[k + d] * b[d];
                }
                const int64_t at = row * g->c_stride + j;
                if (g->open)
                    *part = sum;
                else if (g->float_dst)
                    ((float *)g->c)[at] = pa_real(sum, g->scale[j], &g->to);
                else
                    ((int8_t *)g->c)[at] = pa_requantized(sum, g->scale[j], &g->to);
            }
        }
    }
}

void pa_unsign_s8_ref(int64_t rows, int64_t n, int64_t stride, const int8_t *x, int8_t *out) {
    for (; rows > 0; rows--, x += stride, out += n)
        for (int64_t i = 0; i < n; i++) out[i] = (int8_t)(x[i] ^ -128);
}

/* Tiles of one row and panels of one column. */
void pa_depthwise_s8_ref(const pa_depthwise_s8_args *d) {
    const int8_t *const *rows = d->a;
    for (int64_t tile = 0, row = 0; tile < d->tiling.tiles; tile++, rows += d->a_step) {
        for (int i = 0; i < pa_tile_rows(&d->tiling, tile); i++, row++) {
            for (int c = 0; c < d->n; c++) {
                int32_t sum = d->bias[c];
                for (int t = 0; t < d->taps; t++) sum += rows[t + i][c] * d->b[c * d->taps + t];
                d->c[row * d->c_stride + c] = pa_requantized(sum, d->scale[c], &d->to);
            }
        }
    }
}

void pa_depthwise_rows_s8_ref(const pa_depthwise_rows_s8_args *a) {
    const pa_window *w = &a->window;
    const pa_quads quads = pa_quads_of(w, a->out_w);
    for (int64_t i = 0; i < (int64_t)a->rows * a->out_w; i++) {
        const int64_t top = (a->y + i / a->out_w) * w->stride_y - w->pad_top, left = i % a->out_w * w->stride_x - w->pad_left;
        for (int64_t c = 0; c < a->n; c++) {
            int32_t sum = a->bias[c];
            for (int64_t ky = 0; ky < w->kh; ky++) {
                const int8_t *b = a->b + (c / PA_QUAD_CHANNELS * w->kh + ky) * quads.groups * quads.taps * 4 * PA_QUAD_CHANNELS;
                const int64_t y = top + ky * w->dilation_y;
                for (int64_t kx = 0; kx < w->kw; kx++) {
                    const int64_t x = left + kx * w->dilation_x;
                    const int inside = y >= 0 && y < a->in_h && x >= 0 && x < a->in_w;
                    const int8_t tap = b[(kx / 4 * quads.taps * PA_QUAD_CHANNELS + c % PA_QUAD_CHANNELS) * 4 + kx % 4];
                    sum += (inside ? a->x[(y * a->in_w + x) * a->in_stride + c] : a->zero[c]) * tap;
                }
            }
            a->out[i * a->out_stride + c] = pa_requantized(sum, a->scale[c], &a->to);
        }
    }
}
