/* Stands between a process and its devices: /dev/video7 is a camera of known images. By the kernel's own header.
 *
 * The environment says what it is when it is opened:
 *   CAMERA_FORMATS  fourccs, such as "NM12 MJPG"; the first one is set     CAMERA_PLANES   1: multiplanar
 *   CAMERA_PAD      bytes behind each row                                  CAMERA_IMAGES   after which it is unplugged
 *   CAMERA_DAMAGED  which image is                                         CAMERA_CODED    file of a coded image
 *   CAMERA_ERROR    errno of opening it                                    CAMERA_SILENT   1: it gives nothing
 *   CAMERA_META     1: a node for metadata                                 CAMERA_EXPORT   1: buffers as dma-buf
 * Its buffers lie in a memfd, which whoever maps them gets as it is; others stand for a dma-buf each. Any call that a
 * driver would refuse fails. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/videodev2.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <unistd.h>

enum { BUFFERS = 6, ROOM = 1 << 20, BEGIN = 64 };

static struct {
    int fd, several, pad, images, damaged, on, given, next, queued[BUFFERS], order[BUFFERS], exported[BUFFERS], waiting;
    char formats[8][5];
    int count;
    unsigned fourcc, width, height;
    unsigned char *memory;
} camera = {.fd = -1};

static int number(const char *name, int otherwise) {
    const char *text = getenv(name);
    return text && *text ? atoi(text) : otherwise;
}

static unsigned code(const char *text) { return v4l2_fourcc(text[0], text[1], text[2], text[3]); }

/* The planes of a format: bytes of a row and rows of each, and whether each has memory of its own. */
static int planes_of(unsigned fourcc, unsigned w, unsigned h, unsigned columns[3], unsigned rows[3], int *apart) {
    int count = 1;
    *apart = 0;
    columns[0] = w, rows[0] = h;
    switch (fourcc) {
    case V4L2_PIX_FMT_NV12M: *apart = 1; /* fall through */
    case V4L2_PIX_FMT_NV12: columns[1] = w, rows[1] = h / 2, count = 2; break;
    case V4L2_PIX_FMT_NV16M: *apart = 1; /* fall through */
    case V4L2_PIX_FMT_NV16: columns[1] = w, rows[1] = h, count = 2; break;
    case V4L2_PIX_FMT_YUV420M: *apart = 1; /* fall through */
    case V4L2_PIX_FMT_YUV420: columns[1] = columns[2] = w / 2, rows[1] = rows[2] = h / 2, count = 3; break;
    case V4L2_PIX_FMT_YUYV: case V4L2_PIX_FMT_UYVY: columns[0] = 2 * w; break;
    case V4L2_PIX_FMT_RGB24: case V4L2_PIX_FMT_BGR24: columns[0] = 3 * w; break;
    case V4L2_PIX_FMT_XBGR32: columns[0] = 4 * w; break;
    case V4L2_PIX_FMT_GREY: case V4L2_PIX_FMT_MJPEG: break;
    default: return 0;
    }
    return count;
}

/* What a byte is: plane, row, column, image. ``unit`` bytes stand side by side for what they are of. */
static unsigned char level(int p, int r, int c, int n, int unit) {
    return 20 + 30 * p + r + c / unit + 30 * (c % unit) + 3 * n;
}

static int unit_of(unsigned fourcc, int p, int count) {
    switch (fourcc) {
    case V4L2_PIX_FMT_RGB24: case V4L2_PIX_FMT_BGR24: return 3;
    case V4L2_PIX_FMT_YUYV: case V4L2_PIX_FMT_UYVY: case V4L2_PIX_FMT_XBGR32: return 4;
    }
    return p && count == 2 ? 2 : 1;
}

static unsigned stride(unsigned columns) { return columns + (unsigned)camera.pad * columns / camera.width; }

static int memory_planes(void) {
    unsigned columns[3], rows[3];
    int apart, count = planes_of(camera.fourcc, camera.width, camera.height, columns, rows, &apart);
    return apart ? count : 1;
}

static void describe(struct v4l2_format *f) {
    unsigned columns[3], rows[3], size = 0;
    int apart, count = planes_of(camera.fourcc, camera.width, camera.height, columns, rows, &apart);
    for (int p = 0; p < count; p++) size += stride(columns[p]) * rows[p];
    if (!camera.several) {
        f->fmt.pix = (struct v4l2_pix_format){
            .width = camera.width, .height = camera.height, .pixelformat = camera.fourcc, .bytesperline = stride(columns[0]),
            .sizeimage = size, .colorspace = V4L2_COLORSPACE_SRGB, .ycbcr_enc = V4L2_YCBCR_ENC_709,
            .quantization = V4L2_QUANTIZATION_FULL_RANGE};
        return;
    }
    struct v4l2_pix_format_mplane *m = &f->fmt.pix_mp;
    memset(m, 0, sizeof *m);
    m->width = camera.width, m->height = camera.height, m->pixelformat = camera.fourcc;
    m->colorspace = V4L2_COLORSPACE_SRGB, m->ycbcr_enc = V4L2_YCBCR_ENC_709;
    m->quantization = V4L2_QUANTIZATION_FULL_RANGE, m->num_planes = memory_planes();
    for (int p = 0; p < m->num_planes; p++) {
        m->plane_fmt[p].bytesperline = stride(columns[p]);
        m->plane_fmt[p].sizeimage = apart ? stride(columns[p]) * rows[p] : size;
    }
}

static unsigned char *place(int index, int p) { return camera.memory + (index * 3 + p) * ROOM; }

/* Fills a buffer; gives the bytes of each plane of memory. */
static void fill(int index, unsigned used[3]) {
    unsigned columns[3], rows[3], at = camera.several ? BEGIN : 0;
    int apart, count = planes_of(camera.fourcc, camera.width, camera.height, columns, rows, &apart);
    if (camera.fourcc == V4L2_PIX_FMT_MJPEG) {
        FILE *file = fopen(getenv("CAMERA_CODED"), "rb");
        used[0] = at + fread(place(index, 0) + at, 1, ROOM - at, file);
        fclose(file);
        return;
    }
    for (int p = 0; p < count; p++) {
        unsigned char *to = place(index, apart ? p : 0) + at;
        memset(to, 0xEE, stride(columns[p]) * rows[p]);
        for (unsigned r = 0; r < rows[p]; r++)
            for (unsigned c = 0; c < columns[p]; c++) to[r * stride(columns[p]) + c] = level(p, r, c, camera.given, unit_of(camera.fourcc, p, count));
        at += stride(columns[p]) * rows[p];
        used[apart ? p : 0] = at;
        if (apart) at = camera.several ? BEGIN : 0;
    }
}

static int fail(int error) {
    errno = error;
    return -1;
}

static int set_format(struct v4l2_format *f) {
    unsigned fourcc = camera.several ? f->fmt.pix_mp.pixelformat : f->fmt.pix.pixelformat;
    for (int i = 0; i < camera.count; i++)
        if (code(camera.formats[i]) == fourcc) camera.fourcc = fourcc;
    camera.width = camera.several ? f->fmt.pix_mp.width : f->fmt.pix.width;
    camera.height = camera.several ? f->fmt.pix_mp.height : f->fmt.pix.height;
    describe(f);
    return 0;
}

static int on_buffer(unsigned long request, struct v4l2_buffer *b) {
    unsigned used[3] = {0};
    int count = memory_planes();
    if (b->memory != V4L2_MEMORY_MMAP || b->index >= BUFFERS) return fail(EINVAL);
    if (camera.several && (!b->m.planes || b->length < (unsigned)count)) return fail(EINVAL);
    if (request == VIDIOC_QBUF) {
        if (camera.queued[b->index]) return fail(EINVAL);
        camera.queued[b->index] = 1, camera.order[camera.waiting++] = b->index;
        return 0;
    }
    if (request == VIDIOC_QUERYBUF) {
        if (!camera.several) return b->m.offset = b->index * 3 * ROOM, b->length = ROOM, 0;
        for (int p = 0; p < count; p++) b->m.planes[p].m.mem_offset = (b->index * 3 + p) * ROOM, b->m.planes[p].length = ROOM;
        return b->length = count, 0;
    }
    if (!camera.on || !camera.waiting) return fail(EINVAL);
    if (camera.given == camera.images) return fail(ENODEV);
    b->index = camera.order[0];
    memmove(camera.order, camera.order + 1, sizeof(int) * --camera.waiting);
    camera.queued[b->index] = 0;
    fill(b->index, used);
    if (camera.exported[b->index] && pwrite(camera.exported[b->index], place(b->index, 0), ROOM, 0) != ROOM) return -1;
    for (int p = 0; camera.several && p < count; p++) b->m.planes[p].bytesused = used[p], b->m.planes[p].data_offset = BEGIN;
    b->bytesused = camera.several ? 0 : used[0], b->length = camera.several ? count : ROOM;
    b->timestamp.tv_sec = 100, b->timestamp.tv_usec = 40000 * camera.given;
    b->flags = V4L2_BUF_FLAG_TIMESTAMP_MONOTONIC | (camera.given == camera.damaged ? V4L2_BUF_FLAG_ERROR : 0);
    b->sequence = camera.given++;
    return 0;
}

static int answer(unsigned long request, void *argument) {
    unsigned type = camera.several ? V4L2_BUF_TYPE_VIDEO_CAPTURE_MPLANE : V4L2_BUF_TYPE_VIDEO_CAPTURE;
    switch (request) {
    case VIDIOC_QUERYCAP: {
        struct v4l2_capability *c = argument;
        memset(c, 0, sizeof *c);
        strcpy((char *)c->card, "Played");
        c->device_caps = V4L2_CAP_STREAMING | (camera.several ? V4L2_CAP_VIDEO_CAPTURE_MPLANE : V4L2_CAP_VIDEO_CAPTURE);
        c->device_caps = number("CAMERA_META", 0) ? V4L2_CAP_STREAMING | V4L2_CAP_META_CAPTURE : c->device_caps;
        c->capabilities = c->device_caps | V4L2_CAP_DEVICE_CAPS | V4L2_CAP_VIDEO_CAPTURE; /* of its other nodes too */
        return 0;
    }
    case VIDIOC_ENUM_FMT: {
        struct v4l2_fmtdesc *d = argument;
        if (d->type != type || d->index >= (unsigned)camera.count) return fail(EINVAL);
        d->pixelformat = code(camera.formats[d->index]);
        return 0;
    }
    case VIDIOC_ENUM_FRAMEINTERVALS: { /* raw images of over 640 columns are slow */
        struct v4l2_frmivalenum *i = argument;
        int slow = i->pixel_format != V4L2_PIX_FMT_MJPEG && i->width > 640;
        if (i->index > 1) return fail(EINVAL);
        i->type = V4L2_FRMIVAL_TYPE_DISCRETE;
        i->discrete = (struct v4l2_fract){1, i->index ? 5 : slow ? 10 : 30};
        return 0;
    }
    case VIDIOC_G_FMT: case VIDIOC_S_FMT: {
        struct v4l2_format *f = argument;
        if (f->type != type) return fail(EINVAL);
        return request == VIDIOC_S_FMT ? set_format(f) : (describe(f), 0);
    }
    case VIDIOC_REQBUFS: {
        struct v4l2_requestbuffers *r = argument;
        if (r->type != type || r->memory != V4L2_MEMORY_MMAP) return fail(EINVAL);
        return r->count = BUFFERS, 0;
    }
    case VIDIOC_QUERYBUF: case VIDIOC_QBUF: case VIDIOC_DQBUF: {
        struct v4l2_buffer *b = argument;
        return b->type == type ? on_buffer(request, b) : fail(EINVAL);
    }
    case VIDIOC_EXPBUF: {
        struct v4l2_exportbuffer *e = argument;
        if (!number("CAMERA_EXPORT", 0)) return fail(ENOTTY);
        if (e->type != type || e->index >= BUFFERS || e->plane || e->flags != O_CLOEXEC) return fail(EINVAL);
        camera.exported[e->index] = memfd_create("buffer", MFD_CLOEXEC);
        if (ftruncate(camera.exported[e->index], ROOM)) return -1;
        return e->fd = camera.exported[e->index], 0;
    }
    case VIDIOC_STREAMON: case VIDIOC_STREAMOFF:
        if (*(unsigned *)argument != type) return fail(EINVAL);
        return camera.on = request == VIDIOC_STREAMON, 0;
    }
    return fail(ENOTTY);
}

static int opened(void) {
    const char *text = getenv("CAMERA_FORMATS");
    if (number("CAMERA_ERROR", 0)) return fail(number("CAMERA_ERROR", 0));
    memset(&camera, 0, sizeof camera);
    camera.fd = memfd_create("camera", MFD_CLOEXEC);
    if (ftruncate(camera.fd, BUFFERS * 3 * ROOM)) return -1;
    camera.memory = mmap(NULL, BUFFERS * 3 * ROOM, PROT_READ | PROT_WRITE, MAP_SHARED, camera.fd, 0);
    for (const char *at = text; *at && sscanf(at, "%4s", camera.formats[camera.count]) == 1; at += 4 + (at[4] == ' '))
        camera.count++;
    camera.several = number("CAMERA_PLANES", 0), camera.pad = number("CAMERA_PAD", 0);
    camera.images = number("CAMERA_IMAGES", 3), camera.damaged = number("CAMERA_DAMAGED", -1);
    camera.fourcc = code(camera.formats[0]), camera.width = 48, camera.height = 32;
    return camera.fd;
}

#define OPEN(name)                                                                                                     \
    int name(const char *path, int flags, ...) {                                                                       \
        static int (*real)(const char *, int, ...);                                                                    \
        va_list rest;                                                                                                  \
        va_start(rest, flags);                                                                                         \
        int mode = va_arg(rest, int);                                                                                  \
        va_end(rest);                                                                                                  \
        if (!real) real = dlsym(RTLD_NEXT, #name);                                                                     \
        return strcmp(path, "/dev/video7") ? real(path, flags, mode) : opened();                                       \
    }
OPEN(open)
OPEN(open64)

int ioctl(int fd, unsigned long request, ...) {
    static int (*real)(int, unsigned long, ...);
    va_list rest;
    va_start(rest, request);
    void *argument = va_arg(rest, void *);
    va_end(rest);
    if (!real) real = dlsym(RTLD_NEXT, "ioctl");
    return fd == camera.fd && fd >= 0 ? answer(request & 0xffffffff, argument) : real(fd, request, argument);
}

int select(int count, fd_set *reading, fd_set *writing, fd_set *other, struct timeval *limit) {
    static int (*real)(int, fd_set *, fd_set *, fd_set *, struct timeval *);
    if (!real) real = dlsym(RTLD_NEXT, "select");
    int silent = reading && camera.fd >= 0 && FD_ISSET(camera.fd, reading) && number("CAMERA_SILENT", 0);
    if (silent) FD_ZERO(reading);
    return silent ? 0 : real(count, reading, writing, other, limit);
}
