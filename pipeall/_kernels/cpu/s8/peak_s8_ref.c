#include <string.h>

#include "../kernels_s8.h"

#define TARGET
#define PEAK pa_peak_s8_ref
enum { CHAINS = 4 };
typedef int32_t factor, sums;
static factor factor_of(int8_t byte) { return byte; }
static void add(sums *sum, factor a, factor b) {
    PA_UNROLL
    for (int i = 0; i < CHAINS; i++) {
        PA_OPAQUE(b);
        sum[i] += a * b;
    }
}

#include "peak_s8.inc"
