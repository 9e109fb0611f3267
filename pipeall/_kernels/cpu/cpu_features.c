#include "cpu_features.h"

#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__)
#include <cpuid.h>

enum { EAX, EBX, ECX }; /* of what cpuid answers */
enum { YMM = 0x6, ZMM = 0xe6 }; /* of XCR0: registers that the system keeps */

/* Source: Intel SDM, volume 2, CPUID; volume 1, 13.2 (XCR0). */
static const struct {
    const char *name;
    uint32_t leaf, subleaf, word, bit, kept;
} known[] = {
    {"fma", 1, 0, ECX, 12, YMM},          {"f16c", 1, 0, ECX, 29, YMM},
    {"avx2", 7, 0, EBX, 5, YMM},          {"avx_vnni", 7, 1, EAX, 4, YMM},
    {"avx512f", 7, 0, EBX, 16, ZMM},      {"avx512dq", 7, 0, EBX, 17, ZMM},
    {"avx512bw", 7, 0, EBX, 30, ZMM},     {"avx512vl", 7, 0, EBX, 31, ZMM},
    {"avx512vbmi", 7, 0, ECX, 1, ZMM},    {"avx512_vnni", 7, 0, ECX, 11, ZMM},
};
enum { COUNT = sizeof known / sizeof known[0] };

static uint64_t kept_registers(void)
{
    uint32_t a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE))
        return 0;
    __asm__("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
    return (uint64_t)d << 32 | a;
}

const pa_feature *pa_features(void)
{
    static pa_feature features[COUNT + 1];
    const uint64_t kept = kept_registers();
    for (int i = 0; i < COUNT; i++) {
        uint32_t words[4] = {0};
        const int there = __get_cpuid_count(known[i].leaf, known[i].subleaf, &words[0], &words[1], &words[2], &words[3]);
        features[i].name = known[i].name;
        features[i].present = there && words[known[i].word] >> known[i].bit & 1 && (kept & known[i].kept) == known[i].kept;
    }
    return features;
}

#elif defined(__aarch64__)
#include <sys/auxv.h>

/* Source: Linux arch/arm64/include/uapi/asm/hwcap.h. */
const pa_feature *pa_features(void)
{
    static pa_feature features[] = {{"asimdhp", 0}, {"asimddp", 0}, {"i8mm", 0}, {"bf16", 0}, {NULL, 0}};
    const unsigned long first = getauxval(AT_HWCAP), second = getauxval(AT_HWCAP2);
    features[0].present = first >> 10 & 1;
    features[1].present = first >> 20 & 1;
    features[2].present = second >> 13 & 1;
    features[3].present = second >> 14 & 1;
    return features;
}

#else

const pa_feature *pa_features(void)
{
    static const pa_feature none = {NULL, 0};
    return &none;
}

#endif
