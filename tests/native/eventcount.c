/* The gate: no wake-up is lost, whether a waiter spins or sleeps. A lost one hangs. Argument: number of rounds. */
#include "_kernels/eventcount.h"

#include "check.h"

enum { WAITERS = 3, LONGEST_DELAY = 3 * PA_SPINS };

static pa_eventcount go, back;
static atomic_int round_now, seen;
static int rounds;

static void await(pa_eventcount *gate, atomic_int *value, int expected) {
    for (;;) {
        unsigned ticket = pa_eventcount_ticket(gate);
        if (atomic_load_explicit(value, memory_order_relaxed) >= expected) return;
        pa_eventcount_wait(gate, ticket, expected % 2 * 10);
    }
}

static void *wait_rounds(void *argument) {
    for (int round = 1; round <= rounds; round++) {
        await(&go, &round_now, round);
        atomic_fetch_add_explicit(&seen, 1, memory_order_relaxed);
        pa_eventcount_signal(&back);
    }
    return argument;
}

/* Signals after delays around the moment when a waiter stops to spin and goes to sleep. */
static void test_no_lost_wake_up(void) {
    pthread_t threads[WAITERS];
    for (int i = 0; i < WAITERS; i++) threads[i] = start_thread(wait_rounds, NULL);
    uint32_t random = 1;
    for (int round = 1; round <= rounds; round++) {
        for (uint32_t i = next_random(&random) % LONGEST_DELAY; i > 0; i--) pa_pause();
        atomic_store_explicit(&round_now, round, memory_order_relaxed);
        pa_eventcount_signal(&go);
        await(&back, &seen, round * WAITERS);
    }
    for (int i = 0; i < WAITERS; i++) pthread_join(threads[i], NULL);
    CHECK(atomic_load(&go.sleepers) == 0 && atomic_load(&back.sleepers) == 0);
}

static void test_change_before_the_wait(void) {
    pa_eventcount gate = {0};
    unsigned ticket = pa_eventcount_ticket(&gate);
    pa_eventcount_signal(&gate);
    pa_eventcount_wait(&gate, ticket, 0);
}

static void test_time_limit(void) {
    pa_eventcount gate = {0};
    const int64_t limit = 20 * 1000 * 1000, begin = pa_now_ns();
    pa_eventcount_sleep(&gate, pa_eventcount_ticket(&gate), limit);
    CHECK(pa_now_ns() - begin >= limit);
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    rounds = atoi(argv[1]);
    test_change_before_the_wait();
    test_time_limit();
    test_no_lost_wake_up();
}
