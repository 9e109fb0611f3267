#include "stage.h"

static void add(atomic_llong *counter, int64_t value) {
    /* Single writer: a plain read-modify-write needs no locked instruction. */
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + value, memory_order_relaxed);
}

/* Tells both sides of a ring. The outer rings have the host on one side: of space in ring 0 it hears only where it
 * wants to. Both sides exchange space_wanted: if the host is first, this sees that it wants space; if this is first,
 * the host's exchange reads this one and thereby sees the slot released before it, when it looks again. */
static void changed(pa_lane *lane, int ring) {
    pa_gate_signal(&lane->gate[ring]);
    if (ring == lane->stages) pa_gate_signal(lane->host);
    if (ring == 0 && atomic_exchange(&lane->space_wanted, 0)) pa_gate_signal(lane->host);
}

/* Waits until next(ring) gives a slot; NULL when the stage is told to stop. */
static pa_slot *wait_for(pa_stage *self, int ring, pa_slot *(*next)(pa_ring *)) {
    pa_gate *gate = &self->lane->gate[ring];
    for (;;) {
        unsigned ticket = pa_gate_ticket(gate);
        if (atomic_load(&self->stop)) return NULL;
        pa_slot *slot = next(&self->lane->ring[ring]);
        if (slot) return slot;
        pa_gate_wait(gate, ticket, -1);
    }
}

static void stop_stages(pa_lane *lane, int count) {
    for (int i = 0; i < count; i++) atomic_store(&lane->stage[i].stop, 1);
    for (int i = 0; i <= count; i++) pa_gate_signal(&lane->gate[i]);
}

/* Everything of a slot but its memory goes with the frame. */
static void pass_on(const pa_slot *in, pa_slot *out) {
    const pa_slot_memory memory = out->memory;
    *out = *in;
    out->memory = memory;
}

/* Waits until `deadline`, unless the stage is told to stop. Sleeps, then spins: a sleep may end some 50 us late. */
static void pace(pa_stage *self, int64_t deadline) {
    enum { SPIN_NS = 100 * 1000, SLICE_NS = 10 * 1000 * 1000 }; /* a stop is seen after a slice at the latest */
    for (;;) {
        const int64_t now = pa_now_ns(), left = deadline - now;
        if (left <= 0 || atomic_load_explicit(&self->stop, memory_order_relaxed)) return;
        if (left <= SPIN_NS) {
            pa_pause();
            continue;
        }
        const int64_t until = now + (left - SPIN_NS < SLICE_NS ? left - SPIN_NS : SLICE_NS);
        const struct timespec wake = {until / 1000000000, until % 1000000000};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &wake, NULL);
    }
}

/* The log's row for the frame under way, NULL without a log; the program writes its marks straight into it. */
static int64_t *begin_row(pa_stage *self) {
    pa_log *log = &self->log;
    if (!log->rows) return NULL;
    int64_t *row = log->rows + log->count % (log->capacity + 1) * (PA_LOG_FIXED + self->program->mark_count);
    self->program->marks = row + PA_LOG_MARKS;
    return row;
}

static void run_frames(pa_stage *self) {
    pa_lane *lane = self->lane;
    pa_program *program = self->program;
    const int index = self->index;
    int failed = 0;
    while (!failed) {
        const int64_t idle = pa_now_ns();
        pa_slot *in = wait_for(self, index, pa_ring_front);
        if (!in) return;
        const int64_t taken = pa_now_ns();
        pa_slot *out = wait_for(self, index + 1, pa_ring_free);
        if (!out) return;
        const int64_t begin = pa_now_ns();
        add(&self->wait_in_ns, taken - idle);
        add(&self->wait_out_ns, begin - taken);
        pass_on(in, out);
        failed = in->failed_stage >= 0;
        if (!failed) {
            const int64_t map = program->map_ns, copy = program->copy_ns;
            int64_t *row = begin_row(self);
            int code = in->frame == self->fault_frame ? PA_FAULT
                                                      : program->run(program, &in->memory, &out->memory, &self->stop);
            if (code == PA_STOPPED) return;
            int64_t ran = pa_now_ns(), end = ran;
            const int64_t least = atomic_load_explicit(&self->pace_ns, memory_order_relaxed);
            if (least && !code) {
                pace(self, begin + least);
                end = pa_now_ns();
                if (ran - begin > least) add(&self->late, 1);
            }
            out->begin_ns[index] = begin;
            out->end_ns[index] = end;
            if (row && !code) {
                row[0] = in->frame, row[1] = idle, row[2] = taken, row[3] = begin;
                int64_t *rest = row + PA_LOG_MARKS + program->mark_count;
                rest[0] = ran, rest[1] = end;
                self->log.count++;
            }
            add(&self->busy_ns, end - begin);
            add(&self->map_ns, program->map_ns - map);
            add(&self->copy_ns, program->copy_ns - copy);
            add(&self->frames, 1);
            if (code) {
                out->failed_stage = index;
                out->error = code;
                failed = 1;
                atomic_store(&lane->failed, 1);
                stop_stages(lane, index);
                pa_gate_signal(lane->host); /* who waits for space will get none */
            }
        }
        pa_ring_publish(&lane->ring[index + 1]);
        changed(lane, index + 1);
        pa_ring_release(&lane->ring[index]);
        changed(lane, index);
    }
}

static void *stage_thread(void *argument) {
    pa_stage *self = argument;
    pa_lane *lane = self->lane;
    pthread_setname_np(pthread_self(), self->name);
    self->open_error = self->program->open(self->program);
    atomic_fetch_add(&lane->ready, 1);
    pa_gate_signal(lane->host);
    if (self->open_error) return NULL;
    run_frames(self);
    self->program->marks = NULL; /* the log may end before the program */
    self->program->close(self->program);
    return NULL;
}

int pa_lane_start(pa_lane *lane) {
    lane->started = 0;
    for (int i = 0; i < lane->stages; i++) {
        const int error = pthread_create(&lane->stage[i].thread, NULL, stage_thread, &lane->stage[i]);
        if (error) {
            pa_lane_close(lane);
            return error;
        }
        lane->started++;
    }
    for (;;) {
        unsigned ticket = pa_gate_ticket(lane->host);
        if (atomic_load(&lane->ready) == lane->stages) break;
        pa_gate_wait(lane->host, ticket, -1);
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

void pa_lane_submit(pa_lane *lane, int64_t frame) {
    pa_slot *slot = pa_ring_free(&lane->ring[0]);
    slot->frame = frame;
    slot->submitted_ns = pa_now_ns();
    slot->failed_stage = -1;
    slot->error = 0;
    pa_ring_publish(&lane->ring[0]);
    pa_gate_signal(&lane->gate[0]);
}

pa_slot *pa_lane_front(pa_lane *lane) { return pa_ring_front(&lane->ring[lane->stages]); }

void pa_lane_release(pa_lane *lane) {
    pa_ring_release(&lane->ring[lane->stages]);
    pa_gate_signal(&lane->gate[lane->stages]);
}

void pa_lane_close(pa_lane *lane) {
    stop_stages(lane, lane->stages);
    for (int i = 0; i < lane->started; i++) pthread_join(lane->stage[i].thread, NULL);
    lane->started = 0;
}
