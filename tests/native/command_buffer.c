/* cl_khr_command_buffer for a device without it, as far as program_cl.c uses it: a recording keeps the arguments that its
 * kernels were given through this library, and is enqueued launch by launch. Counts what was called; refuses what the
 * extension forbids. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { INVALID_OPERATION = -59, EXECUTION_STATUS = 0x11D3, MOST = 256 };

int clReleaseEvent(void *event);
int clGetEventInfo(void *event, uint32_t name, size_t bytes, void *value, size_t *size);
int clRetainEvent(void *event);
int clEnqueueNDRangeKernel(void *queue, void *kernel, uint32_t dimensions, const size_t *offset, const size_t *global,
                           const size_t *local, uint32_t wait_count, void *const *wait, void **event);

typedef struct argument {
    void *kernel, *value;
    uint32_t index;
} argument;

typedef struct recorded {
    void *queue, *kernels[MOST], *pending;
    size_t global[MOST][3], local[MOST][3];
    argument arguments[MOST];
    int count, argument_count, final;
} recorded;

static __thread argument last[MOST]; /* set by this stage's thread: of handles alone, which is all a frame changes */
static __thread int last_count;

int created, enqueued, alive, refuse, hidden;

static int set(const argument *a) {
    int (*real)(void *, uint32_t, size_t, const void *) = dlsym(RTLD_NEXT, "clSetKernelArg");
    return real(a->kernel, a->index, sizeof(void *), &a->value);
}

int clSetKernelArg(void *kernel, uint32_t index, size_t bytes, const void *value) {
    int i = 0;
    while (i < last_count && (last[i].kernel != kernel || last[i].index != index))
        i++;
    if (i == MOST || bytes != sizeof(void *)) return INVALID_OPERATION;
    last[i] = (argument){kernel, *(void *const *)value, index};
    last_count += i == last_count;
    return set(&last[i]);
}

static void *create(uint32_t queue_count, void *const *queues, const uint64_t *properties, int *code) {
    *code = refuse;
    if (refuse) return NULL;
    recorded *self = calloc(1, sizeof *self);
    self->queue = queues[0];
    created++, alive++;
    return self;
}

static int command(recorded *self, void *queue, const uint64_t *properties, void *kernel, uint32_t dimensions,
                   const size_t *offset, const size_t *global, const size_t *local, uint32_t wait_count,
                   const uint32_t *wait, uint32_t *point, void **mutable_command) {
    if (queue || self->final || self->count == MOST || dimensions != 3) return INVALID_OPERATION;
    for (int i = 0; i < last_count; i++)
        if (last[i].kernel == kernel) self->arguments[self->argument_count++] = last[i];
    self->kernels[self->count] = kernel;
    memcpy(self->global[self->count], global, sizeof self->global[0]);
    memcpy(self->local[self->count++], local, sizeof self->local[0]);
    return 0;
}

static int finalize(recorded *self) { return self->final++ ? INVALID_OPERATION : 0; }

static int enqueue(uint32_t queue_count, void *const *queues, recorded *self, uint32_t wait_count, void *const *wait,
                   void **event) {
    int status = 0, code = 0;
    if (!self->final) return INVALID_OPERATION;
    if (self->pending) { /* not twice at a time */
        code = clGetEventInfo(self->pending, EXECUTION_STATUS, sizeof status, &status, NULL);
        if (code || status > 0) return INVALID_OPERATION;
        clReleaseEvent(self->pending);
    }
    for (int i = 0; i < self->argument_count && !code; i++)
        code = set(&self->arguments[i]);
    for (int i = 0; i < self->count && !code; i++)
        code = clEnqueueNDRangeKernel(self->queue, self->kernels[i], 3, NULL, self->global[i], self->local[i], 0, NULL,
                                      i == self->count - 1 ? event : NULL);
    if (code) return code;
    self->pending = *event;
    enqueued++;
    return clRetainEvent(self->pending);
}

static int release(recorded *self) {
    if (self->pending) clReleaseEvent(self->pending);
    free(self);
    alive--;
    return 0;
}

void *clGetExtensionFunctionAddressForPlatform(void *platform, const char *name) {
    if (hidden) return NULL;
    if (!strcmp(name, "clCreateCommandBufferKHR")) return (void *)create;
    if (!strcmp(name, "clCommandNDRangeKernelKHR")) return (void *)command;
    if (!strcmp(name, "clFinalizeCommandBufferKHR")) return (void *)finalize;
    if (!strcmp(name, "clEnqueueCommandBufferKHR")) return (void *)enqueue;
    if (!strcmp(name, "clReleaseCommandBufferKHR")) return (void *)release;
    return NULL;
}
