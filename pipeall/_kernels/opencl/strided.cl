/* Pointwise ops on strided operands of any type, one work item per element: out = clamp(op(a, b, c), lo, hi).
 * Bound by memory; neighbouring work items (dimension 0) go along an axis that is dense. */
#include "typed.cl"
#include "pointwise.cl"
#ifndef A
#define A float /* how a lies in memory */
#endif
#ifndef B
#define B float
#endif
#ifndef C
#define C float
#endif
#ifndef NARROW
#define NARROW NUMBER /* of integers: what a result wraps around in before it is clamped */
#endif
#ifndef OPERANDS
#define OPERANDS 3
#endif
#ifndef FORMULA
#define FORMULA EVERY_where
#endif

/* Strides are 0 where an operand is broadcast. Dimensions: `indices` of typed.cl. out may be an operand. */
ELEMENTWISE void
pointwise(__global const A *a_at, int a_offset, int8 a_strides, __global const B *b_at, int b_offset, int8 b_strides,
          __global const C *c_at, int c_offset, int8 c_strides, __global Y *out, int out_offset, int8 out_strides,
          int8 shape, NUMBER p0, NUMBER p1, NUMBER lo, NUMBER hi) {
    const int8 i = indices(shape);
    if (i.s0 >= shape.s0)
        return;
    const NUMBER a = get(a_at, a_offset + dot8(i, a_strides)), x = a;
#if OPERANDS > 1
    const NUMBER b = get(b_at, b_offset + dot8(i, b_strides));
#endif
#if OPERANDS > 2
    const NUMBER c = get(c_at, c_offset + dot8(i, c_strides));
#endif
    set(limit((NARROW)(FORMULA), lo, hi), out, out_offset + dot8(i, out_strides));
}
