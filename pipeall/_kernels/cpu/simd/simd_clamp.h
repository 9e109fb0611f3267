/* Bounds of vectors, of floats or halves: of what simd.h and simd_f16.h name, which include it. */
#ifndef PIPEALL_SIMD_CLAMP_H
#define PIPEALL_SIMD_CLAMP_H

PA_INLINE vf v_clamp(vf x, vf lo, vf hi) { return v_min(hi, v_max(lo, x)); }

/* n vectors; without an upper bound, as after most layers, nothing is spent on it. */
PA_INLINE void v_clamp_each(vf *v, const int n, float lo, float hi) {
    const vf least = v_set1(lo), most = v_set1(hi);
    PA_UNROLL
    for (int i = 0; i < n; i++) v[i] = v_max(least, v[i]);
    if (hi < __builtin_inff()) {
        PA_UNROLL
        for (int i = 0; i < n; i++) v[i] = v_min(most, v[i]);
    }
}

#endif
