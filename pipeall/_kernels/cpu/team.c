#include "team.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../eventcount.h"

/* One job at a time. A worker takes part by adding itself to `state` while the job is OPEN; the caller
 * closes the job when no chunk is left and waits for those inside only, so that a worker that was asleep
 * or preempted is never waited for.
 *
 * field                    written by           ordering
 * fn, context, end         caller, while closed store of OPEN (release) pairs with the worker's CAS (acquire)
 * next                     all                  relaxed: it only hands out indices
 * state                    all                  a worker's leave (release) pairs with the caller's wait (acquire)
 */
enum {
    OPEN = 1 << 30,
    LINGER = 800, /* yields before a thread sleeps, some 0.2 ms: the next layer is mostly nearer than a wake-up takes */
};

typedef struct worker {
    _Alignas(64) atomic_llong next; /* of its share of the chunks, the first that nobody has claimed */
    int64_t end;
    pa_team *team;
    int index, core;
    pthread_t thread;
} worker;

struct pa_team {
    pa_eventcount start, done;
    _Alignas(64) atomic_int state; /* OPEN bit + workers inside */
    _Alignas(64) pa_chunk_fn fn;
    const void *context;
    atomic_bool stop;
    int size, started;
    fenv_t floats; /* of all its threads */
    char name[12];
    worker workers[];
};

/* A set of this core alone, to be freed with CPU_FREE; NULL when memory is out. */
static cpu_set_t *only(int core, size_t *bytes) {
    cpu_set_t *set = CPU_ALLOC(core + 1);
    *bytes = CPU_ALLOC_SIZE(core + 1);
    if (set) {
        CPU_ZERO_S(*bytes, set);
        CPU_SET_S(core, *bytes, set);
    }
    return set;
}

/* Pins the calling thread, or the thread to be made with `attributes`; core -1 pins nothing. 0 or an errno. */
static int pin(int core, pthread_attr_t *attributes) {
    size_t bytes;
    if (core < 0) return 0;
    cpu_set_t *set = only(core, &bytes);
    if (!set) return ENOMEM;
    const int error = attributes ? pthread_attr_setaffinity_np(attributes, bytes, set)
                                 : pthread_setaffinity_np(pthread_self(), bytes, set);
    CPU_FREE(set);
    return error;
}

/* Its own share first, then what the others have not begun. */
static void claim(pa_team *team, int thread) {
    for (int i = 0; i < team->size; i++) {
        worker *owner = &team->workers[(thread + i) % team->size];
        for (;;) {
            const int64_t chunk = atomic_fetch_add_explicit(&owner->next, 1, memory_order_relaxed);
            if (chunk >= owner->end) break;
            team->fn(team->context, chunk, thread);
        }
    }
}

static void *work(void *argument) {
    worker *self = argument;
    pa_team *team = self->team;
    char name[16]; /* the limit of a thread's name */
    snprintf(name, sizeof name, "%s/%u", team->name, (unsigned)self->index % 100);
    pthread_setname_np(pthread_self(), name);
    for (;;) {
        unsigned ticket = pa_eventcount_ticket(&team->start);
        if (atomic_load(&team->stop)) return NULL;
        int state = atomic_load_explicit(&team->state, memory_order_relaxed);
        if (state & OPEN) {
            if (!atomic_compare_exchange_strong_explicit(&team->state, &state, state + 1, memory_order_acquire,
                                                         memory_order_relaxed))
                continue;
            claim(team, self->index);
            if (atomic_fetch_sub_explicit(&team->state, 1, memory_order_release) == 1) pa_eventcount_signal(&team->done);
        }
        pa_eventcount_wait(&team->start, ticket, LINGER);
    }
}

/* Why a thread cannot be pinned to a core. */
static const char *refusal(int core) {
    char path[64];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d", core);
    if (access(path, F_OK)) return "there is no such core";
    strcat(path, "/online"); /* not there for a core that always is */
    FILE *file = fopen(path, "r");
    const int state = file ? fgetc(file) : '1';
    if (file) fclose(file);
    return state == '0' ? "it is offline" : "it is not allowed for this process";
}

static void explain(int failed, int core, char *error) {
    if (failed == EINVAL)
        snprintf(error, PA_TEAM_ERROR, "cannot pin a thread to core %d: %s; Board.detect() finds the usable ones", core,
                 refusal(core));
    else
        snprintf(error, PA_TEAM_ERROR, "cannot start a thread on core %d: %s", core, strerror(failed));
}

pa_team *pa_team_open(const int *cores, int count, const char *name, char *error) {
    pa_team *team = aligned_alloc(64, (sizeof(pa_team) + (size_t)count * sizeof(worker) + 63) / 64 * 64);
    if (!team) {
        snprintf(error, PA_TEAM_ERROR, "out of memory");
        return NULL;
    }
    memset(team, 0, sizeof *team);
    team->size = count;
    team->started = 1;
    team->workers[0].core = cores[0];
    fegetenv(&team->floats); /* which the threads it starts inherit */
    snprintf(team->name, sizeof team->name, "%s", name);
    for (int i = 1; i < count; i++) {
        team->workers[i] = (worker){.team = team, .index = i, .core = cores[i]};
        pthread_attr_t attributes;
        pthread_attr_init(&attributes);
        int failed = pin(cores[i], &attributes);
        if (!failed) failed = pthread_create(&team->workers[i].thread, &attributes, work, &team->workers[i]);
        pthread_attr_destroy(&attributes);
        if (failed) {
            explain(failed, cores[i], error);
            pa_team_close(team);
            return NULL;
        }
        team->started = i + 1;
    }
    const int failed = pin(cores[0], NULL);
    if (failed) {
        explain(failed, cores[0], error);
        pa_team_close(team);
        return NULL;
    }
    return team;
}

void pa_team_run(pa_team *team, pa_chunk_fn fn, const void *context, int64_t chunks) {
    if (team->size == 1 || chunks <= 1) {
        for (int64_t i = 0; i < chunks; i++) fn(context, i, 0);
        return;
    }
    team->fn = fn;
    team->context = context;
    for (int i = 0; i < team->size; i++) {
        atomic_store_explicit(&team->workers[i].next, chunks * i / team->size, memory_order_relaxed);
        team->workers[i].end = chunks * (i + 1) / team->size;
    }
    atomic_store_explicit(&team->state, OPEN, memory_order_release);
    pa_eventcount_signal(&team->start);
    claim(team, 0);
    atomic_fetch_sub_explicit(&team->state, OPEN, memory_order_acq_rel);
    for (;;) {
        unsigned ticket = pa_eventcount_ticket(&team->done);
        if (atomic_load_explicit(&team->state, memory_order_acquire) == 0) return;
        pa_eventcount_wait(&team->done, ticket, LINGER);
    }
}

/* A thread that is on the core already will mostly stay: two calls that pin it and one that asks would take 5 us. */
int pa_team_enter(const pa_team *team, pa_thread_state *thread_state) {
    const int core = team->workers[0].core;
    thread_state->moved = core >= 0 && sched_getcpu() != core;
    if (thread_state->moved) {
        if (sched_getaffinity(0, sizeof thread_state->cores, &thread_state->cores)) return errno;
        const int error = pin(core, NULL);
        if (error) return error;
    }
    fegetenv(&thread_state->floats);
    fesetenv(&team->floats);
    return 0;
}

void pa_team_leave(const pa_thread_state *thread_state) {
    fesetenv(&thread_state->floats);
    if (thread_state->moved) sched_setaffinity(0, sizeof thread_state->cores, &thread_state->cores);
}

int pa_team_size(const pa_team *team) { return team->size; }

void pa_team_close(pa_team *team) {
    if (!team) return;
    atomic_store(&team->stop, true);
    pa_eventcount_signal(&team->start);
    for (int i = 1; i < team->started; i++) pthread_join(team->workers[i].thread, NULL);
    free(team);
}
