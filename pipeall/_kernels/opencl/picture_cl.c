#include "picture_cl.h"

#include <stdlib.h>

#include "entry_points.h"
#include "import_cl.h"

enum { CL_MEM_READ_ONLY = 1 << 2, CL_MEM_ALLOC_HOST_PTR = 1 << 4 };

int pa_cl_picture_init(pa_cl_picture *picture) {
    const size_t ints = (size_t)pa_cl_picture_ints(picture->rows, picture->columns);
    int there = 1;
    for (int i = 0; i < PA_DEPTH_MAX; i++) {
        picture->host[i] = malloc(ints * sizeof(int32_t));
        there = there && picture->host[i];
    }
    return there;
}

void pa_cl_picture_free(pa_cl_picture *picture) {
    pa_cl_forget_imports(picture);
    if (picture->pixels) pa_cl.clReleaseMemObject(picture->pixels);
    for (int i = 0; i < PA_DEPTH_MAX; i++) free(picture->host[i]);
}

/* Room for a frame of so many bytes. Frames under way, and recordings, have the buffer before. */
static int grow(pa_cl_program *self, size_t bytes) {
    pa_cl_picture *picture = &self->picture;
    if (bytes <= picture->pixels_bytes) return 0;
    int failed = 0, code = 0;
    TRY(clFinish, picture->step, self->queue);
    if (failed) return failed;
    pa_cl_forget_recordings(self);
    if (picture->pixels) pa_cl.clReleaseMemObject(picture->pixels);
    picture->pixels_bytes = 0;
    picture->bound = NULL;
    picture->pixels = pa_cl.clCreateBuffer(picture->context, CL_MEM_READ_ONLY | CL_MEM_ALLOC_HOST_PTR, bytes, NULL, &code);
    failed = pa_cl_keep(self, failed, code, "clCreateBuffer", picture->step);
    if (!failed) picture->pixels_bytes = bytes;
    return failed;
}

/* Weights along an axis behind the ints [*used, ...) of a table; the head gets their number, and where they begin. */
static void axis_of(const pa_cl_picture *picture, int32_t *to, int64_t *used, int at, int64_t size, double start,
                    double length, int64_t outputs) {
    pa_picture_axis axis = {0, to + *used, (float *)(to + *used + outputs)};
    table(picture->filter, size, start, length, outputs, &axis);
    to[at] = (int32_t)axis.taps, to[at + 1] = (int32_t)*used, to[at + 2] = (int32_t)(*used + outputs);
    *used += outputs + outputs * axis.taps;
}

/* The table of a frame whose rows are `pitch` bytes apart, the first `begin` behind a buffer's begin; returns its int32. */
static int64_t describe(const pa_cl_picture *picture, const frame *x, int64_t pitch, int64_t begin, int32_t *to) {
    int64_t used = PA_CL_PICTURE_HEAD;
    axis_of(picture, to, &used, 0, x->h, x->window[0], x->window[2], x->rows);
    axis_of(picture, to, &used, 3, x->w, x->window[1], x->window[3], x->columns);
    const int64_t head[] = {x->top,       x->left,       x->rows,         x->columns,      x->h,
                            x->w,         pitch,         x->stride < 0,   x->from.black,   x->from.grey,
                            x->from.red_v, x->from.green_u, x->from.green_v, x->from.blue_u, begin};
    for (size_t i = 0; i < sizeof head / sizeof *head; i++) to[6 + i] = (int32_t)head[i];
    return used;
}

/* Where in its dma-buf a frame begins whose bytes are at lowest; -1: it is not in one, as a copy of it, or out of reach
 * of an int. */
static int64_t begin_in(const int64_t *dma_buf, const uint8_t *lowest, int64_t bytes) {
    const int64_t begin = (intptr_t)lowest - dma_buf[1];
    return dma_buf[0] && begin >= 0 && begin <= dma_buf[2] - bytes && begin <= INT32_MAX - bytes ? begin : -1;
}

/* Has the kernel read that buffer. */
static int bind(pa_cl_program *self, void *mem) {
    int failed = 0;
    if (self->picture.bound == mem) return 0;
    TRY(clSetKernelArg, self->picture.step, self->picture.argument_of, 0, sizeof mem, &mem);
    self->picture.bound = failed ? NULL : mem;
    return failed;
}

/* Enqueues the table of a frame, of so many int32. */
static int give_table(pa_cl_program *self, const int32_t *table, int64_t ints) {
    int failed = 0;
    TRY(clEnqueueWriteBuffer, self->picture.step, self->queue, self->picture.table, CL_FALSE, 0,
        (size_t)ints * sizeof *table, table, 0, NULL, NULL);
    return failed;
}

int pa_cl_picture_give(pa_cl_program *self, const pa_cl_frame *f) {
    static const int64_t pixel_bytes[] = {[PA_RGB] = 3, [PA_GRAY] = 1, [PA_NV12] = 1, [PA_I420] = 1, [PA_YUYV] = 2};
    const pa_cl_picture *picture = &self->picture;
    const int64_t *words = (const int64_t *)((const char *)f->slots[picture->base]->data + picture->offset);
    const frame x = frame_of(words, picture->example, picture->format);
    const int planes = picture->format == PA_NV12 || picture->format == PA_I420;
    const int64_t pitch = x.w * pixel_bytes[picture->format], lines = planes ? x.h * 3 / 2 : x.h;
    const int64_t stride = x.stride < 0 ? -x.stride : x.stride;
    const uint8_t *lowest = x.stride < 0 ? x.pixels + (lines - 1) * x.stride : x.pixels;
    int32_t *host = picture->host[f - self->frames];
    const int64_t *dma_buf = words + PA_PICTURE_DMA_BUF;
    const int64_t begin = picture->importing ? begin_in(dma_buf, lowest, stride * (lines - 1) + pitch) : -1;
    void *imported = NULL;
    int failed = 0;
    if (begin >= 0) failed = pa_cl_import_dma_buf(self, (int)dma_buf[0] - 1, (size_t)dma_buf[2], &imported);
    if (!failed && !imported) failed = grow(self, (size_t)(pitch * lines));
    if (!failed) failed = bind(self, imported ? imported : picture->pixels);
    if (!failed)
        failed = give_table(self, host, imported ? describe(picture, &x, stride, begin, host)
                                                 : describe(picture, &x, pitch, 0, host));
    if (failed || imported) return failed;
    const size_t origin[3] = {0, 0, 0}, region[3] = {(size_t)pitch, (size_t)lines, 1};
    if (stride == pitch)
        TRY(clEnqueueWriteBuffer, picture->step, self->queue, picture->pixels, CL_FALSE, 0, (size_t)(pitch * lines), lowest,
            0, NULL, NULL);
    else
        TRY(clEnqueueWriteBufferRect, picture->step, self->queue, picture->pixels, CL_FALSE, origin, origin, region,
            (size_t)pitch, 0, (size_t)stride, 0, lowest, 0, NULL, NULL);
    return failed;
}
