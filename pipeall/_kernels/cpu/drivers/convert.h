/* Runs of elements of any type as floats, as 64-bit integers or as truths (0 or 1), and back.
 *
 * A load takes n elements `stride` apart from x. A store converts as a cast does: floats to integers are cut to their
 * whole part, to the nearest that the type has, NaN to 0; integers keep their low bits; a bool is x != 0. */
#ifndef PIPEALL_CONVERT_H
#define PIPEALL_CONVERT_H

#include "../kernels.h"

enum { BLOCK = 256 }; /* elements of a buffer on the stack */

static inline int is_float(int type) { return type == PA_F32 || type == PA_F16; }

void pa_load_f32(int type, int64_t n, const void *x, int64_t stride, float *out);
void pa_load_s64(int type, int64_t n, const void *x, int64_t stride, int64_t *out); /* not of floats */
void pa_load_b8(int type, int64_t n, const void *x, int64_t stride, uint8_t *out); /* of bools */
void pa_store_f32(int type, int64_t n, const float *x, void *out, int64_t stride);
void pa_store_s64(int type, int64_t n, const int64_t *x, void *out, int64_t stride);
void pa_store_b8(int type, int64_t n, const uint8_t *x, void *out, int64_t stride); /* to bools */

/* What is left of 64-bit integers in elements of a type. */
void pa_narrow(int type, int64_t n, int64_t *x);

static inline const void *elements_at(const void *base, const pa_strided *s, int64_t offset) {
    return (const char *)base + offset * s->item_bytes;
}

#endif
