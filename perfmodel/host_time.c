/* See host_time.h. */
#include "perfmodel/host_time.h"
#include "base/hash.h"
#include <assert.h>
#include <string.h>

#define MICROSECONDS(n) ((n) * (TICKS_PER_SECOND / 1000000))

static const HostRow rows[] = {
#define HOST_TIME(engine_, kernels_, ...) {.engine = (engine_), .kernels = (kernels_), __VA_ARGS__},
#include "perfmodel/host_times.def"
#undef HOST_TIME
};
enum { N_ROWS = sizeof rows / sizeof *rows };

const HostTimes host_unsaid = {HOST_UNSAID, HOST_UNSAID, HOST_UNSAID, HOST_UNSAID, HOST_UNSAID};

const HostRow *host_row_at(int i) {
  return i < N_ROWS ? &rows[i] : NULL;
}

static bool same(const char *a, const char *b) {
  return a == b || (a && b && strcmp(a, b) == 0);
}

const HostRow *host_row_find(const char *engine, const char *kernels, const char *gpu) {
  const HostRow *found = NULL;
  for (int i = 0; engine && i < N_ROWS; i++) {
    if (strcmp(rows[i].engine, engine) != 0 || !same(rows[i].kernels, kernels)) continue;
    if (!found || same(rows[i].gpu, gpu)) found = &rows[i];
  }
  return found || !same(kernels, KERNELS_TANDEM) ? found
                                                 : host_row_find(engine, KERNELS_PUBLIC, gpu);
}

HostTimes host_times_filled(const HostTimes *said, const HostRow *row) {
  const HostTimes of_row = row ? row->times : (HostTimes){0};
#define FILLED(field) said->field == HOST_UNSAID ? of_row.field : said->field
  return (HostTimes){FILLED(iteration_time), FILLED(sequence_time), FILLED(eager_layer_time),
                     FILLED(graph_tokens), FILLED(request_time)};
#undef FILLED
}

/* Rows of decodes pay it as iterations with prefill do: by `overhead` and `head`. */
static void add_to_rows(PerfModel *self, Tick per_iteration, Arena *arena) {
  const int32_t *first = self->row_first;
  const int64_t n_rows = self->max_decode_seqs;
  DecodePiece *pieces = ARENA_ARRAY(arena, DecodePiece, first[n_rows + 1]);
  FineTick *constants = ARENA_ARRAY(arena, FineTick, n_rows + 1);
  FineTick *heads = ARENA_ARRAY(arena, FineTick, n_rows + 1);
  for (int64_t n = 1; n <= n_rows; n++) {
    heads[n] = pwl_fine(&self->head, ranks_padded(n, self->ranks));
    const FineTick more = fine_from_ticks(per_iteration) + heads[n] - self->row_head[n];
    constants[n] = self->row_constant[n] + more;
    for (int32_t i = first[n]; i < first[n + 1]; i++) {
      pieces[i] = self->pieces[i];
      pieces[i].base += more;
    }
  }
  self->pieces = pieces;
  self->row_constant = constants;
  self->row_head = heads;
}

void perfmodel_add_host(PerfModel *self, const HostTimes *times, int64_t layers, Arena *arena) {
  assert(self->form == PERF_COMPOSED);
  self->overhead += times->iteration_time;
  pwl_add_line(&self->head, times->sequence_time, arena);
  add_to_rows(self, times->iteration_time, arena);
  self->host_per_sequence = times->sequence_time;
  self->eager = times->eager_layer_time * layers;
  self->graph_tokens = times->graph_tokens;
  const int64_t words[] = {times->iteration_time, times->sequence_time, self->eager,
                           times->graph_tokens};
  self->digest = hash_fold(self->digest, hash_bytes(words, sizeof words));
}
