/* A team: one pinned thread per core of a cluster, the caller included (it is thread 0).
 *
 * pa_team_run(team, fn, context, chunks) runs the serial loop
 *     for (int64_t i = 0; i < chunks; i++) fn(context, i, thread);
 * in parallel: chunks are claimed dynamically, so a slow or interrupted core delays no more than one chunk. Each thread
 * begins with its share, thread 0 with the first chunks: what a step has written to a core's cache the next one mostly
 * reads there, if chunks go from top to bottom of the image.
 * Returns when all chunks are done. One caller at a time; fn must not call pa_team_run.
 */
#ifndef PIPEALL_TEAM_H
#define PIPEALL_TEAM_H

#include <stdint.h>

#include "../thread_state.h"

typedef struct pa_team pa_team;
typedef void (*pa_chunk_fn)(const void *context, int64_t chunk, int thread);
typedef void (*pa_piece_fn)(const void *context, int64_t first, int64_t end, int thread); /* pieces of one chunk */

enum { PA_TEAM_ERROR = 128 }; /* bytes of a text of pa_team_open */

/* cores: ids to pin to, one per thread, cores[0] being the caller's; core -1 leaves that thread unpinned.
 * Starts count - 1 threads, waits until all are awake, or a first frame would be timed without them, and pins the calling
 * thread. NULL with a text of PA_TEAM_ERROR bytes on failure. */
pa_team *pa_team_open(const int *cores, int count, const char *name, char *error);
void pa_team_run(pa_team *team, pa_chunk_fn fn, const void *context, int64_t chunks);
/* The same where a chunk is a number of pieces, which threads of unequal speed claim apart: piece i is of chunk
 * i / pieces. A call of fn is for some pieces of one chunk. */
void pa_team_run_pieces(pa_team *team, pa_piece_fn fn, const void *context, int64_t chunks, int64_t pieces);
/* Another thread takes the place of the caller, to run jobs until it leaves: on its core, and rounding as it does. 0, or
 * an errno of a core that is not allowed. */
int pa_team_enter(const pa_team *team, pa_thread_state *thread_state);
void pa_team_leave(const pa_thread_state *thread_state);
/* A step of a program is some jobs that come again with each frame. Threads that are slower than others take part in it
 * where they help: `choice`, of that step, remembers how long it took with and without them. A whole frame is a step too,
 * with its own steps inside: they may all be faster with the slow threads, and slower for what these leave in their caches.
 *
 * number  another one for each step, or all would try again in the same frame
 * frames  done so far; -n at first leaves n frames for the steps inside to learn from
 */
typedef struct pa_team_choice {
    float ns[2]; /* lately, of all threads, and of the fast ones alone */
    int64_t begin;
    int32_t frames, number;
} pa_team_choice;
void pa_team_begin_step(pa_team *team, pa_team_choice *choice);
void pa_team_end_step(pa_team *team, pa_team_choice *choice);
int pa_team_size(const pa_team *team);
void pa_team_close(pa_team *team); /* joins the threads */

#endif
