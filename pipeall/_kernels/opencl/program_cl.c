#include "entry_points.h"

#include <dlfcn.h>
#include <stdio.h>

#include "../eventcount.h"
#include "import_cl.h"
#include "picture_cl.h"

enum { CL_INCOMPATIBLE_COMMAND_QUEUE_KHR = -1140 };
enum { CL_MAP_READ = 1, CL_MAP_WRITE = 2, CL_PROFILING_COMMAND_END = 0x1283 };

pa_cl_functions pa_cl;

const char *pa_cl_load(const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) return dlerror();
#define LOOK_UP(type, name, parameters)                                                                              \
    *(void **)&pa_cl.name = dlsym(library, #name);                                                                      \
    if (!pa_cl.name) return #name;
    PA_CL_FUNCTIONS(LOOK_UP)
#undef LOOK_UP
    return NULL;
}

const char *pa_cl_load_command_buffer(void *platform, pa_cl_command_buffer *buffers) {
#define LOOK_UP(type, name, parameters)                                                                              \
    *(void **)&buffers->name = pa_cl.clGetExtensionFunctionAddressForPlatform(platform, #name);                         \
    if (!buffers->name) return #name;
    PA_CL_COMMAND_BUFFER(LOOK_UP)
#undef LOOK_UP
    return NULL;
}

const char *pa_cl_error_name(int code) {
    switch (code) {
#define NAME(number, name)                                                                                           \
    case number: return #name;
        NAME(-4, CL_MEM_OBJECT_ALLOCATION_FAILURE)
        NAME(-5, CL_OUT_OF_RESOURCES)
        NAME(-6, CL_OUT_OF_HOST_MEMORY)
        NAME(-7, CL_PROFILING_INFO_NOT_AVAILABLE)
        NAME(-12, CL_MAP_FAILURE)
        NAME(-13, CL_MISALIGNED_SUB_BUFFER_OFFSET)
        NAME(-14, CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST)
        NAME(-30, CL_INVALID_VALUE)
        NAME(-34, CL_INVALID_CONTEXT)
        NAME(-36, CL_INVALID_COMMAND_QUEUE)
        NAME(-38, CL_INVALID_MEM_OBJECT)
        NAME(-45, CL_INVALID_PROGRAM_EXECUTABLE)
        NAME(-48, CL_INVALID_KERNEL)
        NAME(-49, CL_INVALID_ARG_INDEX)
        NAME(-50, CL_INVALID_ARG_VALUE)
        NAME(-51, CL_INVALID_ARG_SIZE)
        NAME(-52, CL_INVALID_KERNEL_ARGS)
        NAME(-54, CL_INVALID_WORK_GROUP_SIZE)
        NAME(-55, CL_INVALID_WORK_ITEM_SIZE)
        NAME(-61, CL_INVALID_BUFFER_SIZE)
        NAME(-59, CL_INVALID_OPERATION)
        NAME(-63, CL_INVALID_GLOBAL_WORK_SIZE)
        NAME(-1138, CL_INVALID_COMMAND_BUFFER_KHR)
#undef NAME
    }
    return "an unknown error";
}

int pa_cl_keep(pa_cl_program *self, int failed, int code, const char *call, const char *step) {
    if (failed || !code) return failed;
    snprintf(self->message, sizeof self->message, "%s failed with %s (%d)%s%s", call, pa_cl_error_name(code), code,
             step ? " in step " : "", step ? step : "");
    return code;
}

#define TRY_BUFFER(call, step, ...) failed = pa_cl_keep(self, failed, self->buffers.call(__VA_ARGS__), #call, step)

static int set_slots(pa_cl_program *self, void *const *memory) {
    int failed = 0;
    for (int32_t i = 0; i < self->patch_count && !failed; i++) {
        const pa_cl_patch *patch = &self->patches[i];
        TRY(clSetKernelArg, patch->step, patch->kernel, patch->argument, sizeof(void *), &memory[patch->base]);
    }
    return failed;
}

/* The command buffer with the launches on these slots, recorded if there is none; NULL where there is no room for it, or
 * on an error. A recording keeps the arguments its kernels have at the time. */
static void *recording(pa_cl_program *self, pa_cl_frame *f, void *const *memory, int *error) {
    void *in = memory[PA_SLOT_IN], *out = memory[PA_SLOT_OUT];
    for (int32_t i = 0; i < f->recording_count; i++)
        if (f->recordings[i].in == in && f->recordings[i].out == out &&
            f->recordings[i].pixels == self->picture.bound && f->recordings[i].first == f->from &&
            f->recordings[i].last == f->to)
            return f->recordings[i].buffer;
    if (f->recording_count == PA_CL_RECORDINGS) return NULL;
    int code = 0;
    void *buffer = self->buffers.clCreateCommandBufferKHR(1, &self->queue, NULL, &code);
    if (code == CL_INCOMPATIBLE_COMMAND_QUEUE_KHR) { /* this device records on queues of another kind only */
        self->buffers.clCreateCommandBufferKHR = NULL;
        return NULL;
    }
    int failed = pa_cl_keep(self, 0, code, "clCreateCommandBufferKHR", NULL);
    if (!failed) failed = set_slots(self, memory);
    for (int32_t i = f->from; i < f->to && !failed; i++) {
        const pa_cl_command *command = &self->commands[i];
        TRY_BUFFER(clCommandNDRangeKernelKHR, command->step, buffer, NULL, NULL, command->kernel, 3, NULL,
                   command->global, command->local, 0, NULL, NULL, NULL);
    }
    if (!failed) TRY_BUFFER(clFinalizeCommandBufferKHR, NULL, buffer);
    if (failed) {
        if (buffer) self->buffers.clReleaseCommandBufferKHR(buffer);
        *error = failed;
        return NULL;
    }
    f->recordings[f->recording_count++] = (pa_cl_recording){in, out, self->picture.bound, buffer, f->from, f->to};
    return buffer;
}

/* Enqueues every kernel, with an event for the last one; to have marks, for each. */
static int launch(pa_cl_program *self, pa_cl_frame *f, void *const *memory, const atomic_int *stop) {
    int failed = 0;
    if (self->opened && self->buffers.clCreateCommandBufferKHR && !f->marks && f->from < f->to) {
        void *buffer = recording(self, f, memory, &failed);
        if (buffer)
            TRY_BUFFER(clEnqueueCommandBufferKHR, NULL, 0, NULL, buffer, 0, NULL,
                       &f->events[f->to - 1]);
        if (buffer || failed) return failed;
    }
    failed = set_slots(self, memory);
    for (int32_t i = f->from; i < f->to && !failed; i++) {
        if (atomic_load_explicit(stop, memory_order_relaxed)) return PA_STOPPED;
        const pa_cl_command *command = &self->commands[i];
        TRY(clEnqueueNDRangeKernel, command->step, self->queue, command->kernel, 3, NULL, command->global,
            command->local, 0, NULL, f->marks || i == f->to - 1 ? &f->events[i] : NULL);
    }
    return failed;
}

/* What turns times of the device into those of the host, which saw a command end at `seen` that ended at `ended`: the
 * least difference so far, for the host only ever sees late. Clocks differ in speed: by less than a thousandth. */
static int64_t to_host(pa_cl_program *self, int64_t seen, int64_t ended) {
    const int64_t difference = seen - ended, most = self->to_host_ns + (seen - self->seen_ns) / 1000;
    self->to_host_ns = self->seen_ns && most < difference ? most : difference;
    self->seen_ns = seen;
    return self->to_host_ns;
}

static int64_t later(int64_t a, int64_t b) { return a > b ? a : b; }

/* Fills the marks of a frame whose commands have all ended, the last one seen by the host at `computed`. The first began
 * when the frame was given, or when the frame before had ended. */
static int record(pa_cl_program *self, const pa_cl_frame *f, int64_t computed) {
    uint64_t ended = 0;
    int failed = 0;
    for (int32_t i = f->from; i < f->to; i++) {
        TRY(clGetEventProfilingInfo, self->commands[i].step, f->events[i], CL_PROFILING_COMMAND_END, sizeof ended,
            &ended, NULL);
        f->marks[i + 1] = (int64_t)ended;
    }
    if (failed) return failed;
    const int64_t difference = f->from < f->to ? to_host(self, computed, (int64_t)ended) : self->to_host_ns;
    pa_fill_marks(f->marks, later(f->given, self->ended_ns + difference), 0, f->from);
    for (int32_t i = f->from + 1; i <= f->to; i++) f->marks[i] = later(f->marks[i] + difference, f->marks[i - 1]);
    if (f->from < f->to) self->ended_ns = (int64_t)ended;
    pa_fill_marks(f->marks, f->marks[f->to], f->to, self->command_count);
    return 0;
}

static void release_events(pa_cl_program *self, pa_cl_frame *f) {
    for (int32_t i = 0; i < self->command_count; i++) {
        if (f->events[i]) pa_cl.clReleaseEvent(f->events[i]);
        f->events[i] = NULL;
    }
    if (f->last) pa_cl.clReleaseEvent(f->last);
    f->last = NULL;
}

/* A slot's state at rest: mapped for the CPU, also after an error, unless it is the mapping that failed. */
static void give_back(pa_cl_frame *f) {
    for (int s = PA_SLOT_IN; s <= PA_SLOT_OUT; s++)
        if (f->unmapped[s]) f->slots[s]->data = f->data[s];
}

static int cl_start(pa_program *program, pa_slot_memory *in, pa_slot_memory *out, int32_t first, int32_t last,
                    const atomic_int *stop) {
    pa_cl_program *self = (pa_cl_program *)program;
    pa_cl_frame *f = &self->frames[(self->oldest + self->under_way) % PA_DEPTH_MAX];
    void *memory[PA_BASES] = {NULL}, *queue = self->queue;
    int failed = 0;
    f->slots[PA_SLOT_IN] = in, f->slots[PA_SLOT_OUT] = out;
    f->data[PA_SLOT_IN] = f->data[PA_SLOT_OUT] = NULL;
    f->unmapped[PA_SLOT_IN] = f->unmapped[PA_SLOT_OUT] = 0;
    f->marks = program->marks;
    f->from = first, f->to = last;

    const int64_t arrived = pa_now_ns();
    if (self->picture.argument_of) failed = pa_cl_picture_give(self, f);
    const int64_t begin = pa_now_ns();
    for (int s = PA_SLOT_IN; s <= PA_SLOT_OUT; s++) {
        pa_slot_memory *slot = f->slots[s];
        memory[s] = slot->mem ? slot->mem : self->staging[s];
        if (!slot->mem || failed) continue;
        TRY(clEnqueueUnmapMemObject, NULL, queue, slot->mem, slot->data, 0, NULL, NULL);
        f->unmapped[s] = !failed;
    }
    const int64_t unmapping = pa_now_ns();
    if (!in->mem && !failed)
        TRY(clEnqueueWriteBuffer, NULL, queue, memory[PA_SLOT_IN], CL_TRUE, 0, self->bytes[PA_SLOT_IN], in->data, 0,
            NULL, NULL);
    f->given = in->mem ? unmapping : pa_now_ns();
    if (!failed) failed = launch(self, f, memory, stop);

    if (!out->mem && !failed)
        TRY(clEnqueueReadBuffer, NULL, queue, memory[PA_SLOT_OUT], CL_FALSE, 0, self->bytes[PA_SLOT_OUT], out->data,
            0, NULL, &f->last);
    for (int s = PA_SLOT_IN; s <= PA_SLOT_OUT; s++) {
        if (!f->unmapped[s]) continue;
        void *event = NULL;
        int code;
        void *data = pa_cl.clEnqueueMapBuffer(queue, f->slots[s]->mem, CL_FALSE, CL_MAP_READ | CL_MAP_WRITE, 0,
                                            f->slots[s]->bytes, 0, NULL, &event, &code);
        failed = pa_cl_keep(self, failed, code, "clEnqueueMapBuffer", NULL);
        if (code) continue;
        f->data[s] = data;
        if (f->last) pa_cl.clReleaseEvent(f->last);
        f->last = event;
    }
    program->map_ns += unmapping - begin;
    program->copy_ns += f->given - unmapping + (begin - arrived);
    if (!failed) TRY(clFlush, NULL, queue);
    if (failed) { /* whatever was enqueued ends first, earlier frames too */
        pa_cl.clFinish(queue);
        give_back(f);
        release_events(self, f);
        return failed;
    }
    self->under_way++;
    return 0;
}

static int cl_finish(pa_program *program) {
    pa_cl_program *self = (pa_cl_program *)program;
    pa_cl_frame *f = &self->frames[self->oldest];
    int failed = 0;
    void **computing = f->from < f->to ? &f->events[f->to - 1] : NULL;
    if (computing) TRY(clWaitForEvents, NULL, 1, computing);
    const int64_t computed = pa_now_ns();
    if (f->last) TRY(clWaitForEvents, NULL, 1, &f->last);
    const int64_t waited = pa_now_ns() - computed;
    if (f->slots[PA_SLOT_OUT]->mem)
        program->map_ns += waited;
    else
        program->copy_ns += waited;
    give_back(f);
    if (f->marks && !failed) failed = record(self, f, computed);
    release_events(self, f);
    self->oldest = (self->oldest + 1) % PA_DEPTH_MAX;
    self->under_way--;
    return failed;
}

static int cl_open(pa_program *program) {
    ((pa_cl_program *)program)->opened = 1;
    return 0;
}

void pa_cl_forget_recordings(pa_cl_program *self) {
    for (pa_cl_frame *f = self->frames; f < self->frames + PA_DEPTH_MAX; f++)
        while (f->recording_count) self->buffers.clReleaseCommandBufferKHR(f->recordings[--f->recording_count].buffer);
}

static void cl_close(pa_program *program) {
    pa_cl_program *self = (pa_cl_program *)program;
    pa_cl.clFinish(self->queue);
    self->opened = 0;
    pa_cl_forget_recordings(self);
    pa_cl_forget_imports(&self->picture);
}

static const char *cl_error(const pa_program *program, int code) { return ((const pa_cl_program *)program)->message; }

void pa_cl_program_init(pa_cl_program *self) {
    self->program = (pa_program){.open = cl_open, .start = cl_start, .finish = cl_finish, .close = cl_close,
                                 .error = cl_error, .depth = PA_DEPTH_MAX};
}

void *pa_cl_map(void *queue, void *mem, size_t bytes, int *code) {
    return pa_cl.clEnqueueMapBuffer(queue, mem, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0, bytes, 0, NULL, NULL, code);
}

int pa_cl_unmap(void *queue, void *mem, void *data) {
    const int code = pa_cl.clEnqueueUnmapMemObject(queue, mem, data, 0, NULL, NULL);
    return code ? code : pa_cl.clFinish(queue);
}
