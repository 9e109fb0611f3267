/* What a sum becomes, in plain C (kernels_s8.h: pa_requantise). */
#ifndef PIPEALL_S8_REQUANTISE_H
#define PIPEALL_S8_REQUANTISE_H

#include <math.h>

#include "../kernels_s8.h"

static inline int8_t pa_requantised(int32_t sum, float scale, const pa_requantise *to) {
    const float x = (float)sum * scale, least = x < to->lo ? to->lo : x;
    return (int8_t)((int32_t)rintf(least > to->hi ? to->hi : least) + to->zero);
}

#endif
