/* The products of x with W are made for a block of steps at once, as one GEMM that starts from the biases; R times the
 * state, a matrix and a vector, is what each step has to wait for. Sequences of a batch, and the two directions, go their
 * own ways: each is one chunk, unless there is only one, whose products a team then shares.
 * Bound: the cache that R streams from in every step; beyond it the memory. */
#include "recurrent.h"

#include <math.h>

#include "parallel_for.h"
#include "matmul.h"

enum {
    BLOCK_ROWS = 256,    /* steps times sequences of a block */
    SHARED_WORK = 65536, /* multiply-adds of a matrix that a team shares: tens of microseconds */
};

static int64_t times(const pa_recurrent_op *p) { return p->x.size[0]; }
static int64_t batch(const pa_recurrent_op *p) { return p->x.size[1]; }
static int64_t inputs(const pa_recurrent_op *p) { return p->x.size[2]; }
static int64_t hidden(const pa_recurrent_op *p) { return p->r.size[2]; }
static int64_t directions(const pa_recurrent_op *p) { return p->r.size[0]; }
static int64_t gate_rows(const pa_recurrent_op *p) { return p->gates * hidden(p); }

void pa_recurrent_plan(pa_recurrent_op *p, int threads) {
    const int64_t d = directions(p), n = batch(p), h = hidden(p), g = gate_rows(p);
    p->block = min64(times(p), max64(BLOCK_ROWS / n, 1));
    p->copies_x = p->x.stride[2] != 1 || (n > 1 && p->x.stride[0] != n * p->x.stride[1]);
    p->copies_r = p->r.stride[2] != 1;
    p->unit_floats = round_up(2 * h, 16);
    int64_t end = threads * (int64_t)PA_MATMUL_SCRATCH;
    const struct { int64_t *begin, floats; } parts[] = {
        {&p->bias, d * 2 * g},
        {&p->peepholes, p->cell == PA_LSTM ? d * 3 * h : 0},
        {&p->rows, p->copies_x ? p->block * n * inputs(p) : 0},
        {&p->gated, d * p->block * n * g},
        {&p->matrix, p->copies_r ? d * g * h : 0},
        {&p->states, d * n * 2 * h},
        {&p->unit, d * n * p->unit_floats},
    };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        *parts[i].begin = end;
        end += round_up(parts[i].floats, 16);
    }
    p->scratch_bytes = round_up(ceil_div(end * (int64_t)sizeof(float), threads), 64);
}

/* ---- activations ---- */

#define EACH(formula)                        \
    for (int64_t i = 0; i < n; i++) {        \
        const float x = v[i];                \
        v[i] = formula;                      \
    }                                        \
    break

static float unit_clamp(float x) { return x < 0 ? 0 : x > 1 ? 1 : x; }

static void clip(const pa_recurrent_op *p, int64_t n, float *v) {
    const float most = p->clip;
    if (most < INFINITY)
        for (int64_t i = 0; i < n; i++) v[i] = v[i] > most ? most : v[i] < -most ? -most : v[i];
}

/* In place. */
static void activate(const pa_recurrent_op *p, const pa_function *f, int64_t n, float *v) {
    const float alpha = f->alpha, beta = f->beta;
    switch (f->code) {
    case PA_SIGMOID: PA_FUNCTION(unary, f32, p->unary)(PA_UNARY_sigmoid, n, v, v, 0, 0); break;
    case PA_TANH: PA_FUNCTION(unary, f32, p->unary)(PA_UNARY_tanh, n, v, v, 0, 0); break;
    case PA_RELU: EACH(x < 0 ? 0 : x);
    case PA_AFFINE: EACH(alpha * x + beta);
    case PA_LEAKYRELU: EACH(x < 0 ? alpha * x : x);
    case PA_THRESHOLDEDRELU: EACH(x > alpha ? x : 0);
    case PA_SCALEDTANH: EACH(alpha * tanhf(beta * x));
    case PA_HARDSIGMOID: EACH(unit_clamp(alpha * x + beta));
    case PA_ELU: EACH(x < 0 ? alpha * expm1f(x) : x);
    case PA_SOFTSIGN: EACH(x / (1 + fabsf(x)));
    case PA_SOFTPLUS: EACH(x > 0 ? x + log1pf(expf(-x)) : log1pf(expf(x)));
    }
}

/* ---- steps of one sequence in one direction ---- */

typedef struct sequence {
    const pa_recurrent_op *op;
    pa_team *team; /* that shares products, or NULL */
    const pa_function *function;
    const float *r, *later_bias, *peepholes; /* later_bias: of R, where it is not in the gates yet */
    int64_t r_stride;
    float *h, *c, *spare;
} sequence;

/* y = bias + rows [first, first + rows) of R times x; y may be bias */
static void remember(const sequence *s, int64_t first, int64_t rows, const float *x, const float *bias, float *y) {
    const pa_gemv_t_args args = {
        .rows = rows,
        .columns = hidden(s->op),
        .a_stride = s->r_stride,
        .a = s->r + first * s->r_stride,
        .x = x,
        .bias = bias,
        .y = y,
    };
    if (s->team)
        pa_gemv_t(s->op->gemv_t, &args, s->team);
    else
        PA_FUNCTION(gemv_t, f32, s->op->gemv_t)(&args);
}

static void lstm_step(const sequence *s, float *gates) {
    const pa_recurrent_op *p = s->op;
    const int64_t n = hidden(p);
    float *in = gates, *out = gates + n, *forget = gates + 2 * n, *cell = gates + 3 * n, *c = s->c;
    const float *p_in = s->peepholes, *p_out = p_in + n, *p_forget = p_in + 2 * n;
    remember(s, 0, 4 * n, s->h, gates, gates);
    for (int64_t i = 0; i < n; i++) in[i] += p_in[i] * c[i], forget[i] += p_forget[i] * c[i];
    clip(p, n, in);
    clip(p, 2 * n, forget); /* and the cell behind it; `out` has yet to see the new cells */
    activate(p, &s->function[0], n, in);
    activate(p, &s->function[1], n, cell);
    if (p->option)
        for (int64_t i = 0; i < n; i++) forget[i] = 1 - in[i];
    else
        activate(p, &s->function[0], n, forget);
    for (int64_t i = 0; i < n; i++) c[i] = forget[i] * c[i] + in[i] * cell[i], out[i] += p_out[i] * c[i];
    clip(p, n, out);
    activate(p, &s->function[0], n, out);
    memcpy(s->spare, c, (size_t)n * sizeof(float));
    activate(p, &s->function[2], n, s->spare);
    for (int64_t i = 0; i < n; i++) s->h[i] = out[i] * s->spare[i];
}

static void gru_step(const sequence *s, float *gates) {
    const pa_recurrent_op *p = s->op;
    const int64_t n = hidden(p);
    float *update = gates, *reset = gates + n, *next = gates + 2 * n, *past = s->spare;
    remember(s, 0, 2 * n, s->h, gates, gates);
    clip(p, 2 * n, gates);
    activate(p, &s->function[0], 2 * n, gates);
    if (p->option) {
        remember(s, 2 * n, n, s->h, s->later_bias, past);
        for (int64_t i = 0; i < n; i++) next[i] += reset[i] * past[i];
    } else {
        for (int64_t i = 0; i < n; i++) past[i] = reset[i] * s->h[i];
        remember(s, 2 * n, n, past, next, next);
    }
    clip(p, n, next);
    activate(p, &s->function[1], n, next);
    for (int64_t i = 0; i < n; i++) s->h[i] = (1 - update[i]) * next[i] + update[i] * s->h[i];
}

static void rnn_step(const sequence *s, float *gates) {
    const int64_t n = hidden(s->op);
    remember(s, 0, n, s->h, gates, gates);
    clip(s->op, n, gates);
    activate(s->op, &s->function[0], n, gates);
    memcpy(s->h, gates, (size_t)n * sizeof(float));
}

/* ---- blocks of steps ---- */

typedef struct blocks {
    const pa_recurrent_op *op;
    void *const *bases;
    float *scratch; /* of all threads */
    pa_team *team;  /* that shares the products of a step, or NULL */
    int64_t begin, end; /* steps, counted as each direction takes them */
} blocks;

/* The first step in x of a block, in direction d. */
static int64_t first_of(const blocks *b, int64_t d) {
    return b->op->backwards[d] ? times(b->op) - b->end : b->begin;
}

static void write_state(const float *from, int64_t n, float *to, int64_t step) {
    for (int64_t i = 0; i < n; i++) to[i * step] = from[i];
}

/* The steps of a block, of sequence unit % batch in direction unit / batch. */
static void run_sequence(const void *arg, int64_t unit, int thread) {
    (void)thread;
    const blocks *b = arg;
    const pa_recurrent_op *p = b->op;
    const int64_t h = hidden(p), g = gate_rows(p), d = unit / batch(p), n = unit % batch(p), *ds = p->dst.stride;
    float *state = b->scratch + p->states + unit * 2 * h, *gates = b->scratch + p->gated + d * p->block * batch(p) * g;
    float *dst = pa_at(&p->dst, b->bases);
    const sequence s = {
        .op = p,
        .team = b->team,
        .function = p->function[d],
        .r = p->copies_r ? b->scratch + p->matrix + d * g * h : (const float *)pa_at(&p->r, b->bases) + d * p->r.stride[0],
        .r_stride = p->copies_r ? h : p->r.stride[1],
        .later_bias = b->scratch + p->bias + d * 2 * g + g + 2 * h,
        .peepholes = b->scratch + p->peepholes + d * 3 * h,
        .h = state,
        .c = state + h,
        .spare = b->scratch + p->unit + unit * p->unit_floats,
    };
    for (int64_t i = b->begin; i < b->end; i++) {
        const int64_t t = p->backwards[d] ? times(p) - 1 - i : i;
        float *row = gates + ((t - first_of(b, d)) * batch(p) + n) * g;
        if (p->cell == PA_LSTM)
            lstm_step(&s, row);
        else if (p->cell == PA_GRU)
            gru_step(&s, row);
        else
            rnn_step(&s, row);
        if (p->dst.rank == 4) write_state(s.h, h, dst + t * ds[0] + d * ds[1] + n * ds[2], ds[3]);
    }
    if (p->dst.rank == 3 && b->end == times(p)) write_state(p->cells ? s.c : s.h, h, dst + d * ds[0] + n * ds[1], ds[2]);
}

/* to[i][k] = matrix `outer` of s, rows of the last axis one behind the other */
static void pack_matrix(const pa_strided *s, void *const *bases, int64_t outer, int64_t rows, int64_t row_step, float *to) {
    const int last = s->rank - 1;
    const float *from = (const float *)pa_at(s, bases) + outer;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t k = 0; k < s->size[last]; k++) *to++ = from[i * row_step + k * s->stride[last]];
}

/* Sums of the biases per direction, then those of R as they are. */
static void pack_biases(const pa_recurrent_op *p, void *const *bases, float *to) {
    const int64_t g = gate_rows(p), h = hidden(p), step = p->b.stride[1];
    for (int64_t d = 0; d < directions(p); d++, to += 2 * g) {
        const float *w = (const float *)pa_at(&p->b, bases) + d * p->b.stride[0], *r = w + g * step;
        for (int64_t i = 0; i < g; i++) {
            const int later = p->cell == PA_GRU && p->option && i >= 2 * h;
            to[i] = later ? w[i * step] : w[i * step] + r[i * step];
            to[g + i] = r[i * step];
        }
    }
}

/* What does not change from block to block, and the states that the first begins with. */
static void prepare(const pa_recurrent_op *p, void *const *bases, float *scratch) {
    const int64_t h = hidden(p), g = gate_rows(p);
    pack_biases(p, bases, scratch + p->bias);
    for (int64_t d = 0; d < directions(p); d++) {
        if (p->copies_r)
            pack_matrix(&p->r, bases, d * p->r.stride[0], g, p->r.stride[1], scratch + p->matrix + d * g * h);
        if (p->cell == PA_LSTM) {
            const float *from = (const float *)pa_at(&p->p, bases) + d * p->p.stride[0];
            for (int64_t i = 0; i < 3 * h; i++) scratch[p->peepholes + d * 3 * h + i] = from[i * p->p.stride[1]];
        }
        for (int64_t n = 0; n < batch(p); n++) {
            float *state = scratch + p->states + (d * batch(p) + n) * 2 * h;
            const float *h0 = (const float *)pa_at(&p->h0, bases) + d * p->h0.stride[0] + n * p->h0.stride[1];
            for (int64_t i = 0; i < h; i++) state[i] = h0[i * p->h0.stride[2]];
            if (p->cell != PA_LSTM) continue;
            const float *c0 = (const float *)pa_at(&p->c0, bases) + d * p->c0.stride[0] + n * p->c0.stride[1];
            for (int64_t i = 0; i < h; i++) state[h + i] = c0[i * p->c0.stride[2]];
        }
    }
}

/* Gates of direction d = biases + x W^T for the steps of a block. */
static void multiply_inputs(const blocks *b, int64_t d, pa_team *team) {
    const pa_recurrent_op *p = b->op;
    const int64_t n = batch(p), g = gate_rows(p), rows = (b->end - b->begin) * n, *xs = p->x.stride;
    float *gates = b->scratch + p->gated + d * p->block * n * g;
    const float *bias = b->scratch + p->bias + d * 2 * g, *x = (const float *)pa_at(&p->x, b->bases);
    for (int64_t i = 0; i < rows; i++) memcpy(gates + i * g, bias, (size_t)g * sizeof(float));
    if (p->copies_x) {
        for (int64_t t = b->begin; t < b->end; t++)
            pack_matrix(&p->x, b->bases, (first_of(b, d) + t - b->begin) * xs[0], n, xs[1],
                        b->scratch + p->rows + (t - b->begin) * n * inputs(p));
        x = b->scratch + p->rows;
    } else {
        x += first_of(b, d) * xs[0];
    }
    const pa_matrix from = {x, rows, inputs(p), p->copies_x ? inputs(p) : n > 1 ? xs[1] : xs[0], 1};
    const pa_matrix w = {
        .data = (const float *)pa_at(&p->w, b->bases) + d * p->w.stride[0],
        .rows = inputs(p),
        .columns = g,
        .row_stride = p->w.stride[2],
        .column_stride = p->w.stride[1],
    };
    pa_matmul_add(p->gemm, from, w, (pa_matrix){gates, rows, g, g, 1}, b->scratch, team);
}

void pa_recurrent_step(const void *op, void *const *bases, void *scratch, pa_team *team) {
    const pa_recurrent_op *p = op;
    const int64_t units = directions(p) * batch(p), work = gate_rows(p) * hidden(p);
    const int alone = units == 1 && work >= SHARED_WORK;
    prepare(p, bases, scratch);
    for (int64_t begin = 0; begin < times(p); begin += p->block) {
        const blocks b = {p, bases, scratch, alone ? team : NULL, begin, min64(begin + p->block, times(p))};
        for (int64_t d = 0; d < directions(p); d++) multiply_inputs(&b, d, team);
        if (alone)
            run_sequence(&b, 0, 0);
        else
            pa_team_run(team, run_sequence, &b, units);
    }
}
