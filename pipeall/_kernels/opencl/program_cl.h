/* A program of an OpenCL device: a recorded list of kernel launches, replayed once per frame without Python.
 *
 * No OpenCL headers or library are needed to build: the few entry points used are looked up at run time in
 * the library that already serves this process (pyopencl's extension module), and its handles, which are
 * pointers, are passed in. All commands go to one in-order queue, owned by this program.
 *
 * A slot whose memory is an OpenCL buffer is mapped (readable and writable by the CPU) whenever it is not the program's:
 * start() unmaps both slots, launches, maps them again behind the launches and returns; finish() waits for the mapping.
 * A slot that cannot be mapped again has no data: its frame fails, and none uses it after that.
 * On unified memory this copies nothing. A slot of plain host memory is copied through a staging buffer. Two frames may
 * be on the queue, so that the device goes on with the second while the CPU is told of the first.
 *
 * On a device with cl_khr_command_buffer an open program records its launches once for every pair of slots and enqueues
 * the recording, one call per frame, unless marks are asked for: a recording has one event for all of it.
 *
 * Recording marks needs a queue with profiling. A command ends when the device says so. Device times become host times by
 * the least difference at which the host has seen a frame end: late by its quickest wake-up, however late it woke up for
 * this frame. A frame may have begun, and ended, before the host has seen the end of the one before it. */
#ifndef PIPEALL_PROGRAM_CL_H
#define PIPEALL_PROGRAM_CL_H

#include "../picture_frame.h"
#include "../program.h"

/* One launch. Kernel objects are not shared between commands: their arguments persist. local divides global. */
typedef struct pa_cl_command {
    void *kernel;
    const char *step; /* name of the node, for errors */
    size_t global[3], local[3];
} pa_cl_command;

/* Argument `argument` of the kernel is the memory of slot `base`, set before each frame. */
typedef struct pa_cl_patch {
    void *kernel;
    const char *step;
    uint32_t argument;
    int32_t base; /* PA_SLOT_IN or PA_SLOT_OUT */
} pa_cl_patch;

/* The entry points of cl_khr_command_buffer, which are of a platform. */
#define PA_CL_COMMAND_BUFFER(X)                                                                                      \
    X(void *, clCreateCommandBufferKHR,                                                                              \
      (uint32_t queue_count, void *const *queues, const uint64_t *properties, int *code))                           \
    X(int, clCommandNDRangeKernelKHR,                                                                                \
      (void *buffer, void *queue, const uint64_t *properties, void *kernel, uint32_t dimensions,                    \
       const size_t *offset, const size_t *global, const size_t *local, uint32_t wait_count, const uint32_t *wait,  \
       uint32_t *point, void **mutable_command))                                                                    \
    X(int, clFinalizeCommandBufferKHR, (void *buffer))                                                               \
    X(int, clEnqueueCommandBufferKHR,                                                                                \
      (uint32_t queue_count, void *const *queues, void *buffer, uint32_t wait_count, void *const *wait,             \
       void **event))                                                                                                \
    X(int, clReleaseCommandBufferKHR, (void *buffer))

typedef struct pa_cl_command_buffer {
#define PA_CL_MEMBER(type, name, parameters) type(*name) parameters;
    PA_CL_COMMAND_BUFFER(PA_CL_MEMBER)
#undef PA_CL_MEMBER
} pa_cl_command_buffer;

/* A dma-buf that the device reads in place, by the numbers of its file: none other has them while it is imported. */
typedef struct pa_cl_import {
    uint64_t device, inode;
    void *mem;
} pa_cl_import;
enum { PA_CL_IMPORTS = 32 }; /* the most buffers of a V4L2 camera */

/* Launches [first, last) on two slots, of the picture in a buffer; more of these than there is room for are launched one by one. */
typedef struct pa_cl_recording {
    void *in, *out, *pixels, *buffer;
    int32_t first, last;
} pa_cl_recording;
enum { PA_CL_RECORDINGS = 24 };

/* The step that makes the network's input of a picture (picture_cl.h). */
typedef struct pa_cl_picture {
    void *argument_of;  /* the kernel whose argument 0 is the frame's bytes; NULL: there is no such step */
    const char *step;
    void *context;
    int64_t offset;     /* bytes: where a frame's words lie in slot `base` */
    int32_t base;
    int64_t rows, columns; /* of the network's input */
    int32_t filter, format;
    int64_t example[PA_PICTURE_WORDS]; /* what is read where the words are 0 */
    void *table;        /* buffer of what the kernel reads of a frame but its bytes */
    void *pixels;       /* buffer of its bytes, which grows */
    size_t pixels_bytes;
    void *importing;    /* the platform, where the device has cl_arm_import_memory; else NULL */
    pa_cl_import imports[PA_CL_IMPORTS];
    int32_t oldest_import; /* the next to go */
    void *bound;        /* argument 0 of the kernel, where it is set: `pixels`, or an import */
    int32_t *host[PA_DEPTH_MAX]; /* the table of each frame on the queue */
} pa_cl_picture;

/* A frame on the queue. */
typedef struct pa_cl_frame {
    pa_slot_memory *slots[PA_BASES];
    int unmapped[PA_BASES]; /* slots whose buffer is the device's meanwhile; plain memory never is */
    void *data[PA_BASES];  /* where those are mapped again, NULL where that failed */
    int64_t *marks, given;
    int32_t from, to; /* its commands: [from, to) */
    void **events; /* [command_count] of the launches: all to record, else the last one; NULL where there is none */
    void *last;    /* event of the last command */
    pa_cl_recording recordings[PA_CL_RECORDINGS]; /* its own: one must not be enqueued again while it runs */
    int32_t recording_count;
} pa_cl_frame;

typedef struct pa_cl_program {
    pa_program program; /* first: the runtime sees only this */
    void *queue;
    int opened;
    pa_cl_command_buffer buffers; /* zeros where the device cannot record */
    int32_t command_count, patch_count;
    pa_cl_command *commands;
    pa_cl_patch *patches;
    pa_cl_frame frames[PA_DEPTH_MAX];
    pa_cl_picture picture;
    int32_t oldest, under_way; /* frames on the queue, from frames[oldest] on */
    void *staging[PA_BASES]; /* buffers for slots of plain memory; [PA_ARENA] is unused */
    size_t bytes[PA_BASES];  /* what the program reads of its slot and writes to it */
    /* Of recorded frames: what is added to a time of the device to make it the host's; the host's time at which it saw the
     * latest frame end, and the device's at which that ended. */
    int64_t to_host_ns, seen_ns, ended_ns;
    char message[256];       /* text of the last error */
} pa_cl_program;

/* Fills in `program`; the other fields are the caller's. */
void pa_cl_program_init(pa_cl_program *self);

/* Releases all recordings; none may be running. */
void pa_cl_forget_recordings(pa_cl_program *self);

/* Looks the entry points up in the shared library at path. Returns NULL, or what is missing. */
const char *pa_cl_load(const char *path);

/* Fills in the entry points of a platform; of the library loaded. Returns NULL, or what is missing. */
const char *pa_cl_load_command_buffer(void *platform, pa_cl_command_buffer *buffers);

/* Maps `bytes` of mem for reading and writing, and waits; *code is 0 or an OpenCL error. */
void *pa_cl_map(void *queue, void *mem, size_t bytes, int *code);
/* Ends a mapping, and waits. Returns 0 or an OpenCL error. */
int pa_cl_unmap(void *queue, void *mem, void *data);

/* "CL_OUT_OF_RESOURCES", or "an unknown error". */
const char *pa_cl_error_name(int code);

#endif
