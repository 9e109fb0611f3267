/* What a thread was like before it took a stage thread's place (program.h). */
#ifndef PIPEALL_THREAD_STATE_H
#define PIPEALL_THREAD_STATE_H

#include <fenv.h>
#include <sched.h>

#include "program.h"

struct pa_thread_state {
    int moved; /* to another core, from these */
    cpu_set_t cores;
    fenv_t floats;
};

#endif
