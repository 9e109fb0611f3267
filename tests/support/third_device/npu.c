/* A device for tests: a program behind program.h that computes convolutions and copies one by one, in plain loops.
 * It shares nothing with the CPU's kernels but the contract of the runtime. */
#include "_kernels/program.h"

#include <string.h>
#include <time.h>

enum { MAX_DIMS = 6, CONV = 0, COPY = 1 };

typedef struct npu_view {
    int64_t base, offset, h, w, c, stride; /* as steps.View, in floats */
} npu_view;

typedef struct npu_step {
    int64_t kind;
    npu_view src, dst;
    int64_t kernel[2], strides[2], pads[2], dilations[2], groups; /* CONV: without a residual */
    float lo, hi;
    const float *weight, *bias; /* [cout][cin / groups][kh][kw], [cout] */
    int64_t item_bytes, rank;   /* COPY: of elements of any type, whose offsets are in those */
    int64_t dims[MAX_DIMS], src_strides[MAX_DIMS], dst_strides[MAX_DIMS];
} npu_step;

typedef struct npu_program {
    pa_program program; /* first: the runtime sees only this */
    const npu_step *steps;
    int32_t count;
    void *arena;
} npu_program;

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void conv(const npu_step *s, const float *x, float *y) {
    for (int64_t oy = 0; oy < s->dst.h; oy++)
        for (int64_t ox = 0; ox < s->dst.w; ox++)
            for (int64_t o = 0; o < s->dst.c; o++) {
                const int64_t channels = s->src.c / s->groups, from = o / (s->dst.c / s->groups) * channels;
                const float *weight = s->weight + o * channels * s->kernel[0] * s->kernel[1];
                float sum = s->bias[o];
                for (int64_t i = from; i < from + channels; i++)
                    for (int64_t ky = 0; ky < s->kernel[0]; ky++)
                        for (int64_t kx = 0; kx < s->kernel[1]; kx++, weight++) {
                            const int64_t iy = oy * s->strides[0] - s->pads[0] + ky * s->dilations[0];
                            const int64_t ix = ox * s->strides[1] - s->pads[1] + kx * s->dilations[1];
                            if (iy >= 0 && iy < s->src.h && ix >= 0 && ix < s->src.w)
                                sum += *weight * x[(iy * s->src.w + ix) * s->src.stride + i];
                        }
                sum = sum < s->lo ? s->lo : sum > s->hi ? s->hi : sum;
                y[(oy * s->dst.w + ox) * s->dst.stride + o] = sum;
            }
}

static void copy(const npu_step *s, const char *x, char *y, int64_t axis) {
    if (axis == s->rank) {
        memcpy(y, x, (size_t)s->item_bytes);
        return;
    }
    for (int64_t i = 0; i < s->dims[axis]; i++)
        copy(s, x + i * s->src_strides[axis] * s->item_bytes, y + i * s->dst_strides[axis] * s->item_bytes, axis + 1);
}

static int npu_open(pa_program *program) {
    (void)program;
    return 0;
}

static int npu_start(pa_program *program, pa_slot_memory *in, pa_slot_memory *out, int32_t first, int32_t last,
                     const atomic_int *stop) {
    npu_program *self = (npu_program *)program;
    char *const bases[PA_BASES] = {[PA_ARENA] = self->arena, [PA_SLOT_IN] = in->data, [PA_SLOT_OUT] = out->data};
    int64_t *marks = program->marks;
    if (marks && first <= program->first_late) pa_fill_marks(marks, now_ns(), 0, first);
    for (int32_t i = first; i < last; i++) {
        const npu_step *s = &self->steps[i];
        if (atomic_load(stop)) return PA_STOPPED;
        const char *x = bases[s->src.base] + s->src.offset * s->item_bytes;
        char *y = bases[s->dst.base] + s->dst.offset * s->item_bytes;
        if (s->kind == CONV)
            conv(s, (const float *)x, (float *)y);
        else
            copy(s, x, y, 0);
        if (marks) marks[i + 1] = now_ns();
    }
    if (marks) pa_fill_marks(marks, marks[last], last, program->mark_count - 1);
    return 0;
}

static int npu_finish(pa_program *program) {
    (void)program;
    return 0;
}

static void npu_close(pa_program *program) { (void)program; }

static const char *npu_error(const pa_program *program, int code) {
    (void)program, (void)code;
    return "the npu has no errors of its own";
}

size_t npu_program_bytes(void) { return sizeof(npu_program); }
size_t npu_step_bytes(void) { return sizeof(npu_step); }

void npu_init(npu_program *self, const npu_step *steps, int32_t count, void *arena, int32_t first_late,
              int32_t last_early) {
    *self = (npu_program){.program = {.open = npu_open, .start = npu_start, .finish = npu_finish, .close = npu_close,
                                      .error = npu_error, .depth = 1, .mark_count = count + 1,
                                      .first_late = first_late, .last_early = last_early},
                          .steps = steps, .count = count, .arena = arena};
}
