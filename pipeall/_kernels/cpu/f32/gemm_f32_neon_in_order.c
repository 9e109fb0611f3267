/* GEMM micro-kernel, NEON, 8 x 8 floats, for in-order cores that take in two instructions per cycle (Cortex-A53, A55;
 * gemm_f32_neon_8x8.inc).
 *
 * Such a core has two NEON pipes of 64 bits: a multiply-add of four floats fills a cycle of both, and beside it goes a load
 * of 64 bits, an integer instruction or a prefetch; a load of 128 bits takes cycles of its own. So behind every
 * multiply-add stands one of these. Of A two k of a row are loaded, 64 bits; of B one half into the NEON register,
 * the other into an integer register and from there into its place (ins). Everything is loaded half a step or more before
 * it is used, longer than a load from the first-level cache takes.
 *
 * Per two k: 32 multiply-adds, 16 loads, 4 ins. Registers: v28-v31 are free. Bound: multiply-add and ins. Modelled for two
 * k: 34 cycles; the loop of gemm_f32_neon.c 48.
 *
 * Prefetched per two k: half a line of the next block (AHEAD), and of one row in turn what comes 32 k later, so that each
 * line of a row is fetched once: row (at / 8) % 8 where the tile has all eight.
 */
#if defined(__aarch64__)
#define GEMM pa_gemm_f32_neon_8x8_in_order
enum { STEP = 2, AHEAD = 2 };

#define LOAD_A(i, s0, s1, a, x) "ldr d" #a ", [" #x ", %[at]]\n"
#define EVEN_LEFT(i, s0, s1, a, x) FMLA(s0, 24, a, 0)
#define EVEN_RIGHT(i, s0, s1, a, x) FMLA(s1, 25, a, 0)
#define ODD_LEFT(i, s0, s1, a, x) FMLA(s0, 26, a, 1)
#define ODD_RIGHT(i, s0, s1, a, x) FMLA(s1, 27, a, 1)
#define ODD(i, s0, s1, a, x) FMLA(s0, 26, a, 1) FMLA(s1, 27, a, 1)
#define ROWS_TO_FETCH(then) ".if %c[m] > 3\n" then ".endif\n"

/* The even k, and the loads of the odd one. */
#define EVEN_K                                                                                                      \
    ROW_0(EVEN_LEFT) "ldr d26, [%[b], #32]\n" ROW_0(EVEN_RIGHT) "ldr x7, [%[b], #40]\n"                             \
    ROW_1(EVEN_LEFT) "ldr d27, [%[b], #48]\n" ROW_1(EVEN_RIGHT) "ldr x8, [%[b], #56]\n"                             \
    ROW_2(EVEN_LEFT) ".if %c[m] == 8\n and x17, %[at], #56\n .elseif %c[m] > 3\n and x17, %[at], #24\n .endif\n"   \
    ROW_2(EVEN_RIGHT) "add %[at], %[at], #8\n"                                                                      \
    ROW_3(EVEN_LEFT) ROWS_TO_FETCH("ldr x17, [%[rows], x17]\n") ROW_3(EVEN_RIGHT) "prfm pldl1keep, [%[next]]\n"      \
    ROW_4(EVEN_LEFT) "add %[next], %[next], #32\n" ROW_4(EVEN_RIGHT)                                                \
    ROW_5(EVEN_LEFT) "ins v26.d[1], x7\n ins v27.d[1], x8\n"                                                       \
    ROW_5(EVEN_RIGHT) ROWS_TO_FETCH("add x17, x17, %[at]\n") ROW_6(EVEN_LEFT)                                       \
    ROW_6(EVEN_RIGHT) ROWS_TO_FETCH("prfm pldl1keep, [x17, #128]\n") ROW_7(EVEN_LEFT) ROW_7(EVEN_RIGHT)

#define FIRST "ldp q24, q25, [%[b]]\n" EACH_ROW(LOAD_A) "subs %[count], %[count], #2\n"
/* The odd k, and the loads of the even one after it: a row's A as soon as it has been used. */
#define MORE                                                                                                        \
    EVEN_K                                                                                                          \
    ROW_0(ODD_LEFT) "ldr d24, [%[b], #64]\n" ROW_0(ODD_RIGHT) ROW_0(LOAD_A)                                         \
    ROW_1(ODD_LEFT) "ldr x7, [%[b], #72]\n" ROW_1(ODD_RIGHT) ROW_1(LOAD_A)                                          \
    ROW_2(ODD_LEFT) "ldr d25, [%[b], #80]\n" ROW_2(ODD_RIGHT) ROW_2(LOAD_A)                                         \
    ROW_3(ODD_LEFT) "ldr x8, [%[b], #88]\n" ROW_3(ODD_RIGHT) ROW_3(LOAD_A)                                          \
    ROW_4(ODD_LEFT) "add %[b], %[b], #64\n" ROW_4(ODD_RIGHT) ROW_4(LOAD_A)                                          \
    ROW_5(ODD_LEFT) "subs %[count], %[count], #2\n" ROW_5(ODD_RIGHT) ROW_5(LOAD_A)                                  \
    ROW_6(ODD_LEFT) "ins v24.d[1], x7\n ins v25.d[1], x8\n" ROW_6(ODD_RIGHT) ROW_6(LOAD_A)                          \
    ROW_7(ODD_LEFT) ROW_7(ODD_RIGHT) ROW_7(LOAD_A)
#define LAST EVEN_K EACH_ROW(ODD) "add %[b], %[b], #64\n"

#include "gemm_f32_neon_8x8.inc"
#endif
