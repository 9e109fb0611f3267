/* Extensions of NEON. */
#ifndef PIPEALL_EXTENSION_H
#define PIPEALL_EXTENSION_H

/* Before clang 16 its arm_neon.h declares what is of an extension only where the whole file may use it. */
#if defined(__clang__) && __clang_major__ < 16
#define __ARM_FEATURE_DOTPROD 1
#define __ARM_FEATURE_FP16_VECTOR_ARITHMETIC 1
#endif
#include <arm_neon.h>

/* A function that may use an extension of NEON, which clang before 16 calls by a name of its own. */
#if defined(__clang__) && __clang_major__ < 16
#define PA_EXTENSION(name) __attribute__((target(name)))
#define PA_FP16 PA_EXTENSION("fullfp16")
#else
#define PA_EXTENSION(name) __attribute__((target("arch=armv8.2-a+" name)))
#define PA_FP16 PA_EXTENSION("fp16")
#endif

#endif
