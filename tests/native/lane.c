/* Lanes of fake programs: order, frames together, failure in its place, early outputs, the log, pacing, cuts that float, and an end
 * within a second. Argument: number of frames. */
#include "fakes.h"

/* One thread submits, another takes; frame numbers stay exact in float32 up to 2^24. */
static void test_frames_pass(int stages, int slots) {
    set_up(stages, slots);
    CHECK(start_lane() == 0);
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

/* Earlier frames are delivered, then the failure, then nothing. */
static void test_failure(int stages, int slots, int failing, int64_t at, int injected) {
    set_up(stages, slots);
    if (injected)
        r.stages[failing].fault_frame = at;
    else
        r.programs[failing].fail_at = at;
    CHECK(start_lane() == 0);
    int64_t submitted = 0;
    for (int64_t taken = 0; taken <= at;) {
        unsigned ticket = pa_eventcount_ticket(&r.host);
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
            pa_eventcount_wait(&r.host, ticket, 0);
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
    CHECK(start_lane() == 0);
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
    CHECK(start_lane() == 0);
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
            const int64_t *row = r.rows[i][frame % (KEPT + PA_UNDER_WAY_MAX)];
            CHECK(row[0] == frame);
            for (int column = 1; column < WIDTH; column++) {
                CHECK(before <= row[column]);
                before = row[column];
            }
        }
    }
}

/* Frames that wait are computed together, as many as fit, but not with one that is to fail; the log has a row of each. */
static void test_together(int waiting, int64_t failing) {
    batch = 2;
    set_up(2, MAX_SLOTS);
    r.stages[1].fault_frame = failing;
    for (int i = 0; i < 2; i++) r.stages[i].log = (pa_log){.rows = r.rows[i][0], .capacity = KEPT};
    for (int i = 0; i < 2; i++) CHECK(pa_unit_start(&r.units[i]) == 0);
    for (int frame = 0; frame < waiting; frame++) CHECK(try_submit(frame));
    CHECK(pa_lane_start(&r.lane) == 0);
    const int64_t good = failing < 0 ? waiting : failing;
    for (int64_t frame = 0, begin = 0, end = 0; frame < good; frame++) {
        const pa_slot *slot = take();
        CHECK(frame % 2 ? slot->begin_ns[0] == begin && slot->end_ns[0] == end : slot->begin_ns[0] > begin);
        begin = slot->begin_ns[0], end = slot->end_ns[0];
        take_frame(frame);
    }
    if (failing >= 0) CHECK(take()->failed_stage == 1);
    close_in_time();
    CHECK(r.stages[1].log.count == good);
    for (int64_t frame = 0; frame < good; frame++) CHECK(r.rows[1][frame][0] == frame);
    batch = 0;
}

static void set_pace(int stage, int64_t ns) {
    for (int way = 0; way < 4; way++) atomic_store(&r.stages[stage].pace_ns[way], ns);
}

/* Every frame lasts as long as the pace; a pace shorter than the program makes it late. */
static void test_pace(void) {
    set_up(2, 2);
    set_pace(0, 3 * MS);
    set_pace(1, 1);
    CHECK(start_lane() == 0);
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
    CHECK(atomic_load(&r.stages[1].late) == 5);
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
    CHECK(start_lane() == 0);
    const int64_t all = frames;
    frames = 40;
    pthread_t submitter = start_thread(submit_all, NULL);
    for (int64_t frame = 0; frame < frames; frame++) take_frame(frame);
    pthread_join(submitter, NULL);
    close_in_time();
    frames = all, shared = 0;
    CHECK(atomic_load(&r.stages[stages - 1].floated) == 0);
    if (slots > 2 && slow && units() == stages) CHECK(atomic_load(&r.stages[slow - 1].floated) > 0);
}

/* A given share of the frames goes out late, evenly spread. */
static void test_share(int stages, int32_t share) {
    set_up(stages, MAX_SLOTS);
    for (int i = 0; i < stages; i++) {
        r.programs[i].program.first_late = i > 0;
        r.programs[i].program.last_early = STEPS - (i + 1 < stages);
        r.stages[i].late_share = share;
    }
    shared = stages - 1;
    CHECK(start_lane() == 0);
    for (int64_t frame = 0; frame < 100; frame++) {
        CHECK(try_submit(frame));
        take_frame(frame);
    }
    close_in_time();
    shared = 0;
    for (int i = 0; i + 1 < stages; i++) CHECK(atomic_load(&r.stages[i].floated) == share);
}

static void test_open_failure(int stages, int failing) {
    set_up(stages, 2);
    r.programs[failing].open_code = 7;
    CHECK(start_lane() == -1);
    for (int i = 0; i < stages; i++) {
        CHECK(r.stages[i].open_error == (i == failing ? 7 : 0));
        CHECK(r.programs[i].opened == 1 && r.programs[i].closed == (i != failing));
    }
    close_units();
}

static void test_lanes(void) {
    for (int slots = 1; slots <= MAX_SLOTS; slots++) {
        test_frames_pass(1, slots);
        test_frames_pass(3, slots);
        for (int failing = 0; failing < 3; failing++)
            for (int64_t at = 0; at < 8; at++) test_failure(3, slots, failing, at, at % 2 || batch);
        test_failure(1, slots, 0, 3, batch);
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
}

static void test_all(void) {
    test_lanes();
    for (int64_t count = 1; count < 3 * KEPT; count++) test_log(count);
    test_pace();
    for (int slots = 1; slots <= MAX_SLOTS; slots++)
        for (int slow = 0; slow < 3; slow++) test_floating(3, slots, slow);
    for (int32_t share = 0; share <= 100; share += 20) test_share(3, share);
    test_open_failure(1, 0);
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    frames = atoll(argv[1]);
    for (depth = 1; depth <= PA_DEPTH_MAX; depth++)
        for (late = 0; late < 2; late++)
            for (most_units = 1; most_units <= PA_MAX_STAGES; most_units = most_units < 2 ? 2 : 8 * most_units) test_all();
    depth = 1, late = 0;
    for (batch = 2; batch <= PA_BATCH_MAX; batch += 2)
        for (most_units = 1; most_units <= PA_MAX_STAGES; most_units *= 16) test_lanes();
    most_units = PA_MAX_STAGES;
    for (int waiting = 1; waiting <= MAX_SLOTS; waiting++)
        for (int64_t failing = -1; failing < waiting; failing++) test_together(waiting, failing);
}
