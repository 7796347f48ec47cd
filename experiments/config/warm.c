/* What a run begins with: caches as an earlier run left them, and a start that is not counted; and
 * how long it is, where `workload.duration` leaves that to what its figures need. */
#include "experiments/config/config.h"
#include "sim/books/saved_caches.h"
#include <string.h>

typedef struct Warm {
  const char *cache;
  WarmUp up;
} Warm;

const OptionSpec config_warm_options[] = {
    {"cache", OPTION_STRING, offsetof(Warm, cache),
     .help = "File written by tandem run --save-cache with the initial contents of the prefix "
             "caches. The short form is warm: FILE.",
     .absent = "empty caches"},
    {"requests", OPTION_INT, offsetof(Warm, up.requests), "0", .min = 0, .max = 1e15,
     .word = "auto",
     .help = "Number of first requests that are left out of the figures, or auto (also warm: auto) "
             "to choose it by MSER-5."},
    {"duration", OPTION_TICKS, offsetof(Warm, up.duration), "0 s", .min = 0, .max = 8.64e6,
     .help = "Simulated time before which arrivals are left out of the figures."},
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
  if (config_check_blocks(self, file->at, file->key, diag)) return -1;
  if (config_keeps_caches(self)) return load_caches(self, file, arena, diag);
  diag_error(diag, file->at, "'%s' needs a prefix cache, and no pool has one", file->key);
  config_hint_caching(diag);
  return -1;
}

/* ---- Its length ---- */

enum { MOST_REQUESTS = 200000 };

static const double usual_precision = 0.05;

static const OptionSpec precision_option = {.key = "precision",
                                            .type = OPTION_REAL,
                                            .min = CONFIG_PRECISION_MIN,
                                            .max = CONFIG_PRECISION_MAX,
                                            .word = "limits"};

int config_bind_length(Config *self, const Node *precision, Diag *diag) {
  const WorkloadConfig *workload = &self->workload;
  LengthConfig *length = &self->length;
  length->automatic = workload->automatic || (precision && workload->trace);
  if (precision && !length->automatic) {
    diag_error(diag, precision->key_at, "'precision' applies to runs that choose their length");
    return diag_hint(diag, "set workload: {duration: auto}");
  }
  if (!length->automatic) return 0;
  length->precision = usual_precision;
  if (precision && option_bind_one(&precision_option, precision, &length->precision, diag))
    return -1;
  length->decides = length->precision < 0;
  if (length->decides) length->precision = usual_precision;
  length->most = workload->requests > 0 ? workload->requests : MOST_REQUESTS;
  const WarmUp *given = &self->sim.warm_up;
  if (given->requests == 0 && given->duration == 0) length->finds_start = true;
  return 0;
}
