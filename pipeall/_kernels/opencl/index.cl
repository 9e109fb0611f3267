/* Elements picked by indices that are known when the frame is, one work item per element of the output.
 * Bound by memory. */
#include "typed.cl"
#ifndef I
#define I long /* how indices lie in memory */
#endif

/* out[i] = x[i . x_strides + index * axis_stride], where index is that at i . index_strides; below 0 it counts from the end
 * of the `size` elements along the axis, and one outside of them is the nearest inside. Dimensions: `indices` of typed.cl. */
ELEMENTWISE void
gather(__global const X *x, int x_offset, int8 x_strides, int axis_stride, int size, __global const I *index,
       int index_offset, int8 index_strides, __global Y *out, int out_offset, int8 out_strides, int8 shape) {
    const int8 i = indices(shape);
    if (i.s0 >= shape.s0)
        return;
    const long given = wide(index[index_offset + dot8(i, index_strides)]);
    const long from = given < 0 ? given + size : given;
    const int inside = from < 0 ? 0 : from >= size ? size - 1 : (int)from;
    set(get(x, x_offset + dot8(i, x_strides) + inside * axis_stride), out, out_offset + dot8(i, out_strides));
}

#ifndef V
#define V float /* how a constant lies in memory */
#endif

/* out[i] = x[sum over the axes of places[starts + i]], or the value where one of these is below 0. Dimensions: `indices` of
 * typed.cl. */
ELEMENTWISE void pad(__global const X *x, int x_offset, __global const int *places, int8 starts, __global const V *value,
                     __global Y *out, int out_offset, int8 out_strides, int8 shape) {
    const int8 i = indices(shape);
    if (i.s0 >= shape.s0)
        return;
    const int8 at = starts + i;
    const int8 from = (int8)(places[at.s0], places[at.s1], places[at.s2], places[at.s3], places[at.s4], places[at.s5],
                             places[at.s6], places[at.s7]);
    const NUMBER v = any(from < 0) ? get(value, 0) : get(x, x_offset + dot8(from, (int8)(1)));
    set(v, out, out_offset + dot8(i, out_strides));
}
