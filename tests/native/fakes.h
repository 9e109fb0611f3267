/* Programs that only count, and a lane of them with all it needs. */
#include "pipeline/stage.h"

#include <string.h>

#include "check.h"

enum { MAX_SLOTS = 3, ANSWER_FAILURE = 42, STEPS = 3, MARKS = STEPS + 1, KEPT = 5, WIDTH = PA_LOG_FIXED + MARKS };
enum { BLOCKS = MAX_SLOTS * (PA_MAX_STAGES + 1) }; /* as many frames as the rings hold */
enum { MS = 1000000, SECOND = 1000 * MS };

/* A program that adds its steps to the second number of a frame; the first is the number of the frame. */
typedef struct fake {
    pa_program program; /* first */
    int open_code;
    int64_t fail_at, block_at; /* frames; -1 for never */
    pthread_t thread, own; /* who computes; who is to, but for guests */
    int answers[PA_DEPTH_MAX], under_way; /* a fake that fails late says so in finish() */
    int64_t started, finished;
    int late;
    int opened, closed; /* written by the stage, read after the lane is closed */
} fake;

static int fake_open(pa_program *program) {
    fake *self = (fake *)program;
    self->thread = pthread_self();
    self->opened++;
    return self->open_code;
}

static int fake_enter(pa_program *program, pa_thread_state *thread_state) {
    fake *self = (fake *)program;
    thread_state->moved = 0;
    self->own = self->thread;
    self->thread = pthread_self();
    return 0;
}

static void fake_leave(pa_program *program, const pa_thread_state *thread_state) {
    fake *self = (fake *)program;
    CHECK(!thread_state->moved);
    self->thread = self->own;
}

static int fake_start(pa_program *program, pa_slot_memory *in, pa_slot_memory *out, int32_t first, int32_t last,
                      const atomic_int *stop) {
    fake *self = (fake *)program;
    CHECK(pthread_equal(self->thread, pthread_self()));
    const float *from = in->data;
    float *to = out->data;
    const int64_t frame = (int64_t)from[0];
    if (first > program->first_late) { /* goes on with the frame */
        CHECK(program->depth == 1 && first == program->last_early && last == STEPS && to[0] == from[0]);
        to[1] += (float)(last - first);
        return 0;
    }
    CHECK(first == 0 || first == program->first_late);
    CHECK(last == program->last_early || (last == STEPS && program->depth > 1));
    for (int i = 0; program->marks && i < MARKS; i++) program->marks[i] = pa_now_ns();
    while (frame == self->block_at)
        if (atomic_load(stop)) return PA_STOPPED;
    to[0] = from[0];
    to[1] = from[1] + (float)(last - first);
    program->map_ns += 1;
    program->copy_ns += 2;
    const int answer = frame == self->fail_at ? ANSWER_FAILURE : 0;
    if (answer && !self->late) return answer;
    CHECK(self->under_way++ < program->depth);
    self->answers[self->started++ % PA_DEPTH_MAX] = answer;
    return 0;
}

static int fake_finish(pa_program *program) {
    fake *self = (fake *)program;
    CHECK(pthread_equal(self->thread, pthread_self()) && self->under_way > 0);
    self->under_way--;
    return self->answers[self->finished++ % PA_DEPTH_MAX];
}

static int fake_start_together(pa_program *program, pa_slot_memory *const *in, pa_slot_memory *const *out, int32_t count,
                               const atomic_int *stop) {
    fake *self = (fake *)program;
    int code = 0, answer = 0;
    CHECK(2 <= count && count <= program->batch);
    for (int32_t i = 0; i < count && !code; i++) {
        if (i > 0) answer |= fake_finish(program); /* all are finished once */
        code = fake_start(program, in[i], out[i], 0, STEPS, stop);
    }
    if (answer) self->answers[(self->started - 1) % PA_DEPTH_MAX] = answer;
    return code;
}

static void fake_close(pa_program *program) {
    fake *self = (fake *)program;
    CHECK(pthread_equal(self->thread, pthread_self()));
    self->closed++;
}

typedef struct rig {
    pa_lane lane;
    pa_eventcount host;
    pa_unit units[PA_MAX_STAGES];
    pa_stage stages[PA_MAX_STAGES];
    pa_ring rings[PA_MAX_STAGES + 1];
    pa_slot slots[PA_MAX_STAGES + 1][MAX_SLOTS];
    float data[PA_MAX_STAGES + 1][MAX_SLOTS][2 * PA_MAX_STAGES]; /* two numbers; behind them those of branches */
    fake programs[PA_MAX_STAGES];
    pa_piece leaves[PA_MAX_STAGES];
    float blocks[BLOCKS][PA_MAX_STAGES][2];
    int64_t rows[PA_MAX_STAGES][KEPT + PA_UNDER_WAY_MAX][WIDTH];
} rig;

static rig r;
static int64_t frames;
static int depth, late, batch; /* of the fakes */
static int shared;      /* steps that two stages have */
static int most_units = PA_MAX_STAGES; /* that serve the stages of a lane in turn */

static int units(void) { return r.lane.stages < most_units ? r.lane.stages : most_units; }

static void set_up(int stages, int slots) {
    memset(&r, 0, sizeof r);
    r.lane = (pa_lane){.stages = stages, .stage = r.stages, .host = &r.host,
                       .block = (char *)r.blocks, .block_bytes = sizeof r.blocks[0],
                       .blocks = slots * (stages + 1)};
    for (int i = 0; i < stages; i++) {
        r.programs[i] = (fake){.program = {.open = fake_open, .start = fake_start, .finish = fake_finish,
                                           .close = fake_close, .enter = fake_enter,
                                           .leave = fake_leave, .depth = depth, .mark_count = MARKS,
                                           .last_early = STEPS, .batch = batch,
                                           .start_together = batch ? fake_start_together : NULL},
                               .fail_at = -1, .block_at = -1, .late = late};
        r.stages[i].lane = &r.lane;
        r.stages[i].index = i;
        r.stages[i].unit = &r.units[i % most_units];
        r.stages[i].program = &r.programs[i].program;
        r.stages[i].fault_frame = -1;
        r.stages[i].late_share = -1;
        r.stages[i].earlier = i;
        r.stages[i].in = &r.rings[i], r.stages[i].out = &r.rings[i + 1];
        r.stages[i].before = i ? &r.stages[i - 1] : NULL, r.stages[i].after = i + 1 < stages ? &r.stages[i + 1] : NULL;
        r.leaves[i] = (pa_piece){.from = 0, .to = sizeof r.blocks[0][i] * (size_t)i, .bytes = sizeof r.blocks[0][i]};
        r.stages[i].leaves = &r.leaves[i];
        r.stages[i].leaf_count = 1;
    }
    for (int i = 0; i <= stages; i++) {
        r.rings[i].slots = (uint32_t)slots;
        r.rings[i].slot = r.slots[i];
        for (int j = 0; j < slots; j++) r.slots[i][j].memory = (pa_slot_memory){.data = r.data[i][j], .bytes = 8};
    }
}

static int start_lane(void) {
    for (int i = 0; i < units(); i++) CHECK(pa_unit_start(&r.units[i]) == 0);
    return pa_lane_start(&r.lane);
}

static void close_units(void) {
    for (int i = 0; i < units(); i++) pa_unit_close(&r.units[i]);
}

static void close_in_time(void) {
    const int64_t begin = pa_now_ns();
    pa_lane_close(&r.lane);
    pa_lane_close(&r.lane); /* harmless */
    close_units();
    CHECK(pa_now_ns() - begin < SECOND);
    for (int i = 0; i < r.lane.stages; i++) CHECK(r.programs[i].opened == 1 && r.programs[i].closed == 1);
    for (int i = 0; i < r.lane.stages; i++) CHECK(r.programs[i].under_way == 0); /* each frame started was finished */
}

static int fill(int64_t frame) {
    pa_slot *slot = pa_lane_free(&r.lane);
    if (!slot) return 0;
    float *given = slot->memory.data;
    given[0] = (float)frame;
    given[1] = 0;
    return 1;
}

static int try_submit(int64_t frame) {
    if (!fill(frame)) return 0;
    pa_lane_submit(&r.lane, frame, frame);
    return 1;
}

/* The oldest result, waiting for it. */
static pa_slot *take(void) {
    for (;;) {
        unsigned ticket = pa_eventcount_ticket(&r.host);
        pa_slot *slot = pa_lane_front(&r.lane);
        if (slot) return slot;
        pa_eventcount_wait(&r.host, ticket, 0);
    }
}

/* A thread: all frames go in, as soon as there is room. */
static inline void *submit_all(void *argument) {
    for (int64_t frame = 0; frame < frames;) {
        unsigned ticket = pa_eventcount_ticket(&r.host);
        if (try_submit(frame))
            frame++;
        else
            pa_eventcount_wait(&r.host, ticket, 0);
    }
    return argument;
}

static inline void take_frame(int64_t frame) {
    pa_slot *slot = take();
    CHECK(slot->frame == frame && slot->failed_stage == -1 && slot->error == 0);
    const float *got = slot->memory.data;
    CHECK(got[0] == (float)frame && got[1] == (float)(r.lane.stages * STEPS - shared));
    const float(*left)[2] = (const float(*)[2])(void *)pa_lane_block(&r.lane, slot); /* what every stage gave */
    for (int i = 0; i < r.lane.stages; i++)
        CHECK(left[i][0] == (float)frame && (left[i][1] == (float)((i + 1) * STEPS) || shared));
    int64_t before = slot->submitted_ns;
    for (int i = 0; i < r.lane.stages; i++) {
        CHECK(before <= slot->begin_ns[i] && slot->begin_ns[i] <= slot->end_ns[i]);
        before = slot->end_ns[i];
    }
    pa_lane_release(&r.lane);
}
