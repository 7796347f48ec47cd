/* Host time of engines (host_times.def): by release and by the source of the kernels that it is
 * added to, and what it adds to a model of kernels alone. */
#ifndef PERFMODEL_HOST_TIME_H
#define PERFMODEL_HOST_TIME_H
#include "perfmodel/perfmodel.h"
#include "perfmodel/presets.h"

/* What the host of an engine takes; 0: nothing. */
typedef struct HostTimes {
  /* Of each iteration, of each layer of it, and of each sequence with logits in it. */
  Tick iteration_time, layer_time, sequence_time;
  Tick eager_layer_time; // at least, of a layer of an iteration with prefill that is in no graph
  int64_t graph_tokens;  // of an iteration with prefill that is in one, at most
  Tick request_time;     // until the scheduler has a request: server, tokenizer
} HostTimes;

/* Of a time that the table has. */
enum { HOST_UNSAID = -1 };
extern const HostTimes host_unsaid; // all of it

/* A row of host_times.def. */
typedef struct HostRow {
  const char *engine, *kernels, *gpu;
  HostTimes times;
  EnginePreset preset; // without a name: none
  const char *fitted_on, *error, *source;
} HostRow;

/* The i-th row; NULL past the last. */
const HostRow *host_row_at(int i);
/* The row of an engine for a source of kernels (NULL: what no source decides), of this GPU before
 * others. Where a release has none for TANDEM, the first that another release of the engine has,
 * else that for PUBLIC. NULL: there is none. */
const HostRow *host_row_find(const char *engine, const char *kernels, const char *gpu);
/* `said` with the times of the row (NULL: 0) in the place of HOST_UNSAID. */
HostTimes host_times_filled(const HostTimes *said, const HostRow *row);

/* Adds the host of a model with so many layers to a compiled model, which must be composed. Of
 * `times` all but request_time count. */
void perfmodel_add_host(PerfModel *self, const HostTimes *times, int64_t layers, Arena *arena);
#endif
