/* Lanes, stages and the units that serve them.
 *
 *   host -> ring -> stage 0 -> ring -> stage 1 -> ... -> ring -> host
 *
 * A lane is one to PA_MAX_STAGES stages in a row, with a ring before, between and after them. A row may fork and join
 * again (below). A unit is a thread, with its team of cores or its device's queue. It serves any number of stages, of one
 * lane or of several: it takes a slot from the ring before a stage, runs the stage's program, and hands a slot of the
 * ring after it on. Nothing here touches Python. stage.c is one frame on one stage, unit.c a unit's thread, lane.c the
 * host's side.
 *
 * Taking turns
 * A unit begins a frame on a stage only where it has both the frame and a free slot for it, and then carries it through.
 * So it never waits for another of its own stages, and a full ring holds up one stage, not the unit. Of several frames
 * that could begin it takes the one that is due first. In a lane that is the oldest, which is furthest on. Frames of
 * several networks are due when they were submitted, less a head start for each level of priority; those beyond a
 * network's rate are due later, without (runtime.Frames). So a frame of low priority waits for a bounded time, and no stage is
 * interrupted.
 *
 * Frames together
 * A stage whose program computes a batch takes the frames that wait, as many as fit one, and hands them on together. It
 * never waits for more of them: a frame that comes alone is computed alone. But its unit begins whatever else it can before
 * it begins fewer than fit. Other lanes do not wait for that. A frame that failed, or is to fail, goes alone.
 *
 * Waiting
 * Where nothing can begin the unit waits at its gate. A neighbour that fills or frees a slot changes the gate, and wakes
 * the unit only where `blocked` says that its stage waits for just that.
 *
 * Computing ahead
 * A device that computes by itself is given the next frame, where one can begin, before the unit waits for the
 * oldest. So it has work while that one is handed on.
 *
 * Floating cuts
 * A cut may float between two places (program.h). The stage before it also computes the groups between them for a frame
 * that would only wait, because there are frames enough in the ring for the stage after it. It does so too while no
 * other frame waits for it. Or it does so for a given share of the frames, evenly spread: frames that wait say little
 * where a unit has several stages.
 *
 * Forks and joins
 * A stage may hand each frame to several stages, the branches, and these to one. Each branch has a ring of its own on
 * both sides, so all rings have one producer and one consumer. The first branch shares the slots of its neighbours, as in
 * a row. For each other one the stage at the fork copies what the branch reads into its ring, and the stage at the join
 * copies what the branch made into the slot that the first branch filled. A stage begins a frame only where all its rings
 * have it, and have a slot for it. All rings hold the same frames in the same order, so those at their fronts are of one
 * frame. Where one has failed in a branch the others still do theirs, and the stage at the join passes on the mark.
 *
 * Early outputs
 * Outputs of the network that no later stage needs leave early. They lie in the out slot behind what crosses, and the
 * stage copies them into the frame's block before it hands the slot on. The lane has a block for every frame that may
 * be under way. Frames leave the lane in the order they came, so blocks are taken in turn: the frame of the next block
 * has been taken out. A frame that fails leaves its block as it is; nobody reads it.
 *
 * Inline execution
 * Where a lane has one stage and its unit no other, the host thread that submits a frame may compute it there and then:
 * no thread needs to wake up. The mutex `computing` is held by the thread that computes. The unit's own thread holds it
 * except while it waits at its gate. The host's earlier frames have come out by then, so the host waits for the
 * mutex no longer than the unit's thread takes to begin its wait. The rings see no difference: the thread that holds
 * the mutex is their one consumer, or producer.
 *
 * Real time
 * A unit may be scheduled by SCHED_FIFO, and so is its team, which its thread starts. All its waits end in a
 * futex after some 0.2 ms of spinning, so a unit without work takes no core from others. No host thread computes its frames:
 * that one is not scheduled so.
 *
 * Errors
 * A stage that fails hands on the slot marked with itself and the code, tells the stages before it to stop, and ends.
 * Those beside it go on. The stages after it deliver what came earlier, pass the marked slot on, and end. So the host sees
 * every earlier frame first and the failure in its place. Their units go on with other stages.
 *
 * Shared fields
 * field                 owner                        ordering
 * next_block            the host thread that submits plain
 * block[i]              whoever holds its frame      publish (release) of each ring pairs with front (acquire) of
 *                                                    whoever is next, at last the host. It goes to another
 *                                                    frame after the host has read it and released its slot:
 *                                                    two threads of the host order that (Python's lock)
 * blocks, block_bytes,  -                            written before the stages join their units
 * stage[i].leaves,
 * .forks, .joins
 * unit.joining          whoever starts a lane adds   exchange: what was written of a stage before it joined is seen
 *                       stages, the unit takes all
 * stage.blocked         the unit                     sequentially consistent, as the gate (eventcount.h): set before the
 *                                                    unit sleeps, read by a neighbour after it has changed the gate
 * unit.serves, batches, the thread that computes     the mutex `computing`
 * under_way, free_since
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
typedef struct pa_stage pa_stage;

/* The log: one row of int64 per frame, of the latest `capacity` frames. Columns, in ns of CLOCK_MONOTONIC but the
 * first: frame, idle (began to wait for its input), taken (had it), begin (had a free slot after it), the program's
 * marks, ran (the program returned), end (paced). In order, but that the marks of a device that works on several frames
 * may be before begin: it computes while the stage is at the frame before. Frames of a batch have the same begin, marks, ran
 * and end, and all but the first waited for nothing. Written by the stage only; read it after the lane is closed. */
enum { PA_LOG_MARKS = 4, PA_LOG_FIXED = 6 };

typedef struct pa_log {
    int64_t *rows; /* NULL: no log; else [capacity + PA_UNDER_WAY_MAX][PA_LOG_FIXED + mark_count]: frames under way too */
    int64_t capacity, count; /* frames it keeps; frames written so far: the next goes to row count % rows */
} pa_log;

/* So many bytes of one memory, and where they go in another. */
typedef struct pa_piece {
    size_t from, to, bytes;
} pa_piece;

/* A ring beside the one that a stage fills, or empties: of a branch that is not the first. */
typedef struct pa_branch {
    pa_ring *ring;
    pa_stage *other;  /* at its other end */
    pa_piece *pieces; /* at a fork from the stage's out slot, at a join to its in slot */
    int32_t piece_count;
    struct pa_branch *next; /* of the same fork or join */
} pa_branch;

/* Frames that a stage has begun together and not yet handed on: mostly one. */
typedef struct pa_batch {
    pa_stage *stage;
    int count;
    pa_slot *in[PA_BATCH_MAX], *out[PA_BATCH_MAX];
    int64_t idle, taken, begin, paced; /* the last: time it has waited for its pace */
    int64_t first_row; /* of the log, the first frame's */
    int started, code;
} pa_batch;

typedef struct pa_unit {
    char name[12]; /* of the thread */
    int fifo;      /* priority of its thread and of its team in SCHED_FIFO; 0: as whoever starts it */
    pthread_t thread;
    atomic_int closing;
    pa_eventcount gate; /* changes when a ring beside one of its stages does, or a stage comes or is to stop */
    _Atomic(pa_stage *) joining; /* stages that are to be served, the latest first; linked by `next` */
    pthread_mutex_t computing;   /* held by the thread that computes a frame; it owns what follows */
    pa_stage *serves;            /* linked by `next` */
    pa_batch batches[PA_DEPTH_MAX];
    int oldest, under_way; /* of the batches */
    int64_t free_since;    /* the time since which no thread computes */
} pa_unit;

enum { PA_UNDER_WAY_MAX = PA_BATCH_MAX > PA_DEPTH_MAX ? PA_BATCH_MAX : PA_DEPTH_MAX }; /* frames of a stage */
enum { PA_WAYS = 4 }; /* to run a frame, or a batch */
enum { PA_FRAME = 1, PA_SPACE = 2 }; /* what a stage may be blocked for */

struct pa_stage {
    pa_lane *lane;
    int index, earlier; /* the latter: the first so many stages hand it frames, directly or not */
    pa_unit *unit;
    pa_stage *next; /* of those that the unit serves */
    pa_program *program;
    pa_ring *in, *out;
    pa_stage *before, *after; /* at the other ends of these; NULL: the host */
    pa_branch *forks, *joins; /* further ones; NULL in a row */
    pa_piece *leaves;         /* early outputs, from the out slot to a block */
    int32_t leaf_count;
    int64_t fault_frame; /* fault injection: report an error at this frame; -1 for never */
    int32_t late_share;  /* of the frames, in percent, which go out late; -1: as it comes */
    /* Of the thread that computes: its frames under way; whether it begins, and hands on, no more; when it saw its next
     * frame arrive, 0 before; what the latest frame took, and the one before it, 0 where there was none. */
    int ahead, begins_no_more, ended;
    int64_t arrived_ns, latest_ns, earlier_ns, gathered_ns; /* the last: in all, of copying pieces of branches */
    atomic_int blocked; /* what it waits for: set by the unit, read by neighbours */
    atomic_int stop;
    int open_error; /* what program->open returned; read it once the lane is ready */
    pa_log log;
    /* A frame ends no earlier than so long after its begin; set by anyone at any time. One for every way to run it: 2 if
     * it came in late, + 1 if it goes out late. Of a batch: its frames - 1. */
    atomic_llong pace_ns[PA_WAYS];
    /* Counters: written by the stage only, read by anyone. busy includes pacing; late: frames whose program alone
     * took longer than the pace; floated: frames on which it also computed the floating groups behind. */
    atomic_llong frames, floated, late, busy_ns, wait_in_ns, wait_out_ns, map_ns, copy_ns;
};

struct pa_lane {
    int stages, joined; /* the latter: handed to their units */
    char *block; /* [blocks][block_bytes]; blocks: most frames under way, 0 where no stage has leaves */
    size_t block_bytes;
    int32_t blocks, next_block;
    pa_stage *stage; /* [stages]; the host fills the ring before the first, and empties that behind the last */
    pa_eventcount *host; /* changes when the last ring has a frame, or the first space after pa_lane_free had none; may be
                            shared */
    atomic_int space_wanted;
    atomic_int opened, leaving, left; /* stages that their units have opened, or could not; that they have closed */
    atomic_int failed;
};

enum { PA_INLINE_NS = 20 * 1000 * 1000 }; /* of a frame at most: a signal (Ctrl-C) waits until it is computed. One of the
                                              latest two: another program may have interrupted a single one */
enum { PA_FAULT = -1000001 }; /* the error code of fault injection */
enum { PA_LATE_EXIT_FRAMES = 2 };       /* frames of the next stage at which a frame goes out late; planning/rings.py has it too */

/* Starts a unit's thread: 0 or an errno. It may serve stages of any lane until it is closed, when no lane has any of its
 * stages. */
int pa_unit_start(pa_unit *unit);
void pa_unit_close(pa_unit *unit);

/* Hands the stages to their units and waits until every program is open. 0, or -1 where stage[i].open_error says why;
 * then the lane is closed again. */
int pa_lane_start(pa_lane *lane);

/* Host side; one thread submits and one takes results, possibly two different threads. */
pa_slot *pa_lane_free(pa_lane *lane);    /* a slot to fill, or NULL: full */
/* With blocks: while fewer frames than those are not released. */
void pa_lane_submit(pa_lane *lane, int64_t frame, int64_t due_ns);
/* Inline execution, in place of pa_lane_submit, where no other frame is under way. Where pa_lane_begin_inline gives 1,
 * this thread may fill the slot, or point it at memory of its own, and compute the frame. pa_lane_front has its result
 * next unless the lane is being closed. pa_lane_end_inline ends it, with or without a frame. */
int pa_lane_begin_inline(pa_lane *lane, pa_thread_state *thread_state);
pa_slot *pa_lane_result(pa_lane *lane); /* where the result of that frame will be, which may point elsewhere too */
void pa_lane_run_inline(pa_lane *lane, int64_t frame);
void pa_lane_end_inline(pa_lane *lane, const pa_thread_state *thread_state);
char *pa_lane_block(const pa_lane *lane, const pa_slot *slot); /* of the frame in a slot; only where there are blocks */
pa_slot *pa_lane_front(pa_lane *lane);   /* the oldest result, or NULL: none yet */
void pa_lane_release(pa_lane *lane);

/* Ends every stage after the step it is in; their units have left them then. Frames inside are dropped. */
void pa_lane_close(pa_lane *lane);

/* Among stage.c, unit.c and lane.c. All but pa_stages_stop() are for the thread that computes. */
int pa_stage_ready(pa_stage *stage);                   /* the frames that it can begin together; 0: `blocked` says why */
int pa_stage_begin(pa_stage *stage, pa_batch *batch);  /* where it can; 0: stopped meanwhile */
void pa_stage_end(pa_batch *batch);                    /* waits for the oldest one and hands it on */
int pa_stage_most(const pa_stage *stage);              /* frames that it takes together at most */
void pa_stages_stop(pa_lane *lane, int count);         /* tells the first `count` stages to end */

#endif
