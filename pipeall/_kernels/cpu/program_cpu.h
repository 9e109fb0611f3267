/* A program of a CPU component: a flat array of steps over one arena, run by a pinned team. */
#ifndef PIPEALL_PROGRAM_CPU_H
#define PIPEALL_PROGRAM_CPU_H

#include "kernels.h"
#include "strips.h"
#include "../program.h"

typedef struct pa_cpu_program {
    pa_program program; /* first: the runtime sees only this */
    pa_step *steps;
    int64_t step_count;
    const pa_strips **strips; /* in the order of their steps, which have no run() */
    int64_t strips_count;
    int64_t *spent;     /* of pa_strips_run(), for the one with the most steps */
    void *arena;        /* 64-byte aligned */
    pa_strip_room room; /* scratch is that of all steps: team-size blocks, as large as the most demanding one's */
    const int *cores;
    int core_count;
    char name[12]; /* names the team's threads */
    char why[PA_TEAM_ERROR]; /* text of the last error of open() */
} pa_cpu_program;

void pa_cpu_program_init(pa_cpu_program *self);

#endif
