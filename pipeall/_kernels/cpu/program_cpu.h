/* A program of a CPU component: a flat array of steps over one arena, run by a pinned team. */
#ifndef PIPEALL_PROGRAM_CPU_H
#define PIPEALL_PROGRAM_CPU_H

#include "kernels.h"
#include "tiling.h"
#include "together.h"
#include "../program.h"

typedef struct pa_cpu_program pa_cpu_program;
struct pa_cpu_program {
    pa_program program; /* first: the runtime sees only this */
    /* The programs of one unit share the teams and the arena of one of them. They are of one thread, and never run at once. */
    pa_cpu_program *owner; /* itself, where there is no other */
    pa_team *team, *single; /* of the owner: open while `users` programs are */
    int users;
    pa_step *steps;
    int64_t step_count;
    pa_team_choice choice; /* of whole frames */
    const pa_tiled_steps **tiled; /* in the order of their steps, which have no run() */
    int64_t tiled_count;
    int64_t *spent;     /* of pa_run_tiled(), for the one with the most steps */
    char *rows;         /* for the steps that compute frames together */
    char *arena;        /* 64-byte aligned: one for each frame of a batch, so many bytes apart */
    int64_t arena_bytes;
    pa_thread_memory memory; /* scratch is that of all steps: team-size blocks, as large as the most demanding one's */
    const int *cores;
    int core_count;
    char name[12]; /* names the team's threads */
    char why[PA_TEAM_ERROR]; /* text of the last error of open() */
};

void pa_cpu_program_init(pa_cpu_program *self, int32_t batch);

#endif
