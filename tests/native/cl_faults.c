/* Stands between the runtime and OpenCL: fails one call on demand, wakes up late, and counts the events and mappings that
 * are alive.
 *
 * cl_faults_open(path) says where the real functions are; cl_faults_arm(function, nth, code) lets the nth call of it from
 * now on, 0 being the next, answer `code` without reaching the driver. clReleaseEvent and clFinish are never failed:
 * nothing looks at their answer. cl_faults_late(every, us) lets every so many-th wait for events return so much later than
 * it could, the next one first; 0: none. */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

atomic_int cl_faults_events, cl_faults_mappings, cl_faults_hits;

static void *library;
static const char *armed; /* one of the names below, or NULL */
static atomic_int left;
static int answer;
static int late_every, late_us;
static atomic_int waits;

void cl_faults_open(const char *path) { library = dlopen(path, RTLD_NOW | RTLD_LOCAL); }

static int fails(const char *function) {
    if (!armed || strcmp(function, armed) || atomic_fetch_sub(&left, 1) != 0) return 0;
    atomic_fetch_add(&cl_faults_hits, 1);
    return answer;
}

static int made(int code, void **event) {
    if (!code && event) atomic_fetch_add(&cl_faults_events, 1);
    return code;
}

#define REAL(type, function, ...) ((type(*) __VA_ARGS__) dlsym(library, #function))

int clSetKernelArg(void *kernel, uint32_t index, size_t bytes, const void *value) {
    const int code = fails(__func__);
    return code ? code : REAL(int, clSetKernelArg, (void *, uint32_t, size_t, const void *))(kernel, index, bytes, value);
}

int clEnqueueNDRangeKernel(void *queue, void *kernel, uint32_t dimensions, const size_t *offset, const size_t *global,
                           const size_t *local, uint32_t count, void *const *wait, void **event) {
    const int code = fails(__func__);
    if (code) return code;
    return made(REAL(int, clEnqueueNDRangeKernel,
                     (void *, void *, uint32_t, const size_t *, const size_t *, const size_t *, uint32_t, void *const *,
                      void **))(queue, kernel, dimensions, offset, global, local, count, wait, event),
                event);
}

int clEnqueueReadBuffer(void *queue, void *mem, uint32_t blocking, size_t offset, size_t bytes, void *host,
                        uint32_t count, void *const *wait, void **event) {
    const int code = fails(__func__);
    if (code) return code;
    return made(REAL(int, clEnqueueReadBuffer,
                     (void *, void *, uint32_t, size_t, size_t, void *, uint32_t, void *const *, void **))(
                    queue, mem, blocking, offset, bytes, host, count, wait, event),
                event);
}

int clEnqueueWriteBuffer(void *queue, void *mem, uint32_t blocking, size_t offset, size_t bytes, const void *host,
                         uint32_t count, void *const *wait, void **event) {
    const int code = fails(__func__);
    if (code) return code;
    return made(REAL(int, clEnqueueWriteBuffer,
                     (void *, void *, uint32_t, size_t, size_t, const void *, uint32_t, void *const *, void **))(
                    queue, mem, blocking, offset, bytes, host, count, wait, event),
                event);
}

int clEnqueueWriteBufferRect(void *queue, void *mem, uint32_t blocking, const size_t *origin, const size_t *host_origin,
                             const size_t *region, size_t row_pitch, size_t slice_pitch, size_t host_row_pitch,
                             size_t host_slice_pitch, const void *host, uint32_t count, void *const *wait,
                             void **event) {
    const int code = fails(__func__);
    if (code) return code;
    return made(REAL(int, clEnqueueWriteBufferRect,
                     (void *, void *, uint32_t, const size_t *, const size_t *, const size_t *, size_t, size_t, size_t,
                      size_t, const void *, uint32_t, void *const *, void **))(
                    queue, mem, blocking, origin, host_origin, region, row_pitch, slice_pitch, host_row_pitch,
                    host_slice_pitch, host, count, wait, event),
                event);
}

void *clCreateBuffer(void *context, uint64_t flags, size_t bytes, void *host, int *code) {
    return REAL(void *, clCreateBuffer, (void *, uint64_t, size_t, void *, int *))(context, flags, bytes, host, code);
}

int clReleaseMemObject(void *mem) { return REAL(int, clReleaseMemObject, (void *))(mem); }

void *clEnqueueMapBuffer(void *queue, void *mem, uint32_t blocking, uint64_t flags, size_t offset, size_t bytes,
                         uint32_t count, void *const *wait, void **event, int *code) {
    *code = fails(__func__);
    if (*code) return NULL;
    void *data = REAL(void *, clEnqueueMapBuffer,
                      (void *, void *, uint32_t, uint64_t, size_t, size_t, uint32_t, void *const *, void **, int *))(
        queue, mem, blocking, flags, offset, bytes, count, wait, event, code);
    made(*code, event);
    if (!*code) atomic_fetch_add(&cl_faults_mappings, 1);
    return data;
}

int clEnqueueUnmapMemObject(void *queue, void *mem, void *mapped, uint32_t count, void *const *wait, void **event) {
    int code = fails(__func__);
    if (code) return code;
    code = REAL(int, clEnqueueUnmapMemObject, (void *, void *, void *, uint32_t, void *const *, void **))(
        queue, mem, mapped, count, wait, event);
    if (!code) atomic_fetch_sub(&cl_faults_mappings, 1);
    return made(code, event);
}

int clWaitForEvents(uint32_t count, void *const *events) {
    int code = fails(__func__);
    if (code) return code;
    code = REAL(int, clWaitForEvents, (uint32_t, void *const *))(count, events);
    if (late_every && atomic_fetch_add(&waits, 1) % late_every == 0) usleep(late_us);
    return code;
}

int clGetEventProfilingInfo(void *event, uint32_t name, size_t bytes, void *value, size_t *size) {
    const int code = fails(__func__);
    return code ? code
                : REAL(int, clGetEventProfilingInfo, (void *, uint32_t, size_t, void *, size_t *))(event, name, bytes,
                                                                                                 value, size);
}

int clReleaseEvent(void *event) {
    atomic_fetch_sub(&cl_faults_events, 1);
    return REAL(int, clReleaseEvent, (void *))(event);
}

int clFlush(void *queue) {
    const int code = fails(__func__);
    return code ? code : REAL(int, clFlush, (void *))(queue);
}

int clFinish(void *queue) { return REAL(int, clFinish, (void *))(queue); }

/* Only while no stage runs. NULL disarms. */
void cl_faults_arm(const char *function, int nth, int code) {
    static const char *const names[] = {
        "clSetKernelArg",     "clEnqueueNDRangeKernel",  "clEnqueueReadBuffer", "clEnqueueWriteBuffer", "clEnqueueWriteBufferRect",
        "clEnqueueMapBuffer", "clEnqueueUnmapMemObject", "clWaitForEvents",     "clGetEventProfilingInfo", "clFlush"};
    armed = NULL;
    for (size_t i = 0; function && i < sizeof names / sizeof *names; i++)
        if (!strcmp(function, names[i])) armed = names[i];
    answer = code;
    atomic_store(&left, nth);
    atomic_store(&cl_faults_hits, 0);
}

/* Only while no stage runs. */
void cl_faults_late(int every, int us) {
    late_every = every, late_us = us;
    atomic_store(&waits, 0);
}

void *clGetExtensionFunctionAddressForPlatform(void *platform, const char *name) {
    return REAL(void *, clGetExtensionFunctionAddressForPlatform, (void *, const char *))(platform, name);
}
