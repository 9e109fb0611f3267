/* Products of strided matrices, batched: out[i][j] = alpha * sum_k a[i][k] * b[k][j] + r[i][j].
 *
 * A work item computes ROWS rows times VECTOR columns in registers: ROWS * VECTOR sums, ROWS elements of a, VECTOR of b,
 * so that ROWS * VECTOR multiply-adds need ROWS + VECTOR loads. What passes the last row or column is computed from the
 * last one's operands and not stored. Neighbouring work items (dimension 0) go along the columns of b and out, whose
 * loads they share with a's rows in the cache.
 *
 * Dimensions: 0 blocks of columns, 1 blocks of rows, 2 matrices. */
#include "typed.cl"
#ifndef ROWS
#define ROWS 4 /* rows of a work item */
#endif
#ifndef LOCAL_COLUMNS
#define LOCAL_COLUMNS 8 /* work items of a group along the blocks of columns */
#endif
#ifndef LOCAL_BLOCKS
#define LOCAL_BLOCKS 4 /* work items of a group along the blocks of rows */
#endif
#ifndef BLOCK
#define BLOCK 0 /* products that a long sum adds by themselves; 0: the sum is short */
#endif
#ifndef B_DENSE
#define B_DENSE 1 /* the elements of a row of b lie side by side */
#endif
#ifndef OUT_DENSE
#define OUT_DENSE 1 /* likewise */
#endif

/* batch: the shape of the tensor of matrices, with strides of each operand. r: added, or NULL. causal: what lies right of
 * the diagonal is -infinity. */
__kernel __attribute__((reqd_work_group_size(LOCAL_COLUMNS, LOCAL_BLOCKS, 1))) void
matmul(__global const X *a, int a_offset, int8 a_batch, int a_row, int a_k,
       __global const W *b, int b_offset, int8 b_batch, int b_k, int b_column,
       __global const R *r, int r_offset, int8 r_batch, int r_row, int r_column,
       __global Y *out, int out_offset, int8 out_batch, int out_row, int out_column,
       int8 batch, int rows, int columns, int depth, float alpha, int causal) {
    const int column = VECTOR * get_global_id(0), row = ROWS * get_global_id(1), n = columns - column;
    if (column >= columns || row >= rows)
        return;
    const int8 matrix = unravel(get_global_id(2), batch);
    b += b_offset + dot8(matrix, b_batch) + column * b_column;
    out += out_offset + dot8(matrix, out_batch) + column * out_column;
    __global const X *a_at[ROWS];
    vec sum[ROWS], total[ROWS]; /* of the blocks before */
#pragma unroll
    for (int p = 0; p < ROWS; p++) {
        a_at[p] = a + a_offset + dot8(matrix, a_batch) + min(row + p, rows - 1) * a_row;
        sum[p] = total[p] = 0;
    }
    for (int k = 0; k < depth; k++) {
#if B_DENSE
        const vec v = load(b, n);
#else
        elements each;
#pragma unroll
        for (int i = 0; i < VECTOR; i++)
            each.each[i] = at(b, min(i, n - 1) * b_column);
        const vec v = each.all;
#endif
        b += b_k;
#pragma unroll
        for (int p = 0; p < ROWS; p++)
            sum[p] += at(a_at[p], k * a_k) * v;
        if (!BLOCK || (k + 1) % BLOCK)
            continue;
#pragma unroll
        for (int p = 0; p < ROWS; p++) {
            total[p] += sum[p];
            sum[p] = 0;
        }
    }
#pragma unroll
    for (int p = 0; p < ROWS; p++) {
        if (row + p >= rows)
            break;
        elements result = {(BLOCK ? total[p] + sum[p] : sum[p]) * (real)alpha};
        if (r)
            for (int i = 0; i < min(n, VECTOR); i++)
                result.each[i] +=
                    at(r, r_offset + dot8(matrix, r_batch) + (row + p) * r_row + (column + i) * r_column);
        if (causal)
            for (int i = 0; i < VECTOR; i++)
                result.each[i] = column + i > row + p ? -INFINITY : result.each[i];
#if OUT_DENSE
        store(result.all, out + (row + p) * out_row, n);
#else
        for (int i = 0; i < min(n, VECTOR); i++)
            put(result.each[i], out, (row + p) * out_row + i * out_column);
#endif
    }
}
