/* Matrix products by blocks: B is packed by blocks of KC x NC into panels of NR columns, times alpha; rows of A are read
 * where they lie if their elements lie together, else packed by blocks of MC x KC; rows of C are written where they lie if
 * possible, else by way of scratch. Each chunk packs B for itself, so that threads share nothing.
 *
 * The factors may change places, C' = B' A': so that rows of C lie together, or where C has so few columns that most of
 * a register tile would stay empty. A few rows are sums of rows of B, or its columns' products with a vector, without
 * any packing, which would take longer than the product.
 *
 * Every element is one sum in order of k (a vector's: in an order that its length alone fixes), whatever the chunks. The sum
 * is cut into equal blocks, but where it is added to memory into blocks of KC.
 */
#include "matmul.h"

#include "parallel_for.h"
#include "panels.h"

enum {
    KC = 320,         /* KC x NC floats of B: 160 KB */
    NC = 128,         /* a multiple of every NR */
    MC = 96,          /* MC x KC floats of A: 120 KB; a multiple of every MR */
    CHUNK_ROWS = 480, /* rows that share a packed block of B: to pack an element takes as long as 8 multiply-adds */
    PAD = 16,         /* floats between packed rows of A, whose distance would else be a multiple of a way of a cache */
    CHUNKS = 2,       /* chunks per thread aimed at */
    VECTORS = 4,      /* rows that are done without packing B */
    VECTOR_K = 2048,  /* k at a time, of a vector in scratch */
    VECTOR_COLUMNS = 512,
    VECTOR_ROWS = 256, /* of a chunk of pa_gemv_t */
    DOT = 256,        /* a shorter product with a column takes longer to sum up than to pack */
    WORK = 8,         /* multiply-adds that take as long as visiting an element */
};
_Static_assert(KC * NC <= PA_MATMUL_SCRATCH, "scratch of a thread");
enum { BY_TILES, BY_ROWS, BY_COLUMNS }; /* forms */

/* The matrices, by the operands' last two axes. */
static inline int64_t m_of(const pa_matmul_op *p) { return p->dst.size[p->dst.rank - 2]; }
static inline int64_t n_of(const pa_matmul_op *p) { return p->dst.size[p->dst.rank - 1]; }
static inline int64_t k_of(const pa_matmul_op *p) { return p->a.size[p->a.rank - 1]; }
static inline int64_t row_of(const pa_strided *s) { return s->stride[s->rank - 2]; }
static inline int64_t column_of(const pa_strided *s) { return s->stride[s->rank - 1]; }

/* The part of a product that one chunk does, and its memory. */
typedef struct part {
    const float *a, *b; /* at row 0 and k = 0, at k = 0 and column 0 of the part */
    float *c, *scratch;
    int64_t rows, columns, c_row;
    float *dst;
} part;

static int64_t row_chunks(const pa_matmul_op *p) { return ceil_div(m_of(p), p->chunk_rows); }
static int64_t column_chunks(const pa_matmul_op *p) { return ceil_div(n_of(p), p->chunk_columns); }

static int64_t tile_floats(const pa_matmul_op *p) {
    return p->tiled ? round_up(p->chunk_rows * p->chunk_columns, LINE) : 0;
}

static part part_of(const context *ctx, int64_t unit, int thread) {
    const pa_matmul_op *p = ctx->op;
    const int64_t column0 = unit % column_chunks(p) * p->chunk_columns, rest = unit / column_chunks(p);
    const int64_t row0 = rest % row_chunks(p) * p->chunk_rows, batch = rest / row_chunks(p);
    part t = {
        .a = f32_of(&p->a, ctx->bases) + batch_offset(&p->a, &p->dst, batch) + row0 * row_of(&p->a),
        .b = f32_of(&p->b, ctx->bases) + batch_offset(&p->b, &p->dst, batch) + column0 * column_of(&p->b),
        .dst = f32_of(&p->dst, ctx->bases) + batch_offset(&p->dst, &p->dst, batch) + row0 * row_of(&p->dst) +
               column0 * column_of(&p->dst),
        .scratch = (float *)ctx->scratch + thread * p->scratch_floats,
        .rows = min64(p->chunk_rows, m_of(p) - row0),
        .columns = min64(p->chunk_columns, n_of(p) - column0),
    };
    t.c = p->tiled ? t.scratch : t.dst;
    t.c_row = p->tiled ? p->chunk_columns : row_of(&p->dst);
    t.scratch += tile_floats(p);
    return t;
}

static void untile(const pa_matmul_op *p, const part *t) {
    const int64_t row = row_of(&p->dst), column = column_of(&p->dst);
    if (row == 1) {
        pack_block(t->c, 1, t->c_row, t->columns, t->rows, 1, t->dst, column);
        return;
    }
    for (int64_t i = 0; i < t->rows; i++)
        for (int64_t j = 0; j < t->columns; j++) t->dst[i * row + j * column] = t->c[i * t->c_row + j];
}

/* Rows [row0, row0 + rows) of a part from `rows` of A and a packed block of B. */
static void multiply(const pa_matmul_op *p, const part *t, int64_t row0, int64_t rows, int64_t k0, int64_t k,
                     const float *packed_b, float *packed_a) {
    const float *a = t->a + row0 * row_of(&p->a) + k0 * column_of(&p->a), *pointers[MC];
    const pa_tiling tiling = pa_tiling_of(rows, p->gemm->mr);
    if (p->packs_a) pack_block(a, row_of(&p->a), column_of(&p->a), rows, k, 1, packed_a, KC + PAD);
    const int64_t row = p->packs_a ? KC + PAD : row_of(&p->a);
    pa_point_rows(pointers, &tiling, p->gemm->mr, p->packs_a ? packed_a : a, row * (int64_t)sizeof(float));
    for (int64_t j = 0; j < t->columns; j += p->gemm->nr)
        PA_FUNCTION(gemm, f32, p->gemm)(&(pa_gemm_args){
            .n = (int32_t)min64(p->gemm->nr, t->columns - j),
            .taps = 1,
            .tiling = tiling,
            .k = k,
            .a_step = p->gemm->mr,
            .a = pointers,
            .b = packed_b + j * k,
            .bias = k0 || p->accumulate ? NULL : panel_zeros,
            .next = packed_b + (j + p->gemm->nr < t->columns ? j + p->gemm->nr : 0) * k,
            .c = t->c + row0 * t->c_row + j,
            .c_stride = t->c_row,
            .lo = -__builtin_inff(),
            .hi = __builtin_inff(),
        });
}

static void by_tiles(const context *ctx, int64_t begin, int64_t end, int thread) {
    const pa_matmul_op *p = ctx->op;
    const int64_t k = k_of(p), k_part = p->accumulate ? KC : ceil_div(k, ceil_div(k, KC));
    for (int64_t unit = begin; unit < end; unit++) {
        const part t = part_of(ctx, unit, thread);
        const int64_t block = ceil_div(t.rows, ceil_div(t.rows, MC));
        float *packed_b = t.scratch, *packed_a = packed_b + KC * p->chunk_columns;
        for (int64_t k0 = 0; k0 < k; k0 += k_part) {
            const int64_t count = min64(k_part, k - k0);
            pack_panels(t.b + k0 * row_of(&p->b), row_of(&p->b), column_of(&p->b), count, t.columns, p->alpha, packed_b,
                        p->gemm->nr);
            for (int64_t row = 0; row < t.rows; row += block)
                multiply(p, &t, row, min64(block, t.rows - row), k0, count, packed_b, packed_a);
        }
        if (p->tiled) untile(p, &t);
    }
}

static void by_vectors(const context *ctx, int64_t begin, int64_t end, int thread) {
    const pa_matmul_op *p = ctx->op;
    const int64_t k = k_of(p), row = row_of(&p->b), column = column_of(&p->b);
    for (int64_t unit = begin; unit < end; unit++) {
        const part t = part_of(ctx, unit, thread);
        for (int64_t i = 0; i < t.rows; i++) {
            float *y = t.c + i * t.c_row, *x = t.scratch;
            if (p->form == BY_ROWS) memset(y, 0, (size_t)t.columns * sizeof(float));
            for (int64_t k0 = 0; k0 < k; k0 += VECTOR_K) {
                const int64_t count = min64(VECTOR_K, k - k0);
                const float *a = t.a + i * row_of(&p->a) + k0 * column_of(&p->a), *b = t.b + k0 * row;
                pack_block(a, 0, column_of(&p->a), 1, count, p->alpha, x, 0);
                if (p->form == BY_ROWS)
                    PA_FUNCTION(ger, f32, p->ger)(&(pa_ger_args){
                        .rows = count, .columns = t.columns, .a_stride = row, .a = (float *)b, .dz = x, .dx = y});
                else
                    PA_FUNCTION(gemv_t, f32, p->gemv_t)(&(pa_gemv_t_args){
                        .rows = t.columns,
                        .columns = count,
                        .a_stride = column,
                        .a = b,
                        .x = x,
                        .bias = k0 ? y : NULL,
                        .y = y,
                    });
            }
        }
        if (p->tiled) untile(p, &t);
    }
}

static void swap_axes(pa_strided *s) {
    const int last = s->rank - 1;
    const int64_t size = s->size[last], stride = s->stride[last];
    s->size[last] = s->size[last - 1], s->stride[last] = s->stride[last - 1];
    s->size[last - 1] = size, s->stride[last - 1] = stride;
}

static void drop_axis(pa_strided *s, int axis) {
    for (int d = axis; d + 1 < s->rank; d++) s->size[d] = s->size[d + 1], s->stride[d] = s->stride[d + 1];
    s->rank--;
}

/* Leaves out batch axes of one matrix, and takes several as rows of one where they share B and follow each other. */
static void simplify(pa_matmul_op *p) {
    for (int d = p->dst.rank - 3; d >= 0; d--) {
        const int rows = p->dst.rank - 2;
        const int one = p->dst.size[d] == 1;
        const int joins = d == rows - 1 && p->b.stride[d] == 0 && p->a.stride[d] == m_of(p) * row_of(&p->a) &&
                          p->dst.stride[d] == m_of(p) * row_of(&p->dst);
        if (!one && !joins) continue;
        p->a.size[rows] *= p->dst.size[d], p->dst.size[rows] *= p->dst.size[d];
        drop_axis(&p->a, d), drop_axis(&p->b, d), drop_axis(&p->dst, d);
    }
}

static void choose_form(pa_matmul_op *p) {
    if (p->accumulate) return; /* by tiles, where the operands lie */
    const int few = n_of(p) == 1 || (2 * n_of(p) < p->gemm->nr && m_of(p) >= p->gemm->nr);
    const int across = column_of(&p->dst) != 1 && row_of(&p->dst) == 1 && n_of(p) > 1 && 2 * m_of(p) > p->gemm->nr;
    if (m_of(p) > 1 && (few || across)) {
        const pa_strided a = p->a;
        p->a = p->b, p->b = a;
        swap_axes(&p->a), swap_axes(&p->b), swap_axes(&p->dst);
    }
    p->form = m_of(p) == 1 && row_of(&p->b) == 1 && k_of(p) >= DOT ? BY_COLUMNS
              : m_of(p) <= VECTORS && column_of(&p->b) == 1         ? BY_ROWS
                                                                    : BY_TILES;
    p->tiled = column_of(&p->dst) != 1 && n_of(p) > 1;
    p->packs_a = column_of(&p->a) != 1 && k_of(p) > 1;
}

void pa_matmul_plan(pa_matmul_op *p, int threads) {
    simplify(p);
    choose_form(p);
    const int64_t m = m_of(p), n = n_of(p);
    if (p->form != BY_TILES) {
        p->chunk_rows = m, p->chunk_columns = VECTOR_COLUMNS;
        p->scratch_floats = VECTOR_K + tile_floats(p);
        return;
    }
    const int64_t most = p->tiled ? MC : CHUNK_ROWS;
    p->chunk_columns = min64(NC, round_up(n, p->gemm->nr));
    p->chunk_rows = ceil_div(m, ceil_div(m, most));
    const int64_t others = ceil_div(n, p->chunk_columns) * batches_of(&p->dst), wanted = CHUNKS * (int64_t)threads;
    if (threads > 1 && ceil_div(m, p->chunk_rows) * others < wanted)
        p->chunk_rows = max64(ceil_div(m, ceil_div(wanted, others)), min64(m, 4 * p->gemm->mr));
    p->scratch_floats = tile_floats(p) + KC * p->chunk_columns + (p->packs_a ? MC * (KC + PAD) : 0);
}

void pa_matmul_step(const void *args, void *const *bases, void *scratch, pa_team *team) {
    const pa_matmul_op *p = args;
    const int64_t units = batches_of(&p->dst) * row_chunks(p) * column_chunks(p);
    const int64_t macs = min64(p->chunk_rows, m_of(p)) * min64(p->chunk_columns, n_of(p)) * k_of(p);
    parallel_for(p, bases, scratch, team, p->form == BY_TILES ? by_tiles : by_vectors, units, max64(macs / WORK, 1));
}

void pa_matmul_add(const pa_kernel_row *gemm, pa_matrix a, pa_matrix b, pa_matrix c, float *scratch, pa_team *team) {
    if (c.rows == 0 || c.columns == 0 || a.columns == 0) return;
#define STRIDED(m) \
    {.rank = 2, .size = {m.rows, m.columns}, .stride = {m.row_stride, m.column_stride}, .constant = m.data}
    pa_matmul_op op = {STRIDED(a), STRIDED(b), STRIDED(c), .alpha = 1, .accumulate = 1, .gemm = gemm};
#undef STRIDED
    pa_matmul_plan(&op, pa_team_size(team));
    pa_matmul_step(&op, NULL, scratch, team);
}

typedef struct vector_context {
    const void *args;
    const pa_kernel_row *kernel;
    int64_t step;
} vector_context;

static void gemv_t_chunk(const void *arg, int64_t chunk, int thread) {
    const vector_context *ctx = arg;
    pa_gemv_t_args part = *(const pa_gemv_t_args *)ctx->args;
    const int64_t first = chunk * VECTOR_ROWS;
    part.rows = min64(VECTOR_ROWS, part.rows - first);
    part.a += first * part.a_stride;
    part.y += first;
    if (part.bias) part.bias += first;
    PA_FUNCTION(gemv_t, f32, ctx->kernel)(&part);
}

void pa_gemv_t(const pa_kernel_row *kernel, const pa_gemv_t_args *args, pa_team *team) {
    const vector_context ctx = {args, kernel, VECTOR_ROWS};
    pa_team_run(team, gemv_t_chunk, &ctx, ceil_div(args->rows, VECTOR_ROWS));
}

static void ger_chunk(const void *arg, int64_t chunk, int thread) {
    const vector_context *ctx = arg;
    pa_ger_args part = *(const pa_ger_args *)ctx->args;
    const int64_t first = chunk * ctx->step;
    part.columns = min64(ctx->step, part.columns - first);
    part.a += first;
    if (part.x) part.x += first;
    if (part.dx) part.dx += first;
    PA_FUNCTION(ger, f32, ctx->kernel)(&part);
}

/* A thread takes all rows of its columns, so that no two threads add to one element of dx; alone it takes whole rows. */
void pa_ger(const pa_kernel_row *kernel, const pa_ger_args *args, pa_team *team) {
    const int64_t share = ceil_div(args->columns, pa_team_size(team));
    const vector_context ctx = {args, kernel, round_up(max64(share, 1), PA_LANES_MAX)};
    pa_team_run(team, ger_chunk, &ctx, ceil_div(args->columns, ctx.step));
}
