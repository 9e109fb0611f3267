/* The formulas of the pointwise ops, one a line: of x, p0 and p1, or of a and b; NUMBER is their type (typed.cl).
 *
 * REAL_ are those of floats, WHOLE_ those of integers and bools, EVERY_ those of both. Comparisons give 0 or 1. A NaN
 * stays NaN: so there is no clamp or fmin. */
static NUMBER limit(NUMBER v, NUMBER lo, NUMBER hi) {
    return v < lo ? lo : v > hi ? hi : v;
}
#if WHOLE
static long magnitude(long x) {
    return x < 0 ? -(ulong)x : x;
}
/* Towards zero; what has no result is 0, and no device stops. */
static long divided(long a, long b) {
    return b == 0 ? 0 : b == -1 ? (long)-(ulong)a : a / b;
}
static long remainder_of(long a, long b) {
    return b == 0 || b == -1 ? 0 : a % b;
}
static long raised(long a, long b) {
    if (b < 0)
        return a == 1 ? 1 : a == -1 ? (b & 1 ? -1 : 1) : 0;
    ulong product = 1, power = a;
    for (; b; b >>= 1, power *= power)
        product *= b & 1 ? power : 1;
    return product;
}
#else
static float magnitude(float x) {
    return fabs(x);
}
/* OpenCL lets a quotient be 2.5 units of the last place off; what is left over, which fma has exactly, mends it. */
static float divided(float a, float b) {
    const float quotient = a / b, more = fma(-quotient, b, a) / b;
    return isfinite(more) && more != 0 ? quotient + more : quotient;
}
static float remainder_of(float a, float b) {
    return fmod(a, b);
}
static float raised(float a, float b) {
    return pow(a, b);
}
static float softplus(float x) {
    return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}
#endif
static NUMBER modulo(NUMBER a, NUMBER b) { /* of the sign of b */
    const NUMBER r = remainder_of(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

#define EVERY_clip limit(x, p0, p1)
#define REAL_leakyrelu x < 0 ? p0 *x : x
#define REAL_sigmoid 1 / (1 + exp(-x))
#define REAL_hardsigmoid limit(p0 *x + p1, 0, 1)
#define REAL_hardswish x *limit(x / 6 + 0.5f, 0, 1)
#define REAL_tanh tanh(x)
#define REAL_erf erf(x)
#define REAL_elu x < 0 ? p0 *expm1(x) : x
#define REAL_sqrt sqrt(x)
#define REAL_exp exp(x)
#define REAL_log log(x)
#define EVERY_abs magnitude(x)
#define REAL_reciprocal 1 / x
#define EVERY_neg -x
#define EVERY_sign x > 0 ? 1 : x < 0 ? -1 : x
#define REAL_floor floor(x)
#define REAL_ceil ceil(x)
#define REAL_round rint(x)
#define REAL_fakequant limit(rint(x / p0), p1, p1 + 255) * p0
#define REAL_sin sin(x)
#define REAL_cos cos(x)
#define REAL_tan tan(x)
#define REAL_asin asin(x)
#define REAL_acos acos(x)
#define REAL_atan atan(x)
#define REAL_sinh sinh(x)
#define REAL_cosh cosh(x)
#define REAL_asinh asinh(x)
#define REAL_acosh acosh(x)
#define REAL_atanh atanh(x)
#define REAL_softplus softplus(x)
#define REAL_softsign x / (1 + fabs(x))
#define REAL_mish x *tanh(softplus(x))
#define REAL_selu p1 *(x < 0 ? p0 * expm1(x) : x)
#define REAL_celu x < 0 ? p0 *expm1(x / p0) : x
#define REAL_thresholdedrelu x <= p0 ? 0 : x
#define REAL_shrink x < -p0 ? x + p1 : x > p0 ? x - p1 : isnan(x) ? x : 0
#define REAL_gelu 0.5f * x *(1 + erf(x * M_SQRT1_2_F))
#define REAL_gelu_tanh 0.5f * x *(1 + tanh(0.7978845608f * (x + 0.044715f * x * x * x)))
#define REAL_swish x / (1 + exp(-p0 * x))
#define WHOLE_not x == 0
#define WHOLE_bitnot ~x
#define REAL_isnan x != x
#define REAL_isinf (x == INFINITY && p1 != 0) || (x == -INFINITY && p0 != 0)
#define EVERY_cast x
#define EVERY_truth x != 0

#define EVERY_add a + b
#define EVERY_sub a - b
#define EVERY_rsub b - a
#define EVERY_mul a *b
#define EVERY_div divided(a, b)
#define EVERY_rdiv divided(b, a)
#define EVERY_pow raised(a, b)
#define EVERY_rpow raised(b, a)
#define EVERY_max larger(a, b)
#define EVERY_min smaller(a, b)
#define EVERY_mod modulo(a, b)
#define EVERY_rmod modulo(b, a)
#define EVERY_fmod remainder_of(a, b)
#define EVERY_rfmod remainder_of(b, a)
#define EVERY_prelu a < 0 ? b *a : a
#define EVERY_rprelu b < 0 ? a *b : b
#define EVERY_equal a == b
#define EVERY_greater a > b
#define EVERY_less a < b
#define EVERY_greaterequal a >= b
#define EVERY_lessequal a <= b
#define WHOLE_and a &&b
#define WHOLE_or a || b
#define WHOLE_xor (a != 0) != (b != 0)
#define WHOLE_bitand a &b
#define WHOLE_bitor a | b
#define WHOLE_bitxor a ^ b
#define WHOLE_shiftleft (ulong) b > 63 ? 0 : (long)((ulong)a << b)
#define WHOLE_shiftright a >> ((ulong)b > 63 ? 63 : b)
#define EVERY_where a != 0 ? b : c
