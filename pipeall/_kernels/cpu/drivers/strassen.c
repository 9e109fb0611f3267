/* One level of Strassen's matrix product in Winograd's form, of seven products and 15 sums (Douglas, Heroux, Slishman
 * and Smith, "GEMMW", 1994). With A and C in quarters of rows (pixels) by columns (channels), and B of channels by
 * filters,
 *
 *   S1 = A21 + A22    T1 = B12 - B11    P1 = A11 B11    P5 = S1 T1    C11 = P1 + P2         U4 = U2 + P5
 *   S2 = S1 - A11     T2 = B22 - T1     P2 = A12 B21    P6 = S2 T2    U2  = P1 + P6         C12 = U4 + P3
 *   S3 = A11 - A21    T3 = B22 - B12    P3 = S4 B22     P7 = S3 T3    U3  = U2 + P7         C21 = U3 - P4
 *   S4 = A12 - S2     T4 = T2 - B21     P4 = A22 T4                                         C22 = U3 + P5
 *
 * The T are made once, with the weights. Most sums of products cost nothing: a micro-kernel adds what another product was
 * to its own, as it does with a residual. Row i of the upper half always goes with row i of the lower half, so that a
 * result does not depend on the chunk it is in: a chunk is some such pairs and all columns, and keeps its sums in scratch,
 * with the quarters of A that are multiplied as they are, so that all products have one list of rows. An odd row out goes
 * with zeros. A residual is added by the pass that joins the sums, but for C12 and C21 to what the last products are added
 * to.
 *
 * Of halves the S are PA_F16_STRASSEN as large, so that they do not overflow, and what multiplies them as much larger.
 */
#include "conv.h"

#include "../../intmath.h"
#include "../simd/half.h"
#include "gemm.h"

enum {
#ifdef __aarch64__
    KC = 128, /* products of a block of the sum: four tiles of floats stay in an L1 of 32 KB (gemm.c) */
#else
    KC = 0, /* one block: half the channels are few */
#endif
    LEAST_SUMS = 256 << 10, /* bytes of the sums of a chunk: they stay in L2 */
    MOST_SUMS = 1280 << 10, /* or are as many as those of the weights, which each chunk reads */
    PAD_BYTES = 64,         /* between their rows, whose distance would else often be a multiple of 1 KB */
};

typedef struct context {
    const pa_strassen_op *op;
    const char *src, *residual;
    char *dst, *scratch;
} context;

static int is_f16(const pa_strassen_op *op) { return op->conv.item_bytes == sizeof(uint16_t); }
static int64_t rows_of(const pa_strassen_op *op) { return (int64_t)op->conv.dst.h * op->conv.dst.w; }
static int64_t upper_of(const pa_strassen_op *op) { return ceil_div(rows_of(op), 2); }
static int64_t k_of(const pa_strassen_op *op) { return op->conv.src.c / 2; }
static int64_t columns_of(const pa_strassen_op *op) { return op->conv.dst.c / 2; }
static int64_t panels_of(const pa_strassen_op *op) { return columns_of(op) / op->conv.kernel->nr; }
static int64_t kc_of(const pa_strassen_op *op) { return is_f16(op) ? PA_F16_BLOCK : KC; }
/* Elements between rows of what is multiplied, and of products: a pair of rows has seven and three. */
static int64_t pad_of(const pa_strassen_op *op) { return PAD_BYTES / op->conv.item_bytes; }
static int64_t a_stride(const pa_strassen_op *op) { return round_up(k_of(op), pad_of(op)) + pad_of(op); }
static int64_t c_stride(const pa_strassen_op *op) { return round_up(columns_of(op), pad_of(op)) + pad_of(op); }
static int64_t sums_of(const pa_strassen_op *op) { return PA_STRASSEN_PRODUCTS * a_stride(op) + 3 * c_stride(op); }
/* Elements a pair has beside them, for sums of several blocks of halves. */
static int64_t blocks_of(const pa_strassen_op *op) {
    return is_f16(op) && k_of(op) > kc_of(op) ? PA_F16_PANELS * op->conv.kernel->nr : 0;
}

/* Sums of a chunk in its scratch. */
typedef struct sums {
    char *a, *x, *y, *z, *blocks;
    int64_t step; /* elements from one thing that is multiplied to the next */
    const void **rows;
} sums;

/* What a product's result starts from, goes to and has added. */
typedef struct operands {
    const char *bias;
    int64_t bias_step; /* 0: the same zeros for all panels */
    char *c;
    int64_t c_stride;
    const char *r;
    float lo, hi;
} operands;

static void multiply(const pa_strassen_op *op, int product, const pa_tiling *tiling, const sums *s, const operands *o) {
    const pa_conv_op *p = &op->conv;
    const int64_t block = k_of(op) * p->kernel->nr, whole = panels_of(op) * block;
    const char *b = (const char *)op->packed + product * whole * p->item_bytes;
    const void *next = product + 1 < PA_STRASSEN_PRODUCTS ? b + whole * p->item_bytes : op->packed;
    const pa_panels panels = {
        .kernel = p->kernel,
        .columns = columns_of(op),
        .b_step = block,
        .bias_step = o->bias_step,
        .kc = kc_of(op),
    };
    if (is_f16(op))
        pa_gemm_f16_panels(&panels, &(pa_gemm_f16_args){
            .taps = 1,
            .first = 1,
            .last = 1,
            .tiling = *tiling,
            .k = k_of(op),
            .a_offset = product * s->step,
            .a_step = p->kernel->mr,
            .a = (const uint16_t *const *)s->rows,
            .b = (const void *)b,
            .next = next,
            .sums = (uint16_t *)s->blocks,
            .sums_stride = PA_F16_PANELS * p->kernel->nr,
            .bias = (const void *)o->bias,
            .c = (void *)o->c,
            .c_stride = o->c_stride,
            .r = (const void *)o->r,
            .r_stride = c_stride(op),
            .lo = o->lo,
            .hi = o->hi,
        });
    else
        pa_gemm_f32_panels(&panels, &(pa_gemm_args){
            .taps = 1,
            .tiling = *tiling,
            .k = k_of(op),
            .a_offset = product * s->step,
            .a_step = p->kernel->mr,
            .a = (const float *const *)s->rows,
            .b = (const void *)b,
            .bias = (const void *)o->bias,
            .next = next,
            .c = (void *)o->c,
            .c_stride = o->c_stride,
            .r = (const void *)o->r,
            .r_stride = c_stride(op),
            .lo = o->lo,
            .hi = o->hi,
        });
}

/* The input pixel of an output pixel, a row of the matrices. */
static const char *pixel(const context *ctx, int64_t row) {
    const pa_conv_op *p = &ctx->op->conv;
    const int64_t y = row / p->dst.w, x = row % p->dst.w;
    return ctx->src + (y * p->stride_y * p->src.w + x * p->stride_x) * p->src.stride * p->item_bytes;
}

static void split_rows(const pa_strassen_op *op, int64_t rows, const void *a1, const void *a2, void *s, int64_t step) {
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

/* Of so many pairs from `first` on, `below` of which have a row of the lower half. */
static void split_pixels(const context *ctx, int64_t first, int64_t pairs, int64_t below, const sums *s) {
    const pa_strassen_op *op = ctx->op;
    const int64_t run = op->conv.stride_y == 1 && op->conv.stride_x == 1 ? below : 1, bytes = a_stride(op) * op->conv.item_bytes;
    for (int64_t i = 0; i < below; i += run)
        split_rows(op, run, pixel(ctx, first + i), pixel(ctx, upper_of(op) + first + i), s->a + i * bytes, s->step);
    if (below < pairs) split_rows(op, 1, pixel(ctx, first + below), op->conv.zero, s->a + below * bytes, s->step);
}

/* Of so many rows of the sums from one on; c1 and r1 are of the upper row, c2 and r2 of the lower. */
static void join_rows(const pa_strassen_op *op, const sums *s, int64_t row, int64_t rows, char *c1, char *c2, const char *r1,
                      const char *r2) {
    const pa_conv_op *p = &op->conv;
    const int64_t at = row * c_stride(op) * p->item_bytes, c = row * p->dst.stride * p->item_bytes,
                  r = row * p->residual.stride * p->item_bytes;
    PA_FUNCTION(strassen_join, f32, op->join)(&(pa_strassen_join_args){
        .rows = rows,
        .columns = columns_of(op),
        .stride = c_stride(op),
        .c_stride = p->dst.stride,
        .r_stride = p->residual.stride,
        .u4 = s->y + at,
        .u3 = s->z + at,
        .p5 = s->x + at,
        .bias = (const char *)p->bias + columns_of(op) * p->item_bytes,
        .c1 = c1 + c,
        .c2 = c2 ? c2 + c : NULL,
        .r1 = r1 ? r1 + r : NULL,
        .r2 = r2 ? r2 + r : NULL,
        .lo = p->lo,
        .hi = p->hi,
    });
}

/* A piece is about the pairs of a tile. */
static int64_t pieces_of(const pa_strassen_op *op) { return max64(1, op->pairs / op->conv.kernel->mr); }

static sums sums_at(const pa_strassen_op *op, float *scratch, int64_t pairs) {
    const int64_t wide = pairs * c_stride(op) * op->conv.item_bytes, step = pairs * a_stride(op);
    char *a = (char *)scratch, *x = a + PA_STRASSEN_PRODUCTS * step * op->conv.item_bytes;
    return (sums){a, x, x + wide, x + 2 * wide, x + 3 * wide, step, (void *)(scratch + op->rows_at)};
}

static void pairs_pieces(const void *arg, int64_t piece, int64_t piece_end, int thread) {
    const context *ctx = arg;
    const pa_strassen_op *op = ctx->op;
    const pa_conv_op *p = &op->conv;
    const int64_t wide = c_stride(op), nr = p->kernel->nr, c_row = p->dst.stride * p->item_bytes,
                  r_row = p->residual.stride * p->item_bytes, half = columns_of(op) * p->item_bytes;
    const int64_t pieces = pieces_of(op), chunk = piece / pieces, last = piece_end - chunk * pieces;
    const int64_t from = op->pairs * (piece % pieces) / pieces, to = op->pairs * last / pieces;
    const int64_t first = chunk * op->pairs + from;
    const int64_t pairs = min64(to - from, upper_of(op) - first);
    if (pairs <= 0) return; /* the last chunk may be shorter */
    const int64_t below = min64(pairs, rows_of(op) - upper_of(op) - first); /* rows of the lower half */
    const char *bias = p->bias, *zero = p->zero, *residual = ctx->residual ? ctx->residual + first * r_row : NULL;
    const char *residual2 = residual ? residual + upper_of(op) * r_row : NULL;
    const char *r1 = p->silu ? NULL : residual, *r2 = p->silu ? NULL : residual2;
    char *c1 = ctx->dst + first * c_row, *c2 = c1 + upper_of(op) * c_row;

    const sums s = sums_at(op, (float *)ctx->scratch + thread * op->scratch_floats, pairs);
    const pa_tiling all = pa_tiling_of(pairs, p->kernel->mr), some = pa_tiling_of(max64(below, 1), p->kernel->mr);
    const int64_t row_bytes = a_stride(op) * p->item_bytes;
    split_pixels(ctx, first, pairs, below, &s);
    pa_point_rows(s.rows, &all, p->kernel->mr, s.a, row_bytes);
    const float none = __builtin_inff(), lo = r1 ? -none : p->lo, hi = r1 ? none : p->hi;
    multiply(op, PA_STRASSEN_A11, &all, &s, &(operands){zero, 0, s.x, wide, NULL, -none, none});
    multiply(op, PA_STRASSEN_A12, &all, &s, &(operands){bias, nr, c1, p->dst.stride, s.x, lo, hi});
    multiply(op, PA_STRASSEN_S2, &all, &s, &(operands){zero, 0, s.y, wide, s.x, -none, none});
    multiply(op, PA_STRASSEN_S3, &all, &s, &(operands){zero, 0, s.z, wide, s.y, -none, none});
    multiply(op, PA_STRASSEN_S1, &all, &s, &(operands){zero, 0, s.x, wide, NULL, -none, none});
    join_rows(op, &s, 0, below, c1, c2, r1, r2);
    if (below < pairs) join_rows(op, &s, below, 1, c1, NULL, r1, NULL);
    multiply(op, PA_STRASSEN_S4, &all, &s, &(operands){bias + half, nr, c1 + half, p->dst.stride, s.y, p->lo, p->hi});
    if (below < pairs) pa_point_rows(s.rows, &some, p->kernel->mr, s.a, row_bytes);
    if (below) multiply(op, PA_STRASSEN_A22, &some, &s, &(operands){bias, nr, c2, p->dst.stride, s.z, p->lo, p->hi});
    if (!p->silu) return;
    PA_FUNCTION(silu, f32, p->silu)(pairs, p->dst.c, c1, p->dst.stride, residual, p->residual.stride);
    PA_FUNCTION(silu, f32, p->silu)(below, p->dst.c, c2, p->dst.stride, residual2, p->residual.stride);
}

void pa_strassen_plan(pa_strassen_op *op, int threads) {
    const pa_conv_op *p = &op->conv;
    const int64_t weight_bytes = pa_strassen_packed_elements(op) * p->item_bytes;
    const int64_t sum_bytes = min64(max64(weight_bytes, LEAST_SUMS), MOST_SUMS);
    const int64_t upper = upper_of(op), most = max64(sum_bytes / (sums_of(op) * p->item_bytes), p->kernel->mr);
    const int64_t chunks = max64(ceil_div(upper, most), threads);
    op->pairs = ceil_div(upper, round_up(chunks, threads)); /* as many for each thread; one has no one to wait for */
    if (threads == 1) op->pairs = round_up(op->pairs, p->kernel->mr);
    const int64_t pointers = round_up(op->pairs, p->kernel->mr) * (int64_t)(sizeof(void *) / sizeof(float));
    op->rows_at = round_up(op->pairs * (sums_of(op) + blocks_of(op)) * p->item_bytes / (int64_t)sizeof(float), 16);
    op->scratch_floats = round_up(op->rows_at + pointers, 16);
}

int64_t pa_strassen_packed_elements(const pa_strassen_op *op) {
    return PA_STRASSEN_PRODUCTS * panels_of(op) * k_of(op) * op->conv.kernel->nr;
}

void pa_strassen_pack(const pa_strassen_op *op, void *packed) {
    const int64_t block = k_of(op) * op->conv.kernel->nr, panels = panels_of(op), whole = panels * block;
    const float part = is_f16(op) ? 1 / PA_F16_STRASSEN : 1;
    for (int64_t j = 0; j < panels; j++) {
        const float *b11 = (const float *)op->conv.weight + j * 2 * block, *b21 = b11 + block;
        const float *b12 = b11 + panels * 2 * block, *b22 = b12 + block;
        for (int64_t i = 0; i < block; i++) {
            const float t1 = b12[i] - b11[i], t2 = b22[i] - t1;
            const float of[PA_STRASSEN_PRODUCTS] = {
                [PA_STRASSEN_A11] = b11[i],
                [PA_STRASSEN_A12] = b21[i],
                [PA_STRASSEN_S2] = t2 * part,
                [PA_STRASSEN_S3] = (b22[i] - b12[i]) * part,
                [PA_STRASSEN_S1] = t1 * part,
                [PA_STRASSEN_S4] = b22[i] * part,
                [PA_STRASSEN_A22] = b21[i] - t2, /* -T4: its product is added */
            };
            for (int product = 0; product < PA_STRASSEN_PRODUCTS; product++) {
                const int64_t at = product * whole + j * block + i;
                if (is_f16(op))
                    ((uint16_t *)packed)[at] = float_to_half(of[product]);
                else
                    ((float *)packed)[at] = of[product];
            }
        }
    }
}

void pa_strassen_step(const void *args, void *const *bases, void *scratch, pa_team *team) {
    const pa_strassen_op *op = args;
    const pa_conv_op *p = &op->conv;
    const char *residual = p->has_residual ? pa_view_at(&p->residual, bases, p->item_bytes) : NULL;
    const context ctx = {op, pa_view_at(&p->src, bases, p->item_bytes), residual, pa_view_at(&p->dst, bases, p->item_bytes), scratch};
    pa_team_run_pieces(team, pairs_pieces, &ctx, ceil_div(upper_of(op), op->pairs), pieces_of(op));
}
