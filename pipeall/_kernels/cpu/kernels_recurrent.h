/* The micro-kernels of recurrent layers (kernels.h has the others). */
#ifndef PIPEALL_KERNELS_RECURRENT_H
#define PIPEALL_KERNELS_RECURRENT_H

#include <stdint.h>

/* From the sums of an LSTM's gates i, o, f and g, each n floats and all one behind the other, to its cell and state:
 *   c = sigmoid(f) c + sigmoid(i) tanh(g),  h = sigmoid(o) tanh(c) */
typedef void (*pa_lstm_f32_fn)(int64_t n, const float *gates, float *c, float *h);

/* The same of a GRU's gates z, r and g:  h = sigmoid(z) h + (1 - sigmoid(z)) tanh(g + sigmoid(r) past) */
typedef void (*pa_gru_f32_fn)(int64_t n, const float *gates, const float *past, float *h);

#endif
