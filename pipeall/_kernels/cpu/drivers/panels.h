/* What the products of strided float32 operands share: which matrices of a batch go together, blocks of them in the
 * order that the GEMM micro-kernels read, and the rows of a tile.
 */
#ifndef PIPEALL_PANELS_H
#define PIPEALL_PANELS_H

#include "../../intmath.h"
#include "../kernels.h"
#include "gemm.h"

enum { PANEL_NR_MAX = 64, LINE = 16 }; /* LINE: floats of a cache line */

/* What a sum starts from. */
static const _Alignas(64) float panel_zeros[PANEL_NR_MAX];

static inline float *f32_of(const pa_strided *s, void *const *bases) { return (float *)pa_at(s, bases); }

/* Where matrix `batch` of an operand begins; batches are counted over the first axes of dst, the last the fastest. */
static inline int64_t batch_offset(const pa_strided *s, const pa_strided *dst, int64_t batch) {
    int64_t offset = 0;
    for (int d = dst->rank - 3; d >= 0; d--) {
        offset += batch % dst->size[d] * s->stride[d];
        batch /= dst->size[d];
    }
    return offset;
}

static inline int64_t batches_of(const pa_strided *dst) {
    int64_t batches = 1;
    for (int d = 0; d < dst->rank - 2; d++) batches *= dst->size[d];
    return batches;
}

/* Four vectors of four floats, which every architecture here has: eight shuffles transpose a square. */
typedef float quad __attribute__((vector_size(16)));
#ifdef __clang__
#define QUAD_PICK(a, b, i, j, k, l) __builtin_shufflevector(a, b, i, j, k, l)
#else
typedef int32_t quad_index __attribute__((vector_size(16)));
#define QUAD_PICK(a, b, i, j, k, l) __builtin_shuffle(a, b, (quad_index){i, j, k, l})
#endif

/* to[j * to_row + i] = alpha * from[i * from_row + j] for i, j < 4 */
static inline void transpose_square(const float *from, int64_t from_row, float alpha, float *to, int64_t to_row) {
    quad r[4];
    for (int i = 0; i < 4; i++) {
        memcpy(&r[i], from + i * from_row, sizeof(quad));
        r[i] *= alpha;
    }
    const quad low01 = QUAD_PICK(r[0], r[1], 0, 4, 1, 5), high01 = QUAD_PICK(r[0], r[1], 2, 6, 3, 7);
    const quad low23 = QUAD_PICK(r[2], r[3], 0, 4, 1, 5), high23 = QUAD_PICK(r[2], r[3], 2, 6, 3, 7);
    const quad columns[4] = {
        QUAD_PICK(low01, low23, 0, 1, 4, 5),
        QUAD_PICK(low01, low23, 2, 3, 6, 7),
        QUAD_PICK(high01, high23, 0, 1, 4, 5),
        QUAD_PICK(high01, high23, 2, 3, 6, 7),
    };
    for (int j = 0; j < 4; j++) memcpy(to + j * to_row, &columns[j], sizeof(quad));
}

/* A block whose columns lie together becomes one whose rows do, in squares, a cache line of four columns at a time. */
static inline void transpose_block(const float *from, int64_t column, int64_t rows, int64_t columns, float alpha,
                                   float *to, int64_t to_row) {
    const int64_t whole_rows = rows - rows % 4, whole_columns = columns - columns % 4;
    for (int64_t i0 = 0; i0 < whole_rows; i0 += LINE)
        for (int64_t j = 0; j < whole_columns; j += 4)
            for (int64_t i = i0; i < min64(i0 + LINE, whole_rows); i += 4)
                transpose_square(from + j * column + i, column, alpha, to + i * to_row + j, to_row);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = i < whole_rows ? whole_columns : 0; j < columns; j++)
            to[i * to_row + j] = alpha * from[j * column + i];
}

/* to[i * to_row + j] = alpha * from[i * row + j * column] for i < rows, j < columns */
static inline void pack_block(const float *from, int64_t row, int64_t column, int64_t rows, int64_t columns,
                              float alpha, float *to, int64_t to_row) {
    if (row == 1 && column != 1) {
        transpose_block(from, column, rows, columns, alpha, to, to_row);
        return;
    }
    for (int64_t i = 0; i < rows; i++, from += row, to += to_row) {
        if (column == 1)
            for (int64_t j = 0; j < columns; j++) to[j] = alpha * from[j];
        else
            for (int64_t j = 0; j < columns; j++) to[j] = alpha * from[j * column];
    }
}

/* A block of B, `rows` of k by `columns`, as panels of nr columns, zeros past the last. */
static inline void pack_panels(const float *from, int64_t row, int64_t column, int64_t rows, int64_t columns,
                               float alpha, float *to, int64_t nr) {
    for (int64_t j = 0; j < columns; j += nr, to += rows * nr) {
        const int64_t n = min64(nr, columns - j);
        if (n < nr) memset(to, 0, (size_t)(rows * nr) * sizeof(float));
        pack_block(from + j * column, row, column, rows, n, alpha, to, nr);
    }
}

#endif
