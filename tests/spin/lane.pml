/* Waiting in a lane (eventcount.h, stage.c), exhaustively: a stage between two rings, and a host of two threads, one that
 * submits and one that takes results. Nobody sleeps for ever, also when the stage fails at any frame and when the lane is
 * closed at any moment.
 *
 *   spin -a -DSLOTS=2 lane.pml && cc -O2 -DSAFETY -o pan pan.c && ./pan -m1000000
 *
 * BUG 1: a signaller looks for sleepers before it counts the change; 2: the stage tells of space before it has
 * released the slot; 3: the host asks for space after its last look. Each must be found (as an invalid end state:
 * somebody sleeps for ever).
 *
 * What it assumes of the memory: `changes`, `sleepers`, `stop`, `failed` and `space_wanted` are sequentially consistent
 * (atomic_ operations without an explicit order; exchange and fetch_add are indivisible), and the kernel compares
 * `changes` with the ticket and puts the thread to sleep in one step (futex(2)). That is what two pairs need, each of the
 * form "write mine, then read yours" (store buffering, litmus test SB), which acquire and release would not give:
 *   signal:  changes + 1, then reads sleepers      |  wait:  sleepers + 1, then the kernel reads changes
 *   stage:   releases slot, then takes space_wanted |  host:  sets space_wanted, then reads released
 * In the second pair both sides use an exchange on one variable: the later one reads what the earlier wrote and so sees
 * all before it, which is what a release store and an acquire load of `released` need on either side of it.
 * The spinning before a sleep only ends earlier and is left out. So is inline execution: that thread has no frame under way
 * and waits at no gate. A ring is a number of frames here; ring.pml has the
 * slots. Of `changes` all that counts is whether it differs from a thread's ticket: `moved` (so 2^32 signals between
 * a ticket and its sleep are taken to be impossible).
 */
#ifndef SLOTS
#define SLOTS 2
#endif
#ifndef FRAMES
#define FRAMES 3
#endif
#ifndef BUG
#define BUG 0
#endif

#define GATE_IN 0  /* of ring 0: the stage waits for frames */
#define GATE_OUT 1 /* of ring 1: the stage waits for space */
#define HOST 2     /* both threads of the host wait here */
#define STAGE_ID 0
#define SUBMITTER 1
#define TAKER 2
#define NO_FRAME 255

byte sleepers[3];               /* by gate */
byte place[3];                  /* by thread: the gate its ticket is of */
bool moved[3], asleep[3];       /* by thread */
byte frames[2];                 /* in ring 0 and ring 1 */
byte failed_at = NO_FRAME;      /* the frame in ring 1 that is marked */
bool stop, failed, space_wanted, closed;

#define FULL(ring) (frames[ring] == SLOTS)
#define EMPTY(ring) (frames[ring] == 0)

inline draw_ticket(thread, gate) {
    d_step {
        place[thread] = gate;
        moved[thread] = false
    }
}

inline change(gate) {
    d_step {
        moved[0] = moved[0] || place[0] == gate;
        moved[1] = moved[1] || place[1] == gate;
        moved[2] = moved[2] || place[2] == gate
    }
}

inline wake(gate) {
    d_step {
        asleep[0] = asleep[0] && place[0] != gate;
        asleep[1] = asleep[1] && place[1] != gate;
        asleep[2] = asleep[2] && place[2] != gate
    }
}

inline signal(gate) {
    if
    :: BUG == 1 ->
        sleeping = sleepers[gate] > 0;
        change(gate)
    :: else ->
        change(gate);
        sleeping = sleepers[gate] > 0
    fi;
    if
    :: sleeping -> wake(gate)
    :: else
    fi;
    sleeping = false
}

inline wait(thread, gate) {
    sleepers[gate]++;
    asleep[thread] = !moved[thread]; /* FUTEX_WAIT */
    !asleep[thread];
    sleepers[gate]--
}

proctype stage() {
    byte frame;
    bool sleeping, wanted, last;
    do
    :: last -> break
    :: else ->
        do /* wait_for the frame */
        :: draw_ticket(STAGE_ID, GATE_IN);
            if
            :: stop -> goto end
            :: else
            fi;
            if
            :: !EMPTY(0) -> break
            :: else -> wait(STAGE_ID, GATE_IN)
            fi
        od;
        do /* wait_for space */
        :: draw_ticket(STAGE_ID, GATE_OUT);
            if
            :: stop -> goto end
            :: else
            fi;
            if
            :: !FULL(1) -> break
            :: else -> wait(STAGE_ID, GATE_OUT)
            fi
        od;
        if
        :: true
        :: last = true; /* fails */
            failed_at = frame;
            failed = true;
            signal(HOST)
        fi;
        frames[1]++;
        signal(HOST);
        if
        :: BUG == 2 ->
            wanted = space_wanted;
            space_wanted = false;
            if
            :: wanted -> signal(HOST)
            :: else
            fi;
            frames[0]--
        :: else ->
            frames[0]--;
            atomic {
                wanted = space_wanted;
                space_wanted = false
            }
            if
            :: wanted -> signal(HOST)
            :: else
            fi
        fi;
        wanted = false;
        frame++
    od;
end:
    skip
}

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
            :: BUG == 3 ->
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
            signal(GATE_IN);
            frame++
        :: else -> wait(SUBMITTER, HOST)
        fi;
        space = false
    od
}

proctype taker() {
    byte frame;
    bool sleeping;
    do
    :: frame == FRAMES -> break
    :: frame < FRAMES -> break /* it may close at any moment */
    :: frame < FRAMES ->
        draw_ticket(TAKER, HOST);
        if
        :: !EMPTY(1) ->
            if
            :: failed_at == frame -> break
            :: else
            fi;
            frames[1]--;
            signal(GATE_OUT);
            frame++
        :: else -> wait(TAKER, HOST)
        fi
    od;
    /* pa_lane_close; the host's own gate tells its other thread */
    closed = true;
    stop = true;
    signal(GATE_IN);
    signal(GATE_OUT);
    signal(HOST)
}

init {
    atomic {
        run stage();
        run submitter();
        run taker()
    }
}
