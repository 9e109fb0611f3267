/* An op as a range of equal units (rows, pixels, elements, tiles), which a team does in chunks. A unit's results do not depend
 * on the chunk that it is in. */
#ifndef PIPEALL_PARALLEL_FOR_H
#define PIPEALL_PARALLEL_FOR_H

#include "../../intmath.h"
#include "../kernels.h"

enum {
    CHUNK = 16384,     /* elements a chunk visits, some microseconds of work, */
    LEAST_CHUNK = 2048, /* or fewer, where the threads would have less than */
    EACH = 4,           /* chunks each */
};

typedef struct context context;
typedef void (*range_fn)(const context *, int64_t begin, int64_t end, int thread);
struct context {
    const void *op;
    void *const *bases;
    void *scratch;
    range_fn range; /* does units [begin, end) */
    int64_t units, chunk_units;
};

static inline void job_chunk(const void *arg, int64_t chunk, int thread) {
    const context *ctx = arg;
    const int64_t begin = chunk * ctx->chunk_units;
    ctx->range(ctx, begin, min64(begin + ctx->chunk_units, ctx->units), thread);
}

/* unit_work: elements one unit visits. Many units are a multiple of what vectors do side by side, and begin as they lie in
 * vectors where the first does. */
static inline void parallel_for(const void *op, void *const *bases, void *scratch, pa_team *team, range_fn range,
                                int64_t units, int64_t unit_work) {
    int64_t chunk_units = unit_work < CHUNK ? ceil_div(CHUNK, unit_work) : 1;
    const int lanes = chunk_units > PA_LANES_MAX ? PA_LANES_MAX : 1;
    const int64_t threads = pa_team_size(team);
    int64_t chunks = threads > 1 ? min64(units * unit_work / LEAST_CHUNK, EACH * threads) : 1;
    chunks -= chunks > threads ? chunks % threads : 0; /* as many for each thread */
    chunk_units = round_up(min64(chunk_units, ceil_div(units, max64(chunks, 1))), lanes);
    const context ctx = {op, bases, scratch, range, units, chunk_units};
    pa_team_run(team, job_chunk, &ctx, ceil_div(units, chunk_units));
}

static inline int64_t pixels(const pa_view *v) { return (int64_t)v->h * v->w; }
static inline int dense(const pa_view *v) { return v->stride == v->c || pixels(v) == 1; }

#endif
