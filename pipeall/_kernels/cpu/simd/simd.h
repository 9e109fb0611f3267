/* One vector type of float32 for all instruction sets: thin names for the intrinsics the kernels use. An instruction set is
 * the file that has these names for it: ref.h, neon.h, avx2.h, avx512.h.
 *
 * Include this after every other header, in a file that defines exactly one of PA_ISA_REF, PA_ISA_NEON, PA_ISA_AVX2,
 * PA_ISA_AVX512, and PA_BYTES if its kernels are of 8-bit integers. It switches the instruction set on for the rest of the
 * file, so no compiler flag is needed; PA_SIMD_END closes that and comes last.
 *
 *   pa_real             an element in memory: kernels of halves too are in these words (simd_f16.h)
 *   vf, VL              a vector and its number of lanes
 *   v_load_u8           VL bytes as floats
 *   v_load_halves       VL floats of half precision, at any address
 *   v_load_n, v_store_n touch n lanes of memory only, 1 <= n <= VL; lanes past n load as 0. A constant n = VL
 *                       compiles to the plain access
 *   v_max, v_min        return b where a or b is NaN (NEON: NaN), so v_min(hi, v_max(lo, x)) keeps a NaN of x
 *   v_max_nan, v_min_nan  NaN where a or b is
 *   v_fma(a, b, c)      a * b + c, rounded once. Kernels write every product that feeds a sum this way, so that
 *                       no compiler may choose (-ffp-contract) and all instruction sets give the same bits
 *   v_fnma(a, b, c)     c - a * b, rounded once
 *   v_root4_estimate    a^-1/4 for normal a > 0, at most 3.3 % off: its bits are about a logarithm
 *   v_round             to the nearest integer, ties to even
 *   vm                  a truth value per lane; v_less and v_equal are false where a or b is NaN
 *   v_or, v_any         of two truth values; whether one lane holds
 *   v_if(m, a, b)       a where m holds, else b
 *   v_first(n)          true in the first n lanes, 0 <= n <= VL
 *   v_swap(a, w)        neighbouring blocks of w lanes exchanged, w a constant power of 2 below VL
 *   v_mix(a, b, w)      every other block of w lanes: the first of a, the second of b
 *   v_trade(&a, &b, w)  the second block of w lanes of every two of a exchanged with the first of b
 *   v_zip(&a, &b)       lanes of a and b in turns, the first half into a, the second into b
 *   v_evens(a, b)       every other lane of a and what follows it, b
 *   v_split(a, &e)      m of a = m * 2^e, m in [sqrt(1/2), sqrt(2)), for normal a > 0
 *   v_pow2(m)           2^n of m = V_POW2_ZERO + n, n integral in [-127, 128]: 0 and infinity at the ends
 *   V_OPAQUE(a)         after it compilers do not know what a holds, and these stay in order: else they load it again for
 *                       every use, or all vectors of a long loop at once, more than there are registers
 *   v_fold_add, v_fold_max   of all lanes, in an order of the instruction set's
 *
 * Lanes by their places: blocks of them, their truth values as bits, lanes picked by number:
 *   v_load_blocks(p, step, n, w)  n lanes each of blocks of w, at p, p + step..., the others 0; w is VL or, where that is at
 *                       least 4, VL / 2 or VL / 4
 *   v_transpose(v, count, item)  of `count` vectors, items of `item` lanes in each `count` of them: item c of vector r to
 *                       item r of vector c
 *   v_pairs(&a, &b, w)  as v_trade, but an element of the first and its partner in the second may be exchanged
 *   v_width(n)          the least w for n floats
 *   v_blocks(n, w)      true in the first n lanes of each block of w
 *   v_bits(m)           of 4 truth values, LANE_BITS bits for each lane, from the lowest on
 *   v_load_bits         VL int32 in the bits of a vector, to be moved
 *   vi                  VL numbers of lanes; v_lanes(numbers, first) has such bits less `first`
 *   v_lanes_at(p, first)  of VL int32
 *   v_wrap(lanes)       modulo VL, as v_pick wants them
 *   v_pick(a, at)       lane at[i] of a in lane i, 0 <= at[i] < VL
 *   v_pick2(a, b, at)   of a and what follows it, b, 0 <= at[i] < 2 VL
 *
 * Of bytes, beside the floats (PA_BYTES):
 *   vb, VB              a vector of bytes: as many as PARTS vectors of floats have lanes, in the same order
 *   SLOW_DIVISION       whether a division takes longer than five other operations: 34 cycles on a Cortex-A73, 7 on an A76
 *   b_load_n, b_store_n touch n bytes of memory only, 1 <= n <= VB; those past n load as any. A constant n = VB compiles to
 *                       the plain access
 *   b_from              a zero point as b_get wants it; b_from_of(zero)
 *   b_get(p, v, from)   VB bytes less the zero point, in PARTS vectors of floats
 *   b_to                a pa_requantize as b_round wants it; b_to_of(requantize)
 *   b_round(v, to)      clamp(rint(v), lo, hi) + zero of PARTS vectors of floats; of a NaN any within the bounds
 *   vw                  sums of VB lanes in 16 bits; b_words() has 0 in each
 *   b_add(&sum, p, n)   sum + n bytes
 *   vs                  sums of VB lanes in 32 bits; b_sums(x) has x in each
 *   b_add_words(&sum, words), b_sum_floats(sum, v)
 */
#ifndef PIPEALL_SIMD_H
#define PIPEALL_SIMD_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "../kernels.h"
#include "half.h"

enum { ROOT4_BITS = 0x4f580800 }; /* least error of v_root4_estimate */
#define V_POW2_ZERO 12583039.0f /* 1.5 * 2^23, to which a float adds as an integer, and 127, the bias of an exponent */
enum { HALF_ROOT2_BITS = 0x3f3504f3, MANTISSA_BITS = 0x7fffff }; /* of sqrt(1/2) */

#ifdef PA_BYTES
#define PA_NAME(op) PA_TYPED_NAME(op, s8)
#else
#define PA_NAME(op) PA_TYPED_NAME(op, f32)
#endif
typedef float pa_real;

#if defined(PA_ISA_REF)
#include "ref.h"
#elif defined(PA_ISA_NEON)
#include "neon.h"
#elif defined(PA_ISA_AVX2)
#include "avx2.h"
#elif defined(PA_ISA_AVX512)
#include "avx512.h"
#else
#error "define one of PA_ISA_REF, PA_ISA_NEON, PA_ISA_AVX2, PA_ISA_AVX512"
#endif

#include "simd_math.h"

#if defined(PA_ISA_REF) || defined(PA_ISA_NEON) /* no blocks narrower than a vector: w is VL */
PA_INLINE vf v_load_blocks(const float *p, int64_t step, int n, const int w) {
    (void)step, (void)w;
    return v_load_n(p, n);
}
PA_INLINE vm v_blocks(int n, const int w) { return (void)w, v_first(n); }
PA_INLINE void v_pairs(vf *a, vf *b, const int w) { v_trade(a, b, w); }
#endif

PA_INLINE vf v_load_bits(const int32_t *p) {
    vf bits;
    memcpy(&bits, p, sizeof bits);
    return bits;
}

PA_INLINE vi v_lanes_at(const int32_t *p, int32_t first) { return v_lanes(v_load_bits(p), first); }

PA_INLINE void v_transpose(vf *v, const int count, const int item) {
    PA_UNROLL
    for (int stage = 0; stage < 4; stage++) {
        const int apart = 1 << stage;
        PA_UNROLL
        for (int k = 0; k < count / 2; k++) {
            const int first = k / apart * apart + k;
            if (apart < count) v_trade(&v[first], &v[first + apart], apart * item);
        }
    }
}

PA_INLINE int v_width(int64_t n) {
    return n <= VL / 4 && VL / 4 >= 4 ? VL / 4 : n <= VL / 2 && VL / 2 >= 4 ? VL / 2 : VL;
}

#endif
