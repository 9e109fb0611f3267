/* 1x1 convolution with seven products of quarters in place of eight: the driver above the GEMM micro-kernels. */
#ifndef PIPEALL_STRASSEN_H
#define PIPEALL_STRASSEN_H

#include "conv.h"

typedef struct pa_strassen_op {
    pa_conv_op conv; /* 1x1, one group, no padding; Cin even, Cout a multiple of 2 NR; weight as packed for the GEMM,
                        which pa_strassen_pack reads and no frame does */
    pa_strassen_split_f32_fn split;
    pa_strassen_join_f32_fn join;
    pa_binary_f32_fn add;
    const float *packed; /* what the products take of the weights (pa_strassen_pack) */

    int64_t pairs;          /* of rows of a chunk */
    int64_t scratch_floats; /* per thread */
} pa_strassen_op;

/* Fills pairs and scratch_floats, for a team of `threads`; conv is set. */
void pa_strassen_plan(pa_strassen_op *op, int threads);
int64_t pa_strassen_packed_floats(const pa_strassen_op *op);
/* [7][panel][Cin / 2][NR], in the order in which the products read them. */
void pa_strassen_pack(const pa_strassen_op *op, float *packed);
void pa_strassen_step(const void *op, void *const *bases, void *scratch, pa_team *team);

#endif
