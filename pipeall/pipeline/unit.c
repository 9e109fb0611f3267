#include "stage.h"

static void leave(pa_stage *stage, int open) {
    pa_lane *lane = stage->lane;
    stage->program->marks = NULL; /* the log may end before the program */
    if (open) stage->program->close(stage->program);
    atomic_fetch_add(&lane->leaving, 1);
    pa_eventcount_signal(lane->host);
    atomic_fetch_add(&lane->left, 1); /* whoever closes the lane may free it from here on */
}

/* Opens the stages that have joined, in the order they came. */
static void admit(pa_unit *self) {
    if (!atomic_load_explicit(&self->joining, memory_order_relaxed)) return;
    pa_stage *joining = NULL;
    for (pa_stage *latest = atomic_exchange(&self->joining, NULL), *before; latest; latest = before) {
        before = latest->next;
        latest->next = joining;
        joining = latest;
    }
    while (joining) {
        pa_stage *stage = joining;
        joining = stage->next;
        stage->open_error = stage->program->open(stage->program);
        if (!stage->open_error) {
            stage->next = self->serves;
            self->serves = stage;
        }
        atomic_fetch_add(&stage->lane->opened, 1);
        pa_eventcount_signal(stage->lane->host);
        if (stage->open_error) leave(stage, 0);
    }
    self->free_since = pa_now_ns();
}

/* Leaves the stages that are to stop or have ended, once no frame of theirs is under way. */
static void dismiss(pa_unit *self) {
    for (pa_stage **at = &self->serves; *at;) {
        pa_stage *stage = *at;
        if (stage->ahead || !(stage->ended || atomic_load_explicit(&stage->stop, memory_order_relaxed))) {
            at = &stage->next;
            continue;
        }
        *at = stage->next;
        leave(stage, 1);
    }
}

/* The frames that a stage can begin now. */
static int ready(const pa_unit *self, pa_stage *stage) {
    return self->under_way >= stage->program->depth ? 0 : pa_stage_ready(stage);
}

/* Whether another stage of the same lane can begin as many frames as it takes together. */
static int lets_another(const pa_unit *self, const pa_stage *stage) {
    for (pa_stage *other = self->serves; other; other = other->next)
        if (other != stage && other->lane == stage->lane && ready(self, other) == pa_stage_most(other)) return 1;
    return 0;
}

/* The stage whose next frame is due first, of those that can begin one; a stage that can begin fewer than it takes
 * together lets others of its lane go first. NULL: none can. */
static pa_stage *choose(pa_unit *self) {
    pa_stage *chosen = NULL;
    int64_t first = INT64_MAX;
    for (pa_stage *stage = self->serves; stage; stage = stage->next) {
        const int count = ready(self, stage);
        if (!count || (count < pa_stage_most(stage) && lets_another(self, stage))) continue;
        const int64_t due = pa_ring_front_at(stage->in, (uint32_t)stage->ahead)->due_ns;
        if (chosen && due >= first) continue;
        chosen = stage;
        first = due;
    }
    return chosen;
}

/* Hands the oldest frames on, or drops them where their stage has ended meanwhile. */
static void end_oldest(pa_unit *self) {
    pa_batch *batch = &self->batches[self->oldest];
    pa_stage *stage = batch->stage;
    self->oldest = (self->oldest + 1) % PA_DEPTH_MAX;
    self->under_way--;
    if (stage->ended || atomic_load_explicit(&stage->stop, memory_order_relaxed)) {
        if (batch->started) stage->program->finish(stage->program);
        stage->ahead -= batch->count;
    } else {
        pa_stage_end(batch);
    }
}

static void *unit_thread(void *argument) {
    pa_unit *self = argument;
    pthread_setname_np(pthread_self(), self->name);
    pthread_mutex_lock(&self->computing);
    for (;;) {
        const unsigned ticket = pa_eventcount_ticket(&self->gate);
        admit(self);
        dismiss(self);
        pa_stage *stage = choose(self);
        if (stage) {
            pa_batch *batch = &self->batches[(self->oldest + self->under_way) % PA_DEPTH_MAX];
            self->under_way += pa_stage_begin(stage, batch);
        } else if (self->under_way) {
            end_oldest(self);
        } else if (atomic_load(&self->closing) && !self->serves && !atomic_load(&self->joining)) {
            break;
        } else {
            pthread_mutex_unlock(&self->computing);
            pa_eventcount_wait(&self->gate, ticket, 0);
            pthread_mutex_lock(&self->computing);
        }
    }
    pthread_mutex_unlock(&self->computing);
    return NULL;
}

int pa_unit_start(pa_unit *self) {
    atomic_store(&self->closing, 0);
    pthread_mutex_init(&self->computing, NULL);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    if (self->fifo) {
        pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED);
        pthread_attr_setschedpolicy(&attributes, SCHED_FIFO);
        pthread_attr_setschedparam(&attributes, &(struct sched_param){.sched_priority = self->fifo});
    }
    const int error = pthread_create(&self->thread, &attributes, unit_thread, self);
    pthread_attr_destroy(&attributes);
    return error;
}

void pa_unit_close(pa_unit *self) {
    atomic_store(&self->closing, 1);
    pa_eventcount_signal(&self->gate);
    pthread_join(self->thread, NULL);
}
