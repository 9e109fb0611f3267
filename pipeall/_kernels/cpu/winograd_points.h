/* The points of Winograd's transforms (winograd.inc, f32/winograd_weight_f32.inc), and what differs between floats and
 * halves: of floats unless f16/winograd_points_f16.h comes before. */
#ifndef PIPEALL_WINOGRAD_POINTS_H
#define PIPEALL_WINOGRAD_POINTS_H

#ifndef WINO_TYPE
#define WINO_TYPE f32
#define WINO_HALF(x) (x)
#define WINO_QUARTER(x) (x)
#define WINO_PART 1 /* of B that the transform of tiles of 6 points has */
#define WINO_LARGEST 8
#endif

/* The pairs of tiles of 6 points. Of small fractions, whose powers are exact, these lose least: half of what +-1 and +-2
 * lose. */
#define WINO_FIRST 0.625f
#define WINO_SECOND 1.5f
/* By the tile's size: 1 / prod (p - q) over the other finite points q, for p = 0 (but for its sign) and for each pair +-p. B
 * lacks these factors of the Lagrange basis, so that the transform of weights has them. */
#define WINO_SCALES {{1, 0.5f}, {256 / 225.f, -2048 / 2975.f, 128 / 1071.f}, {1, -2 / 9.f, 1 / 90.f, 32 / 45.f}}

#define WINO_NAME_OF(op, type) PA_TYPED_NAME(op, type)
#define WINO_NAME(op) WINO_NAME_OF(op, WINO_TYPE)

PA_INLINE float wino_power(float p, int i) {
    float power = 1;
    for (; i > 0; i--) power *= p;
    return power;
}

#endif
