/* Every GEMM kernel of halves of kernels.inc whose instruction set is named as an argument, against sums in double.
 *
 * Twice: on small integers, whose sums are exact in half precision, so that whatever is left out or added twice shows;
 * and on numbers of many sizes, within what kernels_f16.h promises. Rows of A, B, C and R end where a page begins that nobody may touch; what else lies around C and the sums
 * stays. */
#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "_kernels/cpu/simd/half.h"
#include "_kernels/cpu/kernels_f16.h"
#include "_kernels/cpu/kernels_strassen.h"
#include "check.h"

typedef struct row {
    const char *op, *name, *isa;
    int mr, nr;
    void (*function)(void);
} row;

/* Weak: those of other ops are not linked. */
#define PA_KERNEL(op, type, name, isa, core, mr, nr, kr, flags) PA_ROW_##type(op, name, isa, mr, nr)
#define PA_ROW_f32(...)
#define PA_ROW_f32_f16w(...)
#define PA_ROW_f32_f16w_f16acc(...)
#define PA_ROW_f32_bf16w(...)
#define PA_ROW_s8(...)
#define PA_ROW_f16(op, name, isa, mr, nr) extern __attribute__((weak)) __typeof__(*(pa_##op##_f16_fn)0) pa_##name;
#include "_kernels/cpu/kernels.inc"
#undef PA_ROW_f16
#define PA_ROW_f16(op, name, isa, mr, nr) {#op, #name, #isa, mr, nr, (void (*)(void))pa_##name},
static const row rows[] = {
#include "_kernels/cpu/kernels.inc"
};

enum { MOST_TAPS = 9, MOST_ROWS = 19, MOST_NR = 16, BESIDE = 7, LONGEST = 300, CANARY = 0x5555 };
static const int LENGTHS[] = {1, 2, 3, 4, 5, 7, 8, 9, 16, 24, 31, 64, 127, 128}, TAPS[] = {1, 3, 9};
enum { COUNT_OF_LENGTHS = sizeof LENGTHS / sizeof *LENGTHS, COUNT_OF_TAPS = sizeof TAPS / sizeof *TAPS };
static const float BOUNDS[][2] = {{-INFINITY, INFINITY}, {0, INFINITY}, {-1.25f, 6.125f}};

typedef struct problem {
    int m, n, k, taps, a_offset, exact;
} problem;
typedef struct form {
    int first, last, residual, bounds;
} form;

static uint32_t state = 1;
static int random_to(int least, int most) { return least + (int)(next_random(&state) % (uint32_t)(most - least + 1)); }

/* A small integer, or a number of any of several sizes. */
static uint16_t half_number(const problem *p, int least, int most) {
    const float any = ldexpf((float)random_to(-1024, 1024), random_to(-18, -9));
    return float_to_half(p->exact ? (float)random_to(least, most) : any);
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
static uint16_t sums[MOST_ROWS + 2][MOST_NR + 8] __attribute__((aligned(64))), before[MOST_ROWS + 2][MOST_NR + 8];
static uint16_t bias[MOST_NR] __attribute__((aligned(64)));

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

static uint16_t *b_of(const row *kernel, const problem *p) {
    return b_end - round_up((int64_t)p->taps * p->k * kernel->nr * 2, 64) / 2;
}

static void fill(const row *kernel, const problem *p, answer *right) {
    const int nr = kernel->nr;
    uint16_t *b = b_of(kernel, p);
    memset(right, 0, sizeof *right);
    for (int t = 0; t < p->taps; t++) {
        for (int i = 0; i < p->m; i++) {
            for (int x = -p->k - p->a_offset; x < -p->k; x++) a_end[t][i][x] = 0x7e00; /* NaN: not to be read */
            for (int x = -p->k; x < 0; x++) a_end[t][i][x] = half_number(p, -3, 3);
        }
        for (int x = 0; x < p->k; x++) {
            uint16_t *of_k = b + (t * p->k + x) * nr;
            for (int j = 0; j < nr; j++) of_k[j] = j < p->n ? half_number(p, -3, 3) : 0;
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

static int complain(const row *r, const problem *p, const form *f, const char *what, int i, int j, double got,
                    double want) {
    fprintf(stderr, "%s: m %d n %d k %d taps %d a_offset %d%s, ", r->name, p->m, p->n, p->k, p->taps, p->a_offset,
            p->exact ? " exact" : "");
    fprintf(stderr, "first %d last %d residual %d bounds %d: ", f->first, f->last, f->residual, f->bounds);
    fprintf(stderr, "%s[%d][%d] is %.9g, expected %.9g\n", what, i, j, got, want);
    return 1;
}

/* Whether a result is too far from the sum `want` of what has this size: of products, and of all, whose each addition
 * rounds once more. */
static int wrong_by(const problem *p, double got, double want, double products, double size, int additions) {
    if (p->exact) return got != want;
    const int terms = p->taps * p->k;
    const double most = (terms + 1) * 0x1p-11 * products + (terms + additions) * 0x1p-25 + additions * 0x1.01p-11 * size;
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
        for (int j = 0; j < n; j++) r[i * stride + j] = half_number(p, -8, 8);
    for (int j = 0; j < nr; j++) bias[j] = half_number(p, -8, 8);
    for (int i = 0; i < MOST_ROWS + 2; i++)
        for (int j = 0; j < MOST_NR + 8; j++) sums[i][j] = half_number(p, -200, 200);
    memcpy(before, sums, sizeof sums);
    const float lo = BOUNDS[f->bounds][0], hi = BOUNDS[f->bounds][1];
    ((pa_gemm_f16_fn)kernel->function)(&(pa_gemm_f16_args){
        n, p->taps, f->first, f->last, tiling, p->k, p->a_offset, step, pointers, b_of(kernel, p), b_end,
        used ? sums[1] : NULL, used ? MOST_NR + 8 : 0, bias, c, stride, f->residual ? r : NULL, stride, lo, hi});

    for (int i = -1; i <= m; i++)
        for (int j = 0; j < MOST_NR + 8; j++) {
            const double got = half_to_float(sums[i + 1][j]), held = half_to_float(before[i + 1][j]);
            double want = held, size = 0, all = 0;
            if (i >= 0 && i < m && j < nr && !f->last) {
                if (f->first) want = 0;
                size = j < n ? right->size[i][j] : 0, all = size + fabs(want), want += j < n ? right->sum[i][j] : 0;
            }
            if (wrong_by(p, got, want, size, all, 1)) return complain(kernel, p, f, "sums", i, j, got, want);
        }
    for (int i = -1; i < m; i++)
        for (int j = 0; j < stride && c + i * stride + j < c_end; j++) {
            const uint16_t got = c[i * stride + j];
            if (i < 0 || j >= n || !f->last) {
                if (got != CANARY) return complain(kernel, p, f, "around C", i, j, got, CANARY);
                continue;
            }
            const double sum = f->first ? 0 : half_to_float(before[i + 1][j]);
            const double more = f->residual ? half_to_float(r[i * stride + j]) : 0;
            const double added = half_to_float(bias[j]), size = right->size[i][j];
            const double want = fmin(fmax(right->sum[i][j] + sum + added + more, lo), hi);
            if (wrong_by(p, half_to_float(got), want, size, size + fabs(sum) + fabs(added) + fabs(more), 4))
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
            if (strcmp(rows[i].op, "gemm") != 0 || strcmp(rows[i].isa, argv[arg]) != 0) continue;
            CHECK(2 * rows[i].mr + 3 <= MOST_ROWS && rows[i].nr <= MOST_NR);
            wrong += check_kernel(&rows[i]);
            printf("%s\n", rows[i].name);
        }
    return wrong != 0;
}
