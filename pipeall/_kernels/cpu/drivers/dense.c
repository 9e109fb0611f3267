/* Matrix products by blocks: B is packed by blocks of KC x NC into panels of NR columns, which stay in L2 beside
 * MC x KC floats of A; A is read, and C written, where they lie.
 *
 * A chunk is CHUNK_ROWS rows x NC columns and packs B for itself, so that threads share nothing; packing an element of
 * B takes about as long as 16 multiply-adds, and a chunk has up to CHUNK_ROWS of them for it.
 */
#include "dense.h"

#include "../../intmath.h"

enum {
    KC = 320,         /* KC x NC floats of B: 160 KB */
    NC = 128,         /* a multiple of every NR */
    MC = 96,        /* MC x KC floats of A: 120 KB; a multiple of every MR */
    CHUNK_ROWS = 480, /* a multiple of MC */
    VECTOR_CHUNK = 256,
};
enum { POINTERS = MC * sizeof(float *) / sizeof(float), EDGE = 16 };
_Static_assert(KC * NC + POINTERS + NC <= PA_PRODUCT_SCRATCH, "scratch of a thread");

typedef struct context {
    const pa_product_op *op;
    float *scratch;
    int64_t row_chunks;
} context;

/* Panels of NR columns, zeros past the last. */
static void pack(const pa_product_op *p, int64_t k0, int64_t k, int64_t column0, int64_t columns, float *to) {
    const int64_t nr = p->nr;
    for (int64_t j0 = 0; j0 < columns; j0 += nr, to += k * nr) {
        const float *from = p->b + k0 * p->b_row + (column0 + j0) * p->b_column;
        const int64_t n = min64(nr, columns - j0);
        if (n < nr) memset(to, 0, (size_t)(k * nr) * sizeof(float));
        if (p->b_column == 1) {
            for (int64_t i = 0; i < k; i++) memcpy(to + i * nr, from + i * p->b_row, (size_t)n * sizeof(float));
            continue;
        }
        for (int64_t i0 = 0; i0 < k; i0 += EDGE) { /* squares: each line of B is read once while it is in L1 */
            const int64_t i1 = min64(i0 + EDGE, k);
            for (int64_t j = 0; j < n; j++)
                for (int64_t i = i0; i < i1; i++) to[i * nr + j] = from[i * p->b_row + j * p->b_column];
        }
    }
}

/* What the sum of rows [row0, row0 + rows) starts from. */
static void begin(const pa_product_op *p, int64_t row0, int64_t rows, int64_t column0, int64_t columns) {
    for (int64_t i = row0; i < row0 + rows; i++) {
        float *c = p->c + i * p->c_stride + column0;
        const float value = p->start ? p->start[i] : 0.0f;
        for (int64_t j = 0; j < columns; j++) c[j] = value;
    }
}

static void product_chunk(const void *arg, int64_t chunk, int thread) {
    const context *ctx = arg;
    const pa_product_op *p = ctx->op;
    const int64_t row0 = chunk % ctx->row_chunks * CHUNK_ROWS, row1 = min64(row0 + CHUNK_ROWS, p->rows);
    const int64_t column0 = chunk / ctx->row_chunks * NC, columns = min64(NC, p->columns - column0);
    float *packed = ctx->scratch + thread * (int64_t)PA_PRODUCT_SCRATCH;
    const float **pointers = (const float **)(packed + KC * NC);

    if (!p->accumulate) begin(p, row0, row1 - row0, column0, columns);
    for (int64_t k0 = 0; k0 < p->k; k0 += KC) {
        const int64_t k = min64(KC, p->k - k0);
        pack(p, k0, k, column0, columns, packed);
        for (int64_t block = row0; block < row1; block += MC) {
            const pa_tiling tiling = pa_tiling_of(min64(MC, row1 - block), p->mr);
            for (int64_t tile = 0, row = block; tile < tiling.tiles; tile++) {
                const int64_t m = pa_tile_rows(&tiling, tile);
                for (int64_t i = 0; i < m; i++, row++) pointers[tile * p->mr + i] = p->a + row * p->a_stride;
            }
            for (int64_t j = 0; j < columns; j += p->nr) {
                const float *b = packed + j * k;
                p->gemm(&(pa_gemm_args){
                    .n = (int32_t)min64(p->nr, columns - j),
                    .taps = 1,
                    .tiling = tiling,
                    .k = k,
                    .a_offset = k0,
                    .a_step = p->mr,
                    .a = pointers,
                    .b = b,
                    .next = b,
                    .c = p->c + block * p->c_stride + column0 + j,
                    .c_stride = p->c_stride,
                    .lo = -__builtin_inff(),
                    .hi = __builtin_inff(),
                });
            }
        }
    }
}

void pa_product(const pa_product_op *op, float *scratch, pa_team *team) {
    const context ctx = {op, scratch, ceil_div(op->rows, CHUNK_ROWS)};
    pa_team_run(team, product_chunk, &ctx, ctx.row_chunks * ceil_div(op->columns, NC));
}

typedef struct vector_context {
    const void *args;
    pa_gemv_t_f32_fn gemv_t;
    pa_ger_f32_fn ger;
    int64_t step;
} vector_context;

static void gemv_t_chunk(const void *arg, int64_t chunk, int thread) {
    const vector_context *ctx = arg;
    pa_gemv_t_args part = *(const pa_gemv_t_args *)ctx->args;
    const int64_t first = chunk * VECTOR_CHUNK;
    part.rows = min64(VECTOR_CHUNK, part.rows - first);
    part.a += first * part.a_stride;
    part.y += first;
    if (part.bias) part.bias += first;
    ctx->gemv_t(&part);
}

void pa_gemv_t(pa_gemv_t_f32_fn kernel, const pa_gemv_t_args *args, pa_team *team) {
    const vector_context ctx = {.args = args, .gemv_t = kernel};
    pa_team_run(team, gemv_t_chunk, &ctx, ceil_div(args->rows, VECTOR_CHUNK));
}

static void ger_chunk(const void *arg, int64_t chunk, int thread) {
    const vector_context *ctx = arg;
    pa_ger_args part = *(const pa_ger_args *)ctx->args;
    const int64_t first = chunk * ctx->step;
    part.columns = min64(ctx->step, part.columns - first);
    part.a += first;
    if (part.x) part.x += first;
    if (part.dx) part.dx += first;
    ctx->ger(&part);
}

/* A thread takes all rows of its columns, so that no two threads add to one element of dx; alone it takes whole rows. */
void pa_ger(pa_ger_f32_fn kernel, const pa_ger_args *args, pa_team *team) {
    const int64_t share = ceil_div(args->columns, pa_team_size(team));
    const vector_context ctx = {.args = args, .ger = kernel, .step = round_up(max64(share, 1), PA_LANES_MAX)};
    pa_team_run(team, ger_chunk, &ctx, ceil_div(args->columns, ctx.step));
}
