#include "convert.h"

#include "../simd/half.h"

#if defined(__aarch64__)
#include <arm_neon.h>
#endif

/* By vectors, which gcc 12 does not make of __fp16. */
static void load_halves(int64_t n, const uint16_t *x, float *out) {
    int64_t i = 0;
#if defined(__aarch64__)
    for (; i + 8 <= n; i += 8) {
        const float16x8_t halves = vreinterpretq_f16_u16(vld1q_u16(x + i));
        vst1q_f32(out + i, vcvt_f32_f16(vget_low_f16(halves)));
        vst1q_f32(out + i + 4, vcvt_high_f32_f16(halves));
    }
#endif
    for (; i < n; i++) out[i] = half_to_float(x[i]);
}

static void store_halves(int64_t n, const float *x, uint16_t *out) {
    int64_t i = 0;
#if defined(__aarch64__)
    for (; i + 8 <= n; i += 8) {
        const float16x4_t low = vcvt_f16_f32(vld1q_f32(x + i));
        vst1q_u16(out + i, vreinterpretq_u16_f16(vcvt_high_f16_f32(low, vld1q_f32(x + i + 4))));
    }
#endif
    for (; i < n; i++) out[i] = float_to_half(x[i]);
}

/* Twice, so that compilers vectorize the run without gaps. */
#define EACH(statement)                                \
    do {                                               \
        if (stride == 1)                               \
            for (int64_t i = 0; i < n; i++) {          \
                enum { step = 1 };                     \
                statement;                             \
            }                                          \
        else                                           \
            for (int64_t i = 0; i < n; i++) {          \
                const int64_t step = stride;           \
                statement;                             \
            }                                          \
    } while (0)

void pa_load_f32(int type, int64_t n, const void *x, int64_t stride, float *out) {
    switch (type) {
    case PA_F32: EACH(out[i] = ((const float *)x)[i * step]); break;
    case PA_F16:
        if (stride == 1)
            load_halves(n, x, out);
        else
            for (int64_t i = 0; i < n; i++) out[i] = half_to_float(((const uint16_t *)x)[i * stride]);
        break;
    case PA_S8: EACH(out[i] = ((const int8_t *)x)[i * step]); break;
    case PA_U8: EACH(out[i] = ((const uint8_t *)x)[i * step]); break;
    case PA_S32: EACH(out[i] = (float)((const int32_t *)x)[i * step]); break;
    case PA_S64: EACH(out[i] = (float)((const int64_t *)x)[i * step]); break;
    case PA_B8: EACH(out[i] = ((const uint8_t *)x)[i * step] != 0); break;
    }
}

void pa_load_s64(int type, int64_t n, const void *x, int64_t stride, int64_t *out) {
    switch (type) {
    case PA_S8: EACH(out[i] = ((const int8_t *)x)[i * step]); break;
    case PA_U8: EACH(out[i] = ((const uint8_t *)x)[i * step]); break;
    case PA_S32: EACH(out[i] = ((const int32_t *)x)[i * step]); break;
    case PA_S64: EACH(out[i] = ((const int64_t *)x)[i * step]); break;
    case PA_B8: EACH(out[i] = ((const uint8_t *)x)[i * step] != 0); break;
    }
}

void pa_load_b8(int type, int64_t n, const void *x, int64_t stride, uint8_t *out) {
    (void)type;
    EACH(out[i] = ((const uint8_t *)x)[i * step] != 0);
}

/* The whole part of v, or the nearest of [least, most + 1): the type's bounds as floats, the upper one being 2^bits. */
static inline int32_t whole_byte(float v, float least, float most) {
    v = v == v ? v : 0;
    v = v > least ? v : least;
    return (int32_t)(v < most ? v : most);
}

static inline int64_t whole_int(float v, int64_t least, int64_t most) {
    return v >= -(float)least ? most : v <= (float)least ? least : v == v ? (int64_t)v : 0;
}

void pa_store_f32(int type, int64_t n, const float *x, void *out, int64_t stride) {
    switch (type) {
    case PA_F32: EACH(((float *)out)[i * step] = x[i]); break;
    case PA_F16:
        if (stride == 1)
            store_halves(n, x, out);
        else
            for (int64_t i = 0; i < n; i++) ((uint16_t *)out)[i * stride] = float_to_half(x[i]);
        break;
    case PA_S8: EACH(((int8_t *)out)[i * step] = (int8_t)whole_byte(x[i], INT8_MIN, INT8_MAX)); break;
    case PA_U8: EACH(((uint8_t *)out)[i * step] = (uint8_t)whole_byte(x[i], 0, UINT8_MAX)); break;
    case PA_S32: EACH(((int32_t *)out)[i * step] = (int32_t)whole_int(x[i], INT32_MIN, INT32_MAX)); break;
    case PA_S64: EACH(((int64_t *)out)[i * step] = whole_int(x[i], INT64_MIN, INT64_MAX)); break;
    case PA_B8: EACH(((uint8_t *)out)[i * step] = x[i] != 0); break;
    }
}

void pa_store_s64(int type, int64_t n, const int64_t *x, void *out, int64_t stride) {
    switch (type) {
    case PA_F32: EACH(((float *)out)[i * step] = (float)x[i]); break;
    case PA_F16: EACH(((uint16_t *)out)[i * step] = float_to_half((float)x[i])); break; /* exact, or infinite in both */
    case PA_S8: EACH(((int8_t *)out)[i * step] = (int8_t)x[i]); break;
    case PA_U8: EACH(((uint8_t *)out)[i * step] = (uint8_t)x[i]); break;
    case PA_S32: EACH(((int32_t *)out)[i * step] = (int32_t)x[i]); break;
    case PA_S64: EACH(((int64_t *)out)[i * step] = x[i]); break;
    case PA_B8: EACH(((uint8_t *)out)[i * step] = x[i] != 0); break;
    }
}

void pa_store_b8(int type, int64_t n, const uint8_t *x, void *out, int64_t stride) {
    (void)type;
    EACH(((uint8_t *)out)[i * step] = x[i]);
}

void pa_narrow(int type, int64_t n, int64_t *x) {
    enum { stride = 1 };
    switch (type) {
    case PA_S8: EACH(x[i * step] = (int8_t)x[i]); break;
    case PA_U8: EACH(x[i * step] = (uint8_t)x[i]); break;
    case PA_S32: EACH(x[i * step] = (int32_t)x[i]); break;
    case PA_B8: EACH(x[i * step] = x[i] != 0); break;
    }
}
