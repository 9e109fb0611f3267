/* A ring: a single-producer single-consumer queue of preallocated slots, lock-free.
 *
 *   producer: slot = pa_ring_free(r);  write into *slot;  pa_ring_publish(r)
 *   consumer: slot = pa_ring_front(r); read *slot;        pa_ring_release(r)
 *
 * free() and front() return NULL instead of waiting; waiting lives in stage.c. A side that holds several slots at
 * once asks for those behind the first with free_at() and front_at(); publish() and release() take the first. A slot
 * is written and read in place. published and released count modulo 2^32, so published - released is always in [0, slots]; each
 * side keeps its own position in [0, slots) because slots need not divide 2^32.
 *
 * field                   owner      other side   ordering
 * published               producer   reads        publish (release) pairs with front (acquire): slot content
 * released                consumer   reads        release (release) pairs with free (acquire): slot is done with
 * free_at, seen_released  producer   -            plain
 * front_at, seen_published consumer  -            plain
 * slot[i]                 whoever holds it: producer between free and publish, consumer between front and release
 *
 * A frame also has a block, which belongs to its lane (stage.h): slot[i].block is its number, and like the slot itself the
 * block is of whoever holds the frame. What a stage writes there before publish is seen by everyone after it, through each
 * ring's publish and front in turn.
 *
 * May run at the same time: one of {free, free_at, occupied, publish} with one of {front, front_at, release}. Nothing else.
 */
#ifndef PIPEALL_RING_H
#define PIPEALL_RING_H

#if defined(NDEBUG) && !defined(assert)
#define assert(holds) ((void)0) /* without a C library too */
#elif !defined(assert)
#include <assert.h>
#endif
#include <stdatomic.h>
#include <stdint.h>

#include "../_kernels/program.h"

enum { PA_MAX_STAGES = 32 };

/* One frame on its way. Times are CLOCK_MONOTONIC nanoseconds. */
typedef struct pa_slot {
    pa_slot_memory memory;
    int64_t frame;
    int64_t submitted_ns;
    int64_t due_ns; /* of frames that wait for one unit, the one with the earliest goes first */
    int64_t begin_ns[PA_MAX_STAGES], end_ns[PA_MAX_STAGES]; /* of each stage passed so far */
    int32_t failed_stage;                                  /* -1, or the stage that failed on this frame */
    int32_t error;                                         /* its error code */
    int32_t late; /* the stage before has computed the floating groups too: the frame comes in at the later cut */
    int32_t block; /* of the lane: where its early outputs go */
} pa_slot;

typedef struct pa_ring {
    _Alignas(64) atomic_uint published;
    uint32_t free_at, seen_released;
    _Alignas(64) atomic_uint released;
    uint32_t front_at, seen_published;
    _Alignas(64) uint32_t slots;
    pa_slot *slot;
} pa_ring;

/* The slot `ahead` places from one of the two ends. */
static inline pa_slot *pa_ring_slot(pa_ring *r, uint32_t end, uint32_t ahead) {
    return &r->slot[end + ahead < r->slots ? end + ahead : end + ahead - r->slots];
}

static inline pa_slot *pa_ring_free_at(pa_ring *r, uint32_t ahead) {
    const uint32_t wanted = atomic_load_explicit(&r->published, memory_order_relaxed) + ahead;
    if (wanted - r->seen_released >= r->slots) {
        r->seen_released = atomic_load_explicit(&r->released, memory_order_acquire);
        if (wanted - r->seen_released >= r->slots) return NULL;
    }
    return pa_ring_slot(r, r->free_at, ahead);
}

static inline pa_slot *pa_ring_free(pa_ring *r) { return pa_ring_free_at(r, 0); }

static inline void pa_ring_publish(pa_ring *r) {
    const uint32_t published = atomic_load_explicit(&r->published, memory_order_relaxed);
    assert(published - r->seen_released < r->slots && "publish without a slot from free");
    r->free_at = r->free_at + 1 == r->slots ? 0 : r->free_at + 1;
    atomic_store_explicit(&r->published, published + 1, memory_order_release);
}

/* For the producer: frames the consumer has not released yet, the one it works on included. */
static inline uint32_t pa_ring_occupied(pa_ring *r) {
    r->seen_released = atomic_load_explicit(&r->released, memory_order_acquire);
    return atomic_load_explicit(&r->published, memory_order_relaxed) - r->seen_released;
}

static inline pa_slot *pa_ring_front_at(pa_ring *r, uint32_t ahead) {
    const uint32_t released = atomic_load_explicit(&r->released, memory_order_relaxed);
    if (r->seen_published - released <= ahead) {
        r->seen_published = atomic_load_explicit(&r->published, memory_order_acquire);
        if (r->seen_published - released <= ahead) return NULL;
    }
    return pa_ring_slot(r, r->front_at, ahead);
}

static inline pa_slot *pa_ring_front(pa_ring *r) { return pa_ring_front_at(r, 0); }

static inline void pa_ring_release(pa_ring *r) {
    const uint32_t released = atomic_load_explicit(&r->released, memory_order_relaxed);
    assert(r->seen_published != released && "release without a slot from front");
    r->front_at = r->front_at + 1 == r->slots ? 0 : r->front_at + 1;
    atomic_store_explicit(&r->released, released + 1, memory_order_release);
}

#endif
