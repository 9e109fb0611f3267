/* What a sum becomes, in plain C (kernels_s8.h: pa_requantize). */
#ifndef PIPEALL_REQUANTIZE_H
#define PIPEALL_REQUANTIZE_H

#include <math.h>

#include "../kernels_s8.h"

static inline float pa_real(int32_t sum, float scale, const pa_requantize *to) {
    const float x = (float)sum * scale, least = x < to->lo ? to->lo : x;
    return least > to->hi ? to->hi : least;
}

static inline int8_t pa_requantized(int32_t sum, float scale, const pa_requantize *to) {
    return (int8_t)((int32_t)rintf(pa_real(sum, scale, to)) + to->zero);
}

#endif
