/* Extensions of NEON. */
#ifndef PIPEALL_EXTENSION_H
#define PIPEALL_EXTENSION_H

#include <arm_neon.h>

/* A function that may use an extension of NEON, which clang and gcc call by names of their own. */
#ifdef __clang__
#define PA_EXTENSION(name) __attribute__((target(name)))
#define PA_FP16 PA_EXTENSION("fullfp16")
#else
#define PA_EXTENSION(name) __attribute__((target("arch=armv8.2-a+" name)))
#define PA_FP16 PA_EXTENSION("fp16")
#endif

#endif
