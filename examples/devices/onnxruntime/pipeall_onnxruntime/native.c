/* A stage in onnxruntime behind program.h: for each of its networks one call of Run on the memory of the slots.
 *
 * Python makes sessions and says where their tensors lie, before the first frame; a frame touches no Python. Run
 * allocates as onnxruntime does, and tensors that look at slots are made for each frame, which takes about a
 * microsecond. A Run cannot be interrupted: a stage that is told to stop ends after the network it is in.
 *
 * A provider that crashes in the stage's thread ends the frame, not the process: a signal handler jumps out of Run. What
 * onnxruntime holds is in no known state then, so nothing of it is used or released any more. Signals elsewhere, those of
 * a provider's own threads too, go where they went before. */
#include <dlfcn.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "_kernels/parts.h"
#include "ort_api.h"

enum { MAX_RANK = 8, TEXT = 1024, FAILED = 1, INTERNAL = -1 };

/* A tensor at an end of a network. base: PA_SLOT_IN, PA_SLOT_OUT, or INTERNAL where it lies in `memory`. */
typedef struct ort_end {
    const char *name;
    void *memory;
    int64_t offset, bytes, rank, shape[MAX_RANK], type, base; /* offset and bytes in bytes, the type as ONNX has it */
} ort_end;

/* `ends`: what it reads, then what it makes. The arrays have room for as many. */
typedef struct ort_part {
    OrtSession *session;
    const ort_end *ends;
    const char **names;
    OrtValue **values;
    int64_t inputs, outputs;
} ort_part;

typedef struct ort_program {
    pa_program program; /* first: the runtime sees only this */
    ort_part *parts;
    char text[TEXT]; /* of the latest error */
} ort_program;

static const OrtApi *api;
static OrtEnv *env;
static OrtMemoryInfo *memory;
static void *library;

/* Whether a call failed; then its text is in `text`, in a line. */
static int failed(OrtStatus *status, char *text) {
    if (!status) return 0;
    snprintf(text, TEXT, "%s", api->GetErrorMessage(status));
    text[strcspn(text, "\n")] = 0;
    api->ReleaseStatus(status);
    return 1;
}

/* ---- crashes ---- */

static const int crashes[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
enum { CRASHES = sizeof crashes / sizeof *crashes };
static struct sigaction before[CRASHES];
static _Thread_local sigjmp_buf *inside; /* of the thread that is in Run */
static volatile sig_atomic_t crashed;    /* the signal, once there was one */

static void on_crash(int number) {
    if (inside) siglongjmp(*inside, number);
    for (int i = 0; i < CRASHES; i++) /* not ours: again, with what was there before */
        if (crashes[i] == number) sigaction(number, &before[i], NULL);
    raise(number);
}

/* Once, before the first frame. */
static void catch_crashes(void) {
    struct sigaction action = {.sa_handler = on_crash};
    sigemptyset(&action.sa_mask);
    for (int i = 0; i < CRASHES; i++) sigaction(crashes[i], &action, &before[i]);
}

/* ---- before the first frame ---- */

/* Opens onnxruntime's library, once. 0, or FAILED with the reason in `text`. */
int ort_load(const char *path, char *text) {
    if (api) return 0;
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const OrtApiBase *(*get_base)(void) = NULL;
    if (library) *(void **)&get_base = dlsym(library, "OrtGetApiBase");
    if (!get_base) {
        snprintf(text, TEXT, "%s", dlerror());
        return FAILED;
    }
    const OrtApi *found = get_base()->GetApi(ORT_API_VERSION);
    if (!found) {
        snprintf(text, TEXT, "onnxruntime %s has no API version %d", get_base()->GetVersionString(), ORT_API_VERSION);
        return FAILED;
    }
    api = found;
    const int bad = failed(api->CreateEnv(ORT_LOG_ERROR, "pipeall", &env), text) ||
                    failed(api->CreateCpuMemoryInfo(ORT_DEVICE_ALLOCATOR, ORT_MEMORY_DEFAULT, &memory), text);
    if (bad)
        api = NULL;
    else
        catch_crashes();
    return bad;
}

/* Adds a provider. Older ones have a function of their own, in libraries that have the provider. */
static int add_provider(OrtSessionOptions *options, const char *provider, const char *const *keys,
                        const char *const *values, size_t count, char *text) {
    char name[TEXT];
    OrtStatus *(*append)(OrtSessionOptions *, int) = NULL;
    snprintf(name, sizeof name, "OrtSessionOptionsAppendExecutionProvider_%s", provider);
    *(void **)&append = dlsym(library, name);
    if (append && !count) return failed(append(options, 0), text);
    return failed(api->SessionOptionsAppendExecutionProvider(options, provider, keys, values, count), text);
}

/* A session of a model with so many threads; its other threads sleep while they wait. NULL: the reason is in `text`. */
OrtSession *ort_session(const void *model, size_t bytes, int threads, const char *provider, const char *const *keys,
                        const char *const *values, size_t count, char *text) {
    OrtSessionOptions *options = NULL;
    OrtSession *session = NULL;
    if (failed(api->CreateSessionOptions(&options), text)) return NULL;
    const int bad = failed(api->SetSessionGraphOptimizationLevel(options, ORT_OPTIMIZE_ALL), text) ||
                    failed(api->SetIntraOpNumThreads(options, threads), text) ||
                    failed(api->AddSessionConfigEntry(options, "session.intra_op.allow_spinning", "0"), text) ||
                    (*provider && add_provider(options, provider, keys, values, count, text)) ||
                    failed(api->CreateSessionFromArray(env, model, bytes, options, &session), text);
    api->ReleaseSessionOptions(options);
    return bad ? NULL : session;
}

void ort_release(OrtSession *session) {
    if (!crashed) api->ReleaseSession(session);
}

/* ---- a frame ---- */

/* Run, of values that are there. */
static int guarded_run(ort_program *self, ort_part *part) {
    sigjmp_buf here;
    if (!crashed) crashed = sigsetjmp(here, 1);
    if (crashed) {
        inside = NULL;
        snprintf(self->text, TEXT, "the provider crashed: %s", strsignal(crashed));
        return FAILED;
    }
    inside = &here;
    OrtStatus *status = api->Run(part->session, NULL, part->names, (const OrtValue *const *)part->values,
                                 (size_t)part->inputs, part->names + part->inputs, (size_t)part->outputs,
                                 part->values + part->inputs);
    inside = NULL;
    return failed(status, self->text);
}

/* Every tensor of a network on the memory of this frame, then Run. */
static int run(ort_program *self, ort_part *part, char *const *bases) {
    const int64_t count = part->inputs + part->outputs;
    int64_t made = 0;
    int bad = 0;
    for (; made < count && !bad; made++) {
        const ort_end *end = &part->ends[made];
        char *data = end->base == INTERNAL ? end->memory : bases[end->base] + end->offset;
        part->values[made] = NULL;
        bad = failed(api->CreateTensorWithDataAsOrtValue(memory, data, (size_t)end->bytes, end->shape, (size_t)end->rank,
                                                         (int)end->type, &part->values[made]), self->text);
    }
    if (!bad) bad = guarded_run(self, part);
    for (int64_t i = 0; i < made && !crashed; i++)
        if (part->values[i]) api->ReleaseValue(part->values[i]);
    return bad;
}

static int run_part(pa_program *program, int32_t number, char *const *bases) {
    ort_program *self = (ort_program *)program;
    return run(self, &self->parts[number], bases);
}

static int ort_start(pa_program *program, pa_slot_memory *in, pa_slot_memory *out, int32_t first, int32_t last,
                     const atomic_int *stop) {
    return pa_parts_start(program, in, out, first, last, stop, run_part);
}

/* Any thread may call Run. */
static int ort_enter(pa_program *program, pa_thread_state *thread_state) {
    (void)program, (void)thread_state;
    return 0;
}

static void ort_leave(pa_program *program, const pa_thread_state *thread_state) { (void)program, (void)thread_state; }

static const char *ort_error(const pa_program *program, int code) {
    (void)code;
    return ((const ort_program *)program)->text;
}

/* ---- how Python makes a program ---- */

size_t ort_program_bytes(void) { return sizeof(ort_program); }
size_t ort_sizes(void) { return sizeof(ort_end) * 1000 + sizeof(ort_part); }

void ort_init(ort_program *self, ort_part *parts, int32_t count, int32_t first_late, int32_t last_early) {
    *self = (ort_program){.program = pa_parts_program(ort_start, ort_error, count, first_late, last_early), .parts = parts};
    self->program.enter = ort_enter, self->program.leave = ort_leave;
}

/* One frame from slots in plain memory. */
int ort_frame(ort_program *self, void *in, void *out) {
    const atomic_int stop = 0;
    pa_slot_memory from = {.data = in}, to = {.data = out};
    const int32_t all = self->program.mark_count - 1;
    return ort_start(&self->program, &from, &to, 0, all, &stop);
}

const char *ort_text(const ort_program *self) { return self->text; }

PA_PARTS_MODULE(_native)
