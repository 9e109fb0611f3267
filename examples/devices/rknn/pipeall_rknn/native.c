/* A stage on Rockchip's NPU behind program.h: for each of its slices the tensors are moved into buffers as the NPU takes
 * them, librknnrt runs, and its results are moved to where they go.
 *
 * Python loads slices and says what moves where, before the first frame; a frame touches no Python. A run cannot be
 * interrupted: a stage that is told to stop ends after the slice it is in. Never run on hardware. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "_kernels/parts.h"
#include "rknn_api.h"

enum { TEXT = 1024, FAILED = 1, INTERNAL = -1, RANK = 4 };

/* A tensor from one layout to another, its elements of `size` bytes. Bases: PA_SLOT_IN, PA_SLOT_OUT, where the place is a
 * number of bytes, or INTERNAL, where it is an address. Strides count elements. */
typedef struct npu_move {
    int64_t from_base, from, to_base, to, size, dims[RANK], from_strides[RANK], to_strides[RANK];
} npu_move;

/* A slice: moves before it runs, then those after. A part without inputs and outputs only moves. */
typedef struct npu_part {
    rknn_context context;
    const char *name;
    rknn_input *inputs;
    rknn_output *outputs;
    npu_move *moves;
    int64_t input_count, output_count, moves_before, move_count;
} npu_part;

typedef struct npu_program {
    pa_program program; /* first: the runtime sees only this */
    npu_part *parts;
    char text[TEXT]; /* of the latest error */
} npu_program;

static struct {
    rknn_init_fn *init;
    rknn_destroy_fn *destroy;
    rknn_query_fn *query;
    rknn_set_core_mask_fn *set_core_mask;
    rknn_inputs_set_fn *inputs_set;
    rknn_run_fn *run;
    rknn_outputs_get_fn *outputs_get;
    rknn_outputs_release_fn *outputs_release;
} api;

static const char *const meanings[] = {
    [-RKNN_ERR_FAIL] = "failed",
    [-RKNN_ERR_TIMEOUT] = "timeout",
    [-RKNN_ERR_DEVICE_UNAVAILABLE] = "no NPU, or no driver for it",
    [-RKNN_ERR_MALLOC_FAIL] = "no memory",
    [-RKNN_ERR_PARAM_INVALID] = "a parameter that it does not take",
    [-RKNN_ERR_MODEL_INVALID] = "not a model for this version of librknnrt",
    [-RKNN_ERR_CTX_INVALID] = "a context that is not open",
    [-RKNN_ERR_INPUT_INVALID] = "an input that it does not take",
    [-RKNN_ERR_OUTPUT_INVALID] = "an output that it does not give",
    [-RKNN_ERR_DEVICE_UNMATCH] = "the NPU's driver does not match librknnrt",
    [-RKNN_ERR_INCOMPATIBLE_PRE_COMPILE] = "precompiled for another driver",
    [-RKNN_ERR_INCOMPATIBLE_OPTIMIZATION] = "optimized for another driver",
    [-RKNN_ERR_TARGET_PLATFORM_UNMATCH] = "compiled for another chip",
};

/* Whether a call failed; then `text` says which, and why. */
static int failed(int code, const char *call, const char *name, char *text) {
    if (code == RKNN_SUCC) return 0;
    const int known = code < 0 && -code < (int)(sizeof meanings / sizeof *meanings);
    snprintf(text, TEXT, "%s: %s: %s (%d)", name, call, known ? meanings[-code] : "an error of no known kind", code);
    return 1;
}

/* ---- before the first frame ---- */

/* Opens librknnrt, once. 0, or FAILED with the reason in `text`. */
int npu_load(const char *path, char *text) {
    const char *const names[] = {"rknn_init", "rknn_destroy", "rknn_query", "rknn_set_core_mask", "rknn_inputs_set",
                                 "rknn_run", "rknn_outputs_get", "rknn_outputs_release"};
    void *found[sizeof names / sizeof *names] = {NULL};
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        snprintf(text, TEXT, "%s", dlerror());
        return FAILED;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!(found[i] = dlsym(library, names[i]))) {
            snprintf(text, TEXT, "%s: expected librknnrt, which has %s", path, names[i]);
            return FAILED;
        }
    memcpy(&api, found, sizeof api);
    return 0;
}

/* Whether librknnrt is a stand-in: a library for tests that computes on the CPU. */
int npu_stands_in(const char *path) { return dlsym(dlopen(path, RTLD_NOW | RTLD_LOCAL), "rknn_stand_in") != NULL; }

/* The context of a model, on the cores of a mask; 0 of a chip with one core. 0: the reason is in `text`. */
uint64_t npu_open_model(const char *path, const char *name, int mask, char *text) {
    rknn_context context = 0;
    if (failed(api.init(&context, (void *)path, 0, 0, NULL), "rknn_init", name, text)) return 0;
    if (!mask || !failed(api.set_core_mask(context, mask), "rknn_set_core_mask", name, text)) return context;
    api.destroy(context);
    return 0;
}

void npu_close_model(uint64_t context) { api.destroy(context); }

int npu_count(uint64_t context, const char *name, rknn_input_output_num *count, char *text) {
    return failed(api.query(context, RKNN_QUERY_IN_OUT_NUM, count, sizeof *count), "rknn_query", name, text);
}

int npu_tensor(uint64_t context, const char *name, int output, rknn_tensor_attr *about, char *text) {
    const int command = output ? RKNN_QUERY_OUTPUT_ATTR : RKNN_QUERY_INPUT_ATTR;
    return failed(api.query(context, command, about, sizeof *about), "rknn_query", name, text);
}

/* ---- a frame ---- */

static inline void move_of(const npu_move *m, char *const *bases, int64_t size) {
    const char *from = m->from_base == INTERNAL ? (char *)m->from : bases[m->from_base] + m->from;
    char *to = m->to_base == INTERNAL ? (char *)m->to : bases[m->to_base] + m->to;
    const int64_t *d = m->dims, *f = m->from_strides, *t = m->to_strides;
    for (int64_t a = 0; a < d[0]; a++)
        for (int64_t b = 0; b < d[1]; b++)
            for (int64_t c = 0; c < d[2]; c++) {
                const char *x = from + size * (a * f[0] + b * f[1] + c * f[2]);
                char *y = to + size * (a * t[0] + b * t[1] + c * t[2]);
                for (int64_t e = 0; e < d[3]; e++) memcpy(y + size * e * t[3], x + size * e * f[3], (size_t)size);
            }
}

static void move(const npu_move *m, char *const *bases) {
    if (m->size == 1)
        move_of(m, bases, 1);
    else
        move_of(m, bases, sizeof(float));
}

static int run(npu_program *self, npu_part *part, char *const *bases) {
    int64_t i = 0;
    for (; i < part->moves_before; i++) move(&part->moves[i], bases);
    if (part->context) {
        const uint32_t outputs = (uint32_t)part->output_count;
        if (failed(api.inputs_set(part->context, (uint32_t)part->input_count, part->inputs), "rknn_inputs_set", part->name,
                   self->text) ||
            failed(api.run(part->context, NULL), "rknn_run", part->name, self->text) ||
            failed(api.outputs_get(part->context, outputs, part->outputs, NULL), "rknn_outputs_get", part->name, self->text))
            return FAILED;
        api.outputs_release(part->context, outputs, part->outputs);
    }
    for (; i < part->move_count; i++) move(&part->moves[i], bases);
    return 0;
}

static int run_part(pa_program *program, int32_t number, char *const *bases) {
    npu_program *self = (npu_program *)program;
    return run(self, &self->parts[number], bases);
}

static int npu_start(pa_program *program, pa_slot_memory *in, pa_slot_memory *out, int32_t first, int32_t last,
                     const atomic_int *stop) {
    return pa_parts_start(program, in, out, first, last, stop, run_part);
}

static const char *npu_error(const pa_program *program, int code) {
    (void)code;
    return ((const npu_program *)program)->text;
}

/* ---- how Python makes a program ---- */

size_t npu_program_bytes(void) { return sizeof(npu_program); }

/* For the check of Python's structures: base 1000. */
size_t npu_sizes(void) {
    const size_t sizes[] = {sizeof(npu_move), sizeof(npu_part), sizeof(rknn_tensor_attr), sizeof(rknn_input),
                            sizeof(rknn_output)};
    size_t all = 0;
    for (size_t i = sizeof sizes / sizeof *sizes; i-- > 0;) all = all * 1000 + sizes[i];
    return all;
}

void npu_init(npu_program *self, npu_part *parts, int32_t count, int32_t first_late, int32_t last_early) {
    *self = (npu_program){.program = pa_parts_program(npu_start, npu_error, count, first_late, last_early), .parts = parts};
}

PA_PARTS_MODULE(_native)
