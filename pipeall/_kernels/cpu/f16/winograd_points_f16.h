/* Halves: F(4x4, 3x3) has the points +-5/8 and +-3/2 in place of +-1 and +-2. Their powers are halves, and transforms that
 * compute in half precision lose less (docs/decisions/033-halves.md has figures). */
#define WINO_TYPE f16
#define WINO_INPUT_ARGS pa_winograd_input_f16_args
#define WINO_OUTPUT_ARGS pa_winograd_output_f16_args
#define WINO_HALF(x) v_mul(v_set1(0.5f), x)
#define WINO_LARGEST 6
#define WINO_FIRST 0.625f
#define WINO_SECOND 1.5f
#define WINO_SCALES {256 / 225.f, -2048 / 2975.f, 128 / 1071.f}
