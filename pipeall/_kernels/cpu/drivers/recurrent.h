/* Recurrent layers: LSTM, GRU and the plain one, in ONNX's order of gates.
 * The op is a struct that its step function takes as `args`; the struct owns nothing. */
#ifndef PIPEALL_RECURRENT_H
#define PIPEALL_RECURRENT_H

#include "../kernels.h"
#include "../kernels_recurrent.h"

typedef enum pa_cell { PA_RNN, PA_GRU, PA_LSTM } pa_cell;
typedef enum pa_activation {
    PA_SIGMOID, PA_TANH, PA_RELU, PA_AFFINE, PA_LEAKYRELU, PA_THRESHOLDEDRELU, PA_SCALEDTANH, PA_HARDSIGMOID, PA_ELU,
    PA_SOFTSIGN, PA_SOFTPLUS
} pa_activation;

enum { PA_FUNCTIONS = 3 };
typedef struct pa_function {
    int32_t code; /* pa_activation */
    float alpha, beta;
} pa_function;

/* Of D directions, G gates, H numbers of state: x (T, N, I), w (D, G H, I), r (D, G H, H), b (D, 2 G H), h0 and c0 (D, N, H),
 * p (D, 3 H), all float32; c0 and p of an LSTM alone. */
typedef struct pa_recurrent_op {
    pa_strided x, w, r, b, h0, c0, p;
    pa_strided dst;  /* (T, D, N, H) where it has rank 4: all states; else the last ones, (D, N, H) */
    int32_t cell, gates;
    int32_t backwards[2]; /* per direction: from the last step of x to its first */
    int32_t cells;        /* dst is the last cells; where it has rank 4, they lie behind all states */
    int32_t option;       /* of a GRU: linear before reset; of an LSTM: the forget gate is 1 - the input gate */
    pa_function function[2][PA_FUNCTIONS];
    float clip; /* of what the gates' activations get */
    const pa_kernel_row *gemm, *gemv, *unary;
    const pa_kernel_row *kernel; /* lstm or gru, where that computes what the op says; else NULL */
    const float *packed; /* by pa_recurrent_pack; NULL: W and R are computed, and every frame packs them */

    /* set by plan, with what the scratch of all threads holds */
    const pa_kernel_row *input, *state; /* kernels of the products of x and of the state */
    int64_t now, later;                 /* floats from the weights of a direction to panels of R, and of R for later */
    int64_t block;                      /* steps whose products with W are made together */
    int64_t groups;                     /* of a batch's sequences, in each direction */
    int64_t bias_floats;                /* per direction */
    int64_t bias, peepholes, rows, gated, matrices, states, memories, spare; /* floats from the scratch's begin */
    int32_t copies_x;                   /* its rows do not lie as the products need */
    int64_t scratch_bytes;              /* per thread */
} pa_recurrent_op;
/* Once, after the fields before are set, for a team of `threads`; where W and R are constants `packed` may be any but NULL
 * until pa_recurrent_pack has filled so many floats, which were zero. */
void pa_recurrent_plan(pa_recurrent_op *op, int threads);
int64_t pa_recurrent_packed_floats(const pa_recurrent_op *op);
void pa_recurrent_pack(const pa_recurrent_op *op, void *const *bases, float *to);
void pa_recurrent_step(const void *op, void *const *bases, void *scratch, pa_team *team);

#endif
