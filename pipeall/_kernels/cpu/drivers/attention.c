/* Attention by blocks of query rows: a chunk is `block_rows` rows of one head. Their scores with every key stay in
 * scratch, in L2, where they become e^(score - most) and the left factor of the product with v, whose rows are divided
 * by their sums.
 *
 * k, transposed and times scale, and v are packed in panels once per head and thread: a thread's scratch remembers whose
 * panels it holds, and its chunks mostly come one after the other. Rows of scores have room for whole vectors, so that
 * a tile writes them directly; keys past the last have scores that nothing reads.
 *
 * Every element is one sum in order of its terms: no bit of a result depends on blocks or threads.
 */
#include "attention.h"

#include "panels.h"

enum {
    MC = 64,             /* of a block, at most */
    SCORES = 64 << 10,     /* floats of a block's scores aimed at: 256 KB */
    KC = 512,              /* KC x NR floats of packed B: 64 KB */
    PAD = 16,              /* floats between rows in scratch, whose distance would else be a multiple of a cache's way */
    HEADER = 16,           /* floats: whose panels these are */
};

typedef struct context {
    const pa_attention_op *op;
    void *const *bases;
    float *scratch;
    int64_t blocks;
} context;

/* Whose k and v a thread's panels are of: heads that share them share the panels. */
typedef struct header {
    const float *k, *v;
} header;
_Static_assert(sizeof(header) <= HEADER * sizeof(float), "header of scratch");

static inline int64_t rows_of(const pa_strided *s) { return s->size[s->rank - 2]; }
static inline int64_t columns_of(const pa_strided *s) { return s->size[s->rank - 1]; }
static inline int64_t row_of(const pa_strided *s) { return s->stride[s->rank - 2]; }
static inline int64_t column_of(const pa_strided *s) { return s->stride[s->rank - 1]; }

/* The parts of a thread's scratch, in floats: the header, the panels of k and v, scores, rows of q and of dst if they
 * have to be packed. */
static int64_t k_panels(const pa_attention_op *p) { return round_up(rows_of(&p->k), p->gemm->nr) * columns_of(&p->k); }
static int64_t v_panels(const pa_attention_op *p) { return round_up(columns_of(&p->v), p->gemm->nr) * rows_of(&p->v); }
static int64_t score_row(const pa_attention_op *p) { return round_up(rows_of(&p->k), PANEL_NR_MAX) + PAD; }
static int packs_q(const pa_attention_op *p) { return column_of(&p->q) != 1 && columns_of(&p->q) > 1; }
static int tiled(const pa_attention_op *p) { return column_of(&p->dst) != 1 && columns_of(&p->dst) > 1; }
static int64_t q_row(const pa_attention_op *p) { return packs_q(p) ? round_up(columns_of(&p->q), LINE) + PAD : 0; }
static int64_t tile_row(const pa_attention_op *p) { return tiled(p) ? round_up(columns_of(&p->dst), LINE) + PAD : 0; }

/* C = A B of a block's rows and `panels` panels of k_all rows, by blocks of k. */
static void multiply(const pa_attention_op *p, const float *const *a, const pa_tiling *tiling, const float *b,
                     int64_t k_all, int64_t k, int64_t columns, float *c, int64_t c_row) {
    const int64_t part = ceil_div(k, ceil_div(k, KC));
    for (int64_t k0 = 0; k0 < k; k0 += part)
        for (int64_t j = 0; j < columns; j += p->gemm->nr)
            PA_FUNCTION(gemm, f32, p->gemm)(&(pa_gemm_args){
                .n = (int32_t)min64(p->gemm->nr, columns - j),
                .taps = 1,
                .tiling = *tiling,
                .k = min64(part, k - k0),
                .a_offset = k0,
                .a_step = p->gemm->mr,
                .a = a,
                .b = b + j * k_all + k0 * p->gemm->nr,
                .bias = k0 ? NULL : panel_zeros,
                .next = b + (j + p->gemm->nr < columns ? j + p->gemm->nr : 0) * k_all + k0 * p->gemm->nr,
                .c = c + j,
                .c_stride = c_row,
                .lo = -__builtin_inff(),
                .hi = __builtin_inff(),
            });
}

static void add_mask(const pa_strided *mask, void *const *bases, int64_t at, int64_t n, float *scores) {
    const int64_t step = column_of(mask);
    if (mask->type == PA_B8) {
        const uint8_t *keeps = (const uint8_t *)pa_at(mask, bases) + at;
        if (step == 1)
            for (int64_t j = 0; j < n; j++) scores[j] = keeps[j] ? scores[j] : -__builtin_inff();
        else
            for (int64_t j = 0; j < n; j++) scores[j] = keeps[j * step] ? scores[j] : -__builtin_inff();
    } else {
        const float *added = f32_of(mask, bases) + at;
        if (step == 1)
            for (int64_t j = 0; j < n; j++) scores[j] += added[j];
        else
            for (int64_t j = 0; j < n; j++) scores[j] += added[j * step];
    }
}

/* Scores of rows [row0, row0 + rows) become their powers, zeros where a query does not see so far; sums: of rows. */
static void to_powers(const context *ctx, int64_t batch, int64_t row0, int64_t rows, int64_t keys, float *scores,
                      float *sums) {
    const pa_attention_op *p = ctx->op;
    const int64_t mask = p->masked ? batch_offset(&p->mask, &p->dst, batch) : 0, step = score_row(p);
    const int64_t whole = round_up(keys, PA_LANES_MAX);
    for (int64_t i = 0; i < rows; i++) {
        const int64_t seen = p->causal ? min64(row0 + i + 1, keys) : keys;
        if (p->masked) add_mask(&p->mask, ctx->bases, mask + (row0 + i) * row_of(&p->mask), seen, scores + i * step);
        for (int64_t j = seen; j < whole; j++) scores[i * step + j] = -__builtin_inff();
    }
    PA_FUNCTION(softmax_exp, f32, p->softmax_exp)(rows, whole, scores, step, sums);
    for (int64_t i = 0; i < rows && p->causal; i++)
        for (int64_t j = row0 + i + 1; j < keys; j++) scores[i * step + j] = 0;
}

/* dst = c, its rows divided by their sums; c may be dst. */
static void divide(const pa_attention_op *p, int64_t rows, const float *c, int64_t c_row, const float *sums,
                   float *dst) {
    const int64_t columns = columns_of(&p->dst), row = row_of(&p->dst), column = column_of(&p->dst);
    for (int64_t i = 0; i < rows; i++, c += c_row, dst += row) {
        const float factor = 1 / sums[i];
        if (column == 1)
            for (int64_t j = 0; j < columns; j++) dst[j] = factor * c[j];
        else
            for (int64_t j = 0; j < columns; j++) dst[j * column] = factor * c[j];
    }
}

static void pack_head(const pa_attention_op *p, header *held, const float *k, const float *v, float *panels) {
    if (held->k == k && held->v == v) return;
    *held = (header){k, v};
    pack_panels(k, column_of(&p->k), row_of(&p->k), columns_of(&p->k), rows_of(&p->k), p->scale, panels, p->gemm->nr);
    pack_panels(v, row_of(&p->v), column_of(&p->v), rows_of(&p->v), columns_of(&p->v), 1, panels + k_panels(p), p->gemm->nr);
}

static void block_chunk(const void *arg, int64_t chunk, int thread) {
    const context *ctx = arg;
    const pa_attention_op *p = ctx->op;
    const int64_t batch = chunk / ctx->blocks, row0 = chunk % ctx->blocks * p->block_rows;
    const int64_t rows = min64(p->block_rows, rows_of(&p->q) - row0);
    const int64_t keys = p->causal ? min64(rows_of(&p->k), row0 + rows) : rows_of(&p->k);
    float *held = ctx->scratch + thread * p->scratch_floats, *panels = held + HEADER;
    float *scores = panels + round_up(k_panels(p) + v_panels(p), LINE);
    float *packed_q = scores + p->block_rows * score_row(p);
    float *tile = packed_q + p->block_rows * q_row(p);
    const float *pointers[MC];
    float sums[MC];
    const pa_tiling tiling = pa_tiling_of(rows, p->gemm->mr);

    pack_head(p, (header *)held, f32_of(&p->k, ctx->bases) + batch_offset(&p->k, &p->dst, batch),
              f32_of(&p->v, ctx->bases) + batch_offset(&p->v, &p->dst, batch), panels);
    const float *q = f32_of(&p->q, ctx->bases) + batch_offset(&p->q, &p->dst, batch) + row0 * row_of(&p->q);
    if (packs_q(p)) pack_block(q, row_of(&p->q), column_of(&p->q), rows, columns_of(&p->q), 1, packed_q, q_row(p));
    const int64_t q_bytes = (packs_q(p) ? q_row(p) : row_of(&p->q)) * (int64_t)sizeof(float);
    pa_point_rows(pointers, &tiling, p->gemm->mr, packs_q(p) ? packed_q : q, q_bytes);
    multiply(p, pointers, &tiling, panels, columns_of(&p->k), columns_of(&p->k),
             round_up(keys, min64(p->gemm->nr, PA_LANES_MAX)), scores, score_row(p));
    to_powers(ctx, batch, row0, rows, keys, scores, sums);

    float *dst = f32_of(&p->dst, ctx->bases) + batch_offset(&p->dst, &p->dst, batch) + row0 * row_of(&p->dst);
    pa_point_rows(pointers, &tiling, p->gemm->mr, scores, score_row(p) * (int64_t)sizeof(float));
    float *c = tiled(p) ? tile : dst;
    const int64_t c_row = tiled(p) ? tile_row(p) : row_of(&p->dst);
    multiply(p, pointers, &tiling, panels + k_panels(p), rows_of(&p->v), keys, columns_of(&p->v), c, c_row);
    divide(p, rows, c, c_row, sums, dst);
}

void pa_attention_plan(pa_attention_op *p) {
    const int64_t rows = rows_of(&p->q), most = max64(min64(MC, SCORES / score_row(p)), p->gemm->mr);
    p->block_rows = ceil_div(rows, ceil_div(rows, most / p->gemm->mr * p->gemm->mr));
    p->scratch_floats = HEADER + round_up(k_panels(p) + v_panels(p), LINE) +
                        p->block_rows * (score_row(p) + q_row(p) + tile_row(p));
}

void pa_attention_step(const void *args, void *const *bases, void *scratch, pa_team *team) {
    const pa_attention_op *p = args;
    const context ctx = {p, bases, scratch, ceil_div(rows_of(&p->q), p->block_rows)};
    for (int i = 0; i < pa_team_size(team); i++) /* what another step has left there is nobody's panels */
        *(header *)(ctx.scratch + i * p->scratch_floats) = (header){0};
    pa_team_run(team, block_chunk, &ctx, batches_of(&p->dst) * ctx.blocks);
}
