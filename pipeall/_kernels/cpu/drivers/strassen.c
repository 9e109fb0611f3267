/* One level of Strassen's matrix product in Winograd's form, of seven products and 15 sums (Douglas, Heroux, Slishman
 * and Smith, "GEMMW", 1994). With A and C in quarters of rows (pixels) by columns (channels), and B of channels by
 * filters,
 *
 *   S1 = A21 + A22    T1 = B12 - B11    P1 = A11 B11    P5 = S1 T1    C11 = P1 + P2         U4 = U2 + P5
 *   S2 = S1 - A11     T2 = B22 - T1     P2 = A12 B21    P6 = S2 T2    U2  = P1 + P6         C12 = U4 + P3
 *   S3 = A11 - A21    T3 = B22 - B12    P3 = S4 B22     P7 = S3 T3    U3  = U2 + P7         C21 = U3 - P4
 *   S4 = A12 - S2     T4 = T2 - B21     P4 = A22 T4                                         C22 = U3 + P5
 *
 * The T are made once, with the weights. Most sums of products cost nothing: a micro-kernel adds its product to what it
 * finds in C or in a residual. Row i of the upper half always goes with row i of the lower half, so that a result does
 * not depend on the chunk it is in: a chunk is some such pairs and all columns, and keeps its sums in scratch, in L2.
 * An odd row out goes with zeros. A residual R is added to P1 for C11 alone, and by the pass that joins the sums for the
 * other quarters.
 */
#include "conv.h"

#include "../../intmath.h"
#include "gemm.h"

enum {
#ifdef __aarch64__
    ONE_BLOCK = 0,
#else
    ONE_BLOCK = 1, /* half the channels are few */
#endif
    SCRATCH_BYTES = 384 << 10, /* of the sums of a chunk */
    PAD = 16,                  /* floats between their rows, whose distance would else often be a multiple of 1 KB */
};
enum { P1, P2, P6, P7, P5, P3, P4, PRODUCTS };

typedef struct context {
    const pa_strassen_op *op;
    const float *src, *residual;
    float *dst, *scratch;
} context;

static int64_t rows_of(const pa_strassen_op *op) { return (int64_t)op->conv.dst.h * op->conv.dst.w; }
static int64_t upper_of(const pa_strassen_op *op) { return ceil_div(rows_of(op), 2); }
static int64_t k_of(const pa_strassen_op *op) { return op->conv.src.c / 2; }
static int64_t columns_of(const pa_strassen_op *op) { return op->conv.dst.c / 2; }
static int64_t panels_of(const pa_strassen_op *op) { return columns_of(op) / op->conv.kernel->nr; }
/* Floats between rows of sums of A and of C: a pair of rows has four of A and three of C. */
static int64_t a_stride(const pa_strassen_op *op) { return k_of(op) + PAD; }
static int64_t c_stride(const pa_strassen_op *op) { return columns_of(op) + PAD; }
static int64_t sums_of(const pa_strassen_op *op) { return 4 * a_stride(op) + 3 * c_stride(op); }

/* Operands of a product: rows of A, and what its result starts from, goes to and has added. */
typedef struct operands {
    const float **a;
    int64_t a_offset;
    const float *bias; /* NULL: the sum goes on in c */
    int64_t bias_step; /* 0: the same zeros for all panels */
    float *c;
    int64_t c_stride;
    const float *r;
    float lo, hi;
} operands;

static void multiply(const pa_strassen_op *op, int product, const pa_tiling *tiling, const operands *o) {
    const pa_conv_op *p = &op->conv;
    const int64_t block = k_of(op) * p->kernel->nr, whole = panels_of(op) * block;
    const pa_panels panels = {
        .kernel = p->kernel,
        .columns = columns_of(op),
        .b_step = block,
        .bias_step = o->bias_step,
        .kc = ONE_BLOCK ? 0 : p->kc,
    };
    pa_gemm_f32_panels(&panels, &(pa_gemm_args){
        .taps = 1,
        .tiling = *tiling,
        .k = k_of(op),
        .a_offset = o->a_offset,
        .a_step = p->kernel->mr,
        .a = o->a,
        .b = op->packed + product * whole,
        .bias = o->bias,
        .next = op->packed + (product + 1 < PRODUCTS ? product + 1 : 0) * whole,
        .c = o->c,
        .c_stride = o->c_stride,
        .r = o->r,
        .r_stride = c_stride(op),
        .lo = o->lo,
        .hi = o->hi,
    });
}

static int strided(const pa_strassen_op *op) { return op->conv.stride_y != 1 || op->conv.stride_x != 1; }

/* The input pixel of an output pixel, a row of the matrices. */
static const float *pixel(const context *ctx, int64_t row) {
    const pa_conv_op *p = &ctx->op->conv;
    if (!strided(ctx->op)) return ctx->src + row * p->src.stride;
    const int64_t y = row / p->dst.w, x = row % p->dst.w;
    return ctx->src + (y * p->stride_y * p->src.w + x * p->stride_x) * p->src.stride;
}

static void point_at_pixels(const context *ctx, const float **pointers, const pa_tiling *tiling, int64_t row) {
    const int32_t mr = ctx->op->conv.kernel->mr;
    for (int64_t tile = 0; tile < tiling->tiles; tile++, pointers += mr)
        for (int64_t i = 0; i < pa_tile_rows(tiling, tile); i++) pointers[i] = pixel(ctx, row++);
}

static void split_rows(const pa_strassen_op *op, int64_t rows, const float *a1, const float *a2, float *s, int64_t step) {
    PA_FUNCTION(strassen_split, f32, op->split)(&(pa_strassen_split_args){
        .rows = rows,
        .k = k_of(op),
        .a_stride = op->conv.src.stride,
        .s_stride = a_stride(op),
        .step = step,
        .a1 = a1,
        .a2 = a2,
        .s = s,
    });
}

/* Sums of so many rows of pixels from `first` on. */
static void split_pixels(const context *ctx, int64_t first, int64_t rows, float *s, int64_t step) {
    const pa_strassen_op *op = ctx->op;
    const int64_t run = strided(op) ? 1 : rows;
    for (int64_t i = 0; i < rows; i += run)
        split_rows(op, run, pixel(ctx, first + i), pixel(ctx, upper_of(op) + first + i), s + i * a_stride(op), step);
}

static void join_rows(const pa_strassen_op *op, int64_t rows, float *x, float *y, const float *z, const float *r1,
                      const float *r2, float *c) {
    PA_FUNCTION(strassen_join, f32, op->join)(&(pa_strassen_join_args){
        .rows = rows,
        .columns = columns_of(op),
        .stride = c_stride(op),
        .c_stride = op->conv.dst.stride,
        .r_stride = op->conv.residual.stride,
        .x = x,
        .y = y,
        .z = z,
        .bias = (const float *)op->conv.bias + columns_of(op),
        .r1 = r1,
        .r2 = r2,
        .c = c,
        .lo = op->conv.lo,
        .hi = op->conv.hi,
    });
}

/* A piece is about the pairs of a tile. */
static int64_t pieces_of(const pa_strassen_op *op) { return max64(1, op->pairs / op->conv.kernel->mr); }

static void pairs_pieces(const void *arg, int64_t piece, int64_t piece_end, int thread) {
    const context *ctx = arg;
    const pa_strassen_op *op = ctx->op;
    const pa_conv_op *p = &op->conv;
    const int64_t k = k_of(op), columns = columns_of(op), wide = c_stride(op), nr = p->kernel->nr;
    const float *bias = p->bias;
    const int64_t pieces = pieces_of(op), chunk = piece / pieces, last = piece_end - chunk * pieces;
    const int64_t from = op->pairs * (piece % pieces) / pieces, to = op->pairs * last / pieces;
    const int64_t first = chunk * op->pairs + from;
    const int64_t pairs = min64(to - from, upper_of(op) - first);
    if (pairs <= 0) return; /* the last chunk may be shorter */
    const int64_t below = min64(pairs, rows_of(op) - upper_of(op) - first); /* rows of the lower half */
    float *c1 = ctx->dst + first * p->dst.stride, *c2 = c1 + upper_of(op) * p->dst.stride;
    const float *residual = ctx->residual ? ctx->residual + first * p->residual.stride : NULL;
    const float *residual2 = residual ? residual + upper_of(op) * p->residual.stride : NULL;
    const float *r1 = p->silu ? NULL : residual, *r2 = p->silu ? NULL : residual2;

    const int64_t s1 = 0, s2 = pairs * a_stride(op), s3 = 2 * s2, s4 = 3 * s2;
    float *s = ctx->scratch + thread * op->scratch_floats;
    float *x = s + 4 * s2, *y = x + pairs * wide, *z = y + pairs * wide; /* for U2 and U4, U3, P5 */
    const float **upper = (const float **)(s + op->pairs * sums_of(op));
    const int64_t list = round_up(op->pairs, p->kernel->mr);
    const float **lower = upper + list, **sums = lower + list;
    const pa_tiling all = pa_tiling_of(pairs, p->kernel->mr), some = pa_tiling_of(max64(below, 1), p->kernel->mr);
    point_at_pixels(ctx, upper, &all, first);
    if (below) point_at_pixels(ctx, lower, &some, upper_of(op) + first);
    pa_point_rows(sums, &all, p->kernel->mr, s, a_stride(op) * (int64_t)sizeof(float));

    split_pixels(ctx, first, below, s, s2);
    if (below < pairs) split_rows(op, 1, pixel(ctx, first + below), p->zero, s + below * a_stride(op), s2);
    const float none = __builtin_inff();
    multiply(op, P1, &all, &(operands){upper, 0, p->zero, 0, x, wide, NULL, -none, none});
    for (int64_t i = 0; r1 && i < pairs; i++)
        PA_FUNCTION(binary, f32, op->add)(PA_BINARY_add, columns, x + i * wide, r1 + i * p->residual.stride, 1, y + i * wide, -none, none);
    multiply(op, P2, &all, &(operands){upper, k, bias, nr, c1, p->dst.stride, r1 ? y : x, p->lo, p->hi});
    multiply(op, P6, &all, &(operands){sums, s2, NULL, 0, x, wide, NULL, -none, none});
    multiply(op, P7, &all, &(operands){sums, s3, p->zero, 0, y, wide, x, -none, none});
    multiply(op, P5, &all, &(operands){sums, s1, p->zero, 0, z, wide, NULL, -none, none});
    join_rows(op, below, x, y, z, r1, r2, c2 + columns);
    if (below < pairs) {
        const int64_t at = below * wide;
        join_rows(op, 1, x + at, y + at, z + at, r1 ? r1 + below * p->residual.stride : NULL, NULL, NULL);
    }
    multiply(op, P3, &all, &(operands){sums, s4, bias + columns, nr, c1 + columns, p->dst.stride, x, p->lo, p->hi});
    if (below) multiply(op, P4, &some, &(operands){lower, k, bias, nr, c2, p->dst.stride, y, p->lo, p->hi});
    if (!p->silu) return;
    PA_FUNCTION(silu, f32, p->silu)(pairs, p->dst.c, c1, p->dst.stride, residual, p->residual.stride);
    PA_FUNCTION(silu, f32, p->silu)(below, p->dst.c, c2, p->dst.stride, residual2, p->residual.stride);
}

void pa_strassen_plan(pa_strassen_op *op, int threads) {
    const int64_t upper = upper_of(op), most = max64(SCRATCH_BYTES / 4 / sums_of(op), op->conv.kernel->mr);
    const int64_t chunks = max64(ceil_div(upper, most), threads);
    op->pairs = ceil_div(upper, round_up(chunks, threads)); /* as many for each thread; one has no one to wait for */
    if (threads == 1) op->pairs = round_up(op->pairs, op->conv.kernel->mr);
    const int64_t pointers = 3 * round_up(op->pairs, op->conv.kernel->mr) * (int64_t)sizeof(float *) / (int64_t)sizeof(float);
    op->scratch_floats = round_up(op->pairs * sums_of(op) + pointers, 16);
}

int64_t pa_strassen_packed_floats(const pa_strassen_op *op) {
    return PRODUCTS * panels_of(op) * k_of(op) * op->conv.kernel->nr;
}

void pa_strassen_pack(const pa_strassen_op *op, float *packed) {
    const int64_t block = k_of(op) * op->conv.kernel->nr, panels = panels_of(op);
    for (int64_t j = 0; j < panels; j++) {
        const float *b11 = (const float *)op->conv.weight + j * 2 * block, *b21 = b11 + block;
        const float *b12 = b11 + panels * 2 * block, *b22 = b12 + block;
        float *to = packed + j * block;
        for (int64_t i = 0; i < block; i++) {
            const float t1 = b12[i] - b11[i], t2 = b22[i] - t1;
            to[P1 * panels * block + i] = b11[i];
            to[P2 * panels * block + i] = b21[i];
            to[P6 * panels * block + i] = t2;
            to[P7 * panels * block + i] = b22[i] - b12[i];
            to[P5 * panels * block + i] = t1;
            to[P3 * panels * block + i] = b22[i];
            to[P4 * panels * block + i] = b21[i] - t2; /* -T4: its product is added */
        }
    }
}

void pa_strassen_step(const void *args, void *const *bases, void *scratch, pa_team *team) {
    const pa_strassen_op *op = args;
    const pa_conv_op *p = &op->conv;
    const float *residual = p->has_residual ? pa_f32_at(&p->residual, bases) : NULL;
    const context ctx = {op, pa_f32_at(&p->src, bases), residual, pa_f32_at(&p->dst, bases), scratch};
    pa_team_run_pieces(team, pairs_pieces, &ctx, ceil_div(upper_of(op), op->pairs), pieces_of(op));
}
