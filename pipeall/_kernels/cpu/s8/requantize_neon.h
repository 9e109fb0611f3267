/* What sums become (kernels_s8.h: pa_requantize), by NEON. */
#ifndef PIPEALL_REQUANTIZE_NEON_H
#define PIPEALL_REQUANTIZE_NEON_H

#include <string.h>

#include "../kernels_s8.h"
#include "../simd/extension.h"

/* A float of 1.5 * 2^23 to 2^24 is an integer, the last bits of which are what was added to 1.5 * 2^23, rounded half to even.
 * What is too much for that is beyond any bound, and floats above 0 are in the order of their bits. */
#define ONE_AND_A_HALF 0x1.8p23f
enum { BITS = PA_BITS /* of that */ };

#ifndef ROUND_BY_ADDING
/* The zero point, and the bounds as they are with it. */
typedef struct pa_narrowing {
    int16x8_t zero;
    int8x16_t least, most;
} pa_narrowing;

PA_INLINE pa_narrowing narrowing_of(const pa_requantize *to) {
    const int least = (int)to->lo + to->zero, most = (int)to->hi + to->zero;
    return (pa_narrowing){vdupq_n_s16((int16_t)to->zero), vdupq_n_s8((int8_t)least), vdupq_n_s8((int8_t)most)};
}

PA_INLINE int32x4_t rounded(float32x4_t x) { return vcvtnq_s32_f32(x); }

/* So many times 16 rounded numbers, in 8 bits. The bounds are integers within those of 8 bits: after the rounding, by two
 * instructions for all 16, they give what they give ahead of it, since every step on the way saturates. */
PA_INLINE void narrow(const int32x4_t *sum, const int count, const pa_narrowing *to, int8x16_t *out) {
    int16x8_t half[8];
    PA_UNROLL
    for (int i = 0; i < 2 * count; i++) half[i] = vqmovn_high_s32(vqmovn_s32(sum[2 * i]), sum[2 * i + 1]);
    PA_UNROLL
    for (int i = 0; i < 2 * count; i++) half[i] = vqaddq_s16(half[i], to->zero);
    PA_UNROLL
    for (int i = 0; i < count; i++) out[i] = vqmovn_high_s16(vqmovn_s16(half[2 * i]), half[2 * i + 1]);
    PA_UNROLL
    for (int i = 0; i < count; i++) out[i] = vminq_s8(vmaxq_s8(out[i], to->least), to->most);
}
#else
/* The same by such floats, for cores whose conversions and narrowing, but not additions, have one pipe of two (Cortex-A76). */
/* The bounds, and the zero point that follows them. */
typedef struct pa_narrowing {
    int32x4_t least, most;
    int8x16_t zero;
} pa_narrowing;

PA_INLINE pa_narrowing narrowing_of(const pa_requantize *to) {
    return (pa_narrowing){vdupq_n_s32(BITS + (int)to->lo), vdupq_n_s32(BITS + (int)to->hi), vdupq_n_s8((int8_t)to->zero)};
}

PA_INLINE int32x4_t rounded(float32x4_t x) {
    return vreinterpretq_s32_f32(vaddq_f32(x, vdupq_n_f32(ONE_AND_A_HALF)));
}

PA_INLINE void narrow(const int32x4_t *sum, const int count, const pa_narrowing *to, int8x16_t *out) {
    int16x8_t half[8];
    PA_UNROLL
    for (int i = 0; i < 2 * count; i++) {
        const int32x4_t a = vminq_s32(vmaxq_s32(sum[2 * i], to->least), to->most);
        const int32x4_t b = vminq_s32(vmaxq_s32(sum[2 * i + 1], to->least), to->most);
        half[i] = vuzp1q_s16(vreinterpretq_s16_s32(a), vreinterpretq_s16_s32(b));
    }
    PA_UNROLL
    for (int i = 0; i < count; i++) {
        const int8x16_t all = vuzp1q_s8(vreinterpretq_s8_s16(half[2 * i]), vreinterpretq_s8_s16(half[2 * i + 1]));
        out[i] = vaddq_s8(all, to->zero);
    }
}
#endif

PA_INLINE int8x16_t narrowed(const int32x4_t *sum, const pa_narrowing *to) {
    int8x16_t all;
    narrow(sum, 1, to, &all);
    return all;
}

PA_INLINE int32x4_t scaled(int32x4_t sum, float32x4_t scale) { return rounded(vmulq_f32(vcvtq_f32_s32(sum), scale)); }

/* Numbers within PA_SMALL_RESULT as such bits: narrowed to 16 bits first, of which one instruction bounds eight. */
typedef struct pa_small_narrowing {
    float32x4_t base; /* ONE_AND_A_HALF */
    int16x8_t least, most;
    int8x16_t zero;
} pa_small_narrowing;

PA_INLINE pa_small_narrowing small_narrowing_of(const pa_requantize *to) {
    return (pa_small_narrowing){vdupq_n_f32(ONE_AND_A_HALF), vdupq_n_s16((int16_t)to->lo), vdupq_n_s16((int16_t)to->hi),
                                vdupq_n_s8((int8_t)to->zero)};
}

PA_INLINE void narrow_small(const int32x4_t *sum, const int count, const pa_small_narrowing *to, int8x16_t *out) {
    int16x8_t half[8];
    PA_UNROLL
    for (int i = 0; i < 2 * count; i++)
        half[i] = vuzp1q_s16(vreinterpretq_s16_s32(sum[2 * i]), vreinterpretq_s16_s32(sum[2 * i + 1]));
    PA_UNROLL
    for (int i = 0; i < 2 * count; i++) half[i] = vminq_s16(vmaxq_s16(half[i], to->least), to->most);
    PA_UNROLL
    for (int i = 0; i < count; i++) {
        const int8x16_t all = vuzp1q_s8(vreinterpretq_s8_s16(half[2 * i]), vreinterpretq_s8_s16(half[2 * i + 1]));
        out[i] = vaddq_s8(all, to->zero);
    }
}

/* A sum of a convolution's result and a residual (kernels_s8.h: pa_add_s8_fn), of which the result stays in a register: rounded
 * and bounded as `to` has it, but a float. Bits of floats of 1.5 * 2^23 and more are integers. */
typedef struct pa_joining {
    int32x4_t bits;         /* of 1.5 * 2^23 */
    int32x4_t least, most;  /* of the result, and what is its zero point, each by such bits */
    float32x4_t zero;
    float32x4_t factor, residual_factor;
    int8x16_t residual_zero;
} pa_joining;

PA_INLINE pa_joining joining_of(const pa_requantize *to, const pa_binary_s8_args *sum) {
    return (pa_joining){vdupq_n_s32(BITS), vdupq_n_s32(BITS + (int)to->lo), vdupq_n_s32(BITS + (int)to->hi),
                        vdupq_n_f32(ONE_AND_A_HALF + (float)(sum->a_zero - to->zero)), vdupq_n_f32(sum->a_factor),
                        vdupq_n_f32(sum->b_factor), vdupq_n_s8((int8_t)sum->b_zero)};
}

/* 16 numbers of a residual less its zero point, as such bits. */
PA_INLINE void residuals(int8x16_t r, const pa_joining *join, int32x4_t *to) {
    const int16x8_t low = vsubl_s8(vget_low_s8(r), vget_low_s8(join->residual_zero));
    const int16x8_t high = vsubl_high_s8(r, join->residual_zero);
    to[0] = vaddw_s16(join->bits, vget_low_s16(low)), to[1] = vaddw_high_s16(join->bits, low);
    to[2] = vaddw_s16(join->bits, vget_low_s16(high)), to[3] = vaddw_high_s16(join->bits, high);
}

/* No product is fused with the sum, as pa_add_s8_fn has it. */
PA_INLINE float32x4_t joined(float32x4_t x, int32x4_t residual, const pa_joining *join) {
    const float32x4_t base = vreinterpretq_f32_s32(join->bits);
    const int32x4_t whole = vminq_s32(vmaxq_s32(vreinterpretq_s32_f32(vaddq_f32(x, base)), join->least), join->most);
    const float32x4_t result = vmulq_f32(vsubq_f32(vreinterpretq_f32_s32(whole), join->zero), join->factor);
    return vaddq_f32(result, vmulq_f32(vsubq_f32(vreinterpretq_f32_s32(residual), base), join->residual_factor));
}

#endif
