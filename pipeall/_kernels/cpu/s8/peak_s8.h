/* The most products of bytes that a core makes (kernels_s8.h: pa_peak_s8_fn), as a function of this name.
 *   CHAINS              sums that products join in turns, all in registers
 *   factor, sums        types: a byte in every lane, which factor_of(byte) gives, and sums of 32 bits
 *   add(sum, a, b)      products of a and b to each of the CHAINS sums. Those that no sum takes part in it must hide from the
 *                       compiler, which would make them once
 * Bound: multiplication, or the number of instructions. */
#ifndef PIPEALL_PEAK_S8_H
#define PIPEALL_PEAK_S8_H

#define PEAK(name, TARGET, CHAINS, factor, sums, factor_of, add)                                  \
    TARGET int32_t name(int64_t rounds, const int8_t *x) {                                        \
        enum { LANES = sizeof(sums) / sizeof(int32_t) };                                          \
        const factor a = factor_of(x[0]), b = factor_of(x[1]);                                    \
        sums sum[CHAINS] = {0};                                                                   \
        for (int64_t round = 0; round < rounds; round++) add(sum, a, b);                          \
        uint32_t total = 0, lanes[LANES];                                                         \
        PA_UNROLL                                                                                 \
        for (int i = 0; i < CHAINS; i++) {                                                        \
            memcpy(lanes, &sum[i], sizeof lanes);                                                 \
            for (int j = 0; j < LANES; j++) total += lanes[j];                                    \
        }                                                                                         \
        return (int32_t)total;                                                                    \
    }

#endif
