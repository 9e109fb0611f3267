/* What stands before every file: vectors of VECTOR channels, at any float.
 * (vload and vstore, and mad and fmax too, are calls that PoCL does not inline: 20 times slower.) */
#ifndef VECTOR
#define VECTOR 4 /* channels of a work item: 1, 2, 4, 8 or 16 */
#endif
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#if VECTOR == 1
#define vec float
#else
#define vec JOIN(float, VECTOR)
#endif

typedef struct __attribute__((packed, aligned(4))) {
    vec v;
} any_vec;
typedef union {
    vec all;
    float each[VECTOR];
} elements;

/* The first min(n, VECTOR) floats at p; the rest is 0. */
static vec load(__global const float *p, int n) {
    if (n >= VECTOR)
        return ((__global const any_vec *)p)->v;
    elements value = {(vec)0};
    for (int i = 0; i < n; i++)
        value.each[i] = p[i];
    return value.all;
}

static void store(vec v, __global float *p, int n) {
    if (n >= VECTOR) {
        ((__global any_vec *)p)->v = v;
        return;
    }
    const elements value = {v};
    for (int i = 0; i < n; i++)
        p[i] = value.each[i];
}

