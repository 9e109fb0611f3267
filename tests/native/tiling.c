/* Steps in tiled: each band on the memory of its thread, every row once, and times that add up. Argument: number of runs. */
#include "_kernels/cpu/tiling.h"

#include "_kernels/eventcount.h"
#include "check.h"

enum { THREADS = 3, BANDS = 4, STRIPS = 5, ROWS = 3, FLOATS = BANDS * STRIPS * ROWS, PARTS = 2 * BANDS * STRIPS };

typedef struct part {
    int row; /* of its first float in the slots */
} part;

static float local_of[THREADS][16], scratch_of[THREADS][16];

/* local = 2 * in, by way of the scratch, which only this thread has. */
static void double_rows(const void *args, void *const *bases, void *scratch, pa_team *team) {
    const part *p = args;
    CHECK(pa_team_size(team) == 1);
    for (int i = 0; i < ROWS; i++) {
        ((float *)scratch)[i] = 2 * ((const float *)bases[PA_SLOT_IN])[p->row + i];
        ((float *)bases[PA_LOCAL])[i] = ((float *)scratch)[i];
    }
}

/* out = local + 1 */
static void add_one(const void *args, void *const *bases, void *scratch, pa_team *team) {
    const part *p = args;
    (void)scratch, (void)team;
    for (int i = 0; i < ROWS; i++)
        ((float *)bases[PA_SLOT_OUT])[p->row + i] = ((const float *)bases[PA_LOCAL])[i] + 1;
}

/* No thread was in its steps for longer than all took. */
static void check_times(const int64_t *marks, const int64_t *spent) {
    CHECK(marks[0] <= marks[1] && marks[1] <= marks[2] && marks[2] <= pa_now_ns());
    for (int i = 0; i < THREADS; i++)
        CHECK(spent[2 * i] >= 0 && spent[2 * i + 1] >= 0 && spent[2 * i] + spent[2 * i + 1] <= marks[2] - marks[0]);
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    part rows[BANDS * STRIPS];
    pa_step parts[PARTS];
    int32_t numbers[PARTS];
    int64_t ends[BANDS], spent[THREADS * 2], marks[3];
    for (int i = 0; i < BANDS * STRIPS; i++) {
        rows[i].row = i * ROWS;
        parts[2 * i] = (pa_step){.run = double_rows, .args = &rows[i]}, numbers[2 * i] = 0;
        parts[2 * i + 1] = (pa_step){.run = add_one, .args = &rows[i]}, numbers[2 * i + 1] = 1;
    }
    for (int i = 0; i < BANDS; i++) ends[i] = 2 * STRIPS * (i + 1);
    const pa_tiled_steps tiled = {4, 5, BANDS, parts, ends, numbers};
    const int cores[THREADS] = {-1, -1, -1};
    char error[PA_TEAM_ERROR];
    pa_team *team = pa_team_open(cores, THREADS, "test", error), *alone = pa_team_open(cores, 1, "test", error);
    CHECK(team && alone);
    const pa_thread_memory memory = {(char *)local_of, (char *)scratch_of, sizeof *local_of, sizeof *scratch_of, team, alone};
    float in[FLOATS], out[FLOATS];
    void *const bases[1][PA_BASES] = {{[PA_SLOT_IN] = in, [PA_SLOT_OUT] = out}};
    for (int run = 0; run < atoi(argv[1]); run++) {
        for (int i = 0; i < FLOATS; i++) in[i] = (float)(run % 1000 + i), out[i] = -1;
        marks[0] = pa_now_ns();
        pa_run_tiled(&tiled, bases, 1, &memory, spent, run % 2 ? marks : NULL);
        for (int i = 0; i < FLOATS; i++) CHECK(out[i] == 2 * in[i] + 1);
        if (run % 2) check_times(marks, spent);
    }
    pa_team_close(team);
    pa_team_close(alone);
    return 0;
}
