/* See host_time.h. */
#include "perfmodel/host_time.h"
#include "base/hash.h"
#include <assert.h>

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

void perfmodel_add_host(PerfModel *self, const HostTime *host, Arena *arena) {
  assert(self->form == PERF_COMPOSED);
  self->overhead += host->per_iteration;
  pwl_add_line(&self->head, host->per_sequence, arena);
  add_to_rows(self, host->per_iteration, arena);
  self->host_per_sequence = host->per_sequence;
  self->eager = host->eager;
  self->graph_tokens = host->graph_tokens;
  self->digest = hash_fold(self->digest, hash_bytes(host, sizeof *host));
}
