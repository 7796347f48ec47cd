/* What a run begins with: caches as an earlier run left them, and a start that is not counted. */
#include "experiments/config/config.h"
#include "sim/saved_caches.h"
#include <string.h>

typedef struct Warm {
  const char *cache;
  WarmUp up;
} Warm;

const OptionSpec config_warm_options[] = {
    {"cache", OPTION_STRING, offsetof(Warm, cache),
     .help = "file of 'tandem run --save-cache' that prefix caches begin with; or warm: FILE",
     .absent = "they begin empty"},
    {"requests", OPTION_INT, offsetof(Warm, up.requests), "0", .min = 0, .max = 1e15,
     .word = "auto", .help = "the first so many are not counted; auto, also warm: auto: by MSER-5"},
    {"duration", OPTION_TICKS, offsetof(Warm, up.duration), "0 s", .min = 0, .max = 8.64e6,
     .help = "the same of those that arrive before then"},
    {0}};

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

static bool is_auto(const Node *node) {
  return node->kind == NODE_SCALAR && !node->quoted && strcmp(node->text, "auto") == 0;
}

int config_bind_warm(Config *self, const Node *node, bool whole, Arena *arena, Diag *diag) {
  Warm warm = {.cache = node->text};
  self->length.finds_start = is_auto(node);
  if (self->length.finds_start) return 0;
  const Node *file = node->kind == NODE_SCALAR ? node : node_find(node, "cache");
  if (file != node && option_bind(config_warm_options, node, NULL, node->at, &warm, diag))
    return -1;
  self->length.finds_start = warm.up.requests < 0;
  if (self->length.finds_start) {
    warm.up.requests = 0;
    if (warm.up.duration > 0)
      return diag_error(diag, node_find(node, "duration")->key_at,
                        "'duration' cannot be used with 'requests: auto'");
  }
  self->sim.warm_up = warm.up;
  if (!warm.cache || !whole) return 0;
  if (config_keeps_caches(self)) return load_caches(self, file, arena, diag);
  diag_error(diag, file->at, "'%s' needs a prefix cache, and no pool has one", file->key);
  config_hint_caching(diag);
  return -1;
}
