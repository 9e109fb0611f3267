/* The pointwise ops that vectors would not do well, one float after the other by the C library. */
#include <math.h>

#include "../kernels.h"

/* a modulo b with the sign of b */
static inline float modulo(float a, float b) {
    const float r = fmodf(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

static inline float clamp(float x, float lo, float hi) { return x < lo ? lo : x > hi ? hi : x; } /* NaN stays */

void pa_unary_scalar_f32(int op, int64_t n, const float *in, float *out, float p0, float p1) {
    (void)p0, (void)p1;
    switch (op) {
#define PA_UNARY(name, formula)
#define PA_UNARY_TYPED(name)
#define PA_UNARY_SCALAR(name, formula)      \
    case PA_UNARY_##name:                   \
        for (int64_t i = 0; i < n; i++) {   \
            const float x = in[i];          \
            out[i] = formula;               \
        }                                   \
        break;
#include "../pointwise.inc"
    }
}

void pa_binary_scalar_f32(int op, int64_t n, const float *a_in, const float *b_in, int b_step, float *out, float lo,
                          float hi) {
    switch (op) {
#define PA_BINARY(name, formula)
#define PA_BINARY_TYPED(name)
#define PA_BINARY_SCALAR(name, formula)                        \
    case PA_BINARY_##name:                                     \
        for (int64_t i = 0; i < n; i++) {                      \
            const float a = a_in[i], b = b_in[i * b_step];     \
            out[i] = clamp(formula, lo, hi);                   \
        }                                                      \
        break;
#include "../pointwise.inc"
    }
}
