/* Units, lanes and the host (unit.c, stage.c, lane.c), exhaustively: nobody sleeps for ever, whatever the order.
 *
 *   spin -a -DSTAGES=3 -DENDS=0 lane.pml && cc -O2 -DSAFETY -o pan pan.c && ./pan -m1000000
 *
 * One thread of the host submits, one takes.
 *
 * STAGES in the lane: 1, or 3, of which the first and the last are of one unit, as in B-G-B. With 3 the host's threads
 *        look all the time, which leaves the waits of units
 * SLOTS  of each ring
 * FRAMES that the host submits
 * ENDS   1: a stage may fail, once, and the host closes the lane at any moment; else all frames come through
 * BUG    1: reads who sleeps before it changes the gate; 2: the host looks for space before it says that it wants it;
 *        3: frees a slot after it has asked whether the host wants space; 4: a unit with a frame for its
 *        first stage waits there for a slot, whatever its last stage could do; 5: `blocked` keeps what it was from an earlier wait. Each must
 *        be found, as an invalid end state: somebody sleeps for ever.
 *
 * What it assumes of the memory: changes, sleepers, blocked, stop, failed and space_wanted are sequentially consistent.
 * A ring is what it has: frames[i] counts those in ring i; ring.pml has the slots. A unit that has read an outdated
 * count sees it as not changed yet, which is an order of the steps here.
 */
#ifndef SLOTS
#define SLOTS 1
#endif
#ifndef FRAMES
#define FRAMES 3
#endif
#ifndef STAGES
#define STAGES 1
#endif
#ifndef ENDS
#define ENDS 1
#endif
#ifndef BUG
#define BUG 0
#endif

#define HOST 2      /* the host's gate; those of units are 0 and 1 */
#define SUBMITTER 2 /* threads; those of units are 0 and 1 */
#define TAKER 3
#define NO_FRAME 255
#define FRAME 1
#define SPACE 2
#define UNIT(stage) (stage == 2 -> 0 : stage)

#include "gate.pml"

byte frames[STAGES + 1];        /* in each ring */
byte passed[STAGES];            /* frames that a stage has handed on */
byte blocked[STAGES];
bool stop[STAGES], ended[STAGES];
byte failed_at = NO_FRAME;      /* the frame that is marked */
bool failed, space_wanted, closed;

#define FULL(ring) (frames[ring] == SLOTS)
#define EMPTY(ring) (frames[ring] == 0)

inline tell_of_frame(ring) {
    if
    :: ring == STAGES -> signal_if(HOST, true)
    :: else -> signal_if(UNIT(ring), blocked[ring] == FRAME)
    fi
}

inline tell_of_space(ring) {
    if
    :: ring > 0 -> signal_if(UNIT((ring - 1)), blocked[ring - 1] == SPACE)
    :: else ->
        atomic {
            wanted = space_wanted;
            space_wanted = false
        }
        if
        :: wanted -> signal_if(HOST, true)
        :: else
        fi;
        wanted = false
    fi
}

/* pa_stage_ready: whether `stage` can begin a frame. */
inline look(stage) {
    ready = false;
    if
    :: stop[stage] || ended[stage]
    :: else ->
        lacks = FRAME;
        if
        :: !EMPTY(stage) ->
            lacks = SPACE;
            if
            :: !FULL(stage + 1) -> lacks = 0
            :: else
            fi
        :: else
        fi;
        if
        :: BUG == 5 && blocked[stage]
        :: else -> blocked[stage] = lacks
        fi;
        ready = lacks == 0;
        if
        :: BUG == 4 && lacks == SPACE -> !FULL(stage + 1); ready = true
        :: else
        fi
    fi
}

inline stop_before(stage) {
    other = 0;
    do
    :: other == stage -> break
    :: else ->
        stop[other] = true;
        signal_if(UNIT(other), true);
        other++
    od
}

inline serve(stage) {
    if
    :: failed_at == passed[stage] -> ended[stage] = true /* passes the mark on */
    :: failed_at == NO_FRAME
    :: failed_at != NO_FRAME && failed_at != passed[stage]
    :: ENDS && failed_at == NO_FRAME -> /* fails */
        atomic {
            failed_at = passed[stage];
            ended[stage] = true;
            failed = true
        }
        stop_before(stage);
        signal_if(HOST, true)
    fi;
    atomic {
        passed[stage]++;
        frames[stage + 1]++
    }
    tell_of_frame(stage + 1);
    if
    :: BUG == 3 && stage == 0 ->
        tell_of_space(stage);
        frames[stage]--
    :: else ->
        frames[stage]--;
        tell_of_space(stage)
    fi
}

proctype unit(byte id) {
    byte lacks, other;
    bool sleeping, wanted, ready;
    do
    :: draw_ticket(id, id);
        if
        :: (stop[id] || ended[id]) && (id == 1 || stop[STAGES - 1] || ended[STAGES - 1]) -> break
        :: else
        fi;
#if STAGES == 3
        if
        :: id == 0 && BUG != 4 -> /* of two frames the one further on */
            look(2);
            if
            :: ready -> serve(2); goto next
            :: else
            fi
        :: else
        fi;
#endif
        look(id);
        if
        :: ready -> serve(id); goto next
        :: else
        fi;
#if STAGES == 3 && BUG == 4
        if
        :: id == 0 ->
            look(2);
            if
            :: ready -> serve(2); goto next
            :: else
            fi
        :: else
        fi;
#endif
        wait(id, id);
next:
        skip; /* no jump may lead into the d_step that follows */
        d_step {
            ready = false;
            lacks = 0;
            other = 0
        }
    od
}

#if STAGES == 3
proctype submitter() {
    byte frame;
    bool sleeping;
    do
    :: frame == FRAMES -> break
    :: frame < FRAMES && !FULL(0) ->
        atomic {
            frames[0]++;
            frame++
        }
        signal_if(0, blocked[0] == FRAME)
    od
}

proctype taker() {
    byte frame, other;
    bool sleeping;
    do
    :: frame == FRAMES -> break
    :: frame < FRAMES && !EMPTY(STAGES) ->
        atomic {
            frames[STAGES]--;
            frame++
        }
        signal_if(0, blocked[2] == SPACE)
    od;
    stop_before(STAGES)
}
#else
proctype submitter() {
    byte frame;
    bool sleeping, space;
    do
    :: frame == FRAMES -> break
    :: else ->
        draw_ticket(SUBMITTER, HOST);
        if
        :: failed || closed -> break
        :: else
        fi;
        space = !FULL(0); /* pa_lane_free */
        if
        :: !space ->
            if
            :: BUG == 2 ->
                space = !FULL(0);
                space_wanted = true
            :: else ->
                space_wanted = true;
                space = !FULL(0)
            fi
        :: else
        fi;
        if
        :: space ->
            frames[0]++;
            signal_if(0, blocked[0] == FRAME);
            frame++
        :: else -> wait(SUBMITTER, HOST)
        fi;
        space = false
    od
}

proctype taker() {
    byte frame, other;
    bool sleeping;
    do
    :: frame == FRAMES -> break
    :: ENDS && frame < FRAMES -> break /* it may close at any moment */
    :: frame < FRAMES ->
        draw_ticket(TAKER, HOST);
        if
        :: !EMPTY(STAGES) ->
            if
            :: failed_at == frame -> break
            :: else
            fi;
            frames[STAGES]--;
            signal_if(UNIT((STAGES - 1)), blocked[STAGES - 1] == SPACE);
            frame++
        :: else -> wait(TAKER, HOST)
        fi
    od;
    /* pa_lane_close; the host's own gate tells its other thread */
    closed = true;
    stop_before(STAGES);
    signal_if(HOST, true)
}
#endif

init {
    atomic {
        run unit(0);
        if
        :: STAGES == 3 -> run unit(1)
        :: else
        fi;
        run submitter();
        run taker()
    }
}
