/* Elements of any type, and where the elements of strided operands lie.
 *
 * NUMBER is what a kernel computes in: float, or with WHOLE=1 long, for integers and bools of any size. `get` and `set`
 * convert to it and from it: an integer keeps its lowest bits in a narrower one, a float becomes the nearest integer towards
 * 0 that there is, and NaN becomes 0. */
#ifndef WHOLE
#define WHOLE 0
#endif
#if WHOLE
#define NUMBER long
#define LOWEST LONG_MIN
#define HIGHEST LONG_MAX
#define FROM_INTEGER(v) wide(v)
#define TO_INTEGER(type, v) ((type)(v))
#else
#define NUMBER float
#define LOWEST (-INFINITY)
#define HIGHEST INFINITY
#define FROM_INTEGER(v) ((NUMBER)(v))
#define TO_INTEGER(type, v) (isnan(v) ? (type)0 : convert_##type##_sat(v)) /* Mesa's makes another number of NaN */
#endif

/* An integer in 64 bits. The sign of an int is written out: Mesa 22.3 (rusticl on llvmpipe) takes (long)v < 0 for false. */
static long OVERLOADED wide(char v) {
    return v;
}
static long OVERLOADED wide(uchar v) {
    return v;
}
static long OVERLOADED wide(int v) {
    return (long)((uint)v ^ 0x80000000u) - 0x80000000L;
}
static long OVERLOADED wide(long v) {
    return v;
}

static NUMBER OVERLOADED get(__global const float *p, int i) {
    return (NUMBER)p[i];
}
static NUMBER OVERLOADED get(__global const half *p, int i) {
    return (NUMBER)vload_half(i, p);
}
static void OVERLOADED set(NUMBER v, __global float *p, int i) {
    p[i] = (float)v;
}
static void OVERLOADED set(NUMBER v, __global half *p, int i) {
    vstore_half((float)v, i, p);
}
#define INTEGER(type)                                                                                                \
    static NUMBER OVERLOADED get(__global const type *p, int i) {                                                    \
        return FROM_INTEGER(p[i]);                                                                                   \
    }                                                                                                                \
    static void OVERLOADED set(NUMBER v, __global type *p, int i) {                                                  \
        p[i] = TO_INTEGER(type, v);                                                                                       \
    }
INTEGER(char)
INTEGER(uchar)
INTEGER(int)
INTEGER(long)

/* The two compare so that a NaN wins. */
static NUMBER larger(NUMBER a, NUMBER b) {
    return a > b || a != a ? a : b;
}
static NUMBER smaller(NUMBER a, NUMBER b) {
    return a < b || a != a ? a : b;
}

static int dot8(int8 i, int8 strides) {
    const int8 p = i * strides;
    return p.s0 + p.s1 + p.s2 + p.s3 + p.s4 + p.s5 + p.s6 + p.s7;
}
/* The indices of element n of a shape whose first axis goes fastest. */
static int8 unravel(int n, int8 shape) {
    int8 i;
    i.s0 = n % shape.s0, n /= shape.s0;
    i.s1 = n % shape.s1, n /= shape.s1;
    i.s2 = n % shape.s2, n /= shape.s2;
    i.s3 = n % shape.s3, n /= shape.s3;
    i.s4 = n % shape.s4, n /= shape.s4;
    i.s5 = n % shape.s5, n /= shape.s5;
    i.s6 = n % shape.s6, i.s7 = n / shape.s6;
    return i;
}
/* Those of a work item: dimensions 0 and 1 are the first two axes, dimension 2 is all others. RANK: axes that are more
 * than one long, 3 at least. */
#ifndef RANK
#define RANK 8
#endif
static int8 indices(int8 shape) {
#if RANK <= 3
    return (int8)(get_global_id(0), get_global_id(1), get_global_id(2), 0, 0, 0, 0, 0);
#else
    const int8 rest = unravel(get_global_id(2), (int8)(shape.s2345, shape.s67, 1, 1));
    return (int8)(get_global_id(0), get_global_id(1), rest.s0123, rest.s45);
#endif
}
