/* LD_PRELOAD: counts what the stage threads ("pa-...") allocate while malloc_count_on is 1. */
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

atomic_int malloc_count_on;
atomic_long malloc_count;

static void count(void) {
    char name[16] = "";
    if (!atomic_load_explicit(&malloc_count_on, memory_order_relaxed)) return;
    pthread_getname_np(pthread_self(), name, sizeof name);
    if (strncmp(name, "pa-", 3) == 0) atomic_fetch_add(&malloc_count, 1);
}

void *malloc(size_t bytes) {
    count();
    return __libc_malloc(bytes);
}
void *calloc(size_t count_, size_t bytes) {
    count();
    return __libc_calloc(count_, bytes);
}
void *realloc(void *block, size_t bytes) {
    count();
    return __libc_realloc(block, bytes);
}
void *aligned_alloc(size_t alignment, size_t bytes) {
    count();
    return __libc_memalign(alignment, bytes);
}
int posix_memalign(void **block, size_t alignment, size_t bytes) {
    count();
    *block = __libc_memalign(alignment, bytes);
    return *block ? 0 : 12; /* ENOMEM */
}
