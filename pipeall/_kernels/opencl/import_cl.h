/* Frames that lie in a dma-buf, of a camera or a decoder, read there by the device (cl_arm_import_memory).
 *
 * A buffer is imported once, by the numbers of its file, and let go when the program closes or PA_CL_IMPORTS others
 * came after it. Never run on hardware: tests stand in for the extension. */
#ifndef PIPEALL_IMPORT_CL_H
#define PIPEALL_IMPORT_CL_H

#include "program_cl.h"

/* The buffer of a dma-buf. Returns 0 or an OpenCL error; *mem is NULL where its file has no numbers of its own, as in
 * Linux before 5.3. */
int pa_cl_import_dma_buf(pa_cl_program *self, int descriptor, size_t bytes, void **mem);

/* Lets all go; none may be in use. */
void pa_cl_forget_imports(pa_cl_picture *picture);

#endif
