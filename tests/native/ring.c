/* The ring alone: one producer and one consumer that spin and yield. Argument: number of frames at most. Where busy programs
 * share both cores a hand-over takes a turn of the scheduler, so that a part ends after LONGEST seconds. */
#include "pipeline/ring.h"

#include <sched.h>
#include <string.h>
#include <time.h>

#include "_kernels/eventcount.h"
#include "check.h"

enum { MAX_SLOTS = 7, LONGEST = 4 };

static pa_slot slots[MAX_SLOTS];
static pa_ring ring;
static int64_t frames;
static _Atomic int64_t made; /* INT64_MAX until the last frame is on its way */

/* Both counters start at `start`, so that a run can cross the end of uint32_t. */
static void reset(uint32_t count, uint32_t start) {
    memset(&ring, 0, sizeof ring);
    memset(slots, 0xff, sizeof slots);
    ring.slots = count;
    ring.slot = slots;
    atomic_init(&ring.published, start);
    atomic_init(&ring.released, start);
    ring.seen_published = ring.seen_released = start;
}

/* Calls next(ring) until it gives a slot. */
static pa_slot *wait_for(pa_slot *(*next)(pa_ring *)) {
    for (int tries = 1;; tries++) {
        pa_slot *slot = next(&ring);
        if (slot) return slot;
        pa_pause();
        if (tries % 100 == 0) sched_yield();
    }
}

static void *produce(void *argument) {
    const time_t end = time(NULL) + LONGEST;
    for (int64_t frame = 0, last = 0; !last; frame++) {
        last = frame + 1 == frames || (frame % 64 == 63 && time(NULL) > end);
        if (last) made = frame + 1;
        pa_slot *slot = wait_for(pa_ring_free);
        CHECK(slot->frame == -1); /* the consumer is done with it */
        slot->frame = frame;
        for (int i = 0; i < PA_MAX_STAGES; i++) slot->begin_ns[i] = frame ^ i;
        pa_ring_publish(&ring);
    }
    return argument;
}

static void consume(void) {
    for (int64_t frame = 0; frame < made; frame++) {
        pa_slot *slot = wait_for(pa_ring_front);
        CHECK(slot->frame == frame); /* neither lost, repeated nor out of order */
        for (int i = 0; i < PA_MAX_STAGES; i++) CHECK(slot->begin_ns[i] == (frame ^ i));
        slot->frame = -1;
        pa_ring_release(&ring);
    }
}

/* Fills and empties the ring from one thread. */
static void test_capacity(uint32_t count, uint32_t start) {
    reset(count, start);
    for (int round = 0; round < 50; round++) {
        CHECK(!pa_ring_front(&ring));
        for (uint32_t i = 0; i < count; i++) {
            CHECK(pa_ring_free(&ring) == &slots[i]);
            pa_ring_publish(&ring);
        }
        CHECK(!pa_ring_free(&ring));
        for (uint32_t i = 0; i < count; i++) {
            CHECK(pa_ring_front(&ring) == &slots[i]);
            pa_ring_release(&ring);
        }
    }
}

static void test_two_threads(uint32_t count, uint32_t start) {
    reset(count, start);
    made = INT64_MAX;
    pthread_t producer = start_thread(produce, NULL);
    consume();
    pthread_join(producer, NULL);
    CHECK(!pa_ring_front(&ring));
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    frames = atoll(argv[1]);
    const uint32_t counts[] = {1, 2, 3, MAX_SLOTS}, near_end = UINT32_MAX - 100;
    for (int i = 0; i < 4; i++) {
        test_capacity(counts[i], 0);
        test_capacity(counts[i], near_end);
        test_two_threads(counts[i], near_end);
    }
}
