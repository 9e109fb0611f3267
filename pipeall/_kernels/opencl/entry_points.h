/* The entry points of OpenCL that programs use, found at run time (pa_cl_load), and how a frame keeps its first failure. */
#ifndef PIPEALL_ENTRY_POINTS_H
#define PIPEALL_ENTRY_POINTS_H

#include "program_cl.h"

/* From the OpenCL 1.2 specification. Handles are opaque pointers. */
typedef uint64_t cl_map_flags;
enum { CL_FALSE = 0, CL_TRUE = 1 };

#define PA_CL_FUNCTIONS(X)                                                                                                 \
    X(int, clSetKernelArg, (void *kernel, uint32_t index, size_t bytes, const void *value))                         \
    X(int, clEnqueueNDRangeKernel,                                                                                   \
      (void *queue, void *kernel, uint32_t dimensions, const size_t *offset, const size_t *global,                  \
       const size_t *local, uint32_t wait_count, void *const *wait, void **event))                                  \
    X(int, clEnqueueReadBuffer,                                                                                      \
      (void *queue, void *mem, uint32_t blocking, size_t offset, size_t bytes, void *host, uint32_t wait_count,     \
       void *const *wait, void **event))                                                                             \
    X(int, clEnqueueWriteBuffer,                                                                                     \
      (void *queue, void *mem, uint32_t blocking, size_t offset, size_t bytes, const void *host,                    \
       uint32_t wait_count, void *const *wait, void **event))                                                        \
    X(int, clEnqueueWriteBufferRect,                                                                                  \
      (void *queue, void *mem, uint32_t blocking, const size_t *origin, const size_t *host_origin,                   \
       const size_t *region, size_t row_pitch, size_t slice_pitch, size_t host_row_pitch, size_t host_slice_pitch,   \
       const void *host, uint32_t wait_count, void *const *wait, void **event))                                      \
    X(void *, clCreateBuffer, (void *context, uint64_t flags, size_t bytes, void *host, int *code))                  \
    X(int, clReleaseMemObject, (void *mem))                                                                          \
    X(void *, clEnqueueMapBuffer,                                                                                    \
      (void *queue, void *mem, uint32_t blocking, cl_map_flags flags, size_t offset, size_t bytes,                  \
       uint32_t wait_count, void *const *wait, void **event, int *code))                                            \
    X(int, clEnqueueUnmapMemObject,                                                                                  \
      (void *queue, void *mem, void *mapped, uint32_t wait_count, void *const *wait, void **event))                 \
    X(int, clWaitForEvents, (uint32_t count, void *const *events))                                                  \
    X(int, clGetEventProfilingInfo,                                                                                  \
      (void *event, uint32_t name, size_t bytes, void *value, size_t *bytes_of_value))                              \
    X(int, clReleaseEvent, (void *event))                                                                            \
    X(void *, clGetExtensionFunctionAddressForPlatform, (void *platform, const char *name))                         \
    X(int, clFlush, (void *queue))                                                                                   \
    X(int, clFinish, (void *queue))

typedef struct pa_cl_functions {
#define PA_CL_MEMBER(type, name, parameters) type(*name) parameters;
    PA_CL_FUNCTIONS(PA_CL_MEMBER)
#undef PA_CL_MEMBER
} pa_cl_functions;

extern pa_cl_functions pa_cl;

/* Keeps the first failure of a frame: its code, and which call and step it was. Returns the code of the first. */
int pa_cl_keep(pa_cl_program *self, int failed, int code, const char *call, const char *step);

#define TRY(call, step, ...) failed = pa_cl_keep(self, failed, pa_cl.call(__VA_ARGS__), #call, step)

#endif
