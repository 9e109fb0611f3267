#include "program_cpu.h"

#include "../eventcount.h"

enum { OPEN_FAILED = 1, STEPS_LEARN = 16 /* frames */ };
_Static_assert((int)PA_BATCH_MAX <= (int)PA_GEMV_ROWS, "a layer of one pixel computes a batch by one tile");

static int open_teams(pa_cpu_program *self, pa_cpu_program *owner) {
    const int here = -1;
    owner->single = pa_team_open(&here, 1, self->name, self->why);
    if (!owner->single) return OPEN_FAILED;
    owner->team = pa_team_open(self->cores, self->core_count, self->name, self->why);
    if (owner->team) return 0;
    pa_team_close(owner->single);
    return OPEN_FAILED;
}

static int cpu_open(pa_program *program) {
    pa_cpu_program *self = (pa_cpu_program *)program, *owner = self->owner;
    if (!owner->users && open_teams(self, owner)) return OPEN_FAILED;
    owner->users++;
    self->memory.team = owner->team;
    self->memory.single = owner->single;
    return 0;
}

static void run_step(pa_cpu_program *self, const pa_step *step, void *const (*bases)[PA_BASES], int32_t frames) {
    if (frames > 1 && step->together) {
        pa_run_together(step->together, bases, frames, self->rows, self->memory.scratch, self->memory.team);
        return;
    }
    for (int32_t j = 0; j < frames; j++) step->run(step->args, bases[j], self->memory.scratch, self->memory.team);
}

/* Each step computes all frames before the next one begins: its weights may still be in a cache. */
static int run_steps(pa_cpu_program *self, void *const (*bases)[PA_BASES], int32_t frames, int32_t first, int32_t last,
                     const atomic_int *stop) {
    pa_program *program = &self->program;
    int64_t *marks = program->marks;
    if (marks && first <= program->first_late) pa_fill_marks(marks, pa_now_ns(), 0, first);
    const pa_tiled_steps *const *tiled = self->tiled, *const *end = tiled + self->tiled_count;
    while (tiled < end && (*tiled)->first < first) tiled++;
    for (int32_t i = first; i < last; i++) {
        if (atomic_load_explicit(stop, memory_order_relaxed)) return PA_STOPPED;
        pa_step *step = &self->steps[i];
        pa_team_begin_step(self->memory.team, &step->choice);
        if (tiled < end && (*tiled)->first == i) {
            pa_run_tiled(*tiled, bases, frames, &self->memory, self->spent, marks ? marks + i : NULL);
            i = (*tiled++)->last;
        } else {
            run_step(self, step, bases, frames);
            if (marks) marks[i + 1] = pa_now_ns();
        }
        pa_team_end_step(self->memory.team, &step->choice);
    }
    if (marks) pa_fill_marks(marks, marks[last], last, program->mark_count - 1);
    return 0;
}

static int cpu_start(pa_program *program, pa_slot_memory *in, pa_slot_memory *out, int32_t first, int32_t last,
                     const atomic_int *stop) {
    pa_cpu_program *self = (pa_cpu_program *)program;
    void *const bases[1][PA_BASES] = {{[PA_ARENA] = self->arena, [PA_SLOT_IN] = in->data, [PA_SLOT_OUT] = out->data}};
    if (last - first < self->step_count) return run_steps(self, bases, 1, first, last, stop);
    pa_team_begin_step(self->memory.team, &self->choice);
    const int code = run_steps(self, bases, 1, first, last, stop);
    pa_team_end_step(self->memory.team, &self->choice);
    return code;
}

static int cpu_start_together(pa_program *program, pa_slot_memory *const *in, pa_slot_memory *const *out, int32_t frames,
                              const atomic_int *stop) {
    pa_cpu_program *self = (pa_cpu_program *)program;
    void *bases[PA_BATCH_MAX][PA_BASES] = {{NULL}};
    for (int32_t i = 0; i < frames; i++) {
        bases[i][PA_ARENA] = self->arena + i * self->arena_bytes;
        bases[i][PA_SLOT_IN] = in[i]->data;
        bases[i][PA_SLOT_OUT] = out[i]->data;
    }
    return run_steps(self, (void *const (*)[PA_BASES])bases, frames, 0, (int32_t)self->step_count, stop);
}

static int cpu_finish(pa_program *program) {
    (void)program;
    return 0;
}

static void cpu_close(pa_program *program) {
    pa_cpu_program *self = (pa_cpu_program *)program, *owner = self->owner;
    self->memory.team = self->memory.single = NULL;
    if (--owner->users) return;
    pa_team_close(owner->team);
    pa_team_close(owner->single);
}

static int cpu_enter(pa_program *program, pa_thread_state *thread_state) {
    return pa_team_enter(((pa_cpu_program *)program)->memory.team, thread_state);
}

static void cpu_leave(pa_program *program, const pa_thread_state *thread_state) {
    (void)program;
    pa_team_leave(thread_state);
}

static const char *cpu_error(const pa_program *program, int code) {
    (void)code;
    return ((const pa_cpu_program *)program)->why;
}

void pa_cpu_program_init(pa_cpu_program *self, int32_t batch) {
    self->program = (pa_program){.open = cpu_open, .start = cpu_start, .finish = cpu_finish, .close = cpu_close,
                                 .start_together = batch ? cpu_start_together : NULL, .enter = cpu_enter,
                                 .leave = cpu_leave, .error = cpu_error, .depth = 1, .batch = batch, .mark_count = 1};
    self->owner = self;
    self->choice.frames = -STEPS_LEARN;
}
