/* The words of simd.h: plain C, a lane at a time. */
#define PA_TYPED_NAME(op, type) pa_##op##_##type##_ref
#define V_OPAQUE(a)
#define PA_SIMD_END

enum { VL = 1 };
typedef float vf;
PA_INLINE vf v_set1(float x) { return x; }
PA_INLINE vf v_load(const float *p) { return *p; }
PA_INLINE void v_store(float *p, vf a) { *p = a; }
PA_INLINE vf v_load_u8(const uint8_t *p) { return *p; }
PA_INLINE vf v_load_halves(const uint16_t *p) { return half_to_float(*p); }
PA_INLINE vf v_load_n(const float *p, int n) { return (void)n, *p; }
PA_INLINE void v_store_n(float *p, vf a, int n) { (void)n, *p = a; }
PA_INLINE vf v_add(vf a, vf b) { return a + b; }
PA_INLINE vf v_sub(vf a, vf b) { return a - b; }
PA_INLINE vf v_mul(vf a, vf b) { return a * b; }
PA_INLINE vf v_div(vf a, vf b) { return a / b; }
PA_INLINE vf v_fma(vf a, vf b, vf c) { return fmaf(a, b, c); }
PA_INLINE vf v_fnma(vf a, vf b, vf c) { return fmaf(-a, b, c); }
PA_INLINE vf v_max(vf a, vf b) { return a > b ? a : b; }
PA_INLINE vf v_min(vf a, vf b) { return a < b ? a : b; }
PA_INLINE vf v_max_nan(vf a, vf b) { return a != a || a > b ? a : b; }
PA_INLINE vf v_min_nan(vf a, vf b) { return a != a || a < b ? a : b; }
PA_INLINE vf v_root4_estimate(vf a) {
    int32_t bits;
    memcpy(&bits, &a, sizeof bits);
    bits = ROOT4_BITS - (bits >> 2);
    memcpy(&a, &bits, sizeof bits);
    return a;
}
PA_INLINE vf v_round(vf a) { return rintf(a); }
PA_INLINE vf v_floor(vf a) { return floorf(a); }
PA_INLINE vf v_sqrt(vf a) { return sqrtf(a); }
PA_INLINE vf v_abs(vf a) { return fabsf(a); }
PA_INLINE vf v_neg(vf a) { return -a; }
typedef int vm;
PA_INLINE vm v_less(vf a, vf b) { return a < b; }
PA_INLINE vm v_equal(vf a, vf b) { return a == b; }
PA_INLINE vm v_is_nan(vf a) { return a != a; }
PA_INLINE vm v_or(vm a, vm b) { return a | b; }
PA_INLINE int v_any(vm m) { return m; }
PA_INLINE vf v_if(vm m, vf a, vf b) { return m ? a : b; }
PA_INLINE vm v_first(int n) { return n > 0; }
PA_INLINE vf v_swap(vf a, const int w) { return (void)w, a; }
PA_INLINE vf v_mix(vf a, vf b, const int w) { return (void)b, (void)w, a; }
PA_INLINE void v_trade(vf *a, vf *b, const int w) { (void)a, (void)b, (void)w; }
PA_INLINE void v_zip(vf *a, vf *b) { (void)a, (void)b; }
PA_INLINE vf v_evens(vf a, vf b) { return (void)b, a; }
PA_INLINE vf v_split(vf a, vf *e) {
    int32_t bits;
    memcpy(&bits, &a, sizeof bits);
    bits -= HALF_ROOT2_BITS;
    *e = (float)(bits >> 23);
    bits = (bits & MANTISSA_BITS) + HALF_ROOT2_BITS;
    memcpy(&a, &bits, sizeof bits);
    return a;
}
PA_INLINE vf v_pow2(vf m) {
    uint32_t bits;
    memcpy(&bits, &m, sizeof bits);
    bits <<= 23;
    memcpy(&m, &bits, sizeof bits);
    return m;
}
PA_INLINE float v_fold_add(vf a) { return a; }
PA_INLINE float v_fold_max(vf a) { return a; }

/* ---- lanes by their places ---- */

enum { LANE_BITS = 1 };
PA_INLINE uint64_t v_bits(const vm *m) { return (uint64_t)(m[0] | m[1] << 1 | m[2] << 2 | m[3] << 3); }
typedef int32_t vi;
PA_INLINE vi v_lanes(vf numbers, int32_t first) {
    int32_t bits;
    memcpy(&bits, &numbers, sizeof bits);
    return bits - first;
}
PA_INLINE vi v_wrap(vi lanes) { return (void)lanes, 0; }
PA_INLINE vf v_pick(vf a, vi at) { return (void)at, a; }
PA_INLINE vf v_pick2(vf a, vf b, vi at) { return at ? b : a; }

#ifdef PA_BYTES /* ---- bytes beside the floats ---- */

enum { PARTS = 1, VB = 1, SLOW_DIVISION = 0 };
typedef int8_t vb;
PA_INLINE vb b_set1(int8_t x) { return x; }
PA_INLINE vb b_load_n(const int8_t *p, int n) { return (void)n, *p; }
PA_INLINE void b_store_n(int8_t *p, vb a, int n) { (void)n, *p = a; }
PA_INLINE vb b_max(vb a, vb b) { return a > b ? a : b; }
typedef int32_t b_from;
PA_INLINE b_from b_from_of(int32_t zero) { return zero; }
PA_INLINE void b_get(const int8_t *p, vf *v, b_from zero) { *v = (float)(*p - zero); }
typedef pa_requantize b_to;
PA_INLINE b_to b_to_of(const pa_requantize *to) { return *to; }
PA_INLINE vb b_round(const vf *v, const b_to *to) {
    return (vb)((int32_t)rintf(v_min(v_max(*v, to->lo), to->hi)) + to->zero);
}
typedef int16_t vw;
PA_INLINE vw b_words(void) { return 0; }
PA_INLINE void b_add(vw *sum, const int8_t *p, int n) { (void)n, *sum = (vw)(*sum + *p); }
typedef int32_t vs;
PA_INLINE vs b_sums(int32_t x) { return x; }
PA_INLINE void b_add_words(vs *sum, vw words) { *sum += words; }
PA_INLINE void b_sum_floats(vs sum, vf *v) { *v = (float)sum; }

#endif
