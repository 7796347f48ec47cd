/* What a run begins with: caches as an earlier run left them. */
#include "experiments/config/config.h"
#include "sim/saved_caches.h"

static int load_caches(Config *self, const Node *file, Arena *arena, Diag *diag) {
  LineReader reader;
  SavedCaches *saved = ARENA_NEW(arena, SavedCaches);
  const char *path = path_resolve(file->text, self->directory, arena);
  if (line_reader_open(&reader, path, arena, diag)) return -1;
  const int status = saved_caches_load(saved, &reader, file->at, &self->sim, arena, diag);
  line_reader_close(&reader);
  self->sim.saved_caches = saved;
  return status;
}

int config_bind_warm(Config *self, const Node *node, bool whole, Arena *arena, Diag *diag) {
  if (node->kind != NODE_SCALAR)
    return diag_error(diag, node->at, "'warm' wants a file of 'tandem run --save-cache'");
  if (!whole || config_keeps_caches(self)) return whole ? load_caches(self, node, arena, diag) : 0;
  diag_error(diag, node->at, "'warm' is for prefix caches, and no pool keeps one");
  config_hint_caching(diag);
  return -1;
}
