#include "stage.h"

#include <string.h>

static void add(atomic_llong *counter, int64_t value) {
    /* Single writer: a plain read-modify-write needs no locked instruction. */
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + value, memory_order_relaxed);
}

/* Tells the other side of a ring. That of the outer rings is the host: of space in ring 0 it hears only where it
 * wants to. Both sides exchange space_wanted: if the host is first, this sees that it wants space; if this is first,
 * the host's exchange reads this one and thereby sees the slot released before it, when it looks again. */
static void changed(pa_lane *lane, int ring) {
    if (ring > 0 && ring < lane->stages) pa_eventcount_signal(&lane->gate[ring]);
    if (ring == lane->stages) pa_eventcount_signal(lane->host);
    if (ring == 0 && atomic_exchange(&lane->space_wanted, 0)) pa_eventcount_signal(lane->host);
}

/* Waits until next(ring) gives a slot; NULL when the stage is told to stop. While it waits for a frame another thread
 * may compute. */
static pa_slot *wait_for(pa_stage *self, int ring, pa_slot *(*next)(pa_ring *)) {
    pa_eventcount *gate = &self->lane->gate[ring];
    for (;;) {
        unsigned ticket = pa_eventcount_ticket(gate);
        if (atomic_load(&self->stop)) return NULL;
        pa_slot *slot = next(&self->lane->ring[ring]);
        if (slot) return slot;
        if (ring == self->index) pthread_mutex_unlock(&self->computing);
        pa_eventcount_wait(gate, ticket, 0);
        if (ring == self->index) pthread_mutex_lock(&self->computing);
    }
}

static void stop_stages(pa_lane *lane, int count) {
    for (int i = 0; i < count; i++) atomic_store(&lane->stage[i].stop, 1);
    for (int i = 0; i <= count; i++) pa_eventcount_signal(&lane->gate[i]);
}

/* Everything of a slot but its memory goes with the frame. */
static void pass_on(const pa_slot *in, pa_slot *out) {
    const pa_slot_memory memory = out->memory;
    *out = *in;
    out->memory = memory;
}

/* Waits until `deadline`, unless the stage is told to stop; returns the time. Sleeps, then spins: a sleep may end some
 * 50 us late. */
static int64_t pace(pa_stage *self, int64_t deadline) {
    enum { SPIN_NS = 100 * 1000, SLICE_NS = 10 * 1000 * 1000 }; /* a stop is seen after a slice at the latest */
    for (;;) {
        const int64_t now = pa_now_ns(), left = deadline - now;
        if (left <= 0 || atomic_load_explicit(&self->stop, memory_order_relaxed)) return now;
        if (left <= SPIN_NS) {
            pa_pause();
            continue;
        }
        const int64_t until = now + (left - SPIN_NS < SLICE_NS ? left - SPIN_NS : SLICE_NS);
        const struct timespec wake = {until / 1000000000, until % 1000000000};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &wake, NULL);
    }
}

/* A frame that the stage has begun and not yet handed on. */
typedef struct frame {
    pa_slot *in, *out;
    int64_t idle, taken, begin, paced; /* the last: time it has waited for its pace */
    int64_t *row; /* of the log, NULL without one */
    int started, code;
} frame;

static int64_t row_width(const pa_stage *self) { return PA_LOG_FIXED + self->program->mark_count; }

/* The log's row for the frame begun after `ahead` others; the program writes its marks straight into it. */
static int64_t *begin_row(pa_stage *self, int ahead) {
    pa_log *log = &self->log;
    if (!log->rows) return NULL;
    int64_t *row = log->rows + (log->count + ahead) % (log->capacity + PA_DEPTH_MAX) * row_width(self);
    self->program->marks = row + PA_LOG_MARKS;
    return row;
}

/* Whether a frame goes out at the later cut: if the next stage has one to go on with after the one it is at, and so does
 * not need this one at once; or if none waits here behind it and the `ahead` frames before it. */
static int goes_out_late(pa_stage *self, int ahead) {
    pa_ring *rings = &self->lane->ring[self->index];
    return pa_ring_occupied(&rings[1]) >= PA_LATE_EXIT_FRAMES || !pa_ring_front_at(&rings[0], ahead + 1);
}

static int64_t least_ns(const pa_stage *self, const frame *f) {
    return atomic_load_explicit(&self->pace_ns[2 * f->in->late + f->out->late], memory_order_relaxed);
}

/* Starts the program on a frame. Where the cut behind floats, whether the frame goes out late is decided as late as can
 * be: when it could go out early; by a device that works on several frames, which are then on its queue, now. */
static int start(pa_stage *self, frame *f, int ahead) {
    pa_program *program = self->program;
    const int32_t steps = program->mark_count - 1;
    const int floats = program->last_early < steps, at_once = program->depth > 1;
    f->out->late = floats && at_once && goes_out_late(self, ahead);
    int code = program->start(program, &f->in->memory, &f->out->memory, f->in->late ? program->first_late : 0,
                              f->out->late ? steps : program->last_early, &self->stop);
    if (code || !floats || at_once) return code;
    const int64_t computed = pa_now_ns();
    f->paced = pace(self, f->begin + least_ns(self, f)) - computed;
    f->out->late = goes_out_late(self, ahead);
    if (!f->out->late) return 0;
    return program->start(program, &f->in->memory, &f->out->memory, program->last_early, steps, &self->stop);
}

/* Begins the next frame while `ahead` others are under way. 0: there is none, or no room for it, by now; never without
 * others, for then it waits. PA_STOPPED: the stage is told to stop. */
static int begin_frame(pa_stage *self, int ahead, frame *f) {
    pa_lane *lane = self->lane;
    const int index = self->index;
    f->idle = ahead ? pa_now_ns() : self->free_since;
    f->in = ahead ? pa_ring_front_at(&lane->ring[index], ahead) : wait_for(self, index, pa_ring_front);
    if (!f->in) return ahead ? 0 : PA_STOPPED;
    f->taken = pa_now_ns();
    f->out = ahead ? pa_ring_free_at(&lane->ring[index + 1], ahead) : wait_for(self, index + 1, pa_ring_free);
    if (!f->out) return ahead ? 0 : PA_STOPPED;
    f->begin = pa_now_ns();
    pass_on(f->in, f->out);
    f->out->late = f->started = f->code = 0;
    f->paced = 0;
    if (f->in->failed_stage >= 0) return 1;
    f->row = begin_row(self, ahead);
    f->code = f->in->frame == self->fault_frame ? PA_FAULT : start(self, f, ahead);
    f->started = !f->code;
    return f->code == PA_STOPPED ? PA_STOPPED : 1;
}

/* Copies what leaves the network here out of the slot, which finish() has given back to the CPU. */
static void let_leave(const pa_stage *self, const pa_slot *out) {
    char *block = pa_lane_block(self->lane, out);
    for (const pa_leaf *leaf = self->leaves, *end = leaf + self->leaf_count; leaf < end; leaf++)
        memcpy(block + leaf->block_offset, (const char *)out->memory.data + leaf->slot_offset, leaf->bytes);
}

static int64_t later(int64_t a, int64_t b) { return a > b ? a : b; }

/* Waits for the oldest frame and hands it on. Whether it is the last. The stage is free for it from `free_since` on:
 * what was done for it before, while another frame was under way, counts from then. */
static int end_frame(pa_stage *self, frame *f) {
    pa_lane *lane = self->lane;
    pa_program *program = self->program;
    const int index = self->index;
    const int computed = f->started || f->code;
    f->idle = later(f->idle, self->free_since);
    f->taken = later(f->taken, self->free_since);
    f->begin = later(f->begin, self->free_since);
    add(&self->wait_in_ns, f->taken - f->idle);
    add(&self->wait_out_ns, f->begin - f->taken);
    if (f->started) f->code = program->finish(program);
    if (f->started && !f->code && self->leaf_count) let_leave(self, f->out);
    if (computed) {
        const int64_t ran = pa_now_ns();
        const int64_t least = least_ns(self, f);
        int64_t end = ran;
        if (least && !f->code) {
            end = pace(self, f->begin + least);
            if (ran - f->begin - f->paced > least) add(&self->overran, 1);
        }
        f->out->begin_ns[index] = f->begin;
        f->out->end_ns[index] = end;
        if (f->row && !f->code) {
            int64_t *rest = f->row + PA_LOG_MARKS + program->mark_count;
            f->row[0] = f->in->frame, f->row[1] = f->idle, f->row[2] = f->taken, f->row[3] = f->begin;
            rest[0] = ran, rest[1] = end;
            self->log.count++;
        }
        self->latest_ns = end - f->begin;
        add(&self->busy_ns, self->latest_ns);
        atomic_store_explicit(&self->map_ns, program->map_ns, memory_order_relaxed);
        atomic_store_explicit(&self->copy_ns, program->copy_ns, memory_order_relaxed);
        add(&self->frames, 1);
        add(&self->floated, f->out->late);
    }
    if (f->code) {
        f->out->failed_stage = index;
        f->out->error = f->code;
        atomic_store(&lane->failed, 1);
        stop_stages(lane, index);
        pa_eventcount_signal(lane->host); /* who waits for space will get none */
    }
    const int last = f->out->failed_stage >= 0;
    pa_ring_publish(&lane->ring[index + 1]);
    changed(lane, index + 1);
    pa_ring_release(&lane->ring[index]);
    changed(lane, index);
    self->free_since = pa_now_ns();
    return last;
}

static void run_frames(pa_stage *self) {
    frame frames[PA_DEPTH_MAX];
    int oldest = 0, count = 0, closing = 0; /* closing: a frame under way has failed, here or before */
    for (int last = 0; !last;) {
        frame *next = &frames[(oldest + count) % PA_DEPTH_MAX];
        const int begun = count < self->program->depth && !closing ? begin_frame(self, count, next) : 0;
        if (begun == PA_STOPPED || atomic_load_explicit(&self->stop, memory_order_relaxed)) {
            count += begun > 0;
            break;
        }
        if (begun) {
            closing = !next->started;
            count++;
            continue;
        }
        last = end_frame(self, &frames[oldest]);
        oldest = (oldest + 1) % PA_DEPTH_MAX;
        count--;
    }
    for (; count > 0; count--, oldest = (oldest + 1) % PA_DEPTH_MAX) /* stopped, or after a failure in finish() */
        if (frames[oldest].started) self->program->finish(self->program);
}

static void *stage_thread(void *argument) {
    pa_stage *self = argument;
    pa_lane *lane = self->lane;
    pthread_setname_np(pthread_self(), self->name);
    self->open_error = self->program->open(self->program);
    atomic_fetch_add(&lane->ready, 1);
    pa_eventcount_signal(lane->host);
    if (self->open_error) return NULL;
    pthread_mutex_lock(&self->computing);
    self->free_since = pa_now_ns();
    run_frames(self);
    self->program->marks = NULL; /* the log may end before the program */
    self->program->close(self->program);
    pthread_mutex_unlock(&self->computing);
    return NULL;
}

int pa_lane_start(pa_lane *lane) {
    lane->started = 0;
    for (int i = 0; i < lane->stages; i++) {
        pthread_mutex_init(&lane->stage[i].computing, NULL);
        const int error = pthread_create(&lane->stage[i].thread, NULL, stage_thread, &lane->stage[i]);
        if (error) {
            pa_lane_close(lane);
            return error;
        }
        lane->started++;
    }
    for (;;) {
        unsigned ticket = pa_eventcount_ticket(lane->host);
        if (atomic_load(&lane->ready) == lane->stages) break;
        pa_eventcount_wait(lane->host, ticket, 0);
    }
    int failed = 0;
    for (int i = 0; i < lane->stages; i++)
        if (lane->stage[i].open_error) failed = -1;
    if (failed) pa_lane_close(lane);
    return failed;
}

pa_slot *pa_lane_free(pa_lane *lane) {
    pa_slot *slot = pa_ring_free(&lane->ring[0]);
    if (slot) return slot;
    atomic_exchange(&lane->space_wanted, 1);
    return pa_ring_free(&lane->ring[0]);
}

static void publish(pa_lane *lane, int64_t frame) {
    pa_slot *slot = pa_ring_free(&lane->ring[0]);
    slot->frame = frame;
    slot->submitted_ns = pa_now_ns();
    slot->failed_stage = -1;
    slot->error = slot->late = 0;
    slot->block = lane->next_block;
    lane->next_block = lane->next_block + 1 < lane->blocks ? lane->next_block + 1 : 0;
    pa_ring_publish(&lane->ring[0]);
}

void pa_lane_submit(pa_lane *lane, int64_t frame) {
    publish(lane, frame);
    pa_eventcount_signal(&lane->gate[0]);
}

int pa_lane_begin_inline(pa_lane *lane, pa_thread_state *thread_state) {
    pa_stage *self = lane->stage;
    pa_program *program = self->program;
    if (lane->stages > 1 || !program->enter) return 0;
    pthread_mutex_lock(&self->computing);
    const int allowed = self->latest_ns > 0 && self->latest_ns < PA_INLINE_NS && !atomic_load(&self->stop) &&
                     !atomic_load(&lane->failed);
    if (allowed && program->enter(program, thread_state) == 0) return 1;
    pthread_mutex_unlock(&self->computing);
    return 0;
}

void pa_lane_run_inline(pa_lane *lane, int64_t number) {
    frame f;
    publish(lane, number);
    if (begin_frame(lane->stage, 0, &f) == 1) end_frame(lane->stage, &f);
}

void pa_lane_end_inline(pa_lane *lane, const pa_thread_state *thread_state) {
    pa_stage *self = lane->stage;
    self->program->leave(self->program, thread_state);
    pthread_mutex_unlock(&self->computing);
}

char *pa_lane_block(const pa_lane *lane, const pa_slot *slot) {
    return lane->block + (size_t)slot->block * lane->block_bytes;
}

pa_slot *pa_lane_front(pa_lane *lane) { return pa_ring_front(&lane->ring[lane->stages]); }

void pa_lane_release(pa_lane *lane) {
    pa_ring_release(&lane->ring[lane->stages]);
    pa_eventcount_signal(&lane->gate[lane->stages]);
}

void pa_lane_close(pa_lane *lane) {
    stop_stages(lane, lane->stages);
    for (int i = 0; i < lane->started; i++) pthread_join(lane->stage[i].thread, NULL);
    lane->started = 0;
}
