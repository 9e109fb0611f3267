/* Prefetch of what a stream of loads comes to later. Arm cores that execute in order wait for each line otherwise, and the
 * others lose nothing; x86 cores fetch ahead by themselves. */
#ifndef PIPEALL_PREFETCH_H
#define PIPEALL_PREFETCH_H

#ifdef __aarch64__
#define PA_AHEAD(pointer) __builtin_prefetch(pointer)
#else
#define PA_AHEAD(pointer) ((void)(pointer))
#endif
/* Elements of a cache line, and of the distance: some 300 cycles of loads, which memory takes. */
#define PA_LINE_OF(type) ((int)(64 / sizeof(type)))
#define PA_DISTANCE_OF(type) (8 * PA_LINE_OF(type))

#endif
