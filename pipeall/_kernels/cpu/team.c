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
 * closes the job when no piece is left and waits for those inside only, so that a worker that was asleep
 * or preempted is never waited for.
 *
 * Threads of like speed have like shares, and claim whole chunks. Where one is slower (a small core, or one that others
 * use too), shares are in proportion to speeds, and claims shrink with what is left, down to a piece; a slow thread
 * leaves the last pieces to the others. The caller never leaves any: it may be alone. Speeds are of the last MEMORY_NS.
 * Slow threads wait at a gate of their own, and sleep on where a step is for the fast ones alone.
 *
 * field                    written by           ordering
 * fn, context, end, pieces caller, while closed store of OPEN (release) pairs with the worker's CAS (acquire)
 * even, fastest, speed     caller, while closed the same
 * few, fast_count          caller, while closed only the caller reads them
 * gate                     caller, while closed relaxed: jobs for all wake a thread at either gate
 * next                     all                  relaxed: it only hands out indices
 * done, ns                 the thread, inside   as state
 * state                    all                  a worker's leave (release) pairs with the caller's wait (acquire)
 */
enum {
    OPEN = 1 << 30,
    FEW = 1 << 29, /* the job is for the fast threads alone */
    FIRST = 8,     /* frames of a step of which every second one is done by the fast threads alone */
    EXPLORE = 16,  /* later, frames until it tries again what is slower */
    LINGER = 800,  /* yields before a thread sleeps, some 0.2 ms: the next layer is mostly nearer than a wake-up takes */
    MEMORY_NS = 16000000, /* of all threads: some frames, and several time slices of whoever disturbs one */
};
enum { FAST, SLOW }; /* gates */
static const float UNEVEN = 0.75f; /* a thread with less of the fastest one's speed is slower: noise is not */

typedef struct worker {
    _Alignas(64) _Atomic int64_t next; /* of its share of the pieces, the first that nobody has claimed */
    int64_t end;
    int64_t done, ns; /* pieces of this job, and the time from its begin until there were none left for it */
    float speed;      /* its part of the speed of all */
    double work, time; /* lately: its pieces in ns at the mean speed of all, and the ns that it took */
    pa_team *team;
    atomic_int gate; /* where it waits for jobs */
    int index, core;
    pthread_t thread;
} worker;

struct pa_team {
    pa_eventcount start[2], done; /* start: by gate */
    _Alignas(64) atomic_int state; /* OPEN bit + workers inside */
    _Alignas(64) pa_piece_fn fn;
    const void *context;
    int64_t pieces; /* of a chunk */
    int64_t begin;  /* of the job, in ns */
    bool even, few; /* few: this step, or frame, is for the fast threads alone */
    int fast_count; /* the caller included */
    float fastest; /* speed */
    atomic_bool stop;
    atomic_int awake; /* workers that have come to wait for jobs */
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

/* Core -1 pins nothing. 0 or an errno. (musl cannot pin a thread by the attributes that it is made with.) */
static int pin(int core, pthread_t thread) {
    size_t bytes;
    if (core < 0) return 0;
    cpu_set_t *set = only(core, &bytes);
    if (!set) return ENOMEM;
    const int error = pthread_setaffinity_np(thread, bytes, set);
    CPU_FREE(set);
    return error;
}

/* How many pieces a thread of an uneven team may claim at once: half its part of what is left. 0: others are done with all
 * of it before this thread were with one. */
static int64_t fair_claim(const pa_team *team, const worker *self) {
    int64_t left = 0;
    for (int i = 0; i < team->size; i++) {
        const worker *owner = &team->workers[i];
        const int64_t rest = owner->end - atomic_load_explicit(&owner->next, memory_order_relaxed);
        left += rest > 0 ? rest : 0;
    }
    if (self->index > 0 && self->speed * 1.5f < team->fastest && self->speed * (float)(left + 1) < 1) return 0;
    const int64_t fair = (int64_t)(self->speed * (float)left / 2);
    return fair > 1 ? fair : 1;
}

/* The first pieces of what is left of the owner's share, all of one chunk. False when none is left for this thread. */
static bool claim(pa_team *team, const worker *self, worker *owner, int64_t *first, int64_t *end) {
    const int64_t pieces = team->pieces;
    *first = atomic_load_explicit(&owner->next, memory_order_relaxed);
    do {
        if (*first >= owner->end) return false;
        const int64_t most = team->even ? pieces : fair_claim(team, self);
        if (!most) return false;
        const int64_t chunk_end = (*first / pieces + 1) * pieces;
        *end = *first + most < chunk_end ? *first + most : chunk_end;
        if (*end > owner->end) *end = owner->end;
    } while (!atomic_compare_exchange_weak_explicit(&owner->next, first, *end, memory_order_relaxed, memory_order_relaxed));
    return true;
}

/* Its own share first, then what the others have not begun. */
static void take_part(pa_team *team, int thread) {
    worker *self = &team->workers[thread];
    int64_t first, end, done = 0;
    for (int i = 0; i < team->size; i++)
        while (claim(team, self, &team->workers[(thread + i) % team->size], &first, &end)) {
            team->fn(team->context, first, end, thread);
            done += end - first;
        }
    self->done = done;
    self->ns = pa_now_ns() - team->begin;
}

/* Lately's work by time; at first that of the others. */
static float speed_of(const worker *one) {
    return (float)((one->work + MEMORY_NS / 64) / (one->time + MEMORY_NS / 64));
}

/* The speed of each thread, as a part of all, once a job is done that some took part in. */
static void learn(pa_team *team) {
    int64_t done = 0, ns = 0;
    double recent = 0;
    float sum = 0, most = 0, least = 0;
    for (int i = 0; i < team->size; i++) {
        done += team->workers[i].done;
        ns += team->workers[i].done ? team->workers[i].ns : 0;
    }
    for (int i = 0; i < team->size; i++) {
        worker *one = &team->workers[i];
        if (one->done) {
            one->work += (double)one->done * (double)ns / (double)done;
            one->time += (double)one->ns;
        }
        recent += one->time;
        one->done = 0;
    }
    for (int i = 0; i < team->size; i++) {
        worker *one = &team->workers[i];
        one->speed = speed_of(one);
        sum += one->speed;
        if (one->speed > most) most = one->speed;
        if (!i || one->speed < least) least = one->speed;
        if (recent > MEMORY_NS) {
            one->work /= 2;
            one->time /= 2;
        }
    }
    team->fast_count = 0;
    for (int i = 0; i < team->size; i++) {
        worker *one = &team->workers[i];
        const int gate = i && one->speed < UNEVEN * most ? SLOW : FAST;
        one->speed /= sum;
        team->fast_count += gate == FAST;
        atomic_store_explicit(&one->gate, gate, memory_order_relaxed);
    }
    team->fastest = most / sum;
    team->even = least > UNEVEN * most;
}

static void *work(void *argument) {
    worker *self = argument;
    pa_team *team = self->team;
    char name[16]; /* the limit of a thread's name */
    snprintf(name, sizeof name, "%s/%u", team->name, (unsigned)self->index % 100);
    pthread_setname_np(pthread_self(), name);
    atomic_fetch_add(&team->awake, 1);
    pa_eventcount_signal(&team->done);
    for (;;) {
        const int gate = atomic_load_explicit(&self->gate, memory_order_relaxed);
        unsigned ticket = pa_eventcount_ticket(&team->start[gate]);
        if (atomic_load(&team->stop)) return NULL;
        int state = atomic_load_explicit(&team->state, memory_order_relaxed);
        if (state & OPEN && !(gate == SLOW && state & FEW)) {
            if (!atomic_compare_exchange_strong_explicit(&team->state, &state, state + 1, memory_order_acquire,
                                                         memory_order_relaxed))
                continue;
            take_part(team, self->index);
            if (atomic_fetch_sub_explicit(&team->state, 1, memory_order_release) == 1) pa_eventcount_signal(&team->done);
        }
        pa_eventcount_wait(&team->start[gate], ticket, LINGER);
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
    team->even = true;
    team->workers[0] = (worker){.team = team, .core = cores[0]};
    fegetenv(&team->floats); /* which the threads it starts inherit */
    snprintf(team->name, sizeof team->name, "%s", name);
    for (int i = 1; i < count; i++) {
        team->workers[i] = (worker){.team = team, .index = i, .core = cores[i]};
        int failed = pthread_create(&team->workers[i].thread, NULL, work, &team->workers[i]);
        if (!failed) {
            team->started = i + 1;
            failed = pin(cores[i], team->workers[i].thread);
        }
        if (failed) {
            explain(failed, cores[i], error);
            pa_team_close(team);
            return NULL;
        }
    }
    const int failed = pin(cores[0], pthread_self());
    if (failed) {
        explain(failed, cores[0], error);
        pa_team_close(team);
        return NULL;
    }
    for (;;) {
        unsigned ticket = pa_eventcount_ticket(&team->done);
        if (atomic_load(&team->awake) == count - 1) return team;
        pa_eventcount_wait(&team->done, ticket, LINGER);
    }
}

/* A thread's part of the speed of all, where it takes part. */
static float part(pa_team *team, int thread) {
    worker *one = &team->workers[thread];
    return team->few && atomic_load_explicit(&one->gate, memory_order_relaxed) == SLOW ? 0 : one->speed;
}

/* The threads' shares of a job, one after the other. */
static void share(pa_team *team, int64_t chunks) {
    const int64_t all = chunks * team->pieces;
    int64_t begin = 0;
    float speed = 0, sum = 0;
    for (int i = 0; i < team->size; i++) sum += part(team, i);
    for (int i = 0; i < team->size; i++) {
        worker *owner = &team->workers[i];
        speed += part(team, i) / sum;
        const int64_t end = team->even ? chunks * (i + 1) / team->size * team->pieces : (int64_t)((float)all * speed + 0.5f);
        atomic_store_explicit(&owner->next, begin, memory_order_relaxed);
        begin = owner->end = i + 1 < team->size && end < all ? end : all;
    }
}

void pa_team_run_pieces(pa_team *team, pa_piece_fn fn, const void *context, int64_t chunks, int64_t pieces) {
    if (team->size == 1 || (team->few && team->fast_count == 1) || chunks * (team->even ? 1 : pieces) <= 1) {
        for (int64_t i = 0; i < chunks; i++) fn(context, i * pieces, (i + 1) * pieces, 0);
        return;
    }
    team->fn = fn;
    team->context = context;
    team->pieces = pieces;
    team->begin = pa_now_ns();
    share(team, chunks);
    const int open = team->few ? OPEN | FEW : OPEN;
    atomic_store_explicit(&team->state, open, memory_order_release);
    pa_eventcount_signal(&team->start[FAST]);
    if (!team->few) pa_eventcount_signal(&team->start[SLOW]);
    take_part(team, 0);
    atomic_fetch_sub_explicit(&team->state, open, memory_order_acq_rel);
    for (;;) {
        unsigned ticket = pa_eventcount_ticket(&team->done);
        if (atomic_load_explicit(&team->state, memory_order_acquire) == 0) break;
        pa_eventcount_wait(&team->done, ticket, LINGER);
    }
    if (!team->few) learn(team);
}

void pa_team_begin_step(pa_team *team, pa_team_choice *choice) {
    choice->begin = 0;
    if (team->even || team->few) return;
    const bool few = choice->ns[true] < choice->ns[false], other = (choice->frames + choice->number) % EXPLORE == 0;
    team->few = choice->frames >= FIRST ? few != other : choice->frames > 0 && choice->frames % 2;
    choice->begin = pa_now_ns();
}

void pa_team_end_step(pa_team *team, pa_team_choice *choice) {
    if (!choice->begin) return;
    float *lately = &choice->ns[team->few];
    const float ns = (float)(pa_now_ns() - choice->begin), most = *lately * 1.25f; /* whoever disturbs one frame */
    if (choice->frames < 2) /* caches are cold */
        *lately = ns;
    else if (choice->frames >= FIRST)
        *lately += ((ns < most ? ns : most) - *lately) / 4;
    else if (ns < *lately)
        *lately = ns;
    choice->frames++;
    team->few = false;
}

typedef struct whole_chunks {
    pa_chunk_fn fn;
    const void *context;
} whole_chunks;

static void run_whole(const void *context, int64_t chunk, int64_t end, int thread) {
    const whole_chunks *whole = context;
    for (; chunk < end; chunk++) whole->fn(whole->context, chunk, thread);
}

void pa_team_run(pa_team *team, pa_chunk_fn fn, const void *context, int64_t chunks) {
    pa_team_run_pieces(team, run_whole, &(whole_chunks){fn, context}, chunks, 1);
}

/* A thread that is on the core already will mostly stay: two calls that pin it and one that asks would take 5 us. */
int pa_team_enter(const pa_team *team, pa_thread_state *thread_state) {
    const int core = team->workers[0].core;
    thread_state->moved = core >= 0 && sched_getcpu() != core;
    if (thread_state->moved) {
        if (sched_getaffinity(0, sizeof thread_state->cores, &thread_state->cores)) return errno;
        const int error = pin(core, pthread_self());
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
    pa_eventcount_signal(&team->start[FAST]);
    pa_eventcount_signal(&team->start[SLOW]);
    for (int i = 1; i < team->started; i++) pthread_join(team->workers[i].thread, NULL);
    free(team);
}
