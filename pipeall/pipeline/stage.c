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

static int64_t *row_at(const pa_stage *self, int64_t number) {
    return self->log.rows + number % (self->log.capacity + PA_UNDER_WAY_MAX) * row_width(self);
}

/* The log's row for the frames that begin; the program writes its marks straight into it. */
static int64_t begin_row(pa_stage *self) {
    const int64_t number = self->log.count + self->ahead;
    if (self->log.rows) self->program->marks = row_at(self, number) + PA_LOG_MARKS;
    return number;
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

static int64_t least_ns(const pa_stage *self, const pa_batch *b) {
    const int way = b->count > 1 ? b->count - 1 : 2 * b->in[0]->late + b->out[0]->late;
    return atomic_load_explicit(&self->pace_ns[way], memory_order_relaxed);
}

static int start_together(pa_stage *self, pa_batch *b) {
    pa_slot_memory *in[PA_BATCH_MAX], *out[PA_BATCH_MAX];
    for (int i = 0; i < b->count; i++) in[i] = &b->in[i]->memory, out[i] = &b->out[i]->memory;
    return self->program->start_together(self->program, in, out, b->count, &self->stop);
}

/* Starts the program on a frame. Where the cut behind it floats, whether the frame goes out late is decided as late as can
 * be: when it could go out early; by a device that works on several frames, which are then on its queue, now. */
static int start(pa_stage *self, pa_batch *b) {
    pa_program *program = self->program;
    pa_slot *in = b->in[0], *out = b->out[0];
    const int32_t steps = program->mark_count - 1;
    const int floats = program->last_early < steps, at_once = program->depth > 1;
    out->late = floats && at_once && goes_out_late(self);
    int code = program->start(program, &in->memory, &out->memory, in->late ? program->first_late : 0,
                              out->late ? steps : program->last_early, &self->stop);
    if (code || !floats || at_once) return code;
    const int64_t computed = pa_now_ns();
    b->paced = pace(self, b->begin + least_ns(self, b)) - computed;
    out->late = goes_out_late(self);
    if (!out->late) return 0;
    return program->start(program, &in->memory, &out->memory, program->last_early, steps, &self->stop);
}

int pa_stage_most(const pa_stage *self) { return self->program->batch ? self->program->batch : 1; }

/* Whether the next frame but `ahead` has failed, in a branch perhaps, or is to fail. */
static int goes_alone(const pa_stage *self, uint32_t ahead) {
    for (const pa_branch *b = self->joins; b; b = b->next)
        if (pa_ring_front_at(b->ring, ahead)->failed_stage >= 0) return 1;
    const pa_slot *in = pa_ring_front_at(self->in, ahead);
    return in->failed_stage >= 0 || in->frame == self->fault_frame;
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

/* The frames that can be begun together; `lacks` says why there is not one more. */
static int fitting(const pa_stage *self, int *lacks) {
    const int most = pa_stage_most(self);
    int count = 0;
    for (*lacks = 0; count < most; count++) {
        const uint32_t ahead = (uint32_t)(self->ahead + count);
        *lacks = !has_frame(self, ahead) ? PA_FRAME : !has_space(self, ahead) ? PA_SPACE : 0;
        if (*lacks) break;
        const int alone = goes_alone(self, ahead);
        if (alone && !count) return 1;
        if (alone) break;
    }
    return count;
}

int pa_stage_ready(pa_stage *self) {
    if (self->begins_no_more || atomic_load_explicit(&self->stop, memory_order_relaxed)) return 0;
    int lacks;
    const int count = fitting(self, &lacks);
    if (!self->arrived_ns && (count || lacks == PA_SPACE)) self->arrived_ns = pa_now_ns();
    atomic_store(&self->blocked, count ? 0 : lacks);
    return count;
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
static void divide(pa_stage *self, const pa_slot *out, uint32_t ahead) {
    const int64_t begin = pa_now_ns();
    for (const pa_branch *b = self->forks; b; b = b->next) copy_pieces(b, out, pa_ring_free_at(b->ring, ahead));
    self->gathered_ns += pa_now_ns() - begin;
}

int pa_stage_begin(pa_stage *self, pa_batch *b) {
    int lacks;
    b->stage = self;
    b->count = fitting(self, &lacks);
    b->begin = pa_now_ns();
    b->idle = self->unit->under_way ? b->begin : self->unit->free_since;
    b->taken = self->arrived_ns ? self->arrived_ns : b->begin;
    b->started = b->code = 0;
    b->paced = 0;
    self->arrived_ns = 0;
    for (int i = 0; i < b->count; i++) {
        const uint32_t ahead = (uint32_t)(self->ahead + i);
        b->in[i] = pa_ring_front_at(self->in, ahead);
        b->out[i] = pa_ring_free_at(self->out, ahead);
        if (self->joins) gather(self, b->in[i], ahead);
        pass_on(b->in[i], b->out[i]);
        b->out[i]->late = 0;
    }
    if (b->in[0]->failed_stage < 0) {
        b->first_row = begin_row(self);
        b->code = b->in[0]->frame == self->fault_frame ? PA_FAULT : b->count > 1 ? start_together(self, b) : start(self, b);
        b->started = !b->code;
        if (b->code == PA_STOPPED) return 0;
    }
    if (!b->started) self->begins_no_more = 1; /* failed, here or before */
    self->ahead += b->count;
    return 1;
}

/* Copies what leaves the network here out of the slot, which finish() has given back to the CPU. */
static void let_leave(const pa_stage *self, const pa_slot *out) {
    char *block = pa_lane_block(self->lane, out);
    for (const pa_piece *leaf = self->leaves, *end = leaf + self->leaf_count; leaf < end; leaf++)
        memcpy(block + leaf->to, (const char *)out->memory.data + leaf->from, leaf->bytes);
}

static void log_frames(pa_stage *self, const pa_batch *b, int64_t ran, int64_t end) {
    const size_t marks = (size_t)self->program->mark_count;
    const int64_t *first = row_at(self, b->first_row);
    for (int i = 0; i < b->count; i++) {
        int64_t *row = row_at(self, b->first_row + i);
        row[0] = b->in[i]->frame;
        row[1] = i ? b->begin : b->idle;
        row[2] = i ? b->begin : b->taken;
        row[3] = b->begin;
        if (i) memcpy(row + PA_LOG_MARKS, first + PA_LOG_MARKS, marks * sizeof *row);
        row[PA_LOG_MARKS + marks] = ran;
        row[PA_LOG_MARKS + marks + 1] = end;
    }
    self->log.count += b->count;
}

/* What is known of frames once they have been computed, or could not be. */
static void account(pa_stage *self, pa_batch *b) {
    pa_program *program = self->program;
    const int64_t ran = pa_now_ns(), least = least_ns(self, b);
    int64_t end = ran;
    if (least && !b->code) {
        end = pace(self, b->begin + least);
        if (ran - b->begin - b->paced > least) add(&self->late, b->count);
    }
    for (int i = 0; i < b->count; i++) {
        b->out[i]->begin_ns[self->index] = b->begin;
        b->out[i]->end_ns[self->index] = end;
        add(&self->floated, b->out[i]->late);
    }
    if (self->log.rows && !b->code) log_frames(self, b, ran, end);
    self->earlier_ns = self->latest_ns;
    self->latest_ns = end - b->begin;
    add(&self->busy_ns, self->latest_ns);
    atomic_store_explicit(&self->map_ns, program->map_ns, memory_order_relaxed);
    atomic_store_explicit(&self->copy_ns, program->copy_ns + self->gathered_ns, memory_order_relaxed);
    add(&self->frames, b->count);
}

/* The first frame has failed: those after it are not delivered. */
static void fail(pa_stage *self, pa_batch *b) {
    b->out[0]->failed_stage = self->index;
    b->out[0]->error = b->code;
    atomic_store(&self->lane->failed, 1);
    pa_stages_stop(self->lane, self->earlier);
    pa_eventcount_signal(self->lane->host); /* who waits for space will get none */
}

static int64_t later(int64_t a, int64_t b) { return a > b ? a : b; }

static void hand_all_on(pa_stage *self, const pa_batch *b, int count) {
    for (const pa_branch *branch = self->forks; branch; branch = branch->next)
        for (int i = 0; i < count; i++) {
            pass_on(b->out[i], pa_ring_free(branch->ring));
            hand_on(self, branch->ring, branch->other);
        }
    for (int i = 0; i < count; i++) hand_on(self, self->out, self->after);
    for (const pa_branch *branch = self->joins; branch; branch = branch->next)
        for (int i = 0; i < count; i++) give_back(self, branch->ring, branch->other);
    for (int i = 0; i < count; i++) give_back(self, self->in, self->before);
}

/* The unit is free for the frames from `free_since` on: what was done for them before, while others were under way, counts
 * from then. */
void pa_stage_end(pa_batch *b) {
    pa_stage *self = b->stage;
    const int computed = b->started || b->code;
    b->idle = later(b->idle, self->unit->free_since);
    b->begin = later(b->begin, b->idle);
    b->taken = later(b->taken, b->idle) < b->begin ? later(b->taken, b->idle) : b->begin;
    add(&self->wait_in_ns, b->taken - b->idle);
    add(&self->wait_out_ns, b->begin - b->taken);
    if (b->started) b->code = self->program->finish(self->program);
    for (int i = 0; i < b->count && b->started && !b->code; i++) {
        if (self->leaf_count) let_leave(self, b->out[i]);
        if (self->forks) divide(self, b->out[i], (uint32_t)i);
    }
    if (computed) account(self, b);
    if (b->code) fail(self, b);
    if (b->out[0]->failed_stage >= 0) self->ended = self->begins_no_more = 1;
    self->ahead -= b->count;
    hand_all_on(self, b, b->code ? 1 : b->count);
    self->unit->free_since = pa_now_ns();
}
