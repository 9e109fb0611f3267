/* Which channels the vectors of a grouped convolution have. */
#ifndef PIPEALL_GROUPING_H
#define PIPEALL_GROUPING_H

#include <stdint.h>

/* Vectors of outputs: each has those of `together` groups or, where a group has more than the vector has lanes, `part`
 * of them, the last of the group's `parts` vectors perhaps fewer. */
typedef struct pa_grouping {
    int32_t groups, in, out; /* channels of a group: input, output */
    int32_t together, parts, part;
} pa_grouping;

typedef struct pa_channels {
    int32_t in, in_count, out, out_count; /* of a vector: its first input and output channel, and how many */
} pa_channels;

static inline pa_grouping pa_grouping_of(int32_t groups, int32_t in, int32_t out, int lanes) {
    const int most = lanes / (in > out ? in : out), parts = (out + lanes - 1) / lanes;
    return (pa_grouping){groups, in, out, most > 1 ? most : 1, parts, (out + parts - 1) / parts};
}

static inline int64_t pa_vectors_of(const pa_grouping *g) {
    return (int64_t)((g->groups + g->together - 1) / g->together) * g->parts;
}

static inline pa_channels pa_channels_of(const pa_grouping *g, int64_t vector) {
    const int32_t group = (int32_t)(vector / g->parts) * g->together, first = (int32_t)(vector % g->parts) * g->part;
    const int32_t whole = g->groups - group < g->together ? g->groups - group : g->together;
    const int32_t left = whole * g->out - first;
    return (pa_channels){group * g->in, whole * g->in, group * g->out + first,
                         g->parts > 1 && left > g->part ? g->part : left};
}

#endif
