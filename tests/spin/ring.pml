/* ring.h, exhaustively: every interleaving and every outdated value that C11 lets a side read.
 *
 *   spin -a -DSLOTS=3 -DHOLD=2 ring.pml && cc -O2 -DSAFETY -o pan pan.c && ./pan
 *
 * SLOTS  slots of the ring
 * HOLD   most slots that a side holds at once (PA_DEPTH_MAX in stage.c)
 * FRAMES that pass; more than COUNT of them, so that both counters wrap around
 * COUNT  the counters are modulo this, where the code has 2^32; no multiple of three, as 2^32 is none
 * BUG    1: publishes before it writes; 2: takes one slot too many; 3: releases before it has read. Each must be found.
 *
 * What it assumes of the memory, which C11 promises for the four orders in ring.h:
 *   1. A counter has one writer, and a reader never sees it go back (coherence). A reader may see any value from the one
 *      it saw last to the newest: `see` picks one.
 *   2. Who reads with acquire a value that was written with release sees all that its writer did before it. So a side
 *      that has seen n publications may touch what the first n of them cover, and only that; the same for releases.
 *      Pairs: publish -> front (content of the slot), release -> free (the reader is done with the slot).
 *   3. Own positions and counters are read as the side itself wrote them (plain, or relaxed by their only writer).
 * Given these, a slot is free of data races if no two sides ever hold it at once, which `take` asserts, and right if the
 * consumer finds in it the frame that is next. The order in which published and released reach the other side
 * relative to each other does not matter: no decision reads both as written by the other side.
 */
#ifndef SLOTS
#define SLOTS 2
#endif
#ifndef HOLD
#define HOLD 2
#endif
#ifndef COUNT
#define COUNT 8
#endif
#ifndef FRAMES
#define FRAMES 11
#endif
#ifndef BUG
#define BUG 0
#endif

#define NOBODY 0
#define PRODUCER 1
#define CONSUMER 2

byte published, released;      /* modulo COUNT; the shared counters */
byte holder[SLOTS], content[SLOTS];

/* An acquire load: any value from what was seen to what is there. */
inline see(seen, counter) {
    do
    :: seen != counter -> seen = (seen + 1) % COUNT
    :: break
    od
}

inline take(slot, side) {
    assert(holder[slot] == NOBODY);
    holder[slot] = side
}

inline leave(slot) { holder[slot] = NOBODY }

#define BETWEEN(newer, older) ((newer + COUNT - older) % COUNT)

proctype producer() {
    byte at, held, seen, next, slot; /* free_at, slots held, seen_released, number of the next frame to write */
    do
    :: next - held == FRAMES -> break
    :: held < HOLD && next < FRAMES -> /* pa_ring_free_at(held) */
        if
        :: BETWEEN((published + held) % COUNT, seen) >= SLOTS + (BUG == 2) -> see(seen, released)
        :: else
        fi;
        if
        :: BETWEEN((published + held) % COUNT, seen) < SLOTS + (BUG == 2) ->
            slot = (at + held) % SLOTS;
            take(slot, PRODUCER);
            if
            :: BUG != 1 -> content[slot] = next
            :: else
            fi;
            next++;
            held++
        :: else /* full, as far as it knows */
        fi
    :: held > 0 -> /* pa_ring_publish */
        leave(at);
        slot = at;
        at = (at + 1) % SLOTS;
        held--;
        published = (published + 1) % COUNT;
        if
        :: BUG == 1 -> content[slot] = next - held - 1
        :: else
        fi
    od
}

proctype consumer() {
    byte at, held, seen, next, slot; /* front_at, slots held, seen_published, number of the next frame to read */
    do
    :: next - held == FRAMES -> break
    :: held < HOLD && next < FRAMES -> /* pa_ring_front_at(held) */
        if
        :: BETWEEN(seen, released) <= held -> see(seen, published)
        :: else
        fi;
        if
        :: BETWEEN(seen, released) > held ->
            slot = (at + held) % SLOTS;
            take(slot, CONSUMER);
            assert(content[slot] == next);
            next++;
            held++
        :: else /* empty, as far as it knows */
        fi
    :: held > 0 -> /* pa_ring_release */
        if
        :: BUG != 3 -> leave(at)
        :: else
        fi;
        slot = at;
        at = (at + 1) % SLOTS;
        held--;
        released = (released + 1) % COUNT;
        if
        :: BUG == 3 -> leave(slot)
        :: else
        fi
    od
}

init {
    atomic {
        run producer();
        run consumer()
    }
}
