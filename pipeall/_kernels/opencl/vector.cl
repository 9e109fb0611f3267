/* What stands before every file: how numbers lie in memory, and vectors of VECTOR of them.
 *
 * X, Y, R and W are the types of what a kernel reads, writes, adds and multiplies by: float or half. Arithmetic is in
 * real: half if HALF_ARITHMETIC, else float. A device without cl_khr_fp16 can still store half.
 * (vload and vstore, and mad and fmax too, are calls that PoCL does not inline: 20 times slower.) */
#ifndef VECTOR
#define VECTOR 4 /* channels of a work item: 1, 2, 4, 8 or 16 */
#endif
#ifndef HALF_ARITHMETIC
#define HALF_ARITHMETIC 0
#endif
#ifndef X
#define X float
#endif
#ifndef Y
#define Y float
#endif
#ifndef R
#define R float
#endif
#ifndef W
#define W float
#endif
/* Before a kernel of one work item per element of dimension 0, in groups of 64. */
#define ELEMENTWISE __kernel __attribute__((reqd_work_group_size(64, 1, 1)))
#define OVERLOADED __attribute__((overloadable))
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#if VECTOR == 1
#define WIDE(name) name
#else
#define WIDE(name) JOIN(name, VECTOR)
#endif
#ifdef cl_khr_fp16
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#endif
#if HALF_ARITHMETIC
#define real half
#define FROM_FLOAT(n) JOIN(convert_half, n)
#define FROM_HALF(n)
#define vec_from_float(v) WIDE(convert_half)(v)
#define vec_from_half(v) (v)
#define vec_to_float(v) WIDE(convert_float)(v)
#define vec_to_half(v) (v)
#else
#define real float
#define FROM_FLOAT(n)
#define FROM_HALF(n) JOIN(convert_float, n)
#define vec_from_float(v) (v)
#define vec_from_half(v) WIDE(convert_float)(v)
#define vec_to_float(v) (v)
#define vec_to_half(v) WIDE(convert_half)(v)
#endif
#define vec WIDE(real)
#define real4 JOIN(real, 4)

typedef struct __attribute__((packed, aligned(4))) {
    WIDE(float) v;
} any_floats;
typedef struct __attribute__((packed, aligned(4))) {
    float4 v;
} any_float4;
#ifdef cl_khr_fp16
typedef struct __attribute__((packed, aligned(2))) {
    WIDE(half) v;
} any_halfs;
typedef struct __attribute__((packed, aligned(2))) {
    half4 v;
} any_half4;
#endif
typedef union {
    vec all;
    real each[VECTOR];
} elements;

/* One number. */
static real OVERLOADED at(__global const float *p, int i) {
    return p[i];
}
static real OVERLOADED at(__global const half *p, int i) {
    return vload_half(i, p);
}
static void OVERLOADED put(real v, __global float *p, int i) {
    p[i] = v;
}
static void OVERLOADED put(real v, __global half *p, int i) {
    vstore_half((float)v, i, p);
}

/* VECTOR numbers, at any address; `aligned`: at one that is a multiple of their size. */
static vec OVERLOADED all(__global const float *p) {
    return vec_from_float(((__global const any_floats *)p)->v);
}
static vec OVERLOADED aligned(__global const float *p) {
    return vec_from_float(*(__global const WIDE(float) *)p);
}
static real4 OVERLOADED four(__global const float *p) {
    return FROM_FLOAT(4)(((__global const any_float4 *)p)->v);
}
static void OVERLOADED put_all(vec v, __global float *p) {
    ((__global any_floats *)p)->v = vec_to_float(v);
}
#ifdef cl_khr_fp16
static vec OVERLOADED all(__global const half *p) {
    return vec_from_half(((__global const any_halfs *)p)->v);
}
static vec OVERLOADED aligned(__global const half *p) {
    return vec_from_half(*(__global const WIDE(half) *)p);
}
static real4 OVERLOADED four(__global const half *p) {
    return FROM_HALF(4)(((__global const any_half4 *)p)->v);
}
static void OVERLOADED put_all(vec v, __global half *p) {
    ((__global any_halfs *)p)->v = vec_to_half(v);
}
#else
static vec OVERLOADED all(__global const half *p) {
#if VECTOR == 16 /* with AVX-512, PoCL 3.0 loses a program that calls a function on a vector of 16 (float) */
    return (vec)(vload_half8(0, p), vload_half8(1, p));
#else
    return WIDE(vload_half)(0, p);
#endif
}
static vec OVERLOADED aligned(__global const half *p) {
    return all(p);
}
static real4 OVERLOADED four(__global const half *p) {
    return vload_half4(0, p);
}
static void OVERLOADED put_all(vec v, __global half *p) {
#if VECTOR == 16
    vstore_half8(v.lo, 0, p);
    vstore_half8(v.hi, 1, p);
#else
    WIDE(vstore_half)(v, 0, p);
#endif
}
#endif

/* The first min(n, VECTOR) numbers at p; the rest is 0. */
#define LOAD(type)                                                                                                   \
    static vec OVERLOADED load(__global const type *p, int n) {                                                      \
        if (n >= VECTOR)                                                                                             \
            return all(p);                                                                                           \
        elements value = {(vec)0};                                                                                   \
        for (int i = 0; i < n; i++)                                                                                  \
            value.each[i] = at(p, i);                                                                                \
        return value.all;                                                                                            \
    }
LOAD(float)
LOAD(half)
#define STORE(type)                                                                                                  \
    static void OVERLOADED store(vec v, __global type *p, int n) {                                                   \
        if (n >= VECTOR) {                                                                                           \
            put_all(v, p);                                                                                           \
            return;                                                                                                  \
        }                                                                                                            \
        const elements value = {v};                                                                                  \
        for (int i = 0; i < n; i++)                                                                                  \
            put(value.each[i], p, i);                                                                                \
    }
STORE(float)
STORE(half)

/* Not clamp, or fmax and fmin: NaN stays NaN. */
static vec limited(vec v, float lo, float hi) {
    v = v < (real)lo ? (vec)(real)lo : v;
    return v > (real)hi ? (vec)(real)hi : v;
}
