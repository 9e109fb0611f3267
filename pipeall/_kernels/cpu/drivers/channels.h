/* Steps over the channels of each pixel: local response normalisation, softmax, layer normalisation.
 * Each op is a struct that its step function takes as `args`; the struct owns nothing.
 * Where there is a pa_<op>_plan, call it once, after all other fields are set. */
#ifndef PIPEALL_CHANNELS_H
#define PIPEALL_CHANNELS_H

#include "../kernels.h"

typedef struct pa_lrn_op {
    pa_view src, dst; /* of equal shape */
    int32_t size;     /* channels in the window, >= 1 */
    float alpha, beta, bias;
    pa_lrn_f32_fn kernel;
    int64_t scratch_floats; /* set by plan: per thread, the squares of two pixels */
} pa_lrn_op;
void pa_lrn_plan(pa_lrn_op *op);
void pa_lrn_step(const void *op, void *const *bases, void *scratch, pa_team *team);

/* Over the channels of each pixel. */
typedef struct pa_softmax_op {
    pa_view src, dst; /* of equal shape */
    pa_softmax_f32_fn kernel;
} pa_softmax_op;
void pa_softmax_step(const void *op, void *const *bases, void *scratch, pa_team *team);

typedef struct pa_layernorm_op {
    pa_view src, dst; /* of equal shape */
    float epsilon;
    pa_layernorm_f32_fn kernel;
} pa_layernorm_op;
void pa_layernorm_step(const void *op, void *const *bases, void *scratch, pa_team *team);

#endif
