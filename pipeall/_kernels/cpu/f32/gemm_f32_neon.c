/* GEMM micro-kernel, NEON, 8 x 8 floats, for out-of-order cores (gemm_f32_neon_8x8.inc).
 *
 * Per four k: eight loads of B, one load of four A values from each of eight rows, 64 multiply-adds by lane: all the
 * loads together, after the 64 multiply-adds of the four k before. Bound: multiply-add, 7.98 flop per cycle of 8 on a
 * Cortex-A73 (llvm-mca); intrinsics have more instructions to take in, 65.3 cycles for these 64.2.
 */
#if defined(__aarch64__)
#define GEMM pa_gemm_f32_neon_8x8
enum { STEP = 4, AHEAD = 8 }; /* nothing is prefetched: these cores fetch ahead by themselves */

#define LOAD_A(i, s0, s1, a, x) "ldr q" #a ", [" #x ", %[at]]\n"
#define LANE_1(i, s0, s1, a, x) FMLA(s0, 26, a, 1) FMLA(s1, 27, a, 1)
#define LANE_2(i, s0, s1, a, x) FMLA(s0, 28, a, 2) FMLA(s1, 29, a, 2)
#define LANE_3(i, s0, s1, a, x) FMLA(s0, 30, a, 3) FMLA(s1, 31, a, 3)
#define FIRST                                                                                                       \
    "ld1 {v24.4s-v27.4s}, [%[b]], #64\n ld1 {v28.4s-v31.4s}, [%[b]], #64\n"                                        \
    ROW_0(LOAD_A) "subs %[count], %[count], #4\n" ROWS_1_TO_7(LOAD_A) "add %[at], %[at], #16\n"
#define LAST EACH_ROW(LANE_0) EACH_ROW(LANE_1) EACH_ROW(LANE_2) EACH_ROW(LANE_3)
#define MORE LAST FIRST

#include "gemm_f32_neon_8x8.inc"
#endif
