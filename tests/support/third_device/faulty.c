/* The device for tests with one of its duties left out, for tests of what checks devices (faulty.py has the list). */
#include "npu.c"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

enum { STALE, LATE_WRITE, BUSY, THREADS, NO_MARKS, OTHER_CLOCK, SHARED, LEAK, TIRED, HANG };
enum { STALE_EVERY = 7, SEEN = 6, LEAKED = 4096, TIRED_AFTER = 3000, HANGS_AT = 20, POLL_US = 2000, BUSY_CODE = 1 };

static int breach, busy;
static int64_t frames;
static const npu_program *latest; /* the one made last */
static atomic_int released;    /* what hangs ends */
static char *kept;             /* a copy of an earlier result */
static pa_slot_memory *before; /* where the frame before went */

static void *wait_for_ever(void *unused) {
    while (!atomic_load(&released)) usleep(POLL_US);
    return unused;
}

static void begin_thread(void) {
    pthread_t thread;
    if (!pthread_create(&thread, NULL, wait_for_ever, NULL)) pthread_detach(thread);
}

static int faulty_open(pa_program *program) {
    if (breach == BUSY && busy) return BUSY_CODE;
    busy = 1;
    frames = 0;
    before = NULL;
    if (breach == THREADS) begin_thread();
    return npu_open(program);
}

static int faulty_start(pa_program *program, pa_slot_memory *in, pa_slot_memory *out, int32_t first, int32_t last,
                        const atomic_int *stop) {
    npu_program *self = (npu_program *)program;
    int64_t *const marks = program->marks;
    if (breach == SHARED && latest->count == self->count) self->steps = latest->steps;
    if (breach == NO_MARKS && marks) memset(marks, 0, (size_t)program->mark_count * sizeof *marks);
    if (breach == NO_MARKS) program->marks = NULL;
    const int code = npu_start(program, in, out, first, last, stop);
    program->marks = marks;
    if (code) return code;
    frames++;
    if (breach == OTHER_CLOCK && marks)
        for (int32_t i = 0; i < program->mark_count; i++) marks[i] += 1000000000000;
    if (breach == STALE && kept && frames % STALE_EVERY == 0) memcpy(out->data, kept, out->bytes);
    if (breach == STALE) kept = memcpy(realloc(kept, out->bytes), out->data, out->bytes);
    if (breach == LATE_WRITE && before) memset(before->data, 0, before->bytes);
    before = out;
    if (breach == LEAK) memset(kept = malloc(LEAKED), 1, LEAKED);
    if (breach == TIRED && frames > TIRED_AFTER) memset(out->data, 0, out->bytes);
    if (breach == HANG && frames == HANGS_AT) wait_for_ever(NULL);
    return 0;
}

static void faulty_close(pa_program *program) {
    if (frames >= SEEN) busy = 0;
    npu_close(program);
}

static const char *faulty_error(const pa_program *program, int code) {
    return code == BUSY_CODE ? "the npu is busy" : npu_error(program, code);
}

void faulty_init(npu_program *self, int which) {
    breach = which;
    latest = self;
    self->program.open = faulty_open;
    self->program.start = faulty_start;
    self->program.close = faulty_close;
    self->program.error = faulty_error;
}

void faulty_release(int all) { atomic_store(&released, all); }
