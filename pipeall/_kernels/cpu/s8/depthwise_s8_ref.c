/* Reference depthwise convolution: the contract of kernels_s8.h in plain C. */
#include "requantize.h"

enum { MR = 1, NR = 1 };

void pa_depthwise_s8_ref(const pa_depthwise_s8_args *d) {
    const int8_t *const *rows = d->a;
    for (int64_t tile = 0, row = 0; tile < d->tiling.tiles; tile++, rows += d->a_step) {
        for (int i = 0; i < pa_tile_rows(&d->tiling, tile); i++, row++) {
            for (int c = 0; c < d->n; c++) {
                int32_t sum = d->bias[c];
                for (int t = 0; t < d->taps; t++) sum += rows[t * MR + i][c] * d->b[(c / NR * d->taps + t) * NR + c % NR];
                d->c[row * d->c_stride + c] = pa_requantized(sum, d->scale[c], &d->to);
            }
        }
    }
}
