#include "stage.h"

/* Waits until as many stages as were handed to units have been counted. */
static void wait_for_stages(pa_lane *lane, atomic_int *counted) {
    for (;;) {
        const unsigned ticket = pa_eventcount_ticket(lane->host);
        if (atomic_load(counted) == lane->joined) return;
        pa_eventcount_wait(lane->host, ticket, 0);
    }
}

int pa_lane_start(pa_lane *lane) {
    for (; lane->joined < lane->stages; lane->joined++) {
        pa_stage *stage = &lane->stage[lane->joined];
        stage->next = atomic_load(&stage->unit->joining);
        while (!atomic_compare_exchange_weak(&stage->unit->joining, &stage->next, stage)) continue;
        pa_eventcount_signal(&stage->unit->gate);
    }
    wait_for_stages(lane, &lane->opened);
    for (int i = 0; i < lane->stages; i++) {
        if (!lane->stage[i].open_error) continue;
        pa_lane_close(lane);
        return -1;
    }
    return 0;
}

pa_slot *pa_lane_free(pa_lane *lane) {
    pa_slot *slot = pa_ring_free(lane->stage->in);
    if (slot) return slot;
    atomic_exchange(&lane->space_wanted, 1);
    return pa_ring_free(lane->stage->in);
}

static void publish(pa_lane *lane, int64_t frame, int64_t due_ns) {
    pa_slot *slot = pa_ring_free(lane->stage->in);
    slot->frame = frame;
    slot->submitted_ns = pa_now_ns();
    slot->due_ns = due_ns;
    slot->failed_stage = -1;
    slot->error = slot->late = 0;
    slot->block = lane->next_block;
    lane->next_block = lane->next_block + 1 < lane->blocks ? lane->next_block + 1 : 0;
    pa_ring_publish(lane->stage->in);
}

void pa_lane_submit(pa_lane *lane, int64_t frame, int64_t due_ns) {
    publish(lane, frame, due_ns);
    pa_eventcount_signal_if(&lane->stage->unit->gate, &lane->stage->blocked, PA_FRAME);
}

static int is_short(int64_t frame_ns) { return frame_ns > 0 && frame_ns < PA_INLINE_NS; }

int pa_lane_begin_inline(pa_lane *lane, pa_thread_state *thread_state) {
    pa_stage *stage = lane->stage;
    pa_program *program = stage->program;
    if (lane->stages > 1 || !program->enter || stage->unit->fifo) return 0;
    pthread_mutex_lock(&stage->unit->computing);
    const int quick = is_short(stage->latest_ns) || is_short(stage->earlier_ns);
    const int allowed = stage->unit->serves == stage && !stage->next && quick && !atomic_load(&stage->stop) &&
                        !atomic_load(&lane->failed);
    if (allowed && program->enter(program, thread_state) == 0) return 1;
    pthread_mutex_unlock(&stage->unit->computing);
    return 0;
}

void pa_lane_run_inline(pa_lane *lane, int64_t number) {
    pa_batch batch;
    publish(lane, number, 0); /* it is the only one */
    if (pa_stage_begin(lane->stage, &batch)) pa_stage_end(&batch);
}

pa_slot *pa_lane_result(pa_lane *lane) { return pa_ring_free(lane->stage->out); }

void pa_lane_end_inline(pa_lane *lane, const pa_thread_state *thread_state) {
    pa_stage *stage = lane->stage;
    stage->program->leave(stage->program, thread_state);
    pthread_mutex_unlock(&stage->unit->computing);
}

char *pa_lane_block(const pa_lane *lane, const pa_slot *slot) {
    return lane->block + (size_t)slot->block * lane->block_bytes;
}

pa_slot *pa_lane_front(pa_lane *lane) { return pa_ring_front(lane->stage[lane->stages - 1].out); }

void pa_lane_release(pa_lane *lane) {
    pa_stage *last = &lane->stage[lane->stages - 1];
    pa_ring_release(last->out);
    pa_eventcount_signal_if(&last->unit->gate, &last->blocked, PA_SPACE);
}

void pa_lane_close(pa_lane *lane) {
    pa_stages_stop(lane, lane->joined);
    wait_for_stages(lane, &lane->leaving);
    while (atomic_load(&lane->left) < lane->joined) pa_pause();
}
