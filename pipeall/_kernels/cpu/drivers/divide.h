/* How a GEMM of many rows and panels falls into chunks for a team (conv.c, conv_s8.c, winograd.c), and a layer into bands.
 *
 * All chunks are alike. There are some for each thread, so that claiming them balances the team, and the threads' shares
 * are equal, or nearly. Chunks that follow each other are one thread's: they have in common what is larger, the weights
 * or the input, which is then read from memory by one thread and not by each of them.
 */
#ifndef PIPEALL_DIVIDE_H
#define PIPEALL_DIVIDE_H

#include "../../intmath.h"

/* Rows of A and panels of B, in each of so many groups. */
typedef struct pa_product {
    int64_t rows, panels, groups;
    int64_t unit, most;  /* rows of a chunk: a multiple of `unit`, and `most` of them */
    int64_t line;        /* panels whose results fill a cache line, which no two threads should write to */
    int64_t widest;      /* panels of a chunk at most */
    int64_t work;        /* products of a row and a panel */
    int64_t input_bytes, panel_bytes; /* of what the rows are made of, and of a panel of B */
    int by_panels;       /* chunks that follow each other have their panels in common, not their rows */
} pa_product;

/* Of a chunk. */
typedef struct pa_chunk_size {
    int64_t rows, panels;
} pa_chunk_size;

enum { LINE_BYTES = 64 /* of a cache */ };
enum {
    DIVIDE_CHUNKS = 3,         /* a thread */
    DIVIDE_WORK = 1 << 15,     /* products of a chunk at least: about a microsecond */
    DIVIDE_KEPT = 192 << 10,   /* bytes of panels that stay in a second-level cache while rows pass by */
    DIVIDE_LARGE = 1024 << 10, /* bytes of weights that do not */
};

static inline int64_t divide_chunks(const pa_product *p, pa_chunk_size c) {
    return ceil_div(p->rows, c.rows) * ceil_div(p->panels, c.panels) * p->groups;
}

/* The part of the threads' time that is used: the one with the most chunks decides. */
static inline double divide_used(const pa_product *p, pa_chunk_size c, int threads) {
    const int64_t slowest = ceil_div(divide_chunks(p, c), threads) * c.rows * c.panels;
    return (double)(p->rows * p->panels * p->groups) / (double)(threads * slowest);
}

static inline pa_chunk_size divide_size(const pa_product *p, int64_t row_parts, int64_t panel_parts) {
    return (pa_chunk_size){min64(p->rows, round_up(ceil_div(p->rows, row_parts), p->unit)),
                           min64(min64(p->panels, p->widest), round_up(ceil_div(p->panels, panel_parts), p->line))};
}

/* The first size with enough chunks and no thread that waits for long, the larger operand in as few parts as that takes;
 * where there is none, the size that uses most of the threads' time. */
static inline pa_chunk_size divide_for_team(const pa_product *p, int threads) {
    enum { ROWS, PANELS };
    const double enough = 0.9;
    const int64_t many = 8 * (int64_t)threads;
    const int64_t first[] = {ceil_div(p->rows, p->most), ceil_div(p->panels, p->widest)};
    const int64_t last[] = {max64(first[ROWS], min64(ceil_div(p->rows, p->unit), many)),
                            max64(first[PANELS], min64(ceil_div(p->panels, p->line), many))};
    const int outer = p->by_panels ? ROWS : PANELS, inner = 1 - outer;
    pa_chunk_size best = divide_size(p, first[ROWS], first[PANELS]);
    double most = divide_used(p, best, threads);
    int64_t parts[2];
    for (parts[outer] = first[outer]; parts[outer] <= last[outer]; parts[outer]++) {
        for (parts[inner] = first[inner]; parts[inner] <= last[inner]; parts[inner]++) {
            const pa_chunk_size size = divide_size(p, parts[ROWS], parts[PANELS]);
            if (size.rows * size.panels * p->work < DIVIDE_WORK) break;
            const double used = divide_used(p, size, threads);
            if (used >= enough && divide_chunks(p, size) >= (int64_t)threads * DIVIDE_CHUNKS) return size;
            if (used > most) best = size, most = used;
        }
    }
    return best;
}

/* All panels, or as many as stay in a cache where reading the input for each such part is less than the weights for each
 * block of rows. */
static inline pa_chunk_size divide_for_one(const pa_product *p) {
    const int64_t weights = p->groups * p->panels * p->panel_bytes, row_blocks = ceil_div(p->rows, p->most);
    pa_product part = *p;
    if (weights >= DIVIDE_LARGE) part.widest = max64(1, min64(p->widest, DIVIDE_KEPT / p->panel_bytes));
    const int64_t panel_blocks = ceil_div(p->panels, part.widest);
    const int fewer = p->by_panels && (panel_blocks - 1) * p->input_bytes < (row_blocks - 1) * weights;
    return divide_size(fewer ? &part : p, row_blocks, 1);
}

static inline pa_chunk_size pa_divide(const pa_product *p, int threads) {
    if (threads == 1) return divide_for_one(p);
    const double little = 0.85; /* less is worth a shared line, or rows that are no whole tiles */
    pa_product finer = *p;
    pa_chunk_size size = divide_for_team(p, threads);
    for (int i = 0; i < 2 && divide_used(p, size, threads) < little; i++) {
        finer.line = 1;
        if (i > 0) finer.unit = 1;
        const pa_chunk_size other = divide_for_team(&finer, threads);
        if (divide_used(p, other, threads) > divide_used(p, size, threads)) size = other;
    }
    return size;
}

/* Rows of a band of a depthwise layer, whose chunks are each a band of one of so many blocks of channels. work: products of
 * a row of a block. */
static inline int32_t pa_band_of(int64_t rows, int64_t blocks, int64_t work, int threads) {
    enum { BAND = 14 }; /* rows at most: the first rows of a band are packed again */
    const pa_product product = {
        .rows = rows, .panels = blocks, .groups = 1, .unit = 1, .most = BAND, .line = 1, .widest = 1, .work = work};
    return (int32_t)pa_divide(&product, threads).rows;
}

/* Where a chunk begins: which block of rows, which group and which of its panels. A piece of a chunk is a panel. */
typedef struct pa_chunk_place {
    int64_t row_block, group, panel;
} pa_chunk_place;

static inline pa_chunk_place pa_place_of(int64_t first_piece, int64_t row_blocks, int64_t panel_blocks, int64_t groups,
                                         int64_t panel_block, int by_panels) {
    const int64_t index = first_piece / panel_block, across = panel_blocks * groups;
    const int64_t other = by_panels ? index / row_blocks : index % across;
    return (pa_chunk_place){by_panels ? index % row_blocks : index / across, other / panel_blocks,
                            other % panel_blocks * panel_block + first_piece % panel_block};
}

#endif
