/* The team: each piece of each job runs exactly once, also where threads are slow in turns and left out of steps, and the
 * caller sees what it wrote. Argument: number of jobs. */
#include "_kernels/cpu/team.h"
#include "_kernels/eventcount.h"

#include <string.h>

#include "check.h"

enum { MAX_THREADS = 4, MAX_CHUNKS = 1000, SLOW_NS = 20000, SLOW_JOBS = 1000, STEPS = 7 };

typedef struct job {
    int threads, number, pieces, slow;
    int hits[MAX_CHUNKS], writer[MAX_CHUNKS]; /* plain: the team orders the accesses */
} job;

static job current;

static void hit(const void *context, int64_t first, int64_t end, int thread) {
    const job *self = context;
    CHECK(thread >= 0 && thread < self->threads);
    CHECK(first < end && first / self->pieces == (end - 1) / self->pieces); /* of one chunk */
    if (self->slow && thread == self->number / SLOW_JOBS % self->threads)
        for (int64_t until = pa_now_ns() + SLOW_NS; pa_now_ns() < until;) pa_pause();
    for (int64_t piece = first; piece < end; piece++) {
        current.hits[piece]++;
        current.writer[piece] = self->number;
    }
}

static void hit_chunk(const void *context, int64_t chunk, int thread) { hit(context, chunk, chunk + 1, thread); }

/* Without pieces as a job of whole chunks. */
static void run_job(pa_team *team, int chunks, int pieces, int number) {
    memset(current.hits, 0, sizeof current.hits);
    current.number = number;
    current.pieces = pieces ? pieces : 1;
    const int all = chunks * current.pieces;
    if (pieces)
        pa_team_run_pieces(team, hit, &current, chunks, pieces);
    else
        pa_team_run(team, hit_chunk, &current, chunks);
    for (int i = 0; i < MAX_CHUNKS; i++) CHECK(current.hits[i] == (i < all));
    for (int i = 0; i < all; i++) CHECK(current.writer[i] == number);
}

static pa_team *open_team(const int *cores, int threads) {
    char error[PA_TEAM_ERROR];
    pa_team *team = pa_team_open(cores, threads, "test", error);
    CHECK(team && pa_team_size(team) == threads);
    current.threads = threads;
    return team;
}

static void test_jobs(const int *cores, int threads, int jobs) {
    uint32_t random = (uint32_t)threads;
    pa_team_choice choices[STEPS] = {0};
    pa_team *team = open_team(cores, threads);
    for (int i = 0; i < jobs; i++) {
        const uint32_t r = next_random(&random);
        const int pieces = (int)(r >> 16) % 6, most = MAX_CHUNKS / (pieces ? pieces : 1);
        current.slow = i >= jobs / 2; /* then each thread for some time */
        pa_team_begin_step(team, &choices[i % STEPS]);
        run_job(team, (int)(r % 4 || current.slow ? r / 4 % 9 : r / 4 % (uint32_t)(most + 1)), pieces, i); /* mostly short: workers race to close */
        pa_team_end_step(team, &choices[i % STEPS]);
    }
    current.slow = 0;
    run_job(team, 0, 0, -1);
    run_job(team, MAX_CHUNKS, 0, -2);
    pa_team_close(team);
}

static void test_open_and_close(const int *cores, int times) {
    for (int i = 0; i < times; i++) {
        pa_team *team = open_team(cores, 1 + i % MAX_THREADS);
        if (i % 3) run_job(team, i % 10, 0, i);
        pa_team_close(team);
    }
    pa_team_close(NULL);
}

/* A core that does not exist: for a worker, and for the caller. */
static void test_missing_core(void) {
    const int worker[] = {-1, -1, 100000}, caller[] = {100000, -1};
    char error[PA_TEAM_ERROR];
    CHECK(!pa_team_open(worker, 3, "test", error) && strstr(error, "core 100000: there is no such core"));
    CHECK(!pa_team_open(caller, 2, "test", error) && strstr(error, "core 100000: there is no such core"));
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    const int jobs = atoi(argv[1]), unpinned[MAX_THREADS] = {-1, -1, -1, -1};
    for (int threads = 1; threads <= MAX_THREADS; threads++) test_jobs(unpinned, threads, jobs);
    test_open_and_close(unpinned, jobs / 20);
    test_missing_core();
}
