/* libFuzzer: convolution (GEMM, Winograd, Strassen), depthwise convolution and pooling over whatever sizes, strides,
 * pads, dilations, groups, pixel strides, instruction sets and teams the bytes say, in memory that ends where the views
 * do, so that AddressSanitizer sees every float read or written beside them; each result is compared with four plain
 * loops.
 *
 *   python tests/long/fuzz/run.py windows --minutes 60
 *
 * Values are small whole numbers: sums are exact, but for Winograd's. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "_kernels/cpu/dispatch.h"
#include "_kernels/cpu/drivers/conv.h"
#include "_kernels/cpu/drivers/pool.h"

typedef struct input {
    const uint8_t *at, *end;
} input;

static int32_t pick(input *in, int32_t least, int32_t most) {
    const int32_t byte = in->at < in->end ? *in->at++ : 0;
    return least + byte % (most - least + 1);
}

/* 64-byte aligned, and nothing behind it that is ours. */
static float *memory(int64_t floats) {
    float *made;
    if (posix_memalign((void **)&made, 64, (size_t)(floats > 0 ? floats : 1) * sizeof(float))) abort();
    return made;
}

static float *zeros(int64_t floats) {
    float *made = memory(floats);
    memset(made, 0, (size_t)floats * sizeof(float));
    return made;
}

static float *numbers(int64_t floats, uint32_t seed) {
    float *made = memory(floats);
    for (int64_t i = 0; i < floats; i++) made[i] = (float)((int32_t)((seed = seed * 1664525u + 1013904223u) >> 29) - 3);
    return made;
}

static const char *isas[] = {"ref", NULL, NULL};

/* The last row of the instruction set, else the reference. */
static const pa_kernel_row *kernel(const char *op, const char *isa) {
    const pa_kernel_row *reference = NULL;
    for (int i = pa_kernel_row_count - 1; i >= 0; i--) {
        const pa_kernel_row *row = &pa_kernel_rows[i];
        if (strcmp(row->op, op) || strcmp(row->type, "f32")) continue;
        if (!strcmp(row->isa, isa)) return row;
        if (!strcmp(row->isa, "ref")) reference = row;
    }
    if (!reference) abort();
    return reference;
}

static pa_view view(int base, int32_t h, int32_t w, int32_t c, int32_t gap, int64_t offset) {
    return (pa_view){.base = base, .h = h, .w = w, .c = c, .offset = offset, .stride = c + gap};
}

static int64_t end_of(const pa_view *v) {
    return v->offset + ((int64_t)v->h * v->w - 1) * v->stride + v->c;
}

static float clamp(double x, float lo, float hi) { return x < lo ? lo : x > hi ? hi : (float)x; }

/* A windowed op: what the three have in common. */
typedef struct problem {
    pa_window win;
    pa_view x, y, r;
    int32_t has_residual, groups;
    float lo, hi;
    void *bases[PA_BASES];
    const float *weight, *bias; /* [Cout][Cin / groups][kh][kw]; NULL: pooling */
    int average, count_pads, pad_bottom, pad_right;
} problem;

static double expected(const problem *p, int32_t oy, int32_t ox, int32_t co) {
    const int32_t cin = p->weight ? p->x.c / p->groups : 1, cout = p->weight ? p->y.c / p->groups : 1;
    const int32_t first = p->weight ? co / cout * cin : co;
    double sum = p->weight ? p->bias[co] : p->average ? 0 : -INFINITY;
    int count = 0;
    for (int32_t ky = 0; ky < p->win.kh; ky++)
        for (int32_t kx = 0; kx < p->win.kw; kx++) {
            const int32_t y = oy * p->win.stride_y - p->win.pad_top + ky * p->win.dilation_y;
            const int32_t x = ox * p->win.stride_x - p->win.pad_left + kx * p->win.dilation_x;
            const int inside = y >= 0 && y < p->x.h && x >= 0 && x < p->x.w;
            count += inside || (p->count_pads && y < p->x.h + p->pad_bottom && x < p->x.w + p->pad_right);
            for (int32_t k = 0; inside && k < cin; k++) {
                const float v = pa_f32_at(&p->x, p->bases)[((int64_t)y * p->x.w + x) * p->x.stride + first + k];
                if (p->weight)
                    sum += (double)v * p->weight[(((int64_t)co * cin + k) * p->win.kh + ky) * p->win.kw + kx];
                else
                    sum = p->average ? sum + v : fmax(sum, v);
            }
        }
    if (!p->weight) return p->average ? (count ? sum / count : 0) : sum;
    if (p->has_residual) sum += pa_f32_at(&p->r, p->bases)[((int64_t)oy * p->y.w + ox) * p->r.stride + co];
    return clamp(sum, p->lo, p->hi);
}

static void compare(const problem *p, double allowed, const char *what) {
    const float *out = pa_f32_at(&p->y, p->bases);
    for (int32_t y = 0; y < p->y.h; y++)
        for (int32_t x = 0; x < p->y.w; x++)
            for (int32_t c = 0; c < p->y.c; c++) {
                const double want = expected(p, y, x, c), got = out[((int64_t)y * p->y.w + x) * p->y.stride + c];
                if (want == got || fabs(want - got) <= allowed) continue;
                fprintf(stderr, "%s: at %d, %d, %d expected %g, got %g\n", what, y, x, c, want, got);
                abort();
            }
    for (int64_t i = 0; i + 1 < (int64_t)p->y.h * p->y.w; i++) /* gaps between pixels are another tensor's */
        for (int64_t c = p->y.c; c < p->y.stride; c++)
            if (out[i * p->y.stride + c] != 77) abort();
}

static void run(pa_step_fn step, const void *op, problem *p, int64_t scratch_floats, pa_team *team) {
    const int64_t floats = end_of(&p->y);
    float *out = p->bases[PA_SLOT_OUT] = memory(floats);
    for (int64_t i = 0; i < floats; i++) out[i] = 77;
    float *scratch = memory((scratch_floats + 15) / 16 * 16 * pa_team_size(team));
    step(op, p->bases, scratch, team);
    free(scratch);
}

static pa_team *teams[4];

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc, (void)argv;
    int count = 1;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) isas[count++] = "avx2";
    if (__builtin_cpu_supports("avx512f")) isas[count++] = "avx512";
#elif defined(__aarch64__)
    isas[count++] = "neon";
#endif
    static const int cores[] = {-1, -1, -1, -1};
    char error[PA_TEAM_ERROR];
    for (int size = 1; size <= 3; size++)
        if (!(teams[size] = pa_team_open(cores, size, "fuzz", error))) abort();
    return 0;
}

/* Scratch and memory of weights, in floats. */
static int64_t floats_of(int64_t bytes) { return (bytes + (int64_t)sizeof(float) - 1) / (int64_t)sizeof(float); }

static pa_conv_op conv_of(const problem *p, const pa_kernel_row *row) {
    return (pa_conv_op){
        .src = p->x, .dst = p->y, .residual = p->r, .has_residual = p->has_residual, .kh = p->win.kh, .kw = p->win.kw,
        .stride_y = p->win.stride_y, .stride_x = p->win.stride_x, .pad_top = p->win.pad_top, .pad_left = p->win.pad_left,
        .dilation_y = p->win.dilation_y, .dilation_x = p->win.dilation_x, .groups = p->groups, .lo = p->lo, .hi = p->hi,
        .item_bytes = sizeof(float), .kernel = row, .kc = 192};
}

/* Packed weights, bias and zeros, in one block that is freed by its weights. */
static void pack(pa_conv_op *op, const float *weight, const float *bias) {
    const int64_t channels = op->src.c / op->groups, nr = op->kernel->nr;
    const int64_t columns = op->groups * ((op->dst.c / op->groups + nr - 1) / nr) * nr;
    int64_t zeros_count = op->kw * channels; /* as conv.h asks for them */
    if (zeros_count < op->src.c) zeros_count = op->src.c;
    if (zeros_count < nr) zeros_count = nr;
    const int64_t taps = (columns * op->kh * op->kw * channels + 15) / 16 * 16, biases = (columns + 15) / 16 * 16;
    float *packed = zeros(taps + biases + zeros_count + 16);
    pa_conv_pack(op, channels, weight, bias, packed, packed + taps);
    op->weight = packed, op->bias = packed + taps, op->zero = packed + taps + biases;
}

static int run_conv(input *in, problem *p, const char *isa, pa_team *team, const float *weight, const float *bias) {
    pa_winograd_op w = {.conv = conv_of(p, kernel(p->y.h * p->y.w == 1 ? "gemv" : "gemm", isa)), .stride = 1};
    const int64_t products = p->x.c / p->groups * p->win.kh * p->win.kw;
    pack(&w.conv, weight, bias);
    void *packed = (void *)w.conv.weight;
    const int unit = p->win.stride_y == 1 && p->win.stride_x == 1 && p->win.dilation_y == 1 && p->win.dilation_x == 1;
    const int r = p->win.kh, tile = pick(in, 0, 6) / 2 * 2; /* 0: GEMM */
    const int fits = unit && r == p->win.kw && ((r == 3 && tile) || (r == 5 && (tile == 2 || tile == 4)));
    float *points = NULL;
    if (fits && p->y.h * p->y.w > 1) {
        w.m = tile, w.n = tile + r - 1, w.lazy = pick(in, 0, 1);
        w.input = kernel("winograd_input", isa), w.output = kernel("winograd_output", isa);
        w.transform = kernel("winograd_weight", isa);
        pa_winograd_plan(&w, pa_team_size(team));
        if (!w.lazy) {
            points = zeros(pa_winograd_transformed_floats(&w) + 16);
            pa_winograd_transform(&w, points, NULL);
            w.transformed = points, w.conv.weight = NULL;
        }
        run(pa_winograd_step, &w, p, w.scratch_floats, team);
        compare(p, 2e-3 * (double)(products + 1) * 9, "winograd");
    } else {
        pa_conv_plan(&w.conv, pa_team_size(team));
        run(pa_conv_step, &w.conv, p, floats_of(w.conv.scratch_bytes), team);
        compare(p, 0, "conv");
    }
    free(packed), free(points);
    return 0;
}

static int run_strassen(problem *p, const char *isa, pa_team *team, const float *weight, const float *bias) {
    pa_strassen_op s = {.conv = conv_of(p, kernel("gemm", isa)), .split = kernel("strassen_split", isa),
                        .join = kernel("strassen_join", isa), .add = kernel("binary", isa)};
    pack(&s.conv, weight, bias);
    pa_strassen_plan(&s, pa_team_size(team));
    float *quarters = zeros(pa_strassen_packed_floats(&s) + 16);
    pa_strassen_pack(&s, quarters);
    s.packed = quarters;
    run(pa_strassen_step, &s, p, s.scratch_floats, team);
    compare(p, 0, "strassen");
    free((void *)s.conv.weight), free(quarters);
    return 0;
}

static int run_depthwise(problem *p, const char *isa, pa_team *team, const float *weight, const float *bias) {
    pa_depthwise_op op = {.src = p->x, .dst = p->y, .residual = p->r, .has_residual = p->has_residual, .groups = p->groups,
                          .window = p->win, .lo = p->lo, .hi = p->hi, .kernel = kernel("depthwise", isa),
                          .item_bytes = sizeof(float)};
    pa_depthwise_plan(&op, pa_team_size(team));
    float *packed = zeros(floats_of(pa_depthwise_packed_bytes(&op)));
    pa_depthwise_pack(&op, weight, bias, packed);
    op.packed = packed;
    run(pa_depthwise_step, &op, p, floats_of(op.scratch_bytes), team);
    compare(p, 0, "depthwise");
    free(packed);
    return 0;
}

static int run_pool(problem *p, const char *isa, pa_team *team) {
    pa_pool_op op = {.src = p->x, .dst = p->y, .window = p->win, .average = p->average, .count_pads = p->count_pads,
                     .pad_bottom = p->pad_bottom, .pad_right = p->pad_right,
                     .kernel = kernel("pool", isa), .item_bytes = sizeof(float)};
    pa_pool_plan(&op);
    run(pa_pool_step, &op, p, op.scratch_floats, team);
    compare(p, 1e-5, "pool");
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    input in = {data, data + size};
    problem p = {.groups = 1};
    const int kind = pick(&in, 0, 4); /* conv, depthwise, pool, conv 1x1 by Strassen, narrow groups */
    const char *isa = isas[pick(&in, 0, 2)];
    if (!isa) isa = "ref";
    pa_team *team = teams[pick(&in, 1, 3)];
    p.win = (pa_window){.kh = pick(&in, 1, 7), .kw = pick(&in, 1, 7), .stride_y = pick(&in, 1, 4),
                        .stride_x = pick(&in, 1, 4), .pad_top = pick(&in, 0, 4), .pad_left = pick(&in, 0, 4),
                        .dilation_y = pick(&in, 1, 3), .dilation_x = pick(&in, 1, 3)};
    p.pad_bottom = pick(&in, 0, 4), p.pad_right = pick(&in, 0, 4);
    const int32_t h = pick(&in, 1, 24), width = pick(&in, 1, 24);
    int32_t cin = pick(&in, 1, 70), cout = pick(&in, 1, 70);
    if (kind == 3) {
        p.win = (pa_window){1, 1, 1, 1, 0, 0, 1, 1};
        p.pad_bottom = p.pad_right = 0;
        cin *= 2, cout = (cout % 3 + 1) * 64;
        if (h * width == 1) return 0; /* algorithms.py */
    }
    if (kind == 0) {
        p.groups = pick(&in, 1, 4);
        cin *= p.groups, cout *= p.groups;
    } else if (kind == 4) {
        p.groups = pick(&in, 1, 40);
        cin = (cin % 20 + 1) * p.groups, cout = (cout % 20 + 1) * p.groups;
    } else if (kind < 3) {
        p.groups = cout = cin;
    }
    const int32_t oh = h + p.win.pad_top + p.pad_bottom - p.win.dilation_y * (p.win.kh - 1) - 1;
    const int32_t ow = width + p.win.pad_left + p.pad_right - p.win.dilation_x * (p.win.kw - 1) - 1;
    if (oh < 0 || ow < 0) return 0; /* refused when a graph is read (graph/ops.py) */
    p.x = view(PA_SLOT_IN, h, width, cin, pick(&in, 0, 5), pick(&in, 0, 3));
    p.y = view(PA_SLOT_OUT, oh / p.win.stride_y + 1, ow / p.win.stride_x + 1, cout, pick(&in, 0, 5), pick(&in, 0, 3));
    p.r = view(PA_ARENA, p.y.h, p.y.w, cout, pick(&in, 0, 5), pick(&in, 0, 3));
    p.has_residual = (kind < 2 || kind == 4) && pick(&in, 0, 1);
    p.lo = pick(&in, 0, 1) ? 0 : -INFINITY;
    p.hi = pick(&in, 0, 1) ? 6 : INFINITY;
    p.average = kind == 2 && pick(&in, 0, 1);
    p.count_pads = p.average && pick(&in, 0, 1);
    if (kind == 2) { /* no window in the padding alone, which graph/ops.py sees to */
        const int32_t ry = p.win.dilation_y * (p.win.kh - 1) + 1, rx = p.win.dilation_x * (p.win.kw - 1) + 1;
        if (p.win.pad_top >= ry || p.pad_bottom >= ry || p.win.pad_left >= rx || p.pad_right >= rx) return 0;
        if ((p.win.kh > 1 && p.win.dilation_y > h) || (p.win.kw > 1 && p.win.dilation_x > width)) return 0;
        if (p.average && (p.win.dilation_y > 1 || p.win.dilation_x > 1)) return 0;
    }
    if ((int64_t)p.y.h * p.y.w * cout * (cin / p.groups) * p.win.kh * p.win.kw > 4000000) return 0; /* too slow */
    p.bases[PA_SLOT_IN] = numbers(end_of(&p.x), 1);
    p.bases[PA_ARENA] = numbers(end_of(&p.r), 2);
    float *weight = NULL, *bias = NULL;
    if (kind != 2) {
        p.weight = weight = numbers((int64_t)cout * (cin / p.groups) * p.win.kh * p.win.kw, 3);
        p.bias = bias = numbers(cout, 4);
    }
    if (kind == 0)
        run_conv(&in, &p, isa, team, weight, bias);
    else if (kind == 1 || kind == 4)
        run_depthwise(&p, isa, team, weight, bias);
    else if (kind == 2)
        run_pool(&p, isa, team);
    else
        run_strassen(&p, isa, team, weight, bias);
    for (int i = 0; i < PA_BASES; i++) free(p.bases[i]);
    free(weight), free(bias);
    return 0;
}
