/* Stands between pyopencl and OpenCL: the process ends where it is given a compiled program. */
#include <stdlib.h>

void *clCreateProgramWithBinary(void *context, unsigned count, void *const *devices, const size_t *lengths,
                                const unsigned char **binaries, int *status, int *code) {
    abort();
}
