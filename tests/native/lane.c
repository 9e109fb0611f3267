/* Lanes of fake programs: order, failure in its place, early outputs, the log, pacing, cuts that float, a stage that is lent, and an end
 * within a second. Argument: number of frames. */
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

static int fake_enter(pa_program *program, pa_guest *guest) {
    fake *self = (fake *)program;
    guest->moved = 0;
    self->own = self->thread;
    self->thread = pthread_self();
    return 0;
}

static void fake_leave(pa_program *program, const pa_guest *guest) {
    fake *self = (fake *)program;
    CHECK(!guest->moved);
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

static void fake_close(pa_program *program) {
    fake *self = (fake *)program;
    CHECK(pthread_equal(self->thread, pthread_self()));
    self->closed++;
}

typedef struct rig {
    pa_lane lane;
    pa_gate host, gates[PA_MAX_STAGES + 1];
    pa_stage stages[PA_MAX_STAGES];
    pa_ring rings[PA_MAX_STAGES + 1];
    pa_slot slots[PA_MAX_STAGES + 1][MAX_SLOTS];
    float data[PA_MAX_STAGES + 1][MAX_SLOTS][2];
    fake programs[PA_MAX_STAGES];
    pa_leaf leaves[PA_MAX_STAGES];
    float blocks[BLOCKS][PA_MAX_STAGES][2];
    int64_t rows[PA_MAX_STAGES][KEPT + PA_DEPTH_MAX][WIDTH];
} rig;

static rig r;
static int64_t frames;
static int depth, late; /* of the fakes */
static int shared;      /* steps that two stages have */

static void set_up(int stages, int slots) {
    memset(&r, 0, sizeof r);
    r.lane = (pa_lane){.stages = stages, .stage = r.stages, .ring = r.rings, .gate = r.gates, .host = &r.host,
                       .block = (char *)r.blocks, .block_bytes = sizeof r.blocks[0],
                       .blocks = slots * (stages + 1)};
    for (int i = 0; i < stages; i++) {
        r.programs[i] = (fake){.program = {.open = fake_open, .start = fake_start, .finish = fake_finish,
                                           .close = fake_close, .enter = fake_enter,
                                           .leave = fake_leave, .depth = depth, .mark_count = MARKS,
                                           .last_early = STEPS},
                               .fail_at = -1, .block_at = -1, .late = late};
        r.stages[i].lane = &r.lane;
        r.stages[i].index = i;
        r.stages[i].program = &r.programs[i].program;
        r.stages[i].fault_frame = -1;
        r.leaves[i] = (pa_leaf){.slot_offset = 0, .block_offset = sizeof r.blocks[0][i] * (size_t)i,
                                .bytes = sizeof r.blocks[0][i]};
        r.stages[i].leaves = &r.leaves[i];
        r.stages[i].leaf_count = 1;
    }
    for (int i = 0; i <= stages; i++) {
        r.rings[i].slots = (uint32_t)slots;
        r.rings[i].slot = r.slots[i];
        for (int j = 0; j < slots; j++) r.slots[i][j].memory = (pa_slot_memory){.data = r.data[i][j], .bytes = 8};
    }
}

static void close_in_time(void) {
    const int64_t begin = pa_now_ns();
    pa_lane_close(&r.lane);
    CHECK(pa_now_ns() - begin < SECOND);
    for (int i = 0; i < r.lane.stages; i++) CHECK(r.programs[i].opened == 1 && r.programs[i].closed == 1);
    for (int i = 0; i < r.lane.stages; i++) CHECK(r.programs[i].under_way == 0); /* each frame started was finished */
    pa_lane_close(&r.lane); /* harmless */
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
    pa_lane_submit(&r.lane, frame);
    return 1;
}

/* Computes a frame here, if the stage is lent. */
static int try_compute(int64_t frame) {
    pa_guest guest;
    if (!pa_lane_borrow(&r.lane, &guest)) return 0;
    CHECK(fill(frame));
    pa_lane_compute(&r.lane, frame);
    pa_lane_return(&r.lane, &guest);
    return 1;
}

/* The oldest result, waiting for it. */
static pa_slot *take(void) {
    for (;;) {
        unsigned ticket = pa_gate_ticket(&r.host);
        pa_slot *slot = pa_lane_front(&r.lane);
        if (slot) return slot;
        pa_gate_wait(&r.host, ticket, 0);
    }
}

static void take_frame(int64_t frame) {
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

static void *submit_all(void *argument) {
    for (int64_t frame = 0; frame < frames;) {
        unsigned ticket = pa_gate_ticket(&r.host);
        if (try_submit(frame))
            frame++;
        else
            pa_gate_wait(&r.host, ticket, 0);
    }
    return argument;
}

/* One thread submits, another takes; frame numbers stay exact in float32 up to 2^24. */
static void test_frames_pass(int stages, int slots) {
    set_up(stages, slots);
    CHECK(pa_lane_start(&r.lane) == 0);
    pthread_t submitter = start_thread(submit_all, NULL);
    for (int64_t frame = 0; frame < frames; frame++) take_frame(frame);
    pthread_join(submitter, NULL);
    CHECK(!pa_lane_front(&r.lane));
    close_in_time();
    for (int i = 0; i < stages; i++) CHECK(atomic_load(&r.stages[i].frames) == frames);
    for (int i = 0; i < stages; i++) CHECK(atomic_load(&r.stages[i].map_ns) == frames);
    for (int i = 0; i < stages; i++) CHECK(atomic_load(&r.stages[i].copy_ns) == 2 * frames);
    for (int i = 0; i < stages; i++) CHECK(r.stages[i].log.count == 0);
}

/* Two of three frames are computed by the host, until one fails. */
static void test_lent(int64_t failing) {
    set_up(1, 1);
    CHECK(pa_lane_start(&r.lane) == 0);
    r.programs[0].fail_at = failing; /* read by who computes, after this frame was handed over */
    int64_t computed = 0;
    CHECK(!try_compute(0)); /* nobody knows how long it takes */
    for (int64_t frame = 0; frame < failing; frame++) {
        if (frame % 3 && try_compute(frame)) {
            CHECK(pa_lane_front(&r.lane));
            computed++;
        } else {
            CHECK(try_submit(frame));
        }
        take_frame(frame);
    }
    CHECK(computed > 0);
    if (!try_compute(failing)) CHECK(try_submit(failing));
    CHECK(take()->failed_stage == 0 && take()->error == ANSWER_FAILURE);
    pa_lane_release(&r.lane);
    CHECK(!try_compute(failing + 1));
    close_in_time();
    CHECK(atomic_load(&r.stages[0].frames) == failing + 1);
}

static void *close_soon(void *argument) {
    const struct timespec soon = {0, MS};
    nanosleep(&soon, NULL);
    pa_lane_close(&r.lane);
    return argument;
}

/* Whoever closes a lane waits for the host to be out of it. */
static void test_close_lent(void) {
    set_up(1, 1);
    r.programs[0].block_at = 1;
    CHECK(pa_lane_start(&r.lane) == 0);
    CHECK(try_submit(0));
    take_frame(0);
    pthread_t closer = start_thread(close_soon, NULL);
    const int computed = try_compute(1);
    pthread_join(closer, NULL);
    CHECK(!computed || !pa_lane_front(&r.lane));
    CHECK(!try_compute(2));
    close_in_time();
}

/* Earlier frames are delivered, then the failure, then nothing. */
static void test_failure(int stages, int slots, int failing, int64_t at, int injected) {
    set_up(stages, slots);
    if (injected)
        r.stages[failing].fault_frame = at;
    else
        r.programs[failing].fail_at = at;
    CHECK(pa_lane_start(&r.lane) == 0);
    int64_t submitted = 0;
    for (int64_t taken = 0; taken <= at;) {
        unsigned ticket = pa_gate_ticket(&r.host);
        if (submitted < at + 5 && try_submit(submitted)) {
            submitted++;
        } else if (pa_lane_front(&r.lane)) {
            if (taken < at) {
                take_frame(taken);
            } else {
                for (int i = 0; i < failing; i++) CHECK(atomic_load(&r.stages[i].stop));
                pa_slot *slot = pa_lane_front(&r.lane);
                CHECK(slot->frame == at && slot->failed_stage == failing);
                CHECK(slot->error == (injected ? PA_FAULT : ANSWER_FAILURE) && atomic_load(&r.lane.failed));
                pa_lane_release(&r.lane);
            }
            taken++;
        } else {
            pa_gate_wait(&r.host, ticket, 0);
        }
    }
    close_in_time();
    CHECK(!pa_lane_front(&r.lane));
}

static void wait_until_failed(void) {
    while (!atomic_load(&r.lane.failed)) pa_pause();
}

/* Closes with `count` frames submitted where there is space, none taken. */
static void test_close(int stages, int slots, int count, int failing, int blocking) {
    set_up(stages, slots);
    if (failing >= 0) r.programs[failing].fail_at = 0;
    if (blocking >= 0) r.programs[blocking].block_at = 0;
    CHECK(pa_lane_start(&r.lane) == 0);
    for (int submitted = 0; submitted < count;) submitted += try_submit(submitted);
    if (failing >= 0) wait_until_failed();
    close_in_time();
    CHECK(atomic_load(&r.lane.failed) == (failing >= 0)); /* being stopped is no failure */
}

/* Runs `count` frames, the last of which fails in the middle stage: it is in the log of the first stage only. */
static void test_log(int64_t count) {
    const int64_t earlier = count - 1;
    set_up(3, 2);
    for (int i = 0; i < 3; i++) r.stages[i].log = (pa_log){.rows = r.rows[i][0], .capacity = KEPT};
    r.programs[1].fail_at = earlier;
    CHECK(pa_lane_start(&r.lane) == 0);
    for (int64_t frame = 0; frame < count; frame++) {
        CHECK(try_submit(frame));
        if (frame < earlier) take_frame(frame);
    }
    CHECK(take()->failed_stage == 1);
    close_in_time();
    for (int i = 0; i < 3; i++) {
        const int64_t written = i == 0 ? count : earlier;
        CHECK(r.stages[i].log.count == written && !r.programs[i].program.marks);
        int64_t before = 0;
        for (int64_t frame = written > KEPT ? written - KEPT : 0; frame < written; frame++) {
            const int64_t *row = r.rows[i][frame % (KEPT + PA_DEPTH_MAX)];
            CHECK(row[0] == frame);
            for (int column = 1; column < WIDTH; column++) {
                CHECK(before <= row[column]);
                before = row[column];
            }
        }
    }
}

static void set_pace(int stage, int64_t ns) {
    for (int way = 0; way < 4; way++) atomic_store(&r.stages[stage].pace_ns[way], ns);
}

/* Every frame lasts as long as the pace; a pace shorter than the program makes it late. */
static void test_pace(void) {
    set_up(2, 2);
    set_pace(0, 3 * MS);
    set_pace(1, 1);
    CHECK(pa_lane_start(&r.lane) == 0);
    for (int64_t frame = 0; frame < 5; frame++) {
        CHECK(try_submit(frame));
        const pa_slot *slot = take();
        CHECK(slot->end_ns[0] - slot->begin_ns[0] >= 3 * MS);
        take_frame(frame);
    }
    set_pace(0, 3600 * (int64_t)SECOND);
    CHECK(try_submit(5));
    usleep(20000); /* into the pacing */
    close_in_time();
    CHECK(atomic_load(&r.stages[0].busy_ns) >= 15 * MS);
    CHECK(atomic_load(&r.stages[1].overran) == 5);
}

/* Each step between two stages is run by one of them; the one before takes it once the one behind is slower. */
static void test_floating(int stages, int slots, int slow) {
    set_up(stages, slots);
    for (int i = 0; i < stages; i++) {
        r.programs[i].program.first_late = i > 0;
        r.programs[i].program.last_early = STEPS - (i + 1 < stages);
    }
    set_pace(slow, MS);
    shared = stages - 1;
    CHECK(pa_lane_start(&r.lane) == 0);
    const int64_t all = frames;
    frames = 40;
    pthread_t submitter = start_thread(submit_all, NULL);
    for (int64_t frame = 0; frame < frames; frame++) take_frame(frame);
    pthread_join(submitter, NULL);
    close_in_time();
    frames = all, shared = 0;
    CHECK(atomic_load(&r.stages[stages - 1].floated) == 0);
    if (slots > 2 && slow) CHECK(atomic_load(&r.stages[slow - 1].floated) > 0);
}

static void test_open_failure(int stages, int failing) {
    set_up(stages, 2);
    r.programs[failing].open_code = 7;
    CHECK(pa_lane_start(&r.lane) == -1);
    for (int i = 0; i < stages; i++) {
        CHECK(r.stages[i].open_error == (i == failing ? 7 : 0));
        CHECK(r.programs[i].opened == 1 && r.programs[i].closed == (i != failing));
    }
}

static void test_all(void) {
    for (int slots = 1; slots <= MAX_SLOTS; slots++) {
        test_frames_pass(1, slots);
        test_frames_pass(3, slots);
        for (int failing = 0; failing < 3; failing++)
            for (int64_t at = 0; at < 8; at++) test_failure(3, slots, failing, at, at % 2);
        test_failure(1, slots, 0, 3, 0);
        const int full = 4 * slots; /* the slots of all rings of three stages */
        test_close(3, slots, 0, -1, -1);
        test_close(3, slots, full, -1, -1);
        for (int stage = 0; stage < 3; stage++) {
            test_close(3, slots, 2, stage, -1);
            test_close(3, slots, slots, -1, stage);
            test_open_failure(3, stage);
        }
    }
    test_frames_pass(PA_MAX_STAGES, 2);
    for (int64_t count = 1; count < 3 * KEPT; count++) test_log(count);
    test_pace();
    test_lent(frames);
    test_close_lent();
    for (int slots = 1; slots <= MAX_SLOTS; slots++)
        for (int slow = 0; slow < 3; slow++) test_floating(3, slots, slow);
    test_open_failure(1, 0);
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    frames = atoll(argv[1]);
    for (depth = 1; depth <= PA_DEPTH_MAX; depth++)
        for (late = 0; late < 2; late++) test_all();
}
