/* What a device can do at most, for the report of what bounds a layer: every work item the same, nothing to wait for. */
#ifndef SUMS
#define SUMS 8 /* independent vectors of sums of a work item */
#endif
#ifndef LOCAL
#define LOCAL 64 /* work items of a group */
#endif

/* rounds * SUMS * VECTOR multiply-adds of a work item, from registers. A factor of 1 and terms of 0 keep numbers as
 * they are, and come as arguments so that no compiler knows. */
__kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void
multiply(__global float *out, int rounds, float factor, float term) {
    const int id = get_global_id(0);
    vec sum[SUMS], f = (vec)(real)factor, t = (vec)(real)term;
#pragma unroll
    for (int i = 0; i < SUMS; i++)
        sum[i] = (vec)(real)(id + i);
    for (int k = 0; k < rounds; k++) {
#pragma unroll
        for (int i = 0; i < SUMS; i++)
            sum[i] = sum[i] * f + t;
    }
    elements all = {(vec)0};
#pragma unroll
    for (int i = 0; i < SUMS; i++)
        all.all += sum[i];
    float total = 0;
    for (int i = 0; i < VECTOR; i++)
        total += all.each[i];
    out[id] = total;
}

/* rounds * VECTOR floats read by a work item: vectors number id * mine, and each behind the last by `next` of them. */
__kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void
stream(__global float *out, int rounds, __global const float *x, int mine, int next) {
    const int id = get_global_id(0);
    x += (size_t)id * mine * VECTOR;
    elements all = {(vec)0};
    for (int k = 0; k < rounds; k++)
        all.all += aligned(x + (size_t)k * next * VECTOR);
    float total = 0;
    for (int i = 0; i < VECTOR; i++)
        total += all.each[i];
    out[id] = total;
}
