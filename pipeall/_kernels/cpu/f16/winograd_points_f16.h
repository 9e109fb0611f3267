/* Halves: a half of the input of tiles of 4 points, a quarter of that of 6, so that sums stay in their range.
 * (docs/decisions/fp16.md has figures of what the points lose.) */
#define WINO_TYPE f16
#define WINO_HALF(x) v_mul(v_set1(0.5f), x)
#define WINO_QUARTER(x) v_mul(v_set1(0.25f), x)
#define WINO_PART 0.25f
#define WINO_LARGEST 6
