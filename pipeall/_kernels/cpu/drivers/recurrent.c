/* Both products are GEMMs on packed panels. That of x with W is made for a block of steps at once; that of the state with R,
 * a row for each sequence, is what each step has to wait for. Sequences of a batch are rows of one product, or divided
 * among the threads; the two directions go their own ways. A unit is one chunk, unless there is only one, whose products a
 * team then shares.
 * Bound: the cache that R streams from in every step; beyond it the memory. Steps of few sequences read R's panels to and
 * fro, so that of an R that is larger than a cache a part is still there. */
#include <math.h>

#include "index.h"
#include "panels.h"
#include "recurrent_cells.h"

enum {
    BLOCK_ROWS = 256,    /* steps times sequences of a block */
    ROWS = 96,           /* of a product at a time */
    MR_MAX = 12,         /* of the kernels */
    SHARED_WORK = 65536, /* multiply-adds of a matrix that a team shares: tens of microseconds */
};

static int64_t times(const pa_recurrent_op *p) { return p->x.size[0]; }
static int64_t batch(const pa_recurrent_op *p) { return p->x.size[1]; }
static int64_t inputs(const pa_recurrent_op *p) { return p->x.size[2]; }
static int64_t hidden(const pa_recurrent_op *p) { return p->r.size[2]; }
static int64_t directions(const pa_recurrent_op *p) { return p->r.size[0]; }
static int64_t gate_rows(const pa_recurrent_op *p) { return p->gates * hidden(p); }

/* Rows of R whose products a step begins with; those behind them, of a GRU, come later. */
static int64_t first_rows(const pa_recurrent_op *p) { return (p->cell == PA_GRU ? 2 : p->gates) * hidden(p); }

/* ---- weights ---- */

static int64_t panel_floats(const pa_kernel_row *kernel, int64_t columns, int64_t k) {
    return round_up(round_up(columns, kernel->nr) * k, LINE);
}

static int64_t direction_floats(const pa_recurrent_op *p) {
    return p->later + panel_floats(p->state, gate_rows(p) - first_rows(p), hidden(p));
}

int64_t pa_recurrent_packed_floats(const pa_recurrent_op *p) { return directions(p) * direction_floats(p); }

void pa_recurrent_pack(const pa_recurrent_op *p, void *const *bases, float *to) {
    const int64_t h = hidden(p), g = gate_rows(p), first = first_rows(p);
    for (int64_t d = 0; d < directions(p); d++, to += direction_floats(p)) {
        const float *w = f32_of(&p->w, bases) + d * p->w.stride[0], *r = f32_of(&p->r, bases) + d * p->r.stride[0];
        pack_panels(w, p->w.stride[2], p->w.stride[1], inputs(p), g, 1, to, p->input->nr);
        pack_panels(r, p->r.stride[2], p->r.stride[1], h, first, 1, to + p->now, p->state->nr);
        pack_panels(r + first * p->r.stride[1], p->r.stride[2], p->r.stride[1], h, g - first, 1, to + p->later, p->state->nr);
    }
}

/* The kernels are chosen by sizes alone: no bit depends on the threads. */
void pa_recurrent_plan(pa_recurrent_op *p, int threads) {
    const int64_t d = directions(p), n = batch(p), h = hidden(p), g = gate_rows(p);
    p->block = min64(times(p), max64(BLOCK_ROWS / n, 1));
    p->groups = threads > d ? min64(n, ceil_div(threads, d)) : 1;
    p->copies_x = p->x.stride[2] != 1 || (n > 1 && p->x.stride[0] != n * p->x.stride[1]);
    p->input = times(p) * n <= PA_GEMV_ROWS ? p->gemv : p->gemm;
    p->state = n <= PA_GEMV_ROWS ? p->gemv : p->gemm;
    p->now = panel_floats(p->input, g, inputs(p));
    p->later = p->now + panel_floats(p->state, first_rows(p), h);
    p->bias_floats = round_up(g, p->input->nr) + round_up(h, p->state->nr);
    int64_t end = 0;
    const struct { int64_t *begin, floats; } parts[] = {
        {&p->bias, d * p->bias_floats},
        {&p->peepholes, p->cell == PA_LSTM ? d * 3 * h : 0},
        {&p->rows, p->copies_x ? p->block * n * inputs(p) : 0},
        {&p->gated, d * p->block * n * g},
        {&p->matrices, p->packed ? 0 : pa_recurrent_packed_floats(p)},
        {&p->states, d * n * h},
        {&p->memories, p->cell == PA_LSTM ? d * n * h : 0},
        {&p->spare, d * n * h},
    };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        *parts[i].begin = end;
        end += round_up(parts[i].floats, LINE);
    }
    p->scratch_bytes = round_up(ceil_div(end * (int64_t)sizeof(float), threads), 64);
}

/* ---- products ---- */

/* c = a times panels, plus bias, or plus what c holds where that is NULL; rows of a and c lie so many floats apart. */
typedef struct product {
    const pa_kernel_row *kernel;
    int few, backwards; /* the kernel is one of few rows; its panels are read from the last to the first */
    int64_t rows, k, columns, a_row, c_row, chunk; /* chunk: columns that a thread does at a time */
    const float *a, *panels, *bias;
    float *c;
} product;

static pa_gemm_args product_args(const product *p, const float *const *a, int64_t row, int64_t rows, int64_t column) {
    const float *b = p->panels + column * p->k;
    return (pa_gemm_args){
        .taps = 1,
        .tiling = pa_tiling_of(rows, p->kernel->mr),
        .k = p->k,
        .a_step = p->kernel->mr,
        .a = a,
        .b = b,
        .bias = p->bias ? p->bias + column : NULL,
        .next = b,
        .c = p->c + row * p->c_row + column,
        .c_stride = p->c_row,
        .lo = -INFINITY,
        .hi = INFINITY,
    };
}

/* One call a panel. */
static void multiply_few(const product *p, int64_t first, int64_t columns) {
    const int64_t nr = p->kernel->nr, count = ceil_div(columns, nr);
    const float *rows[PA_GEMV_ROWS];
    pa_gemm_args g = product_args(p, rows, 0, p->rows, first);
    pa_point_rows(rows, &g.tiling, PA_GEMV_ROWS, p->a, p->a_row * (int64_t)sizeof(float));
    for (int64_t i = 0; i < count; i++) {
        const int64_t at = (p->backwards ? count - 1 - i : i) * nr;
        g.n = (int32_t)min64(nr, columns - at);
        g.b = p->panels + (first + at) * p->k;
        g.bias = p->bias ? p->bias + first + at : NULL;
        g.c = p->c + first + at;
        PA_FUNCTION(gemv, f32, p->kernel)(&g);
    }
}

static void multiply_many(const product *p, int64_t first, int64_t columns) {
    const pa_panels panels = {p->kernel, columns, p->kernel->nr * p->k, p->kernel->nr, PA_GEMV_BLOCK, 0, 0, 0};
    const float *rows[ROWS + MR_MAX];
    for (int64_t row = 0; row < p->rows; row += ROWS) {
        const pa_gemm_args g = product_args(p, rows, row, min64(ROWS, p->rows - row), first);
        pa_point_rows(rows, &g.tiling, p->kernel->mr, p->a + row * p->a_row, p->a_row * (int64_t)sizeof(float));
        pa_gemm_f32_panels(&panels, &g);
    }
}

static void product_chunk(const void *arg, int64_t chunk, int thread) {
    (void)thread;
    const product *p = arg;
    const int64_t first = chunk * p->chunk, columns = min64(p->chunk, p->columns - first);
    if (p->few)
        multiply_few(p, first, columns);
    else
        multiply_many(p, first, columns);
}

/* team: that shares it, or NULL */
static void multiply(product p, pa_team *team) {
    const int64_t parts = team ? 2 * pa_team_size(team) : 1;
    p.chunk = round_up(ceil_div(p.columns, parts), p.kernel->nr);
    if (team)
        pa_team_run(team, product_chunk, &p, ceil_div(p.columns, p.chunk));
    else
        product_chunk(&p, 0, 0);
}

/* ---- steps of some sequences in one direction ---- */

typedef struct sequences {
    const pa_recurrent_op *op;
    pa_team *team; /* that shares products, or NULL */
    const float *now, *later, *later_bias; /* panels of R; the bias that is not in the gates yet */
    int backwards;                         /* how this step reads panels */
    pa_cells rows;
} sequences;

/* The first rows of R times the state, to the gates. */
static void remember(const sequences *s, float *gates) {
    const pa_recurrent_op *p = s->op;
    const int64_t h = hidden(p);
    multiply((product){
        .kernel = p->state,
        .few = p->state == p->gemv,
        .backwards = s->backwards,
        .rows = s->rows.count,
        .k = h,
        .columns = first_rows(p),
        .a_row = h,
        .c_row = gate_rows(p),
        .a = s->rows.h,
        .panels = s->now,
        .c = gates,
    }, s->team);
}

/* The others times `a`. */
static void remember_later(const sequences *s, const float *a, const float *bias, float *to, int64_t to_row) {
    const int64_t h = hidden(s->op);
    multiply((product){
        .kernel = s->op->state,
        .few = s->op->state == s->op->gemv,
        .backwards = s->backwards,
        .rows = s->rows.count,
        .k = h,
        .columns = h,
        .a_row = h,
        .c_row = to_row,
        .a = a,
        .panels = s->later,
        .bias = bias,
        .c = to,
    }, s->team);
}

static void lstm_step(const sequences *s, float *gates) {
    remember(s, gates);
    pa_lstm_cells(&s->rows, gates);
}

static void gru_step(const sequences *s, float *gates) {
    const pa_cells *rows = &s->rows;
    const int64_t n = hidden(s->op), later = s->op->option;
    remember(s, gates);
    if (later) remember_later(s, rows->h, s->later_bias, rows->spare, n);
    pa_gru_resets(rows, gates);
    if (!later) remember_later(s, rows->spare, NULL, gates + 2 * n, gate_rows(s->op));
    pa_gru_cells(rows, gates);
}

static void rnn_step(const sequences *s, float *gates) {
    remember(s, gates);
    pa_rnn_cells(&s->rows, gates);
}

/* ---- blocks of steps ---- */

typedef struct blocks {
    const pa_recurrent_op *op;
    void *const *bases;
    float *scratch;      /* of all threads */
    const float *packed; /* weights */
    pa_team *team;       /* that shares the products of a step, or NULL */
    int64_t begin, end;  /* steps, counted as each direction takes them */
} blocks;

/* The first step in x of a block, in direction d. */
static int64_t first_of(const blocks *b, int64_t d) {
    return b->op->backwards[d] ? times(b->op) - b->end : b->begin;
}

/* The steps of a block, of some sequences: unit % groups of direction unit / groups. */
static void run_unit(const void *arg, int64_t unit, int thread) {
    (void)thread;
    const blocks *b = arg;
    const pa_recurrent_op *p = b->op;
    const int64_t h = hidden(p), g = gate_rows(p), d = unit / p->groups, *ds = p->dst.stride;
    const int64_t n0 = unit % p->groups * batch(p) / p->groups, n1 = (unit % p->groups + 1) * batch(p) / p->groups;
    const int64_t place = (d * batch(p) + n0) * h;
    float *gates = b->scratch + p->gated + d * p->block * batch(p) * g, *dst = f32_of(&p->dst, b->bases);
    const float *packed = b->packed + d * direction_floats(p);
    sequences s = {
        .op = p,
        .team = b->team,
        .now = packed + p->now,
        .later = packed + p->later,
        .later_bias = b->scratch + p->bias + d * p->bias_floats + round_up(g, p->input->nr),
        .rows = {
            .op = p,
            .function = p->function[d],
            .count = n1 - n0,
            .peepholes = b->scratch + p->peepholes + d * 3 * h,
            .h = b->scratch + p->states + place,
            .c = b->scratch + p->memories + place,
            .spare = b->scratch + p->spare + place,
        },
    };
    for (int64_t i = b->begin; i < b->end; i++) {
        const int64_t t = p->backwards[d] ? times(p) - 1 - i : i;
        s.backwards = i & 1;
        float *row = gates + ((t - first_of(b, d)) * batch(p) + n0) * g;
        if (p->cell == PA_LSTM)
            lstm_step(&s, row);
        else if (p->cell == PA_GRU)
            gru_step(&s, row);
        else
            rnn_step(&s, row);
        for (int64_t n = n0; n < n1 && p->dst.rank == 4; n++)
            move_run(sizeof(float), h, s.rows.h + (n - n0) * h, 1, dst + t * ds[0] + d * ds[1] + n * ds[2], ds[3]);
    }
    const int all = p->dst.rank == 4;
    if (b->end < times(p) || (all && !p->cells)) return;
    const float *last = p->cells ? s.rows.c : s.rows.h;
    dst += all ? times(p) * *ds++ : 0;
    for (int64_t n = n0; n < n1; n++)
        move_run(sizeof(float), h, last + (n - n0) * h, 1, dst + d * ds[0] + n * ds[1], ds[2]);
}

/* Sums of the biases, which products of x start from, and those of R that are not among them, as whole panels. */
static void gather_biases(const pa_recurrent_op *p, void *const *bases, int64_t d, float *to) {
    const int64_t g = gate_rows(p), h = hidden(p), step = p->b.stride[1];
    const float *w = f32_of(&p->b, bases) + d * p->b.stride[0], *r = w + g * step;
    float *later = to + round_up(g, p->input->nr);
    const int apart = p->cell == PA_GRU && p->option;
    for (int64_t i = 0; i < g; i++) to[i] = apart && i >= 2 * h ? w[i * step] : w[i * step] + r[i * step];
    for (int64_t i = 0; i < h && apart; i++) later[i] = r[(2 * h + i) * step];
}

/* What does not change from block to block, and the states that the first begins with. */
static void prepare(const pa_recurrent_op *p, void *const *bases, float *scratch) {
    const int64_t h = hidden(p);
    const struct { const pa_strided *from; int64_t to; } states[] = {{&p->h0, p->states}, {&p->c0, p->memories}};
    if (!p->packed) pa_recurrent_pack(p, bases, scratch + p->matrices);
    for (int64_t d = 0; d < directions(p); d++) {
        gather_biases(p, bases, d, scratch + p->bias + d * p->bias_floats);
        if (p->cell == PA_LSTM)
            move_run(sizeof(float), 3 * h, f32_of(&p->p, bases) + d * p->p.stride[0], p->p.stride[1],
                     scratch + p->peepholes + d * 3 * h, 1);
        for (int i = 0; i < (p->cell == PA_LSTM ? 2 : 1); i++) {
            const int64_t *step = states[i].from->stride;
            for (int64_t n = 0; n < batch(p); n++)
                move_run(sizeof(float), h, f32_of(states[i].from, bases) + d * step[0] + n * step[1], step[2],
                         scratch + states[i].to + (d * batch(p) + n) * h, 1);
        }
    }
}

/* Rows of x for the steps [first, first + count), one behind the other. */
static void copy_rows(const blocks *b, int64_t first, int64_t count, float *to) {
    const pa_recurrent_op *p = b->op;
    const int64_t *step = p->x.stride;
    for (int64_t t = first; t < first + count; t++)
        for (int64_t n = 0; n < batch(p); n++, to += inputs(p))
            move_run(sizeof(float), inputs(p), f32_of(&p->x, b->bases) + t * step[0] + n * step[1], step[2], to, 1);
}

/* Gates of direction d = biases + x W^T for the steps of a block. */
static void multiply_inputs(const blocks *b, int64_t d, pa_team *team) {
    const pa_recurrent_op *p = b->op;
    const int64_t n = batch(p), g = gate_rows(p), i = inputs(p), count = b->end - b->begin, *step = p->x.stride;
    float *rows = b->scratch + p->rows;
    if (p->copies_x) copy_rows(b, first_of(b, d), count, rows);
    multiply((product){
        .kernel = p->input,
        .few = p->input == p->gemv,
        .rows = count * n,
        .k = i,
        .columns = g,
        .a_row = p->copies_x ? i : n > 1 ? step[1] : step[0],
        .c_row = g,
        .a = p->copies_x ? rows : f32_of(&p->x, b->bases) + first_of(b, d) * step[0],
        .panels = b->packed + d * direction_floats(p),
        .bias = b->scratch + p->bias + d * p->bias_floats,
        .c = b->scratch + p->gated + d * p->block * n * g,
    }, team);
}

void pa_recurrent_step(const void *op, void *const *bases, void *scratch, pa_team *team) {
    const pa_recurrent_op *p = op;
    const int64_t units = directions(p) * p->groups, work = batch(p) * gate_rows(p) * hidden(p);
    pa_team *several = pa_team_size(team) > 1 ? team : NULL;
    const int alone = units == 1 && work >= SHARED_WORK;
    prepare(p, bases, scratch);
    for (int64_t begin = 0; begin < times(p); begin += p->block) {
        const blocks b = {
            .op = p,
            .bases = bases,
            .scratch = scratch,
            .packed = p->packed ? p->packed : (float *)scratch + p->matrices,
            .team = alone ? several : NULL,
            .begin = begin,
            .end = min64(begin + p->block, times(p)),
        };
        for (int64_t d = 0; d < directions(p); d++) multiply_inputs(&b, d, several);
        if (alone)
            run_unit(&b, 0, 0);
        else
            pa_team_run(team, run_unit, &b, units);
    }
}
