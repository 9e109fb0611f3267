/* A lane: one to PA_MAX_STAGES stages in a row, a ring before, between and after them.
 *
 *   host -> ring 0 -> stage 0 -> ring 1 -> stage 1 -> ... -> ring n -> host
 *
 * A stage is a thread that takes a slot from the ring before it, runs its program, and hands a slot of the
 * ring after it on. A full ring blocks its producer, an empty one its consumer. Nothing here touches Python.
 *
 * Error: a stage that fails hands on the slot marked with itself and the code, tells the stages before it to
 * stop, and ends. The stages after it deliver what came earlier, pass the marked slot on, and end. So the host
 * sees every earlier frame first and the failure in its place.
 */
#ifndef PIPEALL_STAGE_H
#define PIPEALL_STAGE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "../_kernels/gate.h"
#include "../_kernels/program.h"
#include "ring.h"

typedef struct pa_lane pa_lane;

typedef struct pa_stage {
    pa_lane *lane;
    int index;
    pa_program *program;
    char name[12]; /* of the thread */
    int64_t fault_frame; /* fault injection: report an error at this frame; -1 for never */
    pthread_t thread;
    atomic_int stop;
    int open_error; /* what program->open returned; read it once the lane is ready */
    /* Counters: written by the stage only, read by anyone. */
    atomic_llong frames, busy_ns, wait_in_ns, wait_out_ns, handover_ns;
} pa_stage;

struct pa_lane {
    int stages, started;
    pa_stage *stage; /* [stages] */
    pa_ring *ring;   /* [stages + 1] */
    pa_gate *gate;   /* [stages + 1]: gate i changes when ring i does: where stages wait */
    pa_gate *host;   /* changes when ring 0 has space or ring n a frame; may be shared by several lanes */
    atomic_int ready, failed;
};

enum { PA_FAULT = -1000001 }; /* the error code of fault injection */

/* Starts the threads and waits until every program is open. 0; or the errno of a thread that could not start;
 * or -1 where stage[i].open_error says why. The lane is closed again when it is not 0. */
int pa_lane_start(pa_lane *lane);

/* Host side; one thread submits and one takes results, possibly two different threads. */
pa_slot *pa_lane_free(pa_lane *lane);    /* a slot to fill, or NULL: full */
void pa_lane_submit(pa_lane *lane, int64_t frame);
pa_slot *pa_lane_front(pa_lane *lane);   /* the oldest result, or NULL: none yet */
void pa_lane_release(pa_lane *lane);

/* Ends every stage after the step it is in and joins the threads. Frames inside are dropped. */
void pa_lane_close(pa_lane *lane);

#endif
