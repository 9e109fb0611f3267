/* The words of simd.h: NEON. */
#define PA_TYPED_NAME(op, type) pa_##op##_##type##_neon
#define V_OPAQUE(a) __asm__ volatile("" : "+w"(a))
#define PA_SIMD_END
#include <arm_neon.h>

enum { VL = 4 };
typedef float32x4_t vf;
PA_INLINE vf v_set1(float x) { return vdupq_n_f32(x); }
PA_INLINE vf v_load(const float *p) { return vld1q_f32(p); }
PA_INLINE void v_store(float *p, vf a) { vst1q_f32(p, a); }
PA_INLINE vf v_load_halves(const uint16_t *p) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p))); }
PA_INLINE vf v_load_u8(const uint8_t *p) {
    uint32_t bytes;
    memcpy(&bytes, p, sizeof bytes);
    return vcvtq_f32_u32(vmovl_u16(vget_low_u16(vmovl_u8(vcreate_u8(bytes)))));
}
PA_INLINE vf v_load_n(const float *p, int n) {
    if (n == VL) return v_load(p);
    vf a = vdupq_n_f32(0);
    if (n == 1) return vld1q_lane_f32(p, a, 0);
    a = vcombine_f32(vld1_f32(p), vdup_n_f32(0));
    return n == 2 ? a : vld1q_lane_f32(p + 2, a, 2);
}
PA_INLINE void v_store_n(float *p, vf a, int n) {
    if (n == VL) {
        v_store(p, a);
    } else if (n == 1) {
        vst1q_lane_f32(p, a, 0);
    } else {
        vst1_f32(p, vget_low_f32(a));
        if (n == 3) vst1q_lane_f32(p + 2, a, 2);
    }
}
PA_INLINE vf v_add(vf a, vf b) { return vaddq_f32(a, b); }
PA_INLINE vf v_sub(vf a, vf b) { return vsubq_f32(a, b); }
PA_INLINE vf v_mul(vf a, vf b) { return vmulq_f32(a, b); }
PA_INLINE vf v_div(vf a, vf b) { return vdivq_f32(a, b); }
PA_INLINE vf v_fma(vf a, vf b, vf c) { return vfmaq_f32(c, a, b); }
PA_INLINE vf v_fnma(vf a, vf b, vf c) { return vfmsq_f32(c, a, b); }
PA_INLINE vf v_max(vf a, vf b) { return vmaxq_f32(a, b); }
PA_INLINE vf v_min(vf a, vf b) { return vminq_f32(a, b); }
PA_INLINE vf v_max_nan(vf a, vf b) { return vmaxq_f32(a, b); }
PA_INLINE vf v_min_nan(vf a, vf b) { return vminq_f32(a, b); }
PA_INLINE vf v_root4_estimate(vf a) {
    return vreinterpretq_f32_s32(vsubq_s32(vdupq_n_s32(ROOT4_BITS), vshrq_n_s32(vreinterpretq_s32_f32(a), 2)));
}
PA_INLINE vf v_round(vf a) { return vrndnq_f32(a); }
PA_INLINE vf v_floor(vf a) { return vrndmq_f32(a); }
PA_INLINE vf v_sqrt(vf a) { return vsqrtq_f32(a); }
PA_INLINE vf v_abs(vf a) { return vabsq_f32(a); }
PA_INLINE vf v_neg(vf a) { return vnegq_f32(a); }
typedef uint32x4_t vm;
PA_INLINE vm v_less(vf a, vf b) { return vcltq_f32(a, b); }
PA_INLINE vm v_equal(vf a, vf b) { return vceqq_f32(a, b); }
PA_INLINE vm v_is_nan(vf a) { return vmvnq_u32(vceqq_f32(a, a)); }
PA_INLINE vm v_or(vm a, vm b) { return vorrq_u32(a, b); }
PA_INLINE int v_any(vm m) { return vmaxvq_u32(m) != 0; }
PA_INLINE vf v_if(vm m, vf a, vf b) { return vbslq_f32(m, a, b); }
PA_INLINE vm v_first(int n) {
    static const int32_t lanes[VL] = {0, 1, 2, 3};
    return vcltq_s32(vld1q_s32(lanes), vdupq_n_s32(n));
}
PA_INLINE vf v_swap(vf a, const int w) { return w == 1 ? vrev64q_f32(a) : vextq_f32(a, a, 2); }
PA_INLINE vf v_mix(vf a, vf b, const int w) {
    static const uint32_t second[2][VL] = {{0, -1u, 0, -1u}, {0, 0, -1u, -1u}};
    return vbslq_f32(vld1q_u32(second[w - 1]), b, a);
}
PA_INLINE void v_trade(vf *a, vf *b, const int w) {
    const float32x4x2_t both = vtrnq_f32(*a, *b);
    const vf low = vcombine_f32(vget_low_f32(*a), vget_low_f32(*b));
    *b = w == 1 ? both.val[1] : vcombine_f32(vget_high_f32(*a), vget_high_f32(*b));
    *a = w == 1 ? both.val[0] : low;
}
PA_INLINE void v_zip(vf *a, vf *b) {
    const float32x4x2_t both = vzipq_f32(*a, *b);
    *a = both.val[0], *b = both.val[1];
}
PA_INLINE vf v_evens(vf a, vf b) { return vuzp1q_f32(a, b); }
PA_INLINE vf v_split(vf a, vf *e) {
    const int32x4_t bits = vsubq_s32(vreinterpretq_s32_f32(a), vdupq_n_s32(HALF_ROOT2_BITS));
    *e = vcvtq_f32_s32(vshrq_n_s32(bits, 23));
    const int32x4_t mantissa = vandq_s32(bits, vdupq_n_s32(MANTISSA_BITS));
    return vreinterpretq_f32_s32(vaddq_s32(mantissa, vdupq_n_s32(HALF_ROOT2_BITS)));
}
PA_INLINE vf v_pow2(vf m) { return vreinterpretq_f32_s32(vshlq_n_s32(vreinterpretq_s32_f32(m), 23)); }
PA_INLINE float v_fold_add(vf a) { return vaddvq_f32(a); }
PA_INLINE float v_fold_max(vf a) { return vmaxvq_f32(a); }

/* ---- lanes by their places ---- */

enum { LANE_BITS = 4 };
PA_INLINE uint64_t v_bits(const vm *m) {
    const uint16x8_t low = vuzp1q_u16(vreinterpretq_u16_u32(m[0]), vreinterpretq_u16_u32(m[1]));
    const uint16x8_t high = vuzp1q_u16(vreinterpretq_u16_u32(m[2]), vreinterpretq_u16_u32(m[3]));
    const uint8x16_t all = vuzp1q_u8(vreinterpretq_u8_u16(low), vreinterpretq_u8_u16(high));
    return vget_lane_u64(vreinterpret_u64_u8(vshrn_n_u16(vreinterpretq_u16_u8(all), 4)), 0);
}
typedef uint8x16_t vi; /* of bytes */
PA_INLINE vi v_lanes(vf numbers, int32_t first) {
    const int32x4_t lanes = vsubq_s32(vreinterpretq_s32_f32(numbers), vdupq_n_s32(first));
    const int32x4_t last_bits = vandq_s32(lanes, vdupq_n_s32(63)); /* a byte has room for four times as much */
    return vreinterpretq_u8_s32(vmlaq_n_s32(vdupq_n_s32(0x03020100), last_bits, 0x04040404));
}
PA_INLINE vi v_wrap(vi lanes) { return vandq_u8(lanes, vdupq_n_u8(15)); }
PA_INLINE vf v_pick(vf a, vi at) { return vreinterpretq_f32_u8(vqtbl1q_u8(vreinterpretq_u8_f32(a), at)); }
PA_INLINE vf v_pick2(vf a, vf b, vi at) {
    const uint8x16x2_t both = {{vreinterpretq_u8_f32(a), vreinterpretq_u8_f32(b)}};
    return vreinterpretq_f32_u8(vqtbl2q_u8(both, at));
}

#ifdef PA_BYTES /* ---- bytes beside the floats ---- */

enum { PARTS = 4, VB = PARTS * VL, SLOW_DIVISION = 1 };
typedef int8x16_t vb;
PA_INLINE vb b_set1(int8_t x) { return vdupq_n_s8(x); }
PA_INLINE vb b_load_n(const int8_t *p, int n) {
    if (n == VB) return vld1q_s8(p);
    int8_t room[VB] = {0};
    memcpy(room, p, (size_t)n);
    return vld1q_s8(room);
}
PA_INLINE void b_store_n(int8_t *p, vb a, int n) {
    if (n == VB) {
        vst1q_s8(p, a);
    } else {
        int8_t room[VB];
        vst1q_s8(room, a);
        memcpy(p, room, (size_t)n);
    }
}
PA_INLINE vb b_max(vb a, vb b) { return vmaxq_s8(a, b); }
typedef struct vw {
    int16x8_t half[2];
} vw;
typedef struct vs {
    int32x4_t part[PARTS];
} vs;
PA_INLINE vw b_words(void) { return (vw){{vdupq_n_s16(0), vdupq_n_s16(0)}}; }
PA_INLINE void b_add(vw *sum, const int8_t *p, int n) {
    const vb bytes = b_load_n(p, n);
    sum->half[0] = vaddw_s8(sum->half[0], vget_low_s8(bytes));
    sum->half[1] = vaddw_high_s8(sum->half[1], bytes);
}
PA_INLINE vs b_sums(int32_t x) {
    const int32x4_t part = vdupq_n_s32(x);
    return (vs){{part, part, part, part}};
}
PA_INLINE void b_add_words(vs *sum, vw words) {
    PA_UNROLL
    for (int h = 0; h < 2; h++) {
        sum->part[2 * h] = vaddw_s16(sum->part[2 * h], vget_low_s16(words.half[h]));
        sum->part[2 * h + 1] = vaddw_high_s16(sum->part[2 * h + 1], words.half[h]);
    }
}
PA_INLINE void b_sum_floats(vs sum, vf *v) {
    PA_UNROLL
    for (int i = 0; i < PARTS; i++) v[i] = vcvtq_f32_s32(sum.part[i]);
}
typedef int8x8_t b_from;
PA_INLINE b_from b_from_of(int32_t zero) { return vdup_n_s8((int8_t)zero); }
/* Widened and added to the bits of 1.5 * 2^23 an integer makes the float that is more by it: as many instructions as to widen
 * and convert, but additions, which a Cortex-A76 does four times as fast as conversions. */
PA_INLINE void b_get(const int8_t *p, vf *v, b_from zero) {
    const vb bytes = vld1q_s8(p);
    const int16x8_t low = vsubl_s8(vget_low_s8(bytes), zero), high = vsubl_s8(vget_high_s8(bytes), zero);
    const vf base = vdupq_n_f32(0x1.8p23f);
    const int32x4_t bits = vreinterpretq_s32_f32(base);
    const int32x4_t more[PARTS] = {vaddw_s16(bits, vget_low_s16(low)), vaddw_high_s16(bits, low),
                                   vaddw_s16(bits, vget_low_s16(high)), vaddw_high_s16(bits, high)};
    PA_UNROLL
    for (int i = 0; i < PARTS; i++) v[i] = vsubq_f32(vreinterpretq_f32_s32(more[i]), base);
}
typedef struct b_to {
    int16x8_t zero;
    vb lo, hi;
} b_to;
PA_INLINE b_to b_to_of(const pa_requantize *to) {
    const int8_t lo = (int8_t)((int32_t)to->lo + to->zero), hi = (int8_t)((int32_t)to->hi + to->zero);
    return (b_to){vdupq_n_s16((int16_t)to->zero), vdupq_n_s8(lo), vdupq_n_s8(hi)};
}
PA_INLINE int16x8_t b_integers(vf a, vf b) {
    return vqmovn_high_s32(vqmovn_s32(vcvtnq_s32_f32(a)), vcvtnq_s32_f32(b));
}
PA_INLINE vb b_round(const vf *v, const b_to *to) {
    const int16x8_t low = vqaddq_s16(b_integers(v[0], v[1]), to->zero);
    const int16x8_t high = vqaddq_s16(b_integers(v[2], v[3]), to->zero);
    return vmaxq_s8(to->lo, vminq_s8(to->hi, vqmovn_high_s16(vqmovn_s16(low), high)));
}

#endif
