#include "program_cpu.h"

#include "../gate.h"

enum { OPEN_FAILED = 1 };

static int cpu_open(pa_program *program) {
    pa_cpu_program *self = (pa_cpu_program *)program;
    const int here = -1;
    self->room.alone = pa_team_open(&here, 1, self->name, self->why);
    if (!self->room.alone) return OPEN_FAILED;
    self->room.team = pa_team_open(self->cores, self->core_count, self->name, self->why);
    if (self->room.team) return 0;
    pa_team_close(self->room.alone);
    return OPEN_FAILED;
}

static int cpu_start(pa_program *program, pa_slot_memory *in, pa_slot_memory *out, int32_t first, int32_t last,
                     const atomic_int *stop) {
    pa_cpu_program *self = (pa_cpu_program *)program;
    void *const bases[PA_BASES] = {[PA_ARENA] = self->arena, [PA_SLOT_IN] = in->data, [PA_SLOT_OUT] = out->data};
    int64_t *marks = program->marks;
    if (marks && first <= program->first_late) pa_fill_marks(marks, pa_now_ns(), 0, first);
    const pa_strips *const *strips = self->strips, *const *end = strips + self->strips_count;
    while (strips < end && (*strips)->first < first) strips++;
    for (int32_t i = first; i < last; i++) {
        if (atomic_load_explicit(stop, memory_order_relaxed)) return PA_STOPPED;
        if (strips < end && (*strips)->first == i) {
            pa_strips_run(*strips, bases, &self->room, self->spent, marks ? marks + i : NULL);
            i = (*strips++)->last;
        } else {
            self->steps[i].run(self->steps[i].args, bases, self->room.scratch, self->room.team);
            if (marks) marks[i + 1] = pa_now_ns();
        }
    }
    if (marks) pa_fill_marks(marks, marks[last], last, program->mark_count - 1);
    return 0;
}

static int cpu_finish(pa_program *program) {
    (void)program;
    return 0;
}

static void cpu_close(pa_program *program) {
    pa_cpu_program *self = (pa_cpu_program *)program;
    pa_team_close(self->room.team);
    pa_team_close(self->room.alone);
    self->room.team = self->room.alone = NULL;
}

static int cpu_enter(pa_program *program, pa_guest *guest) {
    return pa_team_enter(((pa_cpu_program *)program)->room.team, guest);
}

static void cpu_leave(pa_program *program, const pa_guest *guest) {
    (void)program;
    pa_team_leave(guest);
}

static const char *cpu_error(const pa_program *program, int code) {
    (void)code;
    return ((const pa_cpu_program *)program)->why;
}

void pa_cpu_program_init(pa_cpu_program *self) {
    self->program = (pa_program){.open = cpu_open, .start = cpu_start, .finish = cpu_finish, .close = cpu_close,
                                 .enter = cpu_enter, .leave = cpu_leave, .error = cpu_error, .depth = 1, .mark_count = 1};
}
