# Part of runtime.pyx: rings and their slots, and what goes from one memory to another (stage.h).

def room_of(slots) -> int:
    """The bytes of the smallest of a ring's slots."""
    return min(slot.nbytes for slot in slots)


cdef pa_piece *pieces_of(pieces, int64_t room, int64_t target) except? NULL:
    """Pieces of a memory of ``room`` bytes, which go to one of ``target``."""
    if not pieces:
        return NULL
    for offset, at, size in pieces:
        if min(at, offset, size) < 0 or offset > room - size or at > target - size:
            raise ArgumentError(
                f"piece at byte {offset}: expected {size} bytes inside {room}, which go to byte {at} of {target}")
    cdef pa_piece *copied = <pa_piece *>allocate(len(pieces) * sizeof(pa_piece))
    cdef int i
    for i, (offset, at, size) in enumerate(pieces):
        copied[i].source, copied[i].to, copied[i].bytes = offset, at, size
    return copied


cdef int fill_ring(pa_ring *ring, slots) except -1:
    cdef int i
    ring.slots = len(slots)
    ring.slot = <pa_slot *>allocate(len(slots) * sizeof(pa_slot))
    for i, slot in enumerate(slots):
        ring.slot[i].memory.data = <void *><uintptr_t>slot.data
        ring.slot[i].memory.mem = <void *><uintptr_t>slot.mem
        ring.slot[i].memory.bytes = slot.nbytes
    return 0


cdef int connect(pa_ring *ring, pa_branch *branch, pa_stage *before, pa_stage *after, pieces) except -1:
    """Puts a ring behind one stage and before another, NULL for the host: as a branch where they have a ring there."""
    forks, joins = before != NULL and before.out != NULL, after != NULL and after.into != NULL
    if before != NULL and not forks:
        before.out, before.after = ring, after
    if after != NULL and not joins:
        after.into, after.before = ring, before
    if after != NULL and before != NULL:
        after.earlier = max(after.earlier, before.index + 1)
    if not (forks or joins):
        return 0
    own, shared = ring.slot.memory.bytes, (before.out if forks else after.into).slot.memory.bytes
    branch.ring, branch.piece_count = ring, len(pieces)
    if forks:
        branch.pieces = pieces_of(pieces, shared, own)
        branch.other, branch.next, before.forks = after, before.forks, branch
    else:
        branch.pieces = pieces_of(pieces, own, shared)
        branch.other, branch.next, after.joins = before, after.joins, branch
    return 0
