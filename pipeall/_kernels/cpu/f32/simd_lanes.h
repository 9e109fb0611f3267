/* Lanes of vectors (simd.h) by their places: blocks of them, their truth values as bits, lanes picked by number.
 *
 *   v_load_blocks(p, step, n, w)  n lanes each of blocks of w, at p, p + step..., the others 0; w is VL or, where that is at
 *                       least 4, VL / 2 or VL / 4
 *   v_transpose(v, count, item)  of `count` vectors, items of `item` lanes in each `count` of them: item c of vector r to
 *                       item r of vector c
 *   v_pairs(&a, &b, w)  as v_trade, but an element of the first and its partner in the second may be exchanged
 *   v_width(n)          the least w for n floats
 *   v_blocks(n, w)      true in the first n lanes of each block of w
 *   v_bits(m)           of 4 truth values, LANE_BITS bits for each lane, from the lowest on
 *   v_load_bits         VL int32 in the bits of a vector, to be moved
 *   vi                  VL numbers of lanes; v_lanes(numbers, first) has such bits less `first`
 *   v_lanes_at(p, first)  of VL int32
 *   v_wrap(lanes)       modulo VL, as v_pick wants them
 *   v_pick(a, at)       lane at[i] of a in lane i, 0 <= at[i] < VL
 *   v_pick2(a, b, at)   of a and what follows it, b, 0 <= at[i] < 2 VL
 */
#if defined(PA_ISA_REF) || defined(PA_ISA_NEON) /* w is VL */
PA_INLINE vf v_load_blocks(const float *p, int64_t step, int n, const int w) {
    (void)step, (void)w;
    return v_load_n(p, n);
}
PA_INLINE vm v_blocks(int n, const int w) { return (void)w, v_first(n); }
PA_INLINE void v_pairs(vf *a, vf *b, const int w) { v_trade(a, b, w); }
#endif

#if defined(PA_ISA_REF)
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

#elif defined(PA_ISA_NEON)
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

#elif defined(PA_ISA_AVX2)
enum { LANE_BITS = 1 };
PA_INLINE vf v_load_blocks(const float *p, int64_t step, int n, const int w) {
    if (w == VL) return v_load_n(p, n);
    const __m128i mask = _mm256_castsi256_si128(v_mask(n));
    const __m128 low = n == w ? _mm_loadu_ps(p) : _mm_maskload_ps(p, mask);
    const __m128 high = n == w ? _mm_loadu_ps(p + step) : _mm_maskload_ps(p + step, mask);
    return _mm256_insertf128_ps(_mm256_castps128_ps256(low), high, 1);
}
PA_INLINE vm v_blocks(int n, const int w) {
    const vm first = v_first(n);
    return w == VL ? first : _mm256_permute2f128_ps(first, first, 0);
}
PA_INLINE void v_pairs(vf *a, vf *b, const int w) {
    vf second = w == 4 ? _mm256_permute2f128_ps(*a, *b, 0x21) : _mm256_shuffle_ps(*a, *b, 0x4e);
    if (w == 1) second = v_swap(v_mix(*b, *a, 1), 1);
    *a = v_mix(*a, *b, w), *b = second;
}
PA_INLINE uint64_t v_bits(const vm *m) {
    const int low = _mm256_movemask_ps(m[0]) | _mm256_movemask_ps(m[1]) << 8;
    const int high = _mm256_movemask_ps(m[2]) | _mm256_movemask_ps(m[3]) << 8;
    return (uint64_t)low | (uint64_t)high << 16;
}
typedef __m256i vi;
PA_INLINE vi v_lanes(vf numbers, int32_t first) {
    return _mm256_sub_epi32(_mm256_castps_si256(numbers), _mm256_set1_epi32(first));
}
PA_INLINE vi v_wrap(vi lanes) { return lanes; } /* the instruction reads the last bits alone */
PA_INLINE vf v_pick(vf a, vi at) { return _mm256_permutevar8x32_ps(a, at); }
PA_INLINE vf v_pick2(vf a, vf b, vi at) {
    const vm second = _mm256_castsi256_ps(_mm256_slli_epi32(at, 28)); /* bit 3, of 8, becomes the sign */
    return _mm256_blendv_ps(v_pick(a, at), v_pick(b, at), second);
}

#elif defined(PA_ISA_AVX512)
enum { LANE_BITS = 1 };
PA_INLINE vf v_load_blocks(const float *p, int64_t step, int n, const int w) {
    if (w == VL) return v_load_n(p, n);
    if (n == w && w == 4) { /* without lines of the cache beyond the blocks */
        vf all = _mm512_castps128_ps512(_mm_loadu_ps(p));
        all = _mm512_insertf32x4(all, _mm_loadu_ps(p + step), 1);
        all = _mm512_insertf32x4(all, _mm_loadu_ps(p + 2 * step), 2);
        return _mm512_insertf32x4(all, _mm_loadu_ps(p + 3 * step), 3);
    }
    const unsigned first = (1u << n) - 1;
    vf a = _mm512_maskz_loadu_ps((vm)first, p);
    PA_UNROLL
    for (int b = 1; b < VL / w; b++) a = _mm512_mask_loadu_ps(a, (vm)(first << b * w), p + b * (step - w));
    return a;
}
PA_INLINE vm v_blocks(int n, const int w) {
    const unsigned first = (1u << n) - 1;
    return (vm)(w == VL ? first : w == VL / 2 ? first * 0x101 : first * 0x1111);
}
PA_INLINE void v_pairs(vf *a, vf *b, const int w) {
    if (w == 1 || w == 4) {
        v_trade(a, b, w);
        return;
    }
    const vf second = w == 8 ? _mm512_shuffle_f32x4(*a, *b, 0x4e) : _mm512_shuffle_ps(*a, *b, 0x4e);
    *a = v_mix(*a, *b, w), *b = second;
}
PA_INLINE uint64_t v_bits(const vm *m) {
    return m[0] | (uint32_t)m[1] << 16 | (uint64_t)(m[2] | (uint32_t)m[3] << 16) << 32;
}
typedef __m512i vi;
PA_INLINE vi v_lanes(vf numbers, int32_t first) {
    return _mm512_sub_epi32(_mm512_castps_si512(numbers), _mm512_set1_epi32(first));
}
PA_INLINE vi v_wrap(vi lanes) { return lanes; } /* the instruction reads the last bits alone */
PA_INLINE vf v_pick(vf a, vi at) { return _mm512_permutexvar_ps(at, a); }
PA_INLINE vf v_pick2(vf a, vf b, vi at) { return _mm512_permutex2var_ps(a, at, b); }
#endif

PA_INLINE vf v_load_bits(const int32_t *p) {
    vf bits;
    memcpy(&bits, p, sizeof bits);
    return bits;
}

PA_INLINE vi v_lanes_at(const int32_t *p, int32_t first) { return v_lanes(v_load_bits(p), first); }

PA_INLINE void v_transpose(vf *v, const int count, const int item) {
    PA_UNROLL
    for (int stage = 0; stage < 4; stage++) {
        const int apart = 1 << stage;
        PA_UNROLL
        for (int k = 0; k < count / 2; k++) {
            const int first = k / apart * apart + k;
            if (apart < count) v_trade(&v[first], &v[first + apart], apart * item);
        }
    }
}

PA_INLINE int v_width(int64_t n) {
    return n <= VL / 4 && VL / 4 >= 4 ? VL / 4 : n <= VL / 2 && VL / 2 >= 4 ? VL / 2 : VL;
}
