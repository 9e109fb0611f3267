/* Elements are taken in blocks: loaded as floats, 64-bit integers or truths, computed, stored. Floats that lie one behind
 * the other are not loaded but used where they are, a whole segment at a time. */
#include "pointwise.h"

#include "convert.h"
#include "parallel_for.h"

enum { SEGMENT = LEAST_CHUNK };

static inline int64_t inner(const pa_pointwise_op *p, int operand) { return p->axes.stride[operand][p->axes.rank - 1]; }

/* Block i of an operand: where it lies, if it can be used there, else in `buffer`, which holds a broadcast element from
 * the first block on. */
#define BLOCK_OF(name, element, load, usable)                                                                          \
    static const element *name(const pa_pointwise_op *p, int k, const void *src, int64_t i, int64_t n,                 \
                               element *buffer) {                                                                      \
        const int64_t step = inner(p, k + 1);                                                                          \
        const pa_strided *s = &p->src[k];                                                                              \
        if (step == 1 && (usable)) return (const element *)src + i;                                                    \
        if (step != 0 || i == 0) load(s->type, n, elements_at(src, s, i * step), step, buffer);                        \
        return buffer;                                                                                                 \
    }
BLOCK_OF(reals, float, pa_load_f32, s->type == PA_F32)
BLOCK_OF(wholes, int64_t, pa_load_s64, s->type == PA_S64)
BLOCK_OF(truths, uint8_t, pa_load_b8, 0)

static inline void *out_at(const pa_pointwise_op *p, void *dst, int64_t i) {
    return (char *)dst + i * inner(p, 0) * p->dst.item_bytes;
}

/* ---- floats ---- */

static inline int direct(const pa_pointwise_op *p, int operand, int type) {
    return type == PA_F32 && inner(p, operand) == 1;
}

static void unary_reals(const pa_pointwise_op *p, int64_t n, const void *const *src, void *dst) {
    if (direct(p, 0, p->dst.type) && direct(p, 1, p->src[0].type)) {
        PA_FUNCTION(unary, f32, p->unary)(p->op, n, src[0], dst, p->p0, p->p1);
        return;
    }
    float a[BLOCK], y[BLOCK];
    for (int64_t i = 0; i < n; i += BLOCK) {
        const int64_t count = min64(BLOCK, n - i);
        PA_FUNCTION(unary, f32, p->unary)(p->op, count, reals(p, 0, src[0], i, count, a), y, p->p0, p->p1);
        pa_store_f32(p->dst.type, count, y, out_at(p, dst, i), inner(p, 0));
    }
}

/* The op with its operands exchanged. */
static int exchanged(int op) {
    switch (op) {
    case PA_BINARY_sub: return PA_BINARY_rsub;
    case PA_BINARY_rsub: return PA_BINARY_sub;
    case PA_BINARY_div: return PA_BINARY_rdiv;
    case PA_BINARY_rdiv: return PA_BINARY_div;
    case PA_BINARY_pow: return PA_BINARY_rpow;
    case PA_BINARY_rpow: return PA_BINARY_pow;
    case PA_BINARY_mod: return PA_BINARY_rmod;
    case PA_BINARY_rmod: return PA_BINARY_mod;
    case PA_BINARY_fmod: return PA_BINARY_rfmod;
    case PA_BINARY_rfmod: return PA_BINARY_fmod;
    case PA_BINARY_prelu: return PA_BINARY_rprelu;
    case PA_BINARY_rprelu: return PA_BINARY_prelu;
    default: return op;
    }
}

static void binary_reals(const pa_pointwise_op *p, int64_t n, const void *const *src, void *dst) {
    const int first = inner(p, 1) == 0 && inner(p, 2) != 0, second = !first; /* a broadcast one comes second */
    const int op = first ? exchanged(p->op) : p->op, step = inner(p, 1 + second) != 0;
    const int in_place = direct(p, 1 + first, p->src[first].type) && direct(p, 0, p->dst.type) &&
                         (!step || direct(p, 1 + second, p->src[second].type));
    float a[BLOCK], b[BLOCK], y[BLOCK];
    for (int64_t i = 0, count; i < n; i += count) {
        count = in_place ? n : min64(BLOCK, n - i);
        const float *x = reals(p, first, src[first], i, count, a);
        const float *z = reals(p, second, src[second], i, step ? count : 1, b);
        PA_FUNCTION(binary, f32, p->binary)(op, count, x, z, step, in_place ? dst : y, p->lo, p->hi);
        if (!in_place) pa_store_f32(p->dst.type, count, y, out_at(p, dst, i), inner(p, 0));
    }
}

/* ---- integers ---- */

#define EACH(formula) \
    for (int64_t i = 0; i < n; i++) y[i] = formula

static void unary_of_wholes(const pa_pointwise_op *p, int64_t n, const int64_t *a, int64_t *y) {
    switch (p->op) {
    case PA_UNARY_clip: EACH(a[i] < p->least ? p->least : a[i] > p->most ? p->most : a[i]); break;
    case PA_UNARY_abs: EACH(a[i] < 0 ? (int64_t)-(uint64_t)a[i] : a[i]); break;
    case PA_UNARY_neg: EACH((int64_t)-(uint64_t)a[i]); break;
    case PA_UNARY_sign: EACH((a[i] > 0) - (a[i] < 0)); break;
    case PA_UNARY_bitnot: EACH(~a[i]); break;
    }
}

/* Division rounds towards 0 and has no traps: by 0 it gives 0, and -INT64_MIN is INT64_MIN. */
static inline int64_t quotient(int64_t a, int64_t b) {
    return b == 0 ? 0 : b == -1 ? (int64_t)-(uint64_t)a : a / b;
}

static inline int64_t remainder_of(int64_t a, int64_t b) { return b == 0 || b == -1 ? 0 : a % b; } /* the sign of a */

static inline int64_t modulo(int64_t a, int64_t b) { /* the sign of b */
    const int64_t r = remainder_of(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

static inline int64_t power(int64_t a, int64_t b) { /* modulo 2^64; to a negative power 1 / a^-b, and 0 for a = 0 */
    if (b < 0) return a == 1 ? 1 : a == -1 ? 1 - 2 * (b & 1) : 0;
    uint64_t result = 1;
    for (uint64_t factor = (uint64_t)a; b; b >>= 1, factor *= factor) result *= b & 1 ? factor : 1;
    return (int64_t)result;
}

static int bits_of(const pa_pointwise_op *p) { return 8 * p->src[0].item_bytes; }

/* A shift by less than 0, or by all bits, moves all of them out. */
static inline int64_t shifted_left(int64_t a, int64_t by, int bits) {
    return by >= 0 && by < bits ? (int64_t)((uint64_t)a << by) : 0;
}
static inline int64_t shifted_right(int64_t a, int64_t by, int bits) {
    return by >= 0 && by < bits ? a >> by : a < 0 ? -1 : 0;
}

static void binary_of_wholes(const pa_pointwise_op *p, int64_t n, const int64_t *a, const int64_t *b, int64_t *y) {
    const int bits = bits_of(p);
    switch (p->op) {
    case PA_BINARY_add: EACH((int64_t)((uint64_t)a[i] + (uint64_t)b[i])); break;
    case PA_BINARY_sub: EACH((int64_t)((uint64_t)a[i] - (uint64_t)b[i])); break;
    case PA_BINARY_rsub: EACH((int64_t)((uint64_t)b[i] - (uint64_t)a[i])); break;
    case PA_BINARY_mul: EACH((int64_t)((uint64_t)a[i] * (uint64_t)b[i])); break;
    case PA_BINARY_div: EACH(quotient(a[i], b[i])); break;
    case PA_BINARY_rdiv: EACH(quotient(b[i], a[i])); break;
    case PA_BINARY_max: EACH(a[i] > b[i] ? a[i] : b[i]); break;
    case PA_BINARY_min: EACH(a[i] < b[i] ? a[i] : b[i]); break;
    case PA_BINARY_pow: EACH(power(a[i], b[i])); break;
    case PA_BINARY_rpow: EACH(power(b[i], a[i])); break;
    case PA_BINARY_mod: EACH(modulo(a[i], b[i])); break;
    case PA_BINARY_rmod: EACH(modulo(b[i], a[i])); break;
    case PA_BINARY_fmod: EACH(remainder_of(a[i], b[i])); break;
    case PA_BINARY_rfmod: EACH(remainder_of(b[i], a[i])); break;
    case PA_BINARY_bitand: EACH(a[i] & b[i]); break;
    case PA_BINARY_bitor: EACH(a[i] | b[i]); break;
    case PA_BINARY_bitxor: EACH(a[i] ^ b[i]); break;
    case PA_BINARY_shiftleft: EACH(shifted_left(a[i], b[i], bits)); break;
    case PA_BINARY_shiftright: EACH(shifted_right(a[i], b[i], bits)); break;
    }
}

static void unary_wholes(const pa_pointwise_op *p, int64_t n, const void *const *src, void *dst) {
    int64_t a[BLOCK], y[BLOCK];
    for (int64_t i = 0; i < n; i += BLOCK) {
        const int64_t count = min64(BLOCK, n - i);
        unary_of_wholes(p, count, wholes(p, 0, src[0], i, count, a), y);
        pa_store_s64(p->dst.type, count, y, out_at(p, dst, i), inner(p, 0));
    }
}

static void binary_wholes(const pa_pointwise_op *p, int64_t n, const void *const *src, void *dst) {
    const int64_t least = p->least, most = p->most;
    int64_t a[BLOCK], b[BLOCK], y[BLOCK];
    for (int64_t i = 0; i < n; i += BLOCK) {
        const int64_t count = min64(BLOCK, n - i);
        binary_of_wholes(p, count, wholes(p, 0, src[0], i, count, a), wholes(p, 1, src[1], i, count, b), y);
        pa_narrow(p->dst.type, count, y);
        for (int64_t j = 0; j < count; j++) y[j] = y[j] < least ? least : y[j] > most ? most : y[j];
        pa_store_s64(p->dst.type, count, y, out_at(p, dst, i), inner(p, 0));
    }
}

/* ---- truths ---- */

static void unary_of_reals_truths(const pa_pointwise_op *p, int64_t n, const float *a, uint8_t *y) {
    const int below = p->p0 != 0, above = p->p1 != 0;
    if (p->op == PA_UNARY_isnan)
        EACH(a[i] != a[i]);
    else
        EACH((above & (a[i] > __FLT_MAX__)) | (below & (a[i] < -__FLT_MAX__)));
}

static void unary_truths(const pa_pointwise_op *p, int64_t n, const void *const *src, void *dst) {
    float a[BLOCK];
    uint8_t y[BLOCK];
    for (int64_t i = 0; i < n; i += BLOCK) {
        const int64_t count = min64(BLOCK, n - i);
        unary_of_reals_truths(p, count, reals(p, 0, src[0], i, count, a), y);
        pa_store_b8(p->dst.type, count, y, out_at(p, dst, i), inner(p, 0));
    }
}

#define COMPARE(name, type)                                                                         \
    static void name(int op, int64_t n, const type *a, const type *b, uint8_t *y) {                 \
        switch (op) {                                                                               \
        case PA_BINARY_equal: EACH(a[i] == b[i]); break;                                            \
        case PA_BINARY_greater: EACH(a[i] > b[i]); break;                                           \
        case PA_BINARY_less: EACH(a[i] < b[i]); break;                                              \
        case PA_BINARY_greaterequal: EACH(a[i] >= b[i]); break;                                     \
        case PA_BINARY_lessequal: EACH(a[i] <= b[i]); break;                                        \
        }                                                                                           \
    }
COMPARE(compared_reals, float)
COMPARE(compared_wholes, int64_t)

static void logic(int op, int64_t n, const uint8_t *a, const uint8_t *b, uint8_t *y) {
    switch (op) {
    case PA_BINARY_and: EACH(a[i] & b[i]); break;
    case PA_BINARY_or: EACH(a[i] | b[i]); break;
    case PA_BINARY_xor: EACH(a[i] ^ b[i]); break;
    }
}

#define TO_TRUTHS(name, element, block_of, compute)                                                                \
    static void name(const pa_pointwise_op *p, int64_t n, const void *const *src, void *dst) {                     \
        element a[BLOCK], b[BLOCK];                                                                                \
        uint8_t y[BLOCK];                                                                                          \
        for (int64_t i = 0; i < n; i += BLOCK) {                                                                   \
            const int64_t count = min64(BLOCK, n - i);                                                             \
            const element *x = block_of(p, 0, src[0], i, count, a), *z = block_of(p, 1, src[1], i, count, b);      \
            compute(p->op, count, x, z, y);                                                                        \
            pa_store_b8(p->dst.type, count, y, out_at(p, dst, i), inner(p, 0));                                \
        }                                                                                                          \
    }
TO_TRUTHS(compare_reals, float, reals, compared_reals)
TO_TRUTHS(compare_wholes, int64_t, wholes, compared_wholes)
TO_TRUTHS(combine_truths, uint8_t, truths, logic)

static void not_truths(const pa_pointwise_op *p, int64_t n, const void *const *src, void *dst) {
    uint8_t a[BLOCK], y[BLOCK];
    for (int64_t k = 0; k < n; k += BLOCK) {
        const int64_t count = min64(BLOCK, n - k);
        const uint8_t *x = truths(p, 0, src[0], k, count, a);
        for (int64_t i = 0; i < count; i++) y[i] = !x[i];
        pa_store_b8(p->dst.type, count, y, out_at(p, dst, k), inner(p, 0));
    }
}

/* ---- choices and casts ---- */

#define CHOOSE(type)                                                                                                \
    static void choose_##type(int64_t n, const uint8_t *c, int64_t cs, const type *a, int64_t as, const type *b,    \
                              int64_t bs, type *y, int64_t ys) {                                                    \
        if (cs == 1 && as == 1 && bs == 1 && ys == 1)                                                               \
            for (int64_t i = 0; i < n; i++) {                                                                       \
                const type yes = a[i], no = b[i];                                                                   \
                y[i] = c[i] ? yes : no;                                                                             \
            }                                                                                                       \
        else                                                                                                        \
            for (int64_t i = 0; i < n; i++) {                                                                       \
                const type yes = a[i * as], no = b[i * bs];                                                         \
                y[i * ys] = c[i * cs] ? yes : no;                                                                   \
            }                                                                                                       \
    }
CHOOSE(uint8_t)
CHOOSE(uint16_t)
CHOOSE(uint32_t)
CHOOSE(uint64_t)

static void choose(const pa_pointwise_op *p, int64_t n, const void *const *src, void *dst) {
    const int64_t cs = inner(p, 1), as = inner(p, 2), bs = inner(p, 3), ys = inner(p, 0);
    switch (p->dst.item_bytes) {
    case 1: choose_uint8_t(n, src[0], cs, src[1], as, src[2], bs, dst, ys); break;
    case 2: choose_uint16_t(n, src[0], cs, src[1], as, src[2], bs, dst, ys); break;
    case 4: choose_uint32_t(n, src[0], cs, src[1], as, src[2], bs, dst, ys); break;
    case 8: choose_uint64_t(n, src[0], cs, src[1], as, src[2], bs, dst, ys); break;
    }
}

static void cast_reals(const pa_pointwise_op *p, int64_t n, const void *const *src, void *dst) {
    float a[BLOCK];
    if (direct(p, 0, p->dst.type)) {
        pa_load_f32(p->src[0].type, n, src[0], inner(p, 1), dst);
        return;
    }
    for (int64_t i = 0; i < n; i += BLOCK) {
        const int64_t count = min64(BLOCK, n - i);
        pa_store_f32(p->dst.type, count, reals(p, 0, src[0], i, count, a), out_at(p, dst, i), inner(p, 0));
    }
}

static void cast_wholes(const pa_pointwise_op *p, int64_t n, const void *const *src, void *dst) {
    int64_t a[BLOCK];
    for (int64_t i = 0; i < n; i += BLOCK) {
        const int64_t count = min64(BLOCK, n - i);
        pa_store_s64(p->dst.type, count, wholes(p, 0, src[0], i, count, a), out_at(p, dst, i), inner(p, 0));
    }
}

/* ---- the step ---- */

static int is_whole(int type) { return !is_float(type) && type != PA_B8; }

static int plan_unary(pa_pointwise_op *p) {
    const int type = p->src[0].type;
    switch (p->op) {
    case PA_UNARY_isnan:
    case PA_UNARY_isinf: p->segment = unary_truths; return type == PA_F32 && p->dst.type == PA_B8;
    case PA_UNARY_not: p->segment = not_truths; return type == PA_B8 && p->dst.type == PA_B8;
    case PA_UNARY_clip:
    case PA_UNARY_abs:
    case PA_UNARY_neg:
    case PA_UNARY_sign:
        if (is_float(type)) break;
        /* fall through */
    case PA_UNARY_bitnot: p->segment = unary_wholes; return is_whole(type) && p->dst.type == type;
    }
    p->segment = unary_reals;
    return is_float(type) && is_float(p->dst.type);
}

static int plan_binary(pa_pointwise_op *p) {
    const int type = p->src[0].type, result = p->dst.type;
    const int real = is_float(type) && is_float(p->src[1].type) && is_float(result);
    if (p->src[1].type != type && !real) return 0;
    switch (p->op) {
    case PA_BINARY_equal:
    case PA_BINARY_greater:
    case PA_BINARY_less:
    case PA_BINARY_greaterequal:
    case PA_BINARY_lessequal:
        p->segment = type == PA_F32 ? compare_reals : compare_wholes;
        return result == PA_B8 && type != PA_F16;
    case PA_BINARY_and:
    case PA_BINARY_or:
    case PA_BINARY_xor: p->segment = combine_truths; return result == PA_B8 && type == PA_B8;
    case PA_BINARY_bitand:
    case PA_BINARY_bitor:
    case PA_BINARY_bitxor:
    case PA_BINARY_shiftleft:
    case PA_BINARY_shiftright: p->segment = binary_wholes; return is_whole(type) && result == type;
    case PA_BINARY_prelu:
    case PA_BINARY_rprelu: p->segment = binary_reals; return real;
    }
    p->segment = real ? binary_reals : binary_wholes;
    return real || (is_whole(type) && result == type);
}

static int plan_form(pa_pointwise_op *p) {
    switch (p->form) {
    case PA_OF_ONE: return plan_unary(p);
    case PA_OF_TWO: return plan_binary(p);
    case PA_CAST:
        p->segment = is_float(p->src[0].type) || p->dst.type == PA_F32 ? cast_reals : cast_wholes;
        return 1;
    case PA_WHERE:
        p->segment = choose;
        return p->src[0].type == PA_B8 && p->src[1].type == p->dst.type && p->src[2].type == p->dst.type;
    }
    return 0;
}

int pa_pointwise_plan(pa_pointwise_op *p) {
    static const int inputs[] = {1, 2, 3, 1};
    p->axes = (pa_axes){.rank = p->dst.rank, .operands = 1 + inputs[p->form]};
    for (int d = 0; d < p->dst.rank; d++) {
        p->axes.size[d] = p->dst.size[d], p->axes.stride[0][d] = p->dst.stride[d];
        for (int k = 1; k < p->axes.operands; k++) p->axes.stride[k][d] = p->src[k - 1].stride[d];
    }
    axes_merge(&p->axes);
    axes_choose_run(&p->axes, axes_work);
    p->segments = ceil_div(p->axes.size[p->axes.rank - 1], SEGMENT);
    return plan_form(p);
}

static void segments(const context *ctx, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const pa_pointwise_op *p = ctx->op;
    const int outer = p->axes.rank - 1, inputs = p->axes.operands - 1;
    const int64_t run = p->axes.size[outer];
    const void *src[3];
    walk w = walk_from(&p->axes, outer, begin / p->segments);
    for (int64_t unit = begin, part = begin % p->segments; unit < end; unit++) {
        const int64_t at = part * SEGMENT;
        for (int k = 0; k < inputs; k++)
            src[k] = elements_at(pa_at(&p->src[k], ctx->bases), &p->src[k], w.offset[k + 1] + at * inner(p, k + 1));
        void *dst = (char *)pa_at(&p->dst, ctx->bases) + (w.offset[0] + at * inner(p, 0)) * p->dst.item_bytes;
        p->segment(p, min64(SEGMENT, run - at), src, dst);
        if (++part == p->segments) {
            part = 0;
            walk_on(&w);
        }
    }
}

void pa_pointwise_step(const void *op, void *const *bases, void *scratch, pa_team *team) {
    const pa_pointwise_op *p = op;
    const int outer = p->axes.rank - 1;
    parallel_for(op, bases, scratch, team, segments, positions(&p->axes, outer) * p->segments,
        min64(SEGMENT, p->axes.size[outer]));
}
