/* Lanes that fork and join: a stage, branches side by side, and a stage that joins them, of fake programs. What joins
 * finds what every branch made of its own frame; failures come in their place, of several the first; an end within a
 * second. Argument: number of frames. */
#include "fakes.h"

static pa_branch branches[PA_MAX_STAGES][2]; /* of each further one: at the fork, at the join */
static pa_piece to_branch = {.from = 0, .to = 0, .bytes = 8}, from_branch[PA_MAX_STAGES];

static int last_stage(void) { return r.lane.stages - 1; }

/* Adds up what all branches made. */
static int join_start(pa_program *program, pa_slot_memory *in, pa_slot_memory *out, int32_t first, int32_t last,
                      const atomic_int *stop) {
    float *made = in->data;
    const float first_made = made[1];
    for (int i = 1; i < r.lane.stages - 2; i++) {
        CHECK(made[2 * i] == made[0] && made[2 * i + 1] == first_made);
        made[1] += made[2 * i + 1];
    }
    return fake_start(program, in, out, first, last, stop);
}

/* Stage 0, `count` branches, and the last stage. */
static void set_up_fork(int count, int slots) {
    const int join = count + 1;
    set_up(join + 1, slots);
    pa_stage *fork = &r.stages[0], *end = &r.stages[join];
    r.stages[1].out = end->in = &r.rings[2], end->out = &r.rings[3];
    r.stages[1].after = end, end->before = &r.stages[1], end->after = NULL;
    r.programs[join].program.start = join_start;
    r.programs[join].block_at = -1;
    pa_ring *next = &r.rings[4];
    for (int i = 2; i < join; i++) {
        pa_stage *stage = &r.stages[i];
        pa_branch *begin = &branches[i][0], *joined = &branches[i][1];
        from_branch[i] = (pa_piece){.from = 0, .to = 8 * (size_t)(i - 1), .bytes = 8};
        *begin = (pa_branch){.ring = next, .other = stage, .pieces = &to_branch, .piece_count = 1, .next = fork->forks};
        *joined = (pa_branch){.ring = next + 1, .other = stage, .pieces = &from_branch[i], .piece_count = 1,
                              .next = end->joins};
        fork->forks = begin, end->joins = joined;
        stage->in = next, stage->out = next + 1, stage->before = fork, stage->after = end, stage->earlier = 1;
        next += 2;
    }
    r.stages[1].earlier = 1;
    for (pa_ring *ring = r.rings; ring < next; ring++) {
        const ptrdiff_t i = ring - r.rings;
        ring->slots = (uint32_t)slots;
        ring->slot = r.slots[i];
        for (int j = 0; j < slots; j++) r.slots[i][j].memory = (pa_slot_memory){.data = r.data[i][j], .bytes = 8};
    }
}

static void take_joined(int64_t frame) {
    pa_slot *slot = take();
    CHECK(slot->frame == frame && slot->failed_stage == -1 && slot->error == 0);
    const float *got = slot->memory.data;
    CHECK(got[0] == (float)frame && got[1] == (float)(2 * STEPS * (r.lane.stages - 2) + STEPS));
    const float(*left)[2] = (const float(*)[2])(void *)pa_lane_block(&r.lane, slot); /* what every stage gave */
    for (int i = 0; i < r.lane.stages; i++) CHECK(left[i][0] == (float)frame);
    for (int i = 1; i < last_stage(); i++) {
        CHECK(left[i][1] == (float)(2 * STEPS));
        CHECK(slot->end_ns[0] <= slot->begin_ns[i] && slot->end_ns[i] <= slot->begin_ns[last_stage()]);
    }
    pa_lane_release(&r.lane);
}

static void test_frames_pass(int count, int slots) {
    set_up_fork(count, slots);
    CHECK(start_lane() == 0);
    pthread_t submitter = start_thread(submit_all, NULL);
    for (int64_t frame = 0; frame < frames; frame++) take_joined(frame);
    pthread_join(submitter, NULL);
    CHECK(!pa_lane_front(&r.lane));
    close_in_time();
    for (int i = 0; i < r.lane.stages; i++) CHECK(atomic_load(&r.stages[i].frames) == frames);
    CHECK(atomic_load(&r.stages[0].copy_ns) >= 2 * frames && atomic_load(&r.stages[1].copy_ns) == 2 * frames);
}

/* Two stages fail, each at a frame of its own: the host sees all earlier frames, and the first failure. */
static void test_failures(int count, int slots, const int failing[2], const int64_t at[2]) {
    set_up_fork(count, slots);
    for (int i = 0; i < 2; i++) r.programs[failing[i]].fail_at = at[i];
    const int64_t first = at[0] < at[1] ? at[0] : at[1];
    CHECK(start_lane() == 0);
    int64_t submitted = 0;
    for (int64_t taken = 0; taken <= first;) {
        unsigned ticket = pa_eventcount_ticket(&r.host);
        if (submitted < first + 5 && try_submit(submitted)) {
            submitted++;
        } else if (pa_lane_front(&r.lane)) {
            if (taken < first) {
                take_joined(taken);
            } else {
                const pa_slot *slot = pa_lane_front(&r.lane);
                CHECK(slot->frame == first && slot->error == ANSWER_FAILURE && atomic_load(&r.lane.failed));
                CHECK((slot->failed_stage == failing[0] && at[0] == first) ||
                      (slot->failed_stage == failing[1] && at[1] == first));
                pa_lane_release(&r.lane);
            }
            taken++;
        } else {
            pa_eventcount_wait(&r.host, ticket, 0);
        }
    }
    close_in_time();
    CHECK(!pa_lane_front(&r.lane));
}

/* Closes with as many frames inside as go in while one stage computes for ever. */
static void test_close(int count, int slots, int blocking) {
    set_up_fork(count, slots);
    r.programs[blocking].block_at = 0;
    CHECK(start_lane() == 0);
    for (int submitted = 0; submitted < slots; submitted++) CHECK(try_submit(submitted));
    close_in_time();
    CHECK(!atomic_load(&r.lane.failed));
}

static void test_all(void) {
    for (int count = 2; count <= 4; count++)
        for (int slots = 1; slots <= MAX_SLOTS; slots++) {
            test_frames_pass(count, slots);
            for (int stage = 0; stage < count + 2; stage++) test_close(count, slots, stage);
        }
    for (int one = 0; one < 4; one++)
        for (int other = 0; other < 4; other++)
            for (int64_t at = 0; at < 4; at++)
                if (one != other || at % 3 == 0)
                    test_failures(2, 1 + one % 2, (int[]){one, other}, (int64_t[]){1 + at % 2, 1 + at / 2});
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    frames = atoll(argv[1]);
    for (depth = 1; depth <= PA_DEPTH_MAX; depth++)
        for (late = 0; late < 2; late++)
            for (most_units = 1; most_units <= 4; most_units += 1 + most_units / 2) test_all();
}
