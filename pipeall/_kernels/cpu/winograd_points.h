/* The points of Winograd's transforms (winograd.inc, winograd_taps.inc), of floats unless f16/winograd_points_f16.h comes
 * before. */
#ifndef PIPEALL_WINOGRAD_POINTS_H
#define PIPEALL_WINOGRAD_POINTS_H

#ifndef WINO_TYPE
#define WINO_TYPE f32
#define WINO_INPUT_ARGS pa_winograd_input_args
#define WINO_OUTPUT_ARGS pa_winograd_output_args
#define WINO_HALF(x) (x)
#define WINO_LARGEST 8
#define WINO_FIRST 1 /* of tiles of 6 points, the points of the two pairs */
#define WINO_SECOND 2
#define WINO_SCALES {0.25f, -1 / 6.f, 1 / 24.f} /* of 0 and of each pair: what the Lagrange basis leaves out of B */
#endif
#define WINO_NAME_OF(op, type) PA_TYPED_NAME(op, type)
#define WINO_NAME(op) WINO_NAME_OF(op, WINO_TYPE)

PA_INLINE float wino_power(float p, int i) {
    float power = 1;
    for (; i > 0; i--) power *= p;
    return power;
}

#endif
