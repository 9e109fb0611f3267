/* A lane that forks and joins (stage.c), exhaustively: stage 0 hands each frame to the branches 1 and 2, which stage 3
 * joins. Nobody sleeps for ever, whatever the order; what is joined is of one frame; failures lose no earlier frame.
 *
 *   spin -a -DBUG=0 fork.pml && cc -O2 -DSAFETY -o pan pan.c && ./pan -m1000000
 *
 * Branch 2 has a unit of its own, the other stages are of one, as in B-(B|G)-B. The host's threads look all the time,
 * which leaves the waits of units.
 *
 * SLOTS  of each ring
 * FRAMES that the host submits
 * FAILS  1: both branches may fail, each once
 * BUG    1: reads who sleeps before it changes the gate; 2: a stage looks at its first ring alone for frames; 3: for space;
 *        4: a failure also stops the branch beside it; 5: `blocked` keeps what it was from an earlier wait.
 *        1, 4 and 5 must be found as an invalid end state, 2 and 3 as a violated assertion.
 *
 * What it assumes of the memory: as lane.pml.
 */
#ifndef SLOTS
#define SLOTS 1
#endif
#ifndef FRAMES
#define FRAMES 2
#endif
#ifndef FAILS
#define FAILS 0
#endif
#ifndef BUG
#define BUG 0
#endif

#define NO_FRAME 255
#define FRAME 1
#define SPACE 2
#define UNIT(stage) (stage == 2 -> 1 : 0)

#include "gate.pml"

/* Rings: 0 from the host; 1 and 2 to the branches; 3 and 4 from them; 5 to the host. */
byte frames[6];
byte passed[4];               /* frames that a stage has handed on */
byte blocked[4];
bool stop[4], ended[4];
byte failed_at[4] = NO_FRAME; /* the frame at which a stage failed */

#define FULL(ring) (frames[ring] == SLOTS)
#define EMPTY(ring) (frames[ring] == 0)
#define HAS_FRAME(stage) (stage < 3 -> !EMPTY(stage) : (!EMPTY(3) && (BUG == 2 || !EMPTY(4))))
#define HAS_SPACE(stage) (stage > 0 -> !FULL((stage + 2)) : (!FULL(1) && (BUG == 3 || !FULL(2))))
#define MARKED(stage) (failed_at[1] == passed[stage] && stage == 3 || failed_at[2] == passed[stage] && stage == 3)

inline look(stage) { /* pa_stage_ready */
    ready = false;
    if
    :: stop[stage] || ended[stage]
    :: else ->
        lacks = FRAME;
        if
        :: HAS_FRAME(stage) ->
            lacks = SPACE;
            if
            :: HAS_SPACE(stage) -> lacks = 0
            :: else
            fi
        :: else
        fi;
        if
        :: BUG == 5 && blocked[stage]
        :: else -> blocked[stage] = lacks
        fi;
        ready = lacks == 0
    fi
}

inline tell(stage, what) { signal_if(UNIT(stage), blocked[stage] == what) }

inline publish(ring) {
    frames[ring]++;
    assert(frames[ring] <= SLOTS)
}

inline serve(stage) {
    if
    :: stage == 3 -> /* what the branches handed on and has not been taken is of the same frame */
        assert(!EMPTY(3) && passed[1] - frames[3] == passed[3]);
        assert(!EMPTY(4) && passed[2] - frames[4] == passed[3])
    :: else
    fi;
    if
    :: MARKED(stage) -> ended[stage] = true
    :: else ->
        if
        :: true
        :: FAILS && (stage == 1 || stage == 2) ->
            atomic {
                failed_at[stage] = passed[stage];
                ended[stage] = true
            }
            stop[0] = true;
            signal_if(UNIT(0), true);
            if
            :: BUG == 4 ->
                stop[3 - stage] = true;
                signal_if(UNIT((3 - stage)), true)
            :: else
            fi
        fi
    fi;
    if
    :: stage == 0 ->
        publish(2);
        tell(2, FRAME);
        atomic {
            passed[0]++;
            publish(1)
        }
        tell(1, FRAME)
    :: stage == 1 || stage == 2 ->
        atomic {
            passed[stage]++;
            publish(stage + 2)
        }
        tell(3, FRAME)
    :: else ->
        atomic {
            passed[3]++;
            publish(5)
        }
    fi;
    if
    :: stage == 0 -> frames[0]-- /* the host looks all the time */
    :: stage == 1 || stage == 2 ->
        frames[stage]--;
        tell(0, SPACE)
    :: else ->
        frames[4]--;
        tell(2, SPACE);
        frames[3]--;
        tell(1, SPACE)
    fi
}

inline try(stage) {
    look(stage);
    if
    :: ready -> serve(stage); goto next
    :: else
    fi
}

proctype unit(byte id) {
    byte lacks;
    bool sleeping, ready;
    do
    :: draw_ticket(id, id);
        if
        :: stop[3] -> break
        :: else
        fi;
        if
        :: id == 1 -> try(2)
        :: else ->
            try(3);
            try(1);
            try(0)
        fi;
        wait(id, id);
next:
        skip; /* no jump may lead into the d_step that follows */
        d_step {
            ready = false;
            lacks = 0
        }
    od
}

proctype submitter() {
    byte frame;
    bool sleeping;
    do
    :: frame == FRAMES || stop[0] -> break
    :: frame < FRAMES && !FULL(0) ->
        atomic {
            frames[0]++;
            frame++
        }
        tell(0, FRAME)
    od
}

proctype taker() {
    byte frame;
    bool sleeping;
    do
    :: frame == FRAMES || failed_at[1] == frame && passed[3] > frame || failed_at[2] == frame && passed[3] > frame -> break
    :: frame < FRAMES && failed_at[1] != frame && failed_at[2] != frame && !EMPTY(5) ->
        atomic {
            frames[5]--;
            frame++
        }
        tell(3, SPACE)
    od;
    /* pa_lane_close */
    stop[0] = true;
    stop[1] = true;
    stop[2] = true;
    stop[3] = true;
    signal_if(0, true);
    signal_if(1, true)
}

init {
    atomic {
        run unit(0);
        run unit(1);
        run submitter();
        run taker()
    }
}
