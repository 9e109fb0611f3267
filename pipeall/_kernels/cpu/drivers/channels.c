#include "channels.h"

#include "chunks.h"

static void lrn_pixels(const job *j, int64_t begin, int64_t end, int thread) {
    const pa_lrn_op *p = j->op;
    const pa_lrn_args args = {
        .pixels = (int32_t)(end - begin),
        .channels = p->src.c,
        .size = p->size,
        .alpha = p->alpha,
        .beta = p->beta,
        .bias = p->bias,
        .x = pa_f32_at(&p->src, j->bases) + begin * p->src.stride,
        .x_stride = p->src.stride,
        .out = pa_f32_at(&p->dst, j->bases) + begin * p->dst.stride,
        .out_stride = p->dst.stride,
        .squares = (float *)j->scratch + thread * p->scratch_floats,
    };
    p->kernel(&args);
}

void pa_lrn_plan(pa_lrn_op *p) {
    p->scratch_floats = round_up(2 * ((int64_t)p->src.c + p->size + 2 * PA_LANES_MAX), 16);
}

void pa_lrn_step(const void *op, void *const *bases, void *scratch, pa_team *team) {
    const pa_lrn_op *p = op;
    run(op, bases, scratch, team, lrn_pixels, pixels(&p->src), p->src.c);
}

static void softmax_pixels(const job *j, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const pa_softmax_op *p = j->op;
    const float *src = pa_f32_at(&p->src, j->bases);
    float *dst = pa_f32_at(&p->dst, j->bases);
    p->kernel(end - begin, p->src.c, src + begin * p->src.stride, p->src.stride, dst + begin * p->dst.stride,
              p->dst.stride);
}

void pa_softmax_step(const void *op, void *const *bases, void *scratch, pa_team *team) {
    const pa_softmax_op *p = op;
    run(op, bases, scratch, team, softmax_pixels, pixels(&p->src), p->src.c);
}

static void layernorm_pixels(const job *j, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const pa_layernorm_op *p = j->op;
    const float *src = pa_f32_at(&p->src, j->bases);
    float *dst = pa_f32_at(&p->dst, j->bases);
    for (int64_t i = begin; i < end; i++)
        p->kernel(p->src.c, src + i * p->src.stride, dst + i * p->dst.stride, p->epsilon);
}

void pa_layernorm_step(const void *op, void *const *bases, void *scratch, pa_team *team) {
    const pa_layernorm_op *p = op;
    run(op, bases, scratch, team, layernorm_pixels, pixels(&p->src), p->src.c);
}
