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

const HostTimes host_unsaid = {HOST_UNSAID, HOST_UNSAID, HOST_UNSAID,
                               HOST_UNSAID, HOST_UNSAID, HOST_UNSAID};

const HostRow *host_row_at(int i) {
  return i < N_ROWS ? &rows[i] : NULL;
}

static bool same(const char *a, const char *b) {
  return a == b || (a && b && strcmp(a, b) == 0);
}

/* Whether both are releases of one engine: vllm-0.24, vllm-0.33. */
static bool same_family(const char *a, const char *b) {
  const size_t length = strcspn(a, "-");
  return length == strcspn(b, "-") && strncmp(a, b, length) == 0;
}

static const HostRow *find(const char *engine, const char *kernels, const char *gpu, bool family) {
  const HostRow *found = NULL;
  for (int i = 0; i < N_ROWS; i++) {
    const bool is_engine =
        family ? same_family(rows[i].engine, engine) : strcmp(rows[i].engine, engine) == 0;
    if (!is_engine || !same(rows[i].kernels, kernels)) continue;
    if (!found || (!family && same(rows[i].gpu, gpu))) found = &rows[i];
  }
  return found;
}

const HostRow *host_row_find(const char *engine, const char *kernels, const char *gpu) {
  const HostRow *found = engine ? find(engine, kernels, gpu, false) : NULL;
  if (found || !engine || !same(kernels, KERNELS_TANDEM)) return found;
  found = find(engine, kernels, gpu, true);
  return found ? found : find(engine, KERNELS_PUBLIC, gpu, false);
}

HostTimes host_times_filled(const HostTimes *said, const HostRow *row) {
  const HostTimes of_row = row ? row->times : (HostTimes){0};
#define FILLED(field) said->field == HOST_UNSAID ? of_row.field : said->field
  return (HostTimes){FILLED(iteration_time),   FILLED(layer_time),   FILLED(sequence_time),
                     FILLED(eager_layer_time), FILLED(graph_tokens), FILLED(request_time)};
#undef FILLED
}

/* Rows of decodes pay it as iterations with prefill do: by `overhead`, `linear` and `head`. */
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
  const Tick all_layers = times->layer_time * layers;
  self->overhead += times->iteration_time;
  if (all_layers > 0) pwl_raise(&self->linear, all_layers, arena);
  pwl_add_line(&self->head, times->sequence_time, arena);
  add_to_rows(self, times->iteration_time + all_layers, arena);
  self->host_per_sequence = times->sequence_time;
  self->eager = times->eager_layer_time * layers;
  self->graph_tokens = times->graph_tokens;
  const int64_t words[] = {times->iteration_time + all_layers, times->sequence_time, self->eager,
                           times->graph_tokens};
  self->digest = hash_fold(self->digest, hash_bytes(words, sizeof words));
}
