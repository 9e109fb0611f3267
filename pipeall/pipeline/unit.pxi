# Part of runtime.pyx: where the host waits, and the threads of units (stage.h).

cdef class Gate:
    """Where the host waits for space or results, of one lane or of several."""

    cdef pa_eventcount *gate

    def __cinit__(self):
        self.gate = <pa_eventcount *>allocate(sizeof(pa_eventcount))

    def __dealloc__(self):
        free(self.gate)

    def ticket(self) -> int:
        """Draw before testing the condition; ``wait`` returns at once if anything has changed since."""
        return pa_eventcount_ticket(self.gate)

    def signal(self):
        """Wakes whoever waits."""
        pa_eventcount_signal(self.gate)

    def wait(self, unsigned ticket, double seconds=0.1):
        """Waits without the GIL until something changes, at most ``seconds``; a pending signal is raised."""
        cdef int64_t limit = <int64_t>(seconds * 1e9)
        with nogil:
            pa_eventcount_sleep(self.gate, ticket, limit)  # the stages need the cores more than the host
        PyErr_CheckSignals()


def lock_memory():
    """Keeps all pages of this process in memory from when they are first used. Raises OSError where that is refused."""
    if mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT):
        raise OSError(errno, strerror(errno).decode())


@cython.no_gc  # its thread uses its members
cdef class NativeUnit:
    """The thread that serves the stages of one unit (stage.h): it runs as long as a lane has one of them.

    fifo  its priority in SCHED_FIFO; 0: scheduled as whoever starts it
    """

    cdef pa_unit unit
    cdef int users
    cdef object changing  # a lock: lanes begin and end in several threads. The collector may end one inside

    def __cinit__(self, str name, int fifo=0):
        self.changing = RLock()
        memset(&self.unit, 0, sizeof(pa_unit))
        strncpy(self.unit.name, f"pa-{name}".encode(), 11)
        self.unit.fifo = fifo

    cdef join(self):
        """Raises DeviceError where no thread can be started."""
        with self.changing:
            if not self.users and (error := pa_unit_start(&self.unit)):
                raise DeviceError(f"cannot start a stage thread: {strerror(error).decode()}")
            self.users += 1

    cdef leave(self):
        with self.changing:
            self.users -= 1
            if not self.users:
                with nogil:
                    pa_unit_close(&self.unit)
