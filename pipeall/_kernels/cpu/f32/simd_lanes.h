/* Lanes of vectors (simd.h) by their places: blocks of them and their truth values as bits.
 *
 *   v_load_blocks(p, step, n, w)  n lanes each of blocks of w, at p, p + step..., the others 0; w is VL or, where that is at
 *                       least 4, VL / 2 or VL / 4
 *   v_blocks(n, w)      true in the first n lanes of each block of w
 *   v_bits(m)           of 4 truth values, LANE_BITS bits for each lane, from the lowest on
 */
#if defined(PA_ISA_REF)
enum { LANE_BITS = 1 };
PA_INLINE vf v_load_blocks(const float *p, int64_t step, int n, const int w) { return (void)step, (void)w, v_load_n(p, n); }
PA_INLINE vm v_blocks(int n, const int w) { return (void)w, v_first(n); }
PA_INLINE uint64_t v_bits(const vm *m) { return (uint64_t)(m[0] | m[1] << 1 | m[2] << 2 | m[3] << 3); }

#elif defined(PA_ISA_NEON)
enum { LANE_BITS = 4 };
PA_INLINE vf v_load_blocks(const float *p, int64_t step, int n, const int w) { return (void)step, (void)w, v_load_n(p, n); }
PA_INLINE vm v_blocks(int n, const int w) { return (void)w, v_first(n); }
PA_INLINE uint64_t v_bits(const vm *m) {
    const uint16x8_t low = vuzp1q_u16(vreinterpretq_u16_u32(m[0]), vreinterpretq_u16_u32(m[1]));
    const uint16x8_t high = vuzp1q_u16(vreinterpretq_u16_u32(m[2]), vreinterpretq_u16_u32(m[3]));
    const uint8x16_t all = vuzp1q_u8(vreinterpretq_u8_u16(low), vreinterpretq_u8_u16(high));
    return vget_lane_u64(vreinterpret_u64_u8(vshrn_n_u16(vreinterpretq_u16_u8(all), 4)), 0);
}

#elif defined(PA_ISA_AVX2)
enum { LANE_BITS = 1 };
PA_INLINE vf v_load_blocks(const float *p, int64_t step, int n, const int w) {
    if (w == VL) return v_load_n(p, n);
    const __m128i mask = _mm256_castsi256_si128(v_mask(n));
    const __m128 low = n == w ? _mm_loadu_ps(p) : _mm_maskload_ps(p, mask);
    return _mm256_insertf128_ps(_mm256_castps128_ps256(low), n == w ? _mm_loadu_ps(p + step) : _mm_maskload_ps(p + step, mask), 1);
}
PA_INLINE vm v_blocks(int n, const int w) {
    const vm first = v_first(n);
    return w == VL ? first : _mm256_permute2f128_ps(first, first, 0);
}
PA_INLINE uint64_t v_bits(const vm *m) {
    const int low = _mm256_movemask_ps(m[0]) | _mm256_movemask_ps(m[1]) << 8;
    const int high = _mm256_movemask_ps(m[2]) | _mm256_movemask_ps(m[3]) << 8;
    return (uint64_t)low | (uint64_t)high << 16;
}

#elif defined(PA_ISA_AVX512)
enum { LANE_BITS = 1 };
PA_INLINE vf v_load_blocks(const float *p, int64_t step, int n, const int w) {
    if (w == VL) return v_load_n(p, n);
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
PA_INLINE uint64_t v_bits(const vm *m) {
    return m[0] | (uint32_t)m[1] << 16 | (uint64_t)(m[2] | (uint32_t)m[3] << 16) << 32;
}
#endif
