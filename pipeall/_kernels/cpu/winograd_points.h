/* The points of Winograd's transforms (winograd.inc, f32/winograd_weight_f32.inc), and what differs between floats and
 * halves: of floats unless f16/winograd_points_f16.h comes before.
 *
 * Tiles of n points have infinity, pairs +-p and, where n is even, 0. Of small fractions, whose powers are exact, these lose
 * least. B lacks the factors of the Lagrange basis, so that the transform of weights has them. */
#ifndef PIPEALL_WINOGRAD_POINTS_H
#define PIPEALL_WINOGRAD_POINTS_H

#ifndef WINO_TYPE
#define WINO_TYPE f32
#define WINO_PART(n) 1.0f /* of B that the transform of the input has */
#define WINO_LARGEST 8
#define WINO_SILU 0 /* whether SiLU is made with the columns */
#endif

#define WINO_NAME_OF(op, type) PA_TYPED_NAME(op, type)
#define WINO_NAME(op) WINO_NAME_OF(op, WINO_TYPE)

PA_INLINE int wino_zero(const int n) { return n % 2 == 0; }
PA_INLINE int wino_pairs(const int n) { return (n - 1) / 2; }

PA_INLINE float wino_point(const int n, const int pair) {
    static const float points[9][3] = {
        [4] = {1}, [6] = {0.625f, 1.5f}, [7] = {0.3125f, 0.875f, 1.75f}, [8] = {1, 2, 0.5f}};
    return points[n][pair];
}

PA_INLINE float wino_square(const int n, const int pair) { return wino_point(n, pair) * wino_point(n, pair); }

PA_INLINE float wino_power(float p, int i) {
    float power = 1;
    for (; i > 0; i--) power *= p;
    return power;
}

#endif
