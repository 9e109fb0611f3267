/* Every GEMM kernel of halves of kernels.inc whose instruction set is named as an argument, against sums in double.
 *
 * Twice: on small integers, whose sums are exact in half precision, and fractions that are exact in float, so that whatever
 * is left out, added twice or rounded too early shows; and on numbers of many sizes, within what kernels_f16.h promises.
 * Rows of A, B, C and R end where a page begins that nobody may touch; what else lies around C and the sums stays. */
#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "_kernels/cpu/half.h"
#include "_kernels/cpu/kernels_f16.h"
#include "check.h"

typedef struct row {
    const char *name, *isa;
    int mr, nr;
    pa_gemm_f16_fn function;
} row;

#define PA_KERNEL(op, type, name, isa, core, mr, nr) PA_ROW_##type(op, name, isa, mr, nr)
#define PA_ROW_f32(...)
#define PA_ROW_s8(...)
#define PA_ROW_f16(op, name, isa, mr, nr) PA_ROW_##op(name, isa, mr, nr)
#define PA_ROW_gemv(...)
#define PA_ROW_gemm(name, isa, mr, nr) extern __typeof__(*(pa_gemm_f16_fn)0) pa_##name;
#include "_kernels/cpu/kernels.inc"
#undef PA_ROW_gemm
#define PA_ROW_gemm(name, isa, mr, nr) {#name, #isa, mr, nr, pa_##name},
static const row rows[] = {
#include "_kernels/cpu/kernels.inc"
};

enum { MOST_TAPS = 9, MOST_ROWS = 19, MOST_NR = 16, BESIDE = 7, LONGEST = 300, CANARY = 0x5555 };
static const int LENGTHS[] = {1, 2, 3, 4, 5, 7, 8, 9, 16, 24, 31, 64, 255, 256}, TAPS[] = {1, 3, 9};
enum { COUNT_OF_LENGTHS = sizeof LENGTHS / sizeof *LENGTHS, COUNT_OF_TAPS = sizeof TAPS / sizeof *TAPS };
static const float BOUNDS[][2] = {{-INFINITY, INFINITY}, {0, INFINITY}, {-1.3f, 6.1f}};

typedef struct problem {
    int m, n, k, taps, a_offset, exact;
} problem;
typedef struct form {
    int first, last, residual, bounds;
} form;

static uint32_t state = 1;
static int random_to(int least, int most) { return least + (int)(next_random(&state) % (uint32_t)(most - least + 1)); }

/* A small number of so many binary digits behind the point, or one of any of several sizes. */
static float number(const problem *p, int least, int most, int digits) {
    if (p->exact) return ldexpf((float)random_to(least * (1 << digits), most * (1 << digits)), -digits);
    return ldexpf((float)random_to(-1024, 1024), random_to(-18, -9));
}
static uint16_t half_number(const problem *p, int least, int most, int digits) {
    return float_to_half(number(p, least, most, digits));
}

static int64_t round_up(int64_t x, int64_t to) { return (x + to - 1) / to * to; }

/* The end of so many bytes, behind which nobody may read. */
static char *end_of(int64_t bytes) {
    const int64_t page = sysconf(_SC_PAGESIZE), whole = round_up(bytes, page);
    char *pages = mmap(NULL, (size_t)(whole + page), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED && mprotect(pages + whole, (size_t)page, PROT_NONE) == 0);
    return pages + whole;
}

/* Memory of all problems: the ends of rows, and of a block of B, of C and of R. */
static uint16_t *a_end[MOST_TAPS][MOST_ROWS], *b_end, *c_end, *r_end;
static float sums[MOST_ROWS + 2][MOST_NR + 4] __attribute__((aligned(64))), before[MOST_ROWS + 2][MOST_NR + 4];
static float bias[MOST_NR] __attribute__((aligned(64)));

static void map_all(void) {
    for (int t = 0; t < MOST_TAPS; t++)
        for (int i = 0; i < MOST_ROWS; i++) a_end[t][i] = (uint16_t *)end_of(LONGEST * 2);
    b_end = (uint16_t *)end_of(PA_F16_BLOCK * MOST_NR * 2);
    c_end = (uint16_t *)end_of((MOST_ROWS + 1) * (MOST_NR + BESIDE) * 2);
    r_end = (uint16_t *)end_of((MOST_ROWS + 1) * (MOST_NR + BESIDE) * 2);
}

/* A problem's sums, and those of the sizes of their products. */
typedef struct answer {
    double sum[MOST_ROWS][MOST_NR], size[MOST_ROWS][MOST_NR];
} answer;

static uint16_t *b_of(const row *k, const problem *p) { return b_end - round_up((int64_t)p->taps * p->k * k->nr * 2, 64) / 2; }

static void fill(const row *kernel, const problem *p, answer *right) {
    const int nr = kernel->nr;
    uint16_t *b = b_of(kernel, p);
    memset(right, 0, sizeof *right);
    for (int t = 0; t < p->taps; t++) {
        for (int i = 0; i < p->m; i++) {
            for (int x = -p->k - p->a_offset; x < -p->k; x++) a_end[t][i][x] = 0x7e00; /* NaN: not to be read */
            for (int x = -p->k; x < 0; x++) a_end[t][i][x] = half_number(p, -3, 3, 0);
        }
        for (int x = 0; x < p->k; x++) {
            uint16_t *of_k = b + (t * p->k + x) * nr;
            for (int j = 0; j < nr; j++) of_k[j] = j < p->n ? half_number(p, -3, 3, 0) : 0;
            for (int i = 0; i < p->m; i++) {
                const double a = half_to_float(a_end[t][i][x - p->k]);
                for (int j = 0; j < p->n; j++) {
                    const double product = a * half_to_float(of_k[j]);
                    right->sum[i][j] += product, right->size[i][j] += fabs(product);
                }
            }
        }
    }
}

static int complain(const row *r, const problem *p, const form *f, const char *what, int i, int j, double got, double want) {
    fprintf(stderr, "%s: m %d n %d k %d taps %d a_offset %d%s, first %d last %d residual %d bounds %d: %s[%d][%d] is %.9g, "
            "expected %.9g\n", r->name, p->m, p->n, p->k, p->taps, p->a_offset, p->exact ? " exact" : "", f->first, f->last,
            f->residual, f->bounds, what, i, j, got, want);
    return 1;
}

/* Whether a result is too far from the sum `want` of what has this size: of products, and of all. */
static int wrong_by(const problem *p, double got, double want, double products, double size, int rounded) {
    if (p->exact) return got != (rounded ? half_to_float(float_to_half((float)want)) : want);
    const int terms = p->taps * p->k;
    double most = (terms + 1) * 0x1p-11 * products + terms * 0x1p-25 + 8 * 0x1p-24 * size;
    if (rounded) most += 0x1p-11 * fabs(want) + 0x1p-25;
    return !(fabs(got - want) <= most);
}

static int check(const row *kernel, const problem *p, const form *f, const answer *right) {
    const int mr = kernel->mr, nr = kernel->nr, m = p->m, n = p->n, stride = n + BESIDE, used = !f->first || !f->last;
    const pa_tiling tiling = pa_tiling_of(m, mr);
    const uint16_t *pointers[MOST_ROWS * MOST_TAPS * 8];
    memset(pointers, 0, sizeof pointers); /* NULL where nothing may be read */
    const int64_t step = (int64_t)p->taps * mr;
    CHECK(tiling.tiles * step <= (int64_t)(sizeof pointers / sizeof *pointers));
    for (int64_t tile = 0; tile < tiling.tiles; tile++)
        for (int t = 0; t < p->taps; t++)
            for (int i = 0; i < pa_tile_rows(&tiling, tile); i++)
                pointers[tile * step + t * mr + i] = a_end[t][pa_rows_before(&tiling, tile) + i] - p->k - p->a_offset;

    uint16_t *c = c_end - (m - 1) * stride - n, *r = r_end - (m - 1) * stride - n;
    for (uint16_t *x = c - stride; x < c_end; x++) *x = CANARY;
    for (uint16_t *x = r; x < r_end; x++) *x = 0x7e00;
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) r[i * stride + j] = half_number(p, -8, 8, 4);
    for (int j = 0; j < nr; j++) bias[j] = number(p, -8, 8, 12);
    for (int i = 0; i < MOST_ROWS + 2; i++)
        for (int j = 0; j < MOST_NR + 4; j++) sums[i][j] = number(p, -200, 200, 12);
    memcpy(before, sums, sizeof sums);
    const float lo = BOUNDS[f->bounds][0], hi = BOUNDS[f->bounds][1];
    kernel->function(&(pa_gemm_f16_args){
        n, p->taps, f->first, f->last, tiling, p->k, p->a_offset, step, pointers, b_of(kernel, p), b_end, used ? sums[1] : NULL,
        used ? MOST_NR + 4 : 0, bias, c, stride, f->residual ? r : NULL, stride, lo, hi});

    for (int i = -1; i <= m; i++)
        for (int j = 0; j < MOST_NR + 4; j++) {
            double want = before[i + 1][j], size = 0, all = 0;
            if (i >= 0 && i < m && j < nr && !f->last) {
                if (f->first) want = 0;
                size = j < n ? right->size[i][j] : 0, all = size + fabs(want), want += j < n ? right->sum[i][j] : 0;
            }
            if (wrong_by(p, sums[i + 1][j], want, size, all, 0))
                return complain(kernel, p, f, "sums", i, j, sums[i + 1][j], want);
        }
    for (int i = -1; i < m; i++)
        for (int j = 0; j < stride && c + i * stride + j < c_end; j++) {
            const uint16_t got = c[i * stride + j];
            if (i < 0 || j >= n || !f->last) {
                if (got != CANARY) return complain(kernel, p, f, "around C", i, j, got, CANARY);
                continue;
            }
            const double sum = f->first ? 0 : before[i + 1][j], more = f->residual ? half_to_float(r[i * stride + j]) : 0;
            const double want = fmin(fmax(right->sum[i][j] + sum + bias[j] + more, lo), hi), size = right->size[i][j];
            if (wrong_by(p, half_to_float(got), want, size, size + fabs(sum) + fabs(bias[j]) + fabs(more), 1))
                return complain(kernel, p, f, "C", i, j, half_to_float(got), want);
        }
    return 0;
}

/* One problem in all its forms. */
static int solve(const row *kernel, int m, int n, int k, int taps, int exact) {
    answer right;
    const problem p = {m, n, k, taps, random_to(0, 9), exact};
    CHECK(k + p.a_offset <= LONGEST && taps * k <= PA_F16_BLOCK);
    fill(kernel, &p, &right);
    int wrong = 0;
    for (int first = 0; first < 2; first++)
        for (int last = 0; last < 2; last++)
            for (int residual = 0; residual <= last; residual++)
                for (int bounds = 0; bounds < (last ? 3 : 1); bounds++)
                    wrong += check(kernel, &p, &(form){first, last, residual, bounds}, &right);
    return wrong;
}

static int check_kernel(const row *kernel) {
    int wrong = 0;
    for (int exact = 0; exact < 2; exact++) {
        for (int m = 1; m <= 2 * kernel->mr + 3 && !wrong; m++)
            for (int n = 1; n <= kernel->nr && !wrong; n++) {
                const int taps = TAPS[(m + n) % COUNT_OF_TAPS];
                int at = random_to(0, COUNT_OF_LENGTHS - 1);
                while (taps * LENGTHS[at] > PA_F16_BLOCK) at = random_to(0, COUNT_OF_LENGTHS - 1);
                wrong += solve(kernel, m, n, LENGTHS[at], taps, exact);
            }
        for (int m = 1; m <= kernel->mr && !wrong; m++)
            for (int t = 0; t < COUNT_OF_TAPS; t++)
                for (int at = 0; at < COUNT_OF_LENGTHS && TAPS[t] * LENGTHS[at] <= PA_F16_BLOCK; at++)
                    wrong += solve(kernel, m, kernel->nr, LENGTHS[at], TAPS[t], exact);
    }
    return wrong;
}

int main(int argc, char **argv) {
    int wrong = 0;
    map_all();
    for (int arg = 1; arg < argc; arg++)
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
            if (strcmp(rows[i].isa, argv[arg]) != 0) continue;
            CHECK(2 * rows[i].mr + 3 <= MOST_ROWS && rows[i].nr <= MOST_NR);
            wrong += check_kernel(&rows[i]);
            printf("%s\n", rows[i].name);
        }
    return wrong != 0;
}
