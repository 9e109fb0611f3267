/* A lane: one to PA_MAX_STAGES stages in a row, a ring before, between and after them.
 *
 *   host -> ring 0 -> stage 0 -> ring 1 -> stage 1 -> ... -> ring n -> host
 *
 * A stage is a thread that takes a slot from the ring before it, runs its program, and hands a slot of the
 * ring after it on. A full ring blocks its producer, an empty one its consumer. Nothing here touches Python.
 *
 * Computing ahead
 * A device that computes by itself is given the next frame, where one has arrived, before the stage waits for the
 * oldest. So it has work while that one is handed on.
 *
 * Floating cuts
 * A cut may float between two places (program.h). The stage before it also computes the groups between them for a frame
 * that would only wait, because there are frames enough in the ring for the stage after it. It does so too while no
 * other frame waits for it.
 *
 * Early outputs
 * Outputs of the network that no later stage needs leave early. They lie in the out slot behind what crosses, and the
 * stage copies them into the frame's block before it hands the slot on. The lane has a block for every frame that may
 * be under way. Frames leave the lane in the order they came, so blocks are taken in turn: the frame of the next block
 * has been taken out. A frame that fails leaves its block as it is; nobody reads it.
 *
 * Inline execution
 * Where a lane has one stage, the host thread that submits a frame may compute it there and then: no thread needs to
 * wake up. The mutex `computing` is held by the thread that computes. The stage's own thread holds it except while it
 * waits for a frame and none is under way. The host's earlier frames have come out by then, so the host waits for the
 * mutex no longer than the stage's thread takes to begin its wait. The rings see no difference: the thread that holds
 * the mutex is their one consumer, or producer.
 *
 * Errors
 * A stage that fails hands on the slot marked with itself and the code, tells the stages before it to stop, and ends.
 * The stages after it deliver what came earlier, pass the marked slot on, and end. So the host sees every earlier frame
 * first and the failure in its place.
 *
 * Shared fields
 * field                 owner                        ordering
 * next_block            the host thread that submits plain
 * block[i]              whoever holds its frame      publish (release) of each ring pairs with front (acquire) of
 *                                                    whoever is next, at last the host. It goes to another
 *                                                    frame after the host has read it and released its slot:
 *                                                    two threads of the host order that (Python's lock)
 * blocks, block_bytes,  -                            written before the threads start
 * stage[i].leaves
 */
#ifndef PIPEALL_STAGE_H
#define PIPEALL_STAGE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "../_kernels/eventcount.h"
#include "../_kernels/thread_state.h"
#include "ring.h"

typedef struct pa_lane pa_lane;

/* The log: one row of int64 per frame, of the latest `capacity` frames. Columns, in ns of CLOCK_MONOTONIC but the
 * first: frame, idle (began to wait for its input), taken (had it), begin (had a free slot after it), the program's
 * marks, ran (the program returned), end (paced). In order, but that the marks of a device that works on several frames
 * may be before begin: it computes while the stage is at the frame before. Written by the stage only; read it after the
 * lane is closed. */
enum { PA_LOG_MARKS = 4, PA_LOG_FIXED = 6 };

typedef struct pa_log {
    int64_t *rows; /* NULL: no log; else [capacity + PA_DEPTH_MAX][PA_LOG_FIXED + mark_count]: frames under way too */
    int64_t capacity, count; /* frames it keeps; frames written so far: the next goes to row count % rows */
} pa_log;

/* An early output: so many bytes of the out slot, and where they go in a block. */
typedef struct pa_leaf {
    size_t slot_offset, block_offset, bytes;
} pa_leaf;

typedef struct pa_stage {
    pa_lane *lane;
    int index;
    pa_program *program;
    char name[12]; /* of the thread */
    pa_leaf *leaves;
    int32_t leaf_count;
    int64_t fault_frame; /* fault injection: report an error at this frame; -1 for never */
    pthread_t thread;
    pthread_mutex_t computing; /* held by the thread that computes a frame; it owns the next two */
    int64_t free_since;        /* the time since which no thread computes */
    int64_t latest_ns;         /* what the latest frame took; 0 before the first */
    atomic_int stop;
    int open_error; /* what program->open returned; read it once the lane is ready */
    pa_log log;
    /* A frame ends no earlier than so long after its begin; set by anyone at any time. One for every way to run it: 2 if
     * it came in late, + 1 if it goes out late. */
    atomic_llong pace_ns[4];
    /* Counters: written by the stage only, read by anyone. busy includes pacing; overran: frames whose program alone
     * took longer than the pace; floated: frames that went out late. */
    atomic_llong frames, floated, overran, busy_ns, wait_in_ns, wait_out_ns, map_ns, copy_ns;
} pa_stage;

struct pa_lane {
    int stages, started;
    char *block; /* [blocks][block_bytes]; blocks: most frames under way, 0 where no stage has leaves */
    size_t block_bytes;
    int32_t blocks, next_block;
    pa_stage *stage; /* [stages] */
    pa_ring *ring;   /* [stages + 1] */
    pa_eventcount *gate;   /* [stages + 1]: gate i changes when ring i does: where stages wait */
    pa_eventcount *host;   /* changes when ring n has a frame, or ring 0 space after pa_lane_free had none; may be shared */
    atomic_int space_wanted;
    atomic_int ready, failed;
};

enum { PA_INLINE_NS = 20 * 1000 * 1000 }; /* of a frame at most: a signal (Ctrl-C) waits until it is computed */
enum { PA_FAULT = -1000001 }; /* the error code of fault injection */
enum { PA_LATE_EXIT_FRAMES = 2 };       /* frames of the next stage at which a frame goes out late; planning/rings.py has it too */

/* Starts the threads and waits until every program is open. 0; or the errno of a thread that could not start;
 * or -1 where stage[i].open_error says why. The lane is closed again when it is not 0. */
int pa_lane_start(pa_lane *lane);

/* Host side; one thread submits and one takes results, possibly two different threads. */
pa_slot *pa_lane_free(pa_lane *lane);    /* a slot to fill, or NULL: full */
void pa_lane_submit(pa_lane *lane, int64_t frame); /* with blocks: while fewer frames than those are not released */
/* Inline execution, in place of pa_lane_submit, where no other frame is under way. Where pa_lane_begin_inline gives 1,
 * this thread may fill the slot, or point it at memory of its own, and compute the frame. pa_lane_front has its result
 * next unless the lane is being closed. pa_lane_end_inline ends it, with or without a frame. */
int pa_lane_begin_inline(pa_lane *lane, pa_thread_state *thread_state);
void pa_lane_run_inline(pa_lane *lane, int64_t frame);
void pa_lane_end_inline(pa_lane *lane, const pa_thread_state *thread_state);
char *pa_lane_block(const pa_lane *lane, const pa_slot *slot); /* of the frame in a slot; only where there are blocks */
pa_slot *pa_lane_front(pa_lane *lane);   /* the oldest result, or NULL: none yet */
void pa_lane_release(pa_lane *lane);

/* Ends every stage after the step it is in and joins the threads. Frames inside are dropped. */
void pa_lane_close(pa_lane *lane);

#endif
