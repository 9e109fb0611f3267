/* Gates where threads wait (eventcount.h): three, of four threads. A model that includes this has BUG.
 *
 * Of `changes` all that counts is whether it differs from a thread's ticket: `moved` (so 2^32 signals between a ticket
 * and its sleep are taken to be impossible).
 */
byte sleepers[3];               /* by gate */
byte place[4] = 3;              /* by thread: the gate its ticket is of */
bool moved[4], asleep[4];       /* by thread */

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
        moved[2] = moved[2] || place[2] == gate;
        moved[3] = moved[3] || place[3] == gate
    }
}

inline wake(gate) {
    d_step {
        asleep[0] = asleep[0] && place[0] != gate;
        asleep[1] = asleep[1] && place[1] != gate;
        asleep[2] = asleep[2] && place[2] != gate;
        asleep[3] = asleep[3] && place[3] != gate
    }
}

/* pa_eventcount_signal_if; `waits` is read last. */
inline signal_if(gate, waits) {
    if
    :: BUG == 1 ->
        sleeping = sleepers[gate] > 0;
        change(gate)
    :: else ->
        change(gate);
        sleeping = sleepers[gate] > 0
    fi;
    if
    :: sleeping && waits -> wake(gate)
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
