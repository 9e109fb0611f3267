/* A bridge from a stage to a thread of Python, behind program.h, for runtimes that have no C calls to be had.
 *
 * The stage's thread hands a frame over and sleeps until it is done. The thread of Python waits here without the GIL, and
 * takes it for what is between the calls of its runtime. One frame at a time. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "_kernels/parts.h"

enum { TEXT = 1024, FAILED = 1 };
enum { IDLE, GIVEN, TAKEN, DONE }; /* a frame, in turn */

typedef struct bridge {
    pa_program program; /* first: the runtime sees only this */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int state, quit, code;
    void *in, *out;
    int32_t first, last;
    char text[TEXT]; /* of the latest error */
} bridge;

/* ---- the stage's side ---- */

static int bridge_start(pa_program *program, pa_slot_memory *in, pa_slot_memory *out, int32_t first, int32_t last,
                        const atomic_int *stop) {
    bridge *self = (bridge *)program;
    int64_t *marks = program->marks;
    if (atomic_load(stop)) return PA_STOPPED;
    if (marks && first <= program->first_late) pa_fill_marks(marks, pa_parts_ns(), 0, first);
    pthread_mutex_lock(&self->mutex);
    self->in = in->data, self->out = out->data, self->first = first, self->last = last, self->state = GIVEN;
    pthread_cond_broadcast(&self->changed);
    while (self->state != DONE) pthread_cond_wait(&self->changed, &self->mutex);
    self->state = IDLE;
    const int code = self->code;
    pthread_mutex_unlock(&self->mutex);
    if (marks && !code) pa_fill_marks(marks, marks[last], last, program->mark_count - 1);
    return code;
}

static const char *bridge_error(const pa_program *program, int code) {
    (void)code;
    return ((const bridge *)program)->text;
}

/* ---- Python's side ---- */

/* Waits for a frame: 1 with where it lies and which networks compute it, or 0 once there will be none. */
int bridge_wait(bridge *self, void **in, void **out, int32_t *first, int32_t *last) {
    pthread_mutex_lock(&self->mutex);
    while (self->state != GIVEN && !self->quit) pthread_cond_wait(&self->changed, &self->mutex);
    const int given = self->state == GIVEN;
    if (given) self->state = TAKEN;
    *in = self->in, *out = self->out, *first = self->first, *last = self->last;
    pthread_mutex_unlock(&self->mutex);
    return given;
}

/* A network of the frame has ended. */
void bridge_mark(bridge *self, int32_t number) {
    if (self->program.marks) self->program.marks[number + 1] = pa_parts_ns();
}

/* Hands the frame back; `text` is NULL or what failed. */
void bridge_done(bridge *self, const char *text) {
    pthread_mutex_lock(&self->mutex);
    self->code = text ? FAILED : 0;
    if (text) snprintf(self->text, TEXT, "%s", text);
    self->state = DONE;
    pthread_cond_broadcast(&self->changed);
    pthread_mutex_unlock(&self->mutex);
}

void bridge_quit(bridge *self) {
    pthread_mutex_lock(&self->mutex);
    self->quit = 1;
    pthread_cond_broadcast(&self->changed);
    pthread_mutex_unlock(&self->mutex);
}

size_t bridge_bytes(void) { return sizeof(bridge); }

void bridge_init(bridge *self, int32_t count, int32_t first_late, int32_t last_early) {
    memset(self, 0, sizeof *self);
    pthread_mutex_init(&self->mutex, NULL);
    pthread_cond_init(&self->changed, NULL);
    self->program = pa_parts_program(bridge_start, bridge_error, count, first_late, last_early);
}

PA_PARTS_MODULE(_native)
