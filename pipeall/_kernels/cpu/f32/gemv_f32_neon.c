/* Rows times a panel, NEON, for out-of-order cores (gemv_f32_neon_1x40.inc).
 *
 * Per two k: 20 multiply-adds by lane, then 20 loads of B and one of two A values: 21 cycles on a Cortex-A73 (llvm-mca),
 * intrinsics compiled by gcc 12 25.
 */
#if defined(__aarch64__)
#define GEMV pa_gemv_f32_neon_1x40
#define MULTIPLY_AND_LOAD_TWO_K MULTIPLY_TWO_K LOAD_TWO_K

#include "gemv_f32_neon_1x40.inc"
#endif
