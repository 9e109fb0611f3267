/* Features that a CPU has by its own word, where no /proc/cpuinfo tells of them. */
#ifndef PIPEALL_CPU_FEATURES_H
#define PIPEALL_CPU_FEATURES_H

typedef struct pa_feature {
    const char *name; /* as /proc/cpuinfo has it; NULL ends the list */
    int present;
} pa_feature;

/* Those that instruction sets of kernels.inc need, of the core that asks or, on Arm, of all cores. */
const pa_feature *pa_features(void);

#endif
