/* LD_PRELOAD: the wall clock is off by up to a day, by another amount at every look at it. */
#include <stdatomic.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long step(void) {
    static atomic_uint state = 1;
    const unsigned next = atomic_load(&state) * 1664525u + 1013904223u;
    atomic_store(&state, next);
    return (long)(next >> 8) % 172800 - 86400;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    const int code = (int)syscall(SYS_clock_gettime, clock, time);
    if (!code && clock == CLOCK_REALTIME) time->tv_sec += step();
    return code;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    *time = (struct timeval){now.tv_sec, now.tv_nsec / 1000};
    return 0;
}

time_t time(time_t *result) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (result) *result = now.tv_sec;
    return now.tv_sec;
}
