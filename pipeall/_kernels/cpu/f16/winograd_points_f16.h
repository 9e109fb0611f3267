/* Halves: a half of the input of tiles of 4 points, a quarter of that of 6, so that sums stay in their range.
 * (docs/decisions/fp16.md has figures of what the points lose.) */
#define WINO_TYPE f16
#define WINO_PART(n) ((n) == 4 ? 0.5f : 0.25f)
#define WINO_LARGEST 6
#define WINO_SILU 1
