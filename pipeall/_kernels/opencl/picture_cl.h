/* Pictures on an OpenCL device: before its launches a frame's bytes, and the weights of its pixels, go to the device. A
 * frame in a dma-buf stays there where the device can import that (import_cl.h).
 *
 * The bytes are read where the frame lies, after the program has started and until the frame is done. */
#ifndef PIPEALL_PICTURE_CL_H
#define PIPEALL_PICTURE_CL_H

#include "program_cl.h"

/* int32 that a table has at most for a network's input of so many rows and columns; picture.cl says what they are. */
enum { PA_CL_PICTURE_HEAD = 24 };
static inline int64_t pa_cl_picture_ints(int64_t rows, int64_t columns) {
    return PA_CL_PICTURE_HEAD + rows + columns + pa_picture_table(rows) + pa_picture_table(columns);
}

/* Fills in the memory of `picture`, whose other fields are set but for the pixels. Returns 0 where there is none. */
int pa_cl_picture_init(pa_cl_picture *picture);
void pa_cl_picture_free(pa_cl_picture *picture);

/* Enqueues what the frame's launches read of the picture that a slot describes. Returns 0 or an OpenCL error. */
int pa_cl_picture_give(pa_cl_program *self, const pa_cl_frame *f);

#endif
