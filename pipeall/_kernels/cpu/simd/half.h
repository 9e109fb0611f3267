/* Floats of 16 bits. float16 as IEEE 754 has it, rounding to nearest, ties to even; of a NaN a quiet one, with as much of its payload as
 * fits. By the instructions of aarch64, elsewhere in portable C: Giesen's conversions (public domain, "float->half
 * variants"). */
#ifndef PIPEALL_HALF_H
#define PIPEALL_HALF_H

#include <stdint.h>
#include <string.h>

static inline float bits_as_float(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t float_as_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* bfloat16, the upper half of a float: rounded to nearest, ties to even; a NaN is a quiet one. */
static inline float bfloat_to_float(uint16_t bits) { return bits_as_float((uint32_t)bits << 16); }

static inline uint16_t float_to_bfloat(float value) {
    const uint32_t bits = float_as_bits(value);
    if (value != value) return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

#if defined(__aarch64__)
static inline float half_to_float(uint16_t half) {
    __fp16 value;
    memcpy(&value, &half, sizeof value);
    return value;
}

static inline uint16_t float_to_half(float value) {
    const __fp16 half = (__fp16)value;
    uint16_t bits;
    memcpy(&bits, &half, sizeof bits);
    return bits;
}
#else
static inline float half_to_float(uint16_t half) {
    const uint32_t shifted = (half & 0x7fffu) << 13, sign = (half & 0x8000u) << 16;
    const uint32_t finite = float_as_bits(bits_as_float(shifted) * 0x1p112f); /* the exponents' bias, subnormals too */
    const uint32_t quiet = shifted > 0x0f800000u ? 0x400000u : 0;
    return bits_as_float(sign | (shifted >= 0x0f800000u ? shifted | 0x7f800000u | quiet : finite));
}

static inline uint16_t float_to_half(float value) {
    const uint32_t bits = float_as_bits(value), sign = bits >> 16 & 0x8000u, size = bits & 0x7fffffffu;
    const uint32_t small = float_as_bits(bits_as_float(size) + 0.5f) - 0x3f000000u; /* below 2^-14: the sum rounds it */
    const uint32_t normal = (size + 0xc8000fffu + (size >> 13 & 1)) >> 13;
    const uint32_t large = size > 0x7f800000u ? 0x7e00u | (size >> 13 & 0x3ffu) : 0x7c00u;
    return (uint16_t)(sign | (size >= 0x47800000u ? large : size < 0x38800000u ? small : normal));
}
#endif

#endif
