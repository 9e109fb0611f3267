#include "together.h"

#include <string.h>

static char *in_frame(const pa_stacked *operand, void *const *bases) {
    return (char *)bases[operand->base] + operand->offset;
}

void pa_run_together(const pa_together *together, void *const (*bases)[PA_BASES], int32_t frames, char *rows, void *scratch,
                     pa_team *team) {
    for (const pa_stacked *src = together->src; src < together->src + together->sources; src++)
        for (int32_t i = 0; i < frames; i++) memcpy(rows + src->at + i * src->apart, in_frame(src, bases[i]), src->bytes);
    void *const stacked[PA_BASES] = {[PA_ARENA] = rows};
    const pa_step *step = &together->run[frames - 2];
    step->run(step->args, stacked, scratch, team);
    const pa_stacked *dst = &together->dst;
    for (int32_t i = 0; i < frames; i++) memcpy(in_frame(dst, bases[i]), rows + dst->at + i * dst->apart, dst->bytes);
}
