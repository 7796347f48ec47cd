/* How outputs end: by max_tokens, or before that by an EOS token. */
#include "tests/swarm/draw.h"

/* Outputs of half the clusters may end before max_tokens. From a stream of their own. */
static void draw_max_tokens(const Draw *self, TraceRow *rows, int n) {
  Draw own = *self;
  rng_init(&own.rng, self->seed, "max_tokens");
  if (one_in(&own, 2)) return;
  const int64_t most = one_in(&own, 2) ? 3 : 1000;
  for (int i = 0; i < n; i++)
    if (!one_in(&own, 4))
      rows[i].max_tokens =
          one_in(&own, 4) ? INT32_MAX : rows[i].output_tokens + (int32_t)between(&own, 0, most);
}

/* Of a third of the clusters requests say that they do not end before, where they do not. */
static void draw_ignored_eos(const Draw *self, TraceRow *rows, int n) {
  Draw own = *self;
  rng_init(&own.rng, self->seed, "ignore_eos");
  const bool any = one_in(&own, 3);
  for (int i = 0; any && i < n; i++)
    rows[i].ignores_eos = rows[i].max_tokens <= rows[i].output_tokens && !one_in(&own, 4);
}

void draw_ends(const Draw *self, TraceRow *rows, int n) {
  draw_max_tokens(self, rows, n);
  draw_ignored_eos(self, rows, n);
}
