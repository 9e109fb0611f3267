#include "strips.h"

#include "../gate.h"

typedef struct strips_job {
    const pa_strips *strips;
    void *const *bases;
    const pa_strip_room *room;
    int64_t *spent; /* NULL: nobody asks */
} strips_job;

static void run_band(const void *context, int64_t band, int thread) {
    const strips_job *job = context;
    const pa_strips *strips = job->strips;
    const pa_strip_room *room = job->room;
    void *bases[PA_BASES];
    memcpy(bases, job->bases, sizeof bases);
    bases[PA_LOCAL] = room->local + thread * room->local_bytes;
    char *scratch = room->scratch + thread * room->scratch_bytes;
    int64_t *spent = job->spent ? job->spent + (int64_t)thread * (strips->last - strips->first + 1) : NULL;
    int64_t begin = spent ? pa_now_ns() : 0;
    for (int64_t i = band ? strips->ends[band - 1] : 0; i < strips->ends[band]; i++) {
        strips->parts[i].run(strips->parts[i].args, bases, scratch, room->alone);
        if (spent) {
            const int64_t now = pa_now_ns();
            spent[strips->numbers[i]] += now - begin;
            begin = now;
        }
    }
}

static void share(const pa_strips *strips, int threads, const int64_t *spent, int64_t *marks) {
    const int32_t steps = strips->last - strips->first + 1;
    double all = 0, sum = 0;
    for (int64_t i = 0; i < (int64_t)threads * steps; i++) all += (double)spent[i];
    const int64_t begin = marks[0], whole = pa_now_ns() - begin;
    for (int32_t step = 0; step < steps; step++) {
        for (int thread = 0; thread < threads; thread++) sum += (double)spent[(int64_t)thread * steps + step];
        marks[step + 1] = step + 1 < steps ? begin + (int64_t)((double)whole * (all > 0 ? sum / all : 0)) : begin + whole;
    }
}

void pa_strips_run(const pa_strips *strips, void *const *bases, const pa_strip_room *room, int64_t *spent,
                   int64_t *marks) {
    const int threads = pa_team_size(room->team);
    if (marks) memset(spent, 0, sizeof *spent * (size_t)threads * (size_t)(strips->last - strips->first + 1));
    const strips_job job = {strips, bases, room, marks ? spent : NULL};
    pa_team_run(room->team, run_band, &job, strips->bands);
    if (marks) share(strips, threads, spent, marks);
}
