/* Rows times a panel, NEON, for in-order cores that take in two instructions per cycle (gemv_f32_neon_1x40.inc; for what
 * goes beside what see gemm_f32_neon_in_order.c).
 *
 * Per two k: 20 multiply-adds by lane, each vector of B loaded anew in two halves once it has been used, and put together
 * when both have come. The five lines of B that are read AHEAD bytes later are prefetched. Modelled: 53 cycles for two
 * k; memory takes about three times as long for their lines.
 */
#if defined(__aarch64__)
#define GEMV pa_gemv_f32_neon_1x40_in_order

#define AHEAD "2560"
#define COLUMN(s, b, lane, j, x)                                                                                    \
    FMLA(s, b, lane) "ldr d" #b ", [%[b], #16 * " #j "]\n ldr " #x ", [%[b], #16 * " #j " + 8]\n"
#define INSERT(b0, b1, x0, x1) "ins v" #b0 ".d[1], " #x0 "\n ins v" #b1 ".d[1], " #x1 "\n"
#define FETCH(line) "prfm pldl1keep, [%[b], #" AHEAD " + 64 * " #line "]\n"
#define MULTIPLY_AND_LOAD_TWO_K                                                                                     \
    "ldr x7, [%[a]], #8\n"                                                                                          \
    COLUMN(0, 12, 0, 0, x8) COLUMN(1, 13, 0, 1, x9)                                                                 \
    COLUMN(2, 14, 0, 2, x10) COLUMN(3, 15, 0, 3, x11) INSERT(12, 13, x8, x9) FETCH(0)                               \
    COLUMN(4, 16, 0, 4, x8) COLUMN(5, 17, 0, 5, x9) INSERT(14, 15, x10, x11)                                        \
    COLUMN(6, 18, 0, 6, x10) COLUMN(7, 19, 0, 7, x11) INSERT(16, 17, x8, x9) FETCH(1)                               \
    COLUMN(8, 20, 0, 8, x8) COLUMN(9, 21, 0, 9, x9) INSERT(18, 19, x10, x11)                                        \
    COLUMN(0, 22, 1, 10, x10) COLUMN(1, 23, 1, 11, x11) INSERT(20, 21, x8, x9) FETCH(2)                             \
    COLUMN(2, 24, 1, 12, x8) COLUMN(3, 25, 1, 13, x9) INSERT(22, 23, x10, x11)                                      \
    COLUMN(4, 26, 1, 14, x10) COLUMN(5, 27, 1, 15, x11) INSERT(24, 25, x8, x9) FETCH(3)                             \
    COLUMN(6, 28, 1, 16, x8) COLUMN(7, 29, 1, 17, x9) INSERT(26, 27, x10, x11)                                      \
    COLUMN(8, 30, 1, 18, x10) COLUMN(9, 31, 1, 19, x11) INSERT(28, 29, x8, x9) FETCH(4)                             \
    "fmov d11, x7\n subs %[pairs], %[pairs], #1\n add %[b], %[b], #320\n" INSERT(30, 31, x10, x11)

#include "gemv_f32_neon_1x40.inc"
#endif
