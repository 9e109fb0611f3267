/* A team's jobs (team.c), exhaustively: every piece of every job runs once, by a thread that has this job, however many
 * each claims at a time, and though a worker may leave what is left to others (team.c does so by speeds) and slow
 * workers are not called to some jobs; the caller
 * goes on when nobody is inside, waits for nobody who is not, and nobody sleeps for ever, also when the team is closed.
 *
 *   spin -a -DWORKERS=2 team.pml && cc -O2 -DSAFETY -o pan pan.c && ./pan -m1000000
 *
 * WORKERS  1 or 2, beside the caller
 * BUG      1: the caller does not wait for those inside; 2: it looks who is inside before it draws its ticket; 3: it
 *          opens the job before it says what it is; 4: it leaves pieces to others as they do to it. All but 2
 *          must be found as assertions, 2 as an invalid end state: somebody sleeps for ever.
 *
 * What it assumes of the memory: `changes`, `sleepers` and `stop` are sequentially consistent, as in lane.pml, which has
 * the pairs. `state` has one order of its changes (it is one variable), an addition or exchange reads the newest, and
 * these pairs of team.c make what is written before visible after:
 *   the caller opens (release)      ->  a worker enters by exchange (acquire): fn, context, next, end, speeds
 *   a worker leaves (release)       ->  the caller finds nobody inside (acquire): what the pieces wrote, done
 *   the caller changes START        ->  a worker draws its ticket (acquire): a ticket that is new has seen the job open
 * `next` only hands out numbers. A worker may find `state` outdated: it then enters late (the exchange fails, or it
 * sleeps with an old ticket, which wakes it), as it does here when it is slow.
 */
#ifndef WORKERS
#define WORKERS 2
#endif
#ifndef JOBS
#define JOBS 2
#endif
#ifndef BUG
#define BUG 0
#endif

#define PIECES (4 - WORKERS) /* with more of both there are too many states */
#define THREADS (WORKERS + 1)
#define START 0 /* of fast workers */
#define START_SLOW 1
#define DONE 2

byte sleepers[3];                       /* by gate */
byte place[3];                          /* by thread: the gate its ticket is of */
bool moved[3], asleep[3];
bool open, few, stop;                   /* few: the job is for fast workers */
byte inside, job;
byte next[THREADS], end[THREADS];       /* by share */
byte ran[3];

inline draw_ticket(thread, gate) {
    d_step {
        place[thread] = gate;
        moved[thread] = false
    }
}

inline signal(gate) {
    d_step { /* changes + 1 */
        moved[0] = moved[0] || place[0] == gate;
        moved[1] = moved[1] || place[1] == gate;
        moved[2] = moved[2] || place[2] == gate
    }
    sleeping = sleepers[gate] > 0;
    if
    :: sleeping ->
        d_step {
            asleep[0] = asleep[0] && place[0] != gate;
            asleep[1] = asleep[1] && place[1] != gate;
            asleep[2] = asleep[2] && place[2] != gate
        }
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

inline begin() {
    d_step { /* fn, context */
        job++;
        ran[0] = 0;
        ran[1] = 0;
        ran[2] = PIECES == 2
    }
}

inline share() {
    d_step {
        next[0] = 0;
        end[0] = PIECES / THREADS;
        next[1] = end[0];
        end[1] = PIECES * 2 / THREADS;
        if
        :: WORKERS == 2 ->
            next[THREADS - 1] = end[1];
            end[THREADS - 1] = PIECES
        :: else
        fi
    }
}

inline claim(thread) {
    turn = 0;
    do
    :: turn == THREADS -> break
    :: turn < THREADS ->
        d_step {
            owner = (thread + turn) % THREADS;
            piece = next[owner]
        }
        if
        :: piece >= end[owner] -> turn++
        :: piece < end[owner] && (thread != 0 || BUG == 4) -> turn++ /* leaves them */
        :: piece < end[owner] ->
            last = piece + 1;
            if
            :: last < end[owner] -> last++ /* two at once */
            :: true
            fi;
            d_step { /* compare and exchange */
                mine = next[owner] == piece;
                next[owner] = (mine -> last : next[owner])
            }
            if
            :: mine ->
                mine = job;
                do
                :: piece == last -> break
                :: else ->
                    ran[piece]++;
                    assert(ran[piece] == 1); /* twice */
                    assert(mine == job); /* inside */
                    piece++
                od
            :: else /* once more */
            fi
        fi
    od;
    skip; /* no jump may lead into the d_step that follows */
    d_step { /* fewer states */
        piece = 0;
        last = 0;
        mine = 0;
        turn = 0;
        owner = 0
    }
}

proctype worker(byte id) {
    byte seen, piece, last, mine, turn, owner, gate;
    bool sleeping, entered, final;
    do
    :: if /* its speed changes; of two workers one is slow, or there are too many states */
        :: WORKERS == 1 || id == 2 -> gate = START
        :: id == 1 -> gate = START_SLOW
        fi;
        draw_ticket(id, gate);
        if
        :: stop -> break
        :: else
        fi;
        d_step {
            entered = open && !(few && gate == START_SLOW);
            seen = inside
        }
        if
        :: entered ->
            d_step { /* compare and exchange */
                entered = open && !(few && gate == START_SLOW) && inside == seen;
                inside = inside + entered
            }
            if
            :: entered ->
                claim(id);
                d_step {
                    inside--;
                    final = !open && inside == 0
                }
                if
                :: final -> signal(DONE)
                :: else
                fi;
                wait(id, gate)
            :: else /* once more */
            fi
        :: else -> wait(id, gate)
        fi
    od
}

proctype caller() {
    byte piece, last, mine, turn, owner;
    bool sleeping, alone;
    do
    :: job == JOBS -> break
    :: else ->
        if
        :: BUG == 3 ->
            open = true;
            share();
            begin()
        :: else ->
            begin();
            share();
            if /* said with `open`: one variable */
            :: few = false
            :: few = true
            fi;
            open = true
        fi;
        signal(START);
        if
        :: few
        :: else -> signal(START_SLOW)
        fi;
        claim(0);
        open = false;
        do
        :: BUG == 1 -> break
        :: else ->
            if
            :: BUG == 2 ->
                alone = inside == 0;
                draw_ticket(0, DONE)
            :: else ->
                draw_ticket(0, DONE);
                alone = inside == 0
            fi;
            if
            :: alone -> break
            :: else -> wait(0, DONE)
            fi
        od;
        assert(ran[0] == 1 && ran[1] == 1 && ran[2] == 1) /* once */
    od;
    stop = true;
    signal(START);
    signal(START_SLOW)
}

init {
    atomic {
        run caller();
        run worker(1);
        if
        :: WORKERS == 2 -> run worker(2)
        :: else
        fi
    }
}
