#include "tiling.h"

#include "../eventcount.h"

typedef struct context {
    const pa_tiled_steps *tiled;
    void *const *bases;
    const pa_thread_memory *memory;
    int64_t *spent; /* NULL: nobody asks */
} context;

static void run_band(const void *arg, int64_t band, int thread) {
    const context *ctx = arg;
    const pa_tiled_steps *tiled = ctx->tiled;
    const pa_thread_memory *memory = ctx->memory;
    void *bases[PA_BASES];
    memcpy(bases, ctx->bases, sizeof bases);
    bases[PA_LOCAL] = memory->local + thread * memory->local_bytes;
    char *scratch = memory->scratch + thread * memory->scratch_bytes;
    int64_t *spent = ctx->spent ? ctx->spent + (int64_t)thread * (tiled->last - tiled->first + 1) : NULL;
    int64_t begin = spent ? pa_now_ns() : 0;
    for (int64_t i = band ? tiled->band_ends[band - 1] : 0; i < tiled->band_ends[band]; i++) {
        tiled->tile_steps[i].run(tiled->tile_steps[i].args, bases, scratch, memory->single);
        if (spent) {
            const int64_t now = pa_now_ns();
            spent[tiled->step_of[i]] += now - begin;
            begin = now;
        }
    }
}

static void share(const pa_tiled_steps *tiled, int threads, const int64_t *spent, int64_t *marks) {
    const int32_t steps = tiled->last - tiled->first + 1;
    double all = 0, sum = 0;
    for (int64_t i = 0; i < (int64_t)threads * steps; i++) all += (double)spent[i];
    const int64_t begin = marks[0], whole = pa_now_ns() - begin;
    for (int32_t step = 0; step < steps; step++) {
        for (int thread = 0; thread < threads; thread++) sum += (double)spent[(int64_t)thread * steps + step];
        marks[step + 1] = step + 1 < steps ? begin + (int64_t)((double)whole * (all > 0 ? sum / all : 0)) : begin + whole;
    }
}

void pa_run_tiled(const pa_tiled_steps *tiled, void *const (*bases)[PA_BASES], int32_t frames, const pa_thread_memory *memory,
                  int64_t *spent, int64_t *marks) {
    const int threads = pa_team_size(memory->team);
    if (marks) memset(spent, 0, sizeof *spent * (size_t)threads * (size_t)(tiled->last - tiled->first + 1));
    for (int32_t i = 0; i < frames; i++) {
        const context ctx = {tiled, bases[i], memory, marks ? spent : NULL};
        pa_team_run(memory->team, run_band, &ctx, tiled->bands);
    }
    if (marks) share(tiled, threads, spent, marks);
}
