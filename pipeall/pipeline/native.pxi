# Part of runtime.pyx: the C side of a lane (stage.h, ring.h, eventcount.h).

cdef extern from "stdlib.h" nogil:
    void *aligned_alloc(size_t, size_t)

cdef extern from "<sys/mman.h>" nogil:
    enum: MCL_CURRENT, MCL_FUTURE, MCL_ONFAULT
    int mlockall(int)

cdef extern from "../_kernels/eventcount.h" nogil:
    ctypedef struct pa_eventcount:
        pass
    unsigned pa_eventcount_ticket(pa_eventcount *)
    void pa_eventcount_signal(pa_eventcount *)
    void pa_eventcount_sleep(pa_eventcount *, unsigned, int64_t)
    int64_t pa_now_ns()

cdef extern from "stage.h" nogil:
    enum: PA_MAX_STAGES, PA_FAULT, PA_LOG_FIXED, PA_LATE_EXIT_FRAMES, PA_UNDER_WAY_MAX
    ctypedef struct atomic_llong:
        pass
    ctypedef struct pa_slot:
        pa_slot_memory memory
        int64_t frame, submitted_ns
        int64_t *begin_ns
        int64_t *end_ns
        int32_t failed_stage, error, block
    ctypedef struct pa_ring:
        uint32_t slots
        pa_slot *slot
    ctypedef struct pa_lane
    ctypedef struct pa_stage
    ctypedef struct pa_log:
        int64_t *rows
        int64_t capacity, count
    ctypedef struct pa_piece:
        size_t to, bytes
        size_t source "from"
    ctypedef struct pa_branch:
        pa_ring *ring
        pa_stage *other
        pa_piece *pieces
        int32_t piece_count
        pa_branch *next
    ctypedef struct pa_unit:
        char *name
        int fifo
    ctypedef struct pa_stage:
        pa_lane *lane
        int index, earlier, open_error
        pa_unit *unit
        pa_program *program
        pa_ring *into "in"
        pa_ring *out
        pa_stage *before
        pa_stage *after
        pa_branch *forks
        pa_branch *joins
        int64_t fault_frame
        int32_t late_share
        pa_piece *leaves
        int32_t leaf_count
        pa_log log
        atomic_llong *pace_ns
        atomic_llong frames, floated, late, busy_ns, wait_in_ns, wait_out_ns, map_ns, copy_ns
    ctypedef struct pa_lane:
        int stages
        char *block
        size_t block_bytes
        int32_t blocks
        pa_stage *stage
        pa_eventcount *host
        atomic_int failed
    int pa_unit_start(pa_unit *)
    void pa_unit_close(pa_unit *)
    int pa_lane_start(pa_lane *)
    pa_slot *pa_lane_free(pa_lane *)
    void pa_lane_submit(pa_lane *, int64_t, int64_t)
    int pa_lane_begin_inline(pa_lane *, pa_thread_state *)
    pa_slot *pa_lane_result(pa_lane *)
    void pa_lane_run_inline(pa_lane *, int64_t)
    void pa_lane_end_inline(pa_lane *, const pa_thread_state *)
    char *pa_lane_block(const pa_lane *, const pa_slot *)
    pa_slot *pa_lane_front(pa_lane *)
    void pa_lane_release(pa_lane *)
    void pa_lane_close(pa_lane *)

cdef extern from "<stdatomic.h>" nogil:
    long long load_ll "atomic_load" (atomic_llong *)
    void store_ll "atomic_store" (atomic_llong *, long long)
    long long add_ll "atomic_fetch_add" (atomic_llong *, long long)
    int load_int "atomic_load" (atomic_int *)

MAX_STAGES = PA_MAX_STAGES
LATE_EXIT_FRAMES = PA_LATE_EXIT_FRAMES  # of the rule that ``planning.rings.goes_out_late`` states
