#include "stage.h"

#include <string.h>

static void add(atomic_llong *counter, int64_t value) {
    /* Single writer: a plain read-modify-write needs no locked instruction. */
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + value, memory_order_relaxed);
}

/* Tells the other side of a ring, whose stage may be blocked for what it now has. That of the outer rings is the host: of
 * space in the first it hears only where it wants to. Both sides exchange space_wanted: if the host is first, this sees that
 * it wants space; if this is first, the host's exchange reads this one and thereby sees the slot released before it, when
 * it looks again. */
static void tell(pa_stage *other, int what) {
    pa_eventcount_signal_if(&other->unit->gate, &other->blocked, what);
}

static void hand_on(const pa_stage *self, pa_ring *ring, pa_stage *after) {
    pa_ring_publish(ring);
    if (after)
        tell(after, PA_FRAME);
    else
        pa_eventcount_signal(self->lane->host);
}

static void give_back(const pa_stage *self, pa_ring *ring, pa_stage *before) {
    pa_lane *lane = self->lane;
    pa_ring_release(ring);
    if (before)
        tell(before, PA_SPACE);
    else if (atomic_exchange(&lane->space_wanted, 0))
        pa_eventcount_signal(lane->host);
}

void pa_stages_stop(pa_lane *lane, int count) {
    for (int i = 0; i < count; i++) {
        atomic_store(&lane->stage[i].stop, 1);
        pa_eventcount_signal(&lane->stage[i].unit->gate);
    }
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

static int64_t row_width(const pa_stage *self) { return PA_LOG_FIXED + self->program->mark_count; }

/* The log's row for the frame that begins; the program writes its marks straight into it. */
static int64_t *begin_row(pa_stage *self) {
    pa_log *log = &self->log;
    if (!log->rows) return NULL;
    int64_t *row = log->rows + (log->count + self->ahead) % (log->capacity + PA_DEPTH_MAX) * row_width(self);
    self->program->marks = row + PA_LOG_MARKS;
    return row;
}

/* Whether a frame goes out at the later cut: if the next stage has one to go on with after the one it is at, and so does
 * not need this one at once; or if none waits here behind it and those before it. */
static int goes_out_late(pa_stage *self) {
    if (self->late_share >= 0) {
        const int64_t number = atomic_load_explicit(&self->frames, memory_order_relaxed) + self->ahead;
        return (number + 1) * self->late_share / 100 > number * self->late_share / 100;
    }
    return pa_ring_occupied(self->out) >= PA_LATE_EXIT_FRAMES || !pa_ring_front_at(self->in, (uint32_t)self->ahead + 1);
}

static int64_t least_ns(const pa_stage *self, const pa_frame *f) {
    return atomic_load_explicit(&self->pace_ns[2 * f->in->late + f->out->late], memory_order_relaxed);
}

/* Starts the program on a frame. Where the cut behind floats, whether the frame goes out late is decided as late as can
 * be: when it could go out early; by a device that works on several frames, which are then on its queue, now. */
static int start(pa_stage *self, pa_frame *f) {
    pa_program *program = self->program;
    const int32_t steps = program->mark_count - 1;
    const int floats = program->last_early < steps, at_once = program->depth > 1;
    f->out->late = floats && at_once && goes_out_late(self);
    int code = program->start(program, &f->in->memory, &f->out->memory, f->in->late ? program->first_late : 0,
                              f->out->late ? steps : program->last_early, &self->stop);
    if (code || !floats || at_once) return code;
    const int64_t computed = pa_now_ns();
    f->paced = pace(self, f->begin + least_ns(self, f)) - computed;
    f->out->late = goes_out_late(self);
    if (!f->out->late) return 0;
    return program->start(program, &f->in->memory, &f->out->memory, program->last_early, steps, &self->stop);
}

static int has_frame(const pa_stage *self, uint32_t ahead) {
    for (const pa_branch *b = self->joins; b; b = b->next)
        if (!pa_ring_front_at(b->ring, ahead)) return 0;
    return pa_ring_front_at(self->in, ahead) != NULL;
}

static int has_space(const pa_stage *self, uint32_t ahead) {
    for (const pa_branch *b = self->forks; b; b = b->next)
        if (!pa_ring_free_at(b->ring, ahead)) return 0;
    return pa_ring_free_at(self->out, ahead) != NULL;
}

int pa_stage_ready(pa_stage *self) {
    const uint32_t ahead = (uint32_t)self->ahead;
    if (self->begins_no_more || atomic_load_explicit(&self->stop, memory_order_relaxed)) return 0;
    int lacks = PA_FRAME;
    if (has_frame(self, ahead)) {
        if (!self->arrived_ns) self->arrived_ns = pa_now_ns();
        lacks = has_space(self, ahead) ? 0 : PA_SPACE;
    }
    atomic_store(&self->blocked, lacks);
    return !lacks;
}

static void copy_pieces(const pa_branch *b, const pa_slot *from, const pa_slot *to) {
    for (const pa_piece *piece = b->pieces, *end = piece + b->piece_count; piece < end; piece++)
        memcpy((char *)to->memory.data + piece->to, (const char *)from->memory.data + piece->from, piece->bytes);
}

/* Makes one frame of what all branches did for it: a failure of any, else what each made. */
static void gather(pa_stage *self, pa_slot *in, uint32_t ahead) {
    const int64_t begin = pa_now_ns();
    for (const pa_branch *b = self->joins; b; b = b->next) {
        const pa_slot *made = pa_ring_front_at(b->ring, ahead);
        const int index = b->other->index;
        in->begin_ns[index] = made->begin_ns[index], in->end_ns[index] = made->end_ns[index];
        if (in->failed_stage < 0) in->failed_stage = made->failed_stage, in->error = made->error;
        if (in->failed_stage < 0) copy_pieces(b, made, in);
    }
    self->gathered_ns += pa_now_ns() - begin;
}

/* Fills the slots of the branches that are not the first: what each reads of the out slot, unless the frame failed. */
static void divide(pa_stage *self, const pa_slot *out) {
    const int64_t begin = pa_now_ns();
    for (const pa_branch *b = self->forks; b; b = b->next) copy_pieces(b, out, pa_ring_free(b->ring));
    self->gathered_ns += pa_now_ns() - begin;
}

int pa_stage_begin(pa_stage *self, pa_frame *f) {
    const uint32_t ahead = (uint32_t)self->ahead;
    f->stage = self;
    f->in = pa_ring_front_at(self->in, ahead);
    f->out = pa_ring_free_at(self->out, ahead);
    f->begin = pa_now_ns();
    f->idle = self->unit->under_way ? f->begin : self->unit->free_since;
    f->taken = self->arrived_ns ? self->arrived_ns : f->begin;
    self->arrived_ns = 0;
    if (self->joins) gather(self, f->in, ahead);
    pass_on(f->in, f->out);
    f->out->late = f->started = f->code = 0;
    f->paced = 0;
    if (f->in->failed_stage < 0) {
        f->row = begin_row(self);
        f->code = f->in->frame == self->fault_frame ? PA_FAULT : start(self, f);
        f->started = !f->code;
        if (f->code == PA_STOPPED) return 0;
    }
    if (!f->started) self->begins_no_more = 1; /* failed, here or before */
    self->ahead++;
    return 1;
}

/* Copies what leaves the network here out of the slot, which finish() has given back to the CPU. */
static void let_leave(const pa_stage *self, const pa_slot *out) {
    char *block = pa_lane_block(self->lane, out);
    for (const pa_piece *leaf = self->leaves, *end = leaf + self->leaf_count; leaf < end; leaf++)
        memcpy(block + leaf->to, (const char *)out->memory.data + leaf->from, leaf->bytes);
}

static int64_t later(int64_t a, int64_t b) { return a > b ? a : b; }

/* The unit is free for the frame from `free_since` on: what was done for it before, while another one was under way,
 * counts from then. */
void pa_stage_end(pa_frame *f) {
    pa_stage *self = f->stage;
    pa_lane *lane = self->lane;
    pa_program *program = self->program;
    const int index = self->index;
    const int computed = f->started || f->code;
    f->idle = later(f->idle, self->unit->free_since);
    f->begin = later(f->begin, f->idle);
    f->taken = later(f->taken, f->idle) < f->begin ? later(f->taken, f->idle) : f->begin;
    add(&self->wait_in_ns, f->taken - f->idle);
    add(&self->wait_out_ns, f->begin - f->taken);
    if (f->started) f->code = program->finish(program);
    if (f->started && !f->code) {
        if (self->leaf_count) let_leave(self, f->out);
        if (self->forks) divide(self, f->out);
    }
    if (computed) {
        const int64_t ran = pa_now_ns();
        const int64_t least = least_ns(self, f);
        int64_t end = ran;
        if (least && !f->code) {
            end = pace(self, f->begin + least);
            if (ran - f->begin - f->paced > least) add(&self->late, 1);
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
        atomic_store_explicit(&self->copy_ns, program->copy_ns + self->gathered_ns, memory_order_relaxed);
        add(&self->frames, 1);
        add(&self->floated, f->out->late);
    }
    if (f->code) {
        f->out->failed_stage = index;
        f->out->error = f->code;
        atomic_store(&lane->failed, 1);
        pa_stages_stop(lane, self->earlier);
        pa_eventcount_signal(lane->host); /* who waits for space will get none */
    }
    if (f->out->failed_stage >= 0) self->ended = self->begins_no_more = 1;
    self->ahead--;
    for (const pa_branch *b = self->forks; b; b = b->next) {
        pass_on(f->out, pa_ring_free(b->ring));
        hand_on(self, b->ring, b->other);
    }
    hand_on(self, self->out, self->after);
    for (const pa_branch *b = self->joins; b; b = b->next) give_back(self, b->ring, b->other);
    give_back(self, self->in, self->before);
    self->unit->free_since = pa_now_ns();
}
