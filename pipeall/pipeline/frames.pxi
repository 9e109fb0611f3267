# Part of runtime.pyx: a network's frames, in and out, and when each is due (stage.h).

cdef class Arrived:
    """One result: ``times`` (frame number, submitted, begin and end of each stage, in ns), and ``arrays``, a copy of
    each output; ``error`` is set instead where a stage failed."""

    cdef readonly object times, arrays, error


cdef class Frames:
    """The frames of a network: how many have gone in and come out, and the results that wait for their turn.

    rate      frames per second that are due when they are submitted. Those beyond it are due a period after each other,
              up to AHEAD periods from now: what it used that others left does not count against it for long
    priority  each level is a head start of HEAD_START_MS for frames within the rate, or a period before it

    A change is made within one native call, where Python runs no signal handler: an exception that one raises (Ctrl-C)
    finds all of it done or nothing.
    """

    cdef readonly int64_t submitted, delivered
    cdef int64_t period_ns, ahead_ns, head_start_ns, due_ns
    cdef dict arrived, alive

    def __cinit__(self, rate=None, int priority=0):
        self.arrived, self.alive = {}, {}
        self.period_ns, self.head_start_ns = int(1e9 / rate) if rate else 0, priority * HEAD_START_MS * 1_000_000
        self.ahead_ns = AHEAD * self.period_ns

    cdef int64_t next_due(self):
        """When the next frame is due; it is submitted now."""
        cdef int64_t now = pa_now_ns()
        self.due_ns = max(now, min(self.due_ns + self.period_ns, now + self.ahead_ns))
        return self.due_ns - (self.head_start_ns if self.due_ns <= now + self.period_ns else 0)

    def next(self):
        """Takes the result whose turn it is, as ``Arrived``; None before it has arrived. A failed frame stays."""
        cdef Arrived arrived = self.arrived.get(self.delivered)
        if arrived is not None and arrived.error is None:
            del self.arrived[self.delivered]
            self.alive.pop(self.delivered, None)
            self.delivered += 1
        return arrived
