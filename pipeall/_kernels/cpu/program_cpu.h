/* A program of a CPU component: a flat array of steps over one arena, run by a pinned team. */
#ifndef PIPEALL_PROGRAM_CPU_H
#define PIPEALL_PROGRAM_CPU_H

#include "kernels.h"
#include "../program.h"

typedef struct pa_cpu_program {
    pa_program program; /* first: the runtime sees only this */
    pa_step *steps;
    int64_t step_count;
    void *arena;   /* 64-byte aligned */
    void *scratch; /* team-size blocks, as large as the most demanding step's */
    const int *cores;
    int core_count;
    char name[12]; /* names the team's threads */
    pa_team *team;
    const char *why; /* text of the last error of open() */
} pa_cpu_program;

void pa_cpu_program_init(pa_cpu_program *self);

#endif
