/* Inline execution: the host computes in place of the stage's thread, until a frame fails or the lane is closed.
 * Argument: number of frames. */
#include "fakes.h"

/* Computes a frame here, if that is allowed. */
static int run_inline(int64_t frame) {
    pa_thread_state thread_state;
    if (!pa_lane_begin_inline(&r.lane, &thread_state)) return 0;
    CHECK(fill(frame));
    pa_lane_run_inline(&r.lane, frame);
    pa_lane_end_inline(&r.lane, &thread_state);
    return 1;
}

/* Two of three frames are computed by the host, until one fails. */
static void test_run_inline(int64_t failing) {
    set_up(1, 1);
    CHECK(start_lane() == 0);
    r.programs[0].fail_at = failing; /* read by who computes, after this frame was handed over */
    int64_t computed = 0;
    CHECK(!run_inline(0)); /* nobody knows how long it takes */
    for (int64_t frame = 0; frame < failing; frame++) {
        if (frame % 3 && run_inline(frame)) {
            CHECK(pa_lane_front(&r.lane));
            computed++;
        } else {
            CHECK(try_submit(frame));
        }
        take_frame(frame);
    }
    CHECK(computed > 0);
    if (!run_inline(failing)) CHECK(try_submit(failing));
    CHECK(take()->failed_stage == 0 && take()->error == ANSWER_FAILURE);
    pa_lane_release(&r.lane);
    CHECK(!run_inline(failing + 1));
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
static void test_close_inline(void) {
    set_up(1, 1);
    r.programs[0].block_at = 1;
    CHECK(start_lane() == 0);
    CHECK(try_submit(0));
    take_frame(0);
    pthread_t closer = start_thread(close_soon, NULL);
    const int computed = run_inline(1);
    pthread_join(closer, NULL);
    CHECK(!computed || !pa_lane_front(&r.lane));
    CHECK(!run_inline(2));
    close_in_time();
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    frames = atoll(argv[1]);
    for (depth = 1; depth <= PA_DEPTH_MAX; depth++) {
        for (late = 0; late < 2; late++) {
            test_run_inline(frames);
            test_close_inline();
        }
    }
}
