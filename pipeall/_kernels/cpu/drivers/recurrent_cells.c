#include "recurrent_cells.h"

#include <math.h>

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

static int64_t hidden(const pa_cells *s) { return s->op->r.size[2]; }

static void lstm_cell(const pa_cells *s, float *gates, float *h, float *c) {
    const pa_recurrent_op *p = s->op;
    const int64_t n = hidden(s);
    float *in = gates, *out = gates + n, *forget = gates + 2 * n, *cell = gates + 3 * n, *spare = s->spare;
    const float *p_in = s->peepholes, *p_out = p_in + n, *p_forget = p_in + 2 * n;
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
    memcpy(spare, c, (size_t)n * sizeof(float));
    activate(p, &s->function[2], n, spare);
    for (int64_t i = 0; i < n; i++) h[i] = out[i] * spare[i];
}

void pa_lstm_cells(const pa_cells *s, float *gates) {
    const int64_t n = hidden(s);
    for (int64_t k = 0; k < s->count; k++) {
        float *row = gates + k * 4 * n, *h = s->h + k * n, *c = s->c + k * n;
        if (s->op->kernel)
            PA_FUNCTION(lstm, f32, s->op->kernel)(n, row, c, h);
        else
            lstm_cell(s, row, h, c);
    }
}

void pa_gru_resets(const pa_cells *s, float *gates) {
    const pa_recurrent_op *p = s->op;
    const int64_t n = hidden(s);
    for (int64_t k = 0; k < s->count && !p->kernel; k++) {
        float *row = gates + k * 3 * n, *reset = row + n, *next = row + 2 * n, *past = s->spare + k * n, *h = s->h + k * n;
        clip(p, 2 * n, row);
        activate(p, &s->function[0], 2 * n, row);
        for (int64_t i = 0; i < n && p->option; i++) next[i] += reset[i] * past[i];
        for (int64_t i = 0; i < n && !p->option; i++) past[i] = reset[i] * h[i];
    }
}

void pa_gru_cells(const pa_cells *s, float *gates) {
    const pa_recurrent_op *p = s->op;
    const int64_t n = hidden(s);
    for (int64_t k = 0; k < s->count; k++) {
        float *update = gates + k * 3 * n, *next = update + 2 * n, *h = s->h + k * n;
        if (p->kernel) {
            PA_FUNCTION(gru, f32, p->kernel)(n, update, s->spare + k * n, h);
            continue;
        }
        clip(p, n, next);
        activate(p, &s->function[1], n, next);
        for (int64_t i = 0; i < n; i++) h[i] = (1 - update[i]) * next[i] + update[i] * h[i];
    }
}

void pa_rnn_cells(const pa_cells *s, float *gates) {
    const int64_t n = s->count * hidden(s);
    clip(s->op, n, gates);
    activate(s->op, &s->function[0], n, gates);
    memcpy(s->h, gates, (size_t)n * sizeof(float));
}
