/* A gate: where a thread waits until another says that something changed (an eventcount).
 *
 *   waiter:    ticket = pa_eventcount_ticket(g); if (condition) go on; else pa_eventcount_wait(g, ticket, yields); test again
 *   signaller: make the condition true; pa_eventcount_signal(g)
 *
 * No wake-up is lost: signal adds to `changes` before it reads `sleepers`; a waiter adds to `sleepers`
 * before the kernel compares `changes` with the ticket (all four sequentially consistent).
 * Waiting spins briefly (a stage or a chunk is often done within microseconds), yields where it is told to, then sleeps
 * in a futex.
 */
#ifndef PIPEALL_EVENTCOUNT_H
#define PIPEALL_EVENTCOUNT_H

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

typedef struct pa_eventcount {
    _Alignas(64) atomic_uint changes;
    atomic_uint sleepers;
} pa_eventcount;

#if defined(__x86_64__)
enum { PA_SPINS = 1000 }; /* a pause is about 40 cycles on Zen 3: some 10 us */
static inline void pa_pause(void) { __builtin_ia32_pause(); }
#elif defined(__aarch64__)
enum { PA_SPINS = 5000 }; /* a yield is a no-op on most small cores */
static inline void pa_pause(void) { __asm__ volatile("yield"); }
#else
enum { PA_SPINS = 1000 };
static inline void pa_pause(void) {}
#endif

static inline unsigned pa_eventcount_ticket(pa_eventcount *g) { return atomic_load(&g->changes); }

static inline void pa_eventcount_signal(pa_eventcount *g) {
    atomic_fetch_add(&g->changes, 1);
    if (atomic_load(&g->sleepers))
        syscall(SYS_futex, &g->changes, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

/* The same, but a waiter sleeps on unless it has said beforehand, in `interest`, that it waits for just this. It does so
 * before it adds to `sleepers`, so whoever sees it asleep sees for what. */
static inline void pa_eventcount_signal_if(pa_eventcount *g, const atomic_int *interest, int what) {
    atomic_fetch_add(&g->changes, 1);
    if (atomic_load(&g->sleepers) && atomic_load(interest) == what)
        syscall(SYS_futex, &g->changes, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

/* Returns when the gate changed since the ticket was drawn, or after timeout_ns (< 0: no limit), or spuriously. For
 * who would only take time from others by spinning. */
static inline void pa_eventcount_sleep(pa_eventcount *g, unsigned ticket, int64_t timeout_ns) {
    struct timespec limit = {timeout_ns / 1000000000, timeout_ns % 1000000000};
    atomic_fetch_add(&g->sleepers, 1);
    syscall(SYS_futex, &g->changes, FUTEX_WAIT_PRIVATE, ticket, timeout_ns < 0 ? NULL : &limit, NULL, 0);
    atomic_fetch_sub(&g->sleepers, 1);
}

/* The same without limit, after spinning for a moment and then offering the core to others so many times. */
static inline void pa_eventcount_wait(pa_eventcount *g, unsigned ticket, int yields) {
    for (int i = 0; i < PA_SPINS + yields; i++) {
        if (atomic_load_explicit(&g->changes, memory_order_acquire) != ticket) return;
        if (i < PA_SPINS)
            pa_pause();
        else
            sched_yield();
    }
    pa_eventcount_sleep(g, ticket, -1);
}

static inline int64_t pa_now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

#endif
