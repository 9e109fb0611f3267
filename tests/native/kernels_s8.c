/* Every 8-bit GEMM and depthwise kernel of kernels.inc whose instruction set is named as an argument, against exact sums.
 * Rows of A end where a page begins that nobody may read; what lies beside the columns of C stays. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "_kernels/cpu/dispatch.h"
#include "_kernels/cpu/kernels_s8.h"
#include "check.h"

typedef struct row {
    const char *op, *name, *isa;
    int mr, nr, kr, flags;
    void (*function)(void);
} row;

#define PA_KERNEL(op, type, name, isa, core, mr, nr, kr, flags) PA_ROW_##type(op, type, name, isa, mr, nr, kr, flags)
#define PA_ROW_f32(...)
#define PA_ROW_f32_f16w(...)
#define PA_ROW_f32_f16w_f16acc(...)
#define PA_ROW_f32_bf16w(...)
#define PA_ROW_f16(...)
#define PA_ROW_s8(op, type, name, ...) extern __typeof__(*(pa_##op##_##type##_fn)0) pa_##name;
#include "_kernels/cpu/kernels.inc"
#undef PA_ROW_s8
#define PA_ROW_s8(op, type, name, isa, mr, nr, kr, flags) {#op, #name, #isa, mr, nr, kr, flags, (void (*)(void))pa_##name},
static const row rows[] = {
#include "_kernels/cpu/kernels.inc"
};

enum { MOST_TAPS = 9, MOST_ROWS = 20, BESIDE = 7, CANARY = 85, LARGEST = 20480 /* sum of few small weights */ };
typedef struct problem {
    int taps, count, n; /* rows of A, columns of C */
    int64_t k;
    int extreme; /* numbers as large as they may be */
    pa_requantize to;
    int reals, joins; /* joins: with a residual */
    int small;        /* sums are */
    int64_t part;     /* k of a part of the sums: each is one call; 0: all k of all taps are */
} problem;

static int is(const char *a, const char *b) { return !strcmp(a, b); }
static int step_of(const row *r) { return r->kr > 8 ? 8 : r->kr; } /* of k */
static int least_weight(const row *r) { return r->flags & PA_NARROW_WEIGHTS ? -127 : -128; }

static uint32_t state = 1;
static int random_to(int least, int most) { return least + (int)(next_random(&state) % (uint32_t)(most - least + 1)); }

static void *aligned(size_t bytes) {
    void *p = aligned_alloc(64, (bytes + 127) / 64 * 64);
    memset(p, 0, (bytes + 127) / 64 * 64);
    return p;
}

/* So many bytes up to the end of the last page that may be read. */
static int64_t pages_of(int64_t bytes) {
    const int64_t page = sysconf(_SC_PAGESIZE);
    return (bytes + page - 1) / page * page;
}
static int8_t *map(int64_t bytes) {
    const int64_t whole = pages_of(bytes), guard = pages_of(1);
    char *pages = mmap(NULL, (size_t)(whole + guard), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED && mprotect(pages + whole, (size_t)guard, PROT_NONE) == 0);
    return (int8_t *)pages + whole - bytes;
}
static void unmap(int8_t *x, int64_t bytes) {
    CHECK(munmap(x + bytes - pages_of(bytes), (size_t)(pages_of(bytes) + pages_of(1))) == 0);
}

static int expected(int64_t sum, float scale, const pa_requantize *to) {
    const float x = (float)(int32_t)sum * scale;
    return (int)nearbyintf(x < to->lo ? to->lo : x > to->hi ? to->hi : x) + to->zero;
}

/* The sum of a result and a residual: each term is rounded, then their sum. */
static int joined(int result, int residual, const pa_binary_s8_args *sum) {
    const float a = (float)(result - sum->a_zero) * sum->a_factor, b = (float)(residual - sum->b_zero) * sum->b_factor;
    const float x = a + b;
    return (int)nearbyintf(x < sum->to.lo ? sum->to.lo : x > sum->to.hi ? sum->to.hi : x) + sum->to.zero;
}

static float real(int64_t sum, float scale, const pa_requantize *to) {
    const float x = (float)(int32_t)sum * scale;
    return x < to->lo ? to->lo : x > to->hi ? to->hi : x;
}

static int number(const problem *p, int least) {
    if (p->extreme) return random_to(0, 7) ? least : 127;
    return random_to(least, 127);
}

/* The rows of all tiles, row `tile * mr + i` of tap t at [tile][t][i]. */
static const int8_t **pointers(const problem *p, int mr, const pa_tiling *tiling, int8_t *const a[][MOST_ROWS],
                               int64_t *step) {
    *step = (int64_t)p->taps * mr;
    const int8_t **all = calloc((size_t)(tiling->tiles * *step), sizeof *all); /* NULL where nothing may be read */
    for (int64_t tile = 0; tile < tiling->tiles; tile++)
        for (int t = 0; t < p->taps; t++)
            for (int i = 0; i < pa_tile_rows(tiling, tile); i++)
                all[tile * *step + t * mr + i] = a[t][pa_rows_before(tiling, tile) + i];
    return all;
}

static int complain(const row *r, const problem *p, int i, int j, int got, int want) {
    fprintf(stderr, "%s: taps %d rows %d n %d k %d%s: C[%d][%d] is %d, expected %d\n", r->name, p->taps, p->count, p->n,
            (int)p->k, p->extreme ? " extreme" : "", i, j, got, want);
    return 1;
}

static void call_gemm(const row *r, const problem *p, pa_gemm_s8_args g) {
    const int64_t padded = (p->n + r->nr - 1) / r->nr * r->nr;
    if (!p->part) {
        ((pa_gemm_s8_fn)r->function)(&g);
        return;
    }
    g.taps = 1, g.sums_step = p->count * r->nr;
    g.sums = aligned((size_t)(p->count * padded) * sizeof *g.sums);
    for (int t = 0; t < p->taps; t++)
        for (int64_t k = 0; k < p->k; k += p->part) {
            g.a_offset = k, g.k = p->part < p->k - k ? p->part : p->k - k;
            g.go_on = t || k, g.open = t < p->taps - 1 || k + g.k < p->k;
            ((pa_gemm_s8_fn)r->function)(&g);
            g.b += g.k * padded;
            if (k + g.k == p->k) g.a += r->mr;
        }
    free(g.sums);
}

/* One kernel on one problem: weights is [tap][n][k], b the same packed. The bias takes the sums of row `exact` to small
 * numbers, of which C shows the last digit. */
static int run(const row *r, const problem *p, int8_t *const a[][MOST_ROWS], const int *weights, const void *b, int exact) {
    const int depthwise = is(r->op, "depthwise"), padded = (p->n + r->nr - 1) / r->nr * r->nr, stride = p->n + BESIDE;
    const int64_t k = depthwise ? 1 : p->k;
    const pa_tiling tiling = pa_tiling_of(p->count, r->mr);
    int64_t step, *sum = calloc((size_t)(p->count * p->n), sizeof *sum);
    const int8_t **rows_of = pointers(p, r->mr, &tiling, a, &step);
    for (int i = 0; i < p->count; i++)
        for (int j = 0; j < p->n; j++)
            for (int t = 0; t < p->taps; t++)
                for (int64_t x = 0; x < k; x++)
                    sum[i * p->n + j] += a[t][i][depthwise ? j : x] * (int64_t)weights[(t * p->n + j) * k + x];

    int32_t *bias = aligned((size_t)padded * 4);
    float *scale = aligned((size_t)padded * 4);
    const size_t bytes = (size_t)(p->count * stride) * (p->reals ? sizeof(float) : 1);
    int8_t *c = malloc(bytes), *untouched = malloc(bytes);
    memset(c, CANARY, bytes), memset(untouched, CANARY, bytes);
    const int64_t past = (int64_t)(p->count - 1) * stride + p->n; /* of the residual, at the end of what may be read */
    int8_t *residual = map(past);
    for (int64_t x = 0; x < past; x++) residual[x] = (int8_t)random_to(-128, 127);
    /* halves: sums that are halfway between two integers; the sums of the other are far too large */
    const pa_binary_s8_args sum_of = {p->to.zero, random_to(-128, 127), p->extreme ? 3e30f : 0.5f, p->n % 2 ? 0.5f : 0.37f,
                                      {-128 - 3, p->n % 3 ? 127 - 3 : 9, 3}};
    for (int j = 0; j < padded; j++) scale[j] = j % 3 ? 0.5f : 1 / 3.0f;
    for (int j = 0; j < p->n; j++) bias[j] = (int32_t)(random_to(-300, 300) - sum[exact * p->n + j]);
    for (int j = 2; p->small && j < p->n; j += j % 4 == 3 ? 3 : 1) { /* sums and results as large as small ones may be */
        const int most = j % 4 == 3 ? PA_SMALL_SUM - LARGEST : 2 * PA_SMALL_RESULT - LARGEST;
        bias[j] = j % 8 < 4 ? most : -most, scale[j] = j % 4 == 3 ? 0x1p-9f : 0.5f;
    }
    int32_t *taken = aligned((size_t)padded * 4);
    for (int j = 0; j < padded; j++) taken[j] = bias[j] + (p->small ? PA_BITS : 0);
    if (depthwise)
        ((pa_depthwise_s8_fn)r->function)(&(pa_depthwise_s8_args){
            p->n, p->taps, tiling, step, rows_of, b, bias, scale, p->to, c, stride});
    else
        call_gemm(r, p, (pa_gemm_s8_args){
            p->n, p->taps, tiling, p->k, step, rows_of, b, taken, scale, p->to, c, stride, p->reals,
            p->joins ? residual : NULL, p->joins ? stride : 0, sum_of, p->small, 0, 0, NULL, 0, 0});
    int wrong = 0;
    for (int i = 0; i < p->count && !wrong; i++)
        for (int j = 0; j < stride && !wrong; j++) {
            const int64_t at = i * stride + j;
            if (p->reals) {
                float want;
                memcpy(&want, untouched, sizeof want);
                if (j < p->n) want = real(sum[i * p->n + j] + bias[j], scale[j], &p->to);
                if (memcmp((float *)c + at, &want, sizeof want)) wrong = complain(r, p, i, j, (int)((float *)c)[at], (int)want);
                continue;
            }
            int want = j < p->n ? expected(sum[i * p->n + j] + bias[j], scale[j], &p->to) : CANARY;
            if (p->joins && j < p->n) want = joined(want, residual[at], &sum_of);
            if (c[at] != want) wrong = complain(r, p, i, j, c[at], want);
        }
    free(rows_of), free(sum), free(bias), free(taken), free(scale), free(c), free(untouched), unmap(residual, past);
    return wrong;
}

/* Random rows and weights of a problem, and a run that checks each of its rows to the last digit of the sum. */
static int solve(const row *r, const problem *p) {
    const int depthwise = is(r->op, "depthwise"), depth = r->kr;
    const int64_t k = depthwise ? 1 : p->k, bytes = depthwise ? p->n : p->k;
    int8_t *a[MOST_TAPS][MOST_ROWS];
    int *weights = malloc((size_t)(p->taps * p->n * k) * sizeof *weights);
    int8_t *b = aligned((size_t)(p->taps * (p->n + r->nr) * (k + 8)) * 2);
    for (int t = 0; t < p->taps; t++) {
        for (int i = 0; i < p->count; i++) {
            a[t][i] = map(bytes);
            for (int64_t x = 0; x < bytes; x++) a[t][i][x] = (int8_t)number(p, -128);
        }
        for (int64_t j = 0; j < p->n; j++)
            for (int64_t x = 0; x < k; x++) {
                const int w = weights[(t * p->n + j) * k + x] = p->small ? random_to(-4, 4) : number(p, least_weight(r));
                const int64_t at = x / depth * depth, together = k - at < depth ? k - at : depth;
                const int64_t k0 = p->part ? x / p->part * p->part : 0, panels = (p->n + r->nr - 1) / r->nr;
                const int64_t of = !p->part ? p->taps * k : p->part < k - k0 ? p->part : k - k0; /* a panel of the part */
                const int64_t before = p->part ? (t * k + k0) * panels : t * k;
                if (depthwise)
                    ((int16_t *)b)[(j / r->nr * p->taps + t) * r->nr + j % r->nr] = (int16_t)w;
                else
                    b[(j / r->nr * of + before + at - k0) * r->nr + j % r->nr * together + x - at] = (int8_t)w;
            }
    }
    int wrong = 0;
    for (int i = 0; i < p->count && !wrong; i += p->k > 1000 ? p->count : 1) wrong = run(r, p, a, weights, b, i);
    for (int t = 0; t < p->taps; t++)
        for (int i = 0; i < p->count; i++) unmap(a[t][i], bytes);
    free(weights), free(b);
    return wrong;
}

static int check_gemm(const row *r) {
    const int step = step_of(r);
    int wrong = 0;
    for (int n = 1; n <= r->nr; n++)
        for (int count = 1; count <= 2 * r->mr + 1; count++) {
            const int64_t k = step * random_to(1, 24);
            wrong += solve(r, &(problem){random_to(1, 3), count, n, k, count % 4 == 0, {-100, 90, random_to(-28, 37)}, 0, 0, 0, 0});
            wrong += solve(r, &(problem){random_to(1, 3), count, n, k, 0, {-100, n % 2 ? INFINITY : 50, 0}, 1, 0, 0, 0});
        }
    for (int n = 1; r->flags & PA_JOINS && n <= 3 * r->nr + 1; n++) /* and of more than one panel */
        for (int kind = 0; kind < 6; kind++) {
            const int count = 1 + (n + kind) % (2 * r->mr + 1), zero = random_to(-28, 37);
            const float most = kind % 3 == 1 ? INFINITY : 90;
            wrong += solve(r, &(problem){2, count, n, step * (1 + n % 5), kind == 5, {-100, most, zero}, kind % 3 == 1,
                                         kind % 3 == 2, 0, 0});
        }
    for (int n = 1; r->flags & PA_PARTS && n <= 3 * r->nr + 1; n++)
        for (int kind = 0; kind < 3; kind++) {
            const int count = 1 + (n + kind) % (2 * r->mr + 1), part = 16 * (1 + n % 3);
            wrong += solve(r, &(problem){2, count, n, step * (1 + n % 12), 0, {-100, 90, kind}, kind == 1,
                                         kind == 2 && r->flags & PA_JOINS, 0, part});
        }
    for (int n = 1; r->flags & PA_SMALL_SUMS && n <= 2 * r->nr + 1; n++)
        for (int count = 1; count <= r->mr + 1; count++)
            wrong += solve(r, &(problem){2, count, n, step * (1 + n % 5), 0, {-100, count % 2 ? 90 : 120, -28}, 0, n % 2, 1, 0});
    for (int64_t k = step; k <= 24 * step; k += step)
        wrong += solve(r, &(problem){2, r->mr, r->nr, k, 1, {-255, 0, 127}, 0, 0, 0, 0});
    return wrong + solve(r, &(problem){1, r->mr, r->nr, 65536, 1, {-128, 127, 0}, 0, 0, 0, 0});
}

static int check_depthwise(const row *r) {
    int wrong = 0;
    for (int n = 1; n <= 3 * r->nr + 1; n++)
        for (int count = 1; count <= 2 * r->mr + 1; count++) {
            const int taps = random_to(1, MOST_TAPS);
            wrong += solve(r, &(problem){taps, count, n, 1, count % 4 == 0, {-100, 90, random_to(-28, 37)}, 0, 0, 0, 0});
        }
    return wrong;
}

int main(int argc, char **argv) {
    int wrong = 0;
    for (int arg = 1; arg < argc; arg++)
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
            const int gemm = is(rows[i].op, "gemm"), depthwise = is(rows[i].op, "depthwise");
            if (!is(rows[i].isa, argv[arg]) || (!gemm && !depthwise)) continue;
            CHECK(2 * rows[i].mr + 1 <= MOST_ROWS);
            wrong += gemm ? check_gemm(&rows[i]) : check_depthwise(&rows[i]);
            printf("%s\n", rows[i].name);
        }
    return wrong != 0;
}
