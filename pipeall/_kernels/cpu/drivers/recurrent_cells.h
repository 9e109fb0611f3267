/* What recurrent layers do between products, each sequence by itself. */
#ifndef PIPEALL_RECURRENT_CELLS_H
#define PIPEALL_RECURRENT_CELLS_H

#include "recurrent.h"

/* A row of H floats of each of some sequences in h, c (an LSTM's) and spare; in their gates, which each call is given, the
 * op's G H floats. */
typedef struct pa_cells {
    const pa_recurrent_op *op;
    const pa_function *function; /* of the direction */
    int64_t count;
    const float *peepholes;
    float *h, *c, *spare;
} pa_cells;

/* From the gates' sums to the states. */
void pa_lstm_cells(const pa_cells *s, float *gates);
void pa_rnn_cells(const pa_cells *s, float *gates);
/* A GRU's in two parts. spare: R times the state, or afterwards what R is to be multiplied by, and the sum is to be added to
 * the gates of the next state. */
void pa_gru_resets(const pa_cells *s, float *gates);
void pa_gru_cells(const pa_cells *s, float *gates);

#endif
