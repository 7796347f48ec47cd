/* What waits and lies where, drawn where it has changed. */
#include "experiments/timeline/recorder.h"

enum { COUNTER_REQUESTS, COUNTER_BLOCKS, COUNTER_TOKENS };

static const struct {
  const char *name, *lines[COUNTER_LINES];
} counters[COUNTERS] = {[COUNTER_REQUESTS] = {"requests", {"waiting", "running"}},
                        [COUNTER_BLOCKS] = {"KV blocks", {"used", "cached"}},
                        [COUNTER_TOKENS] = {"prompt tokens so far", {"computed", "cached"}}};

void recorder_name_counters(const Recorder *self, MachineRow *row, InstanceIx machine) {
  for (int i = 0; i < COUNTERS; i++) {
    row->counters[i] = arena_printf(self->arena, "machine %u %s", machine, counters[i].name);
    for (int line = 0; line < COUNTER_LINES; line++)
      row->counted[i][line] = -1;
  }
}

/* The first `n` lines of a counter. */
static void draw(Recorder *self, MachineRow *row, int counter, Tick at,
                 const int64_t values[COUNTER_LINES], int n) {
  EventArg args[COUNTER_LINES + 1] = {{0}};
  bool changed = false;
  for (int i = 0; i < n; i++) {
    args[i] = (EventArg){.kind = ARG_WHOLE, .key = counters[counter].lines[i], .whole = values[i]};
    changed |= values[i] != row->counted[counter][i];
    row->counted[counter][i] = values[i];
  }
  if (changed) events_counter(&self->events, row->pid, row->counters[counter], at, args);
}

/* Of all machines of the pool, once the last of them was seen. */
static void draw_power(Recorder *self, const InstanceSample *sample, const MachineRow *row) {
  const PoolSpec *pool = row->pool;
  const double idle = row->is_second_shape ? 0 : pool->idle_power;
  self->power += sample->prefills  ? pool->prefill_power
                 : sample->decodes ? pool->decode_power
                                   : idle;
  const bool is_last = sample->instance + 1 == self->n_machines || row[1].pid != row->pid;
  if (!is_last) return;
  double *drawn = &self->powers[row->pid - 1];
  const EventArg args[] = {{ARG_REAL, "W", 0, self->power}, {0}};
  if (pool->prefill_power + pool->decode_power > 0 && self->power != *drawn)
    events_counter(&self->events, row->pid, "power", sample->at, args);
  *drawn = self->power;
  self->power = 0;
}

void recorder_draw_sample(void *recorder, const InstanceSample *sample) {
  Recorder *self = recorder;
  MachineRow *row = &self->machines[sample->instance];
  const InstanceTotals *totals = sample->totals;
  const int64_t requests[] = {sample->n_waiting, sample->n_running},
                blocks[] = {sample->used_blocks, sample->cached_blocks},
                tokens[] = {totals->prefill_tokens, totals->cached_tokens};
  if (!recorder_draws(self, sample->at, sample->at + 1)) return;
  draw_power(self, sample, row);
  if (!row->shown) return;
  draw(self, row, COUNTER_REQUESTS, sample->at, requests, 2);
  draw(self, row, COUNTER_BLOCKS, sample->at, blocks, row->keeps_cache ? 2 : 1);
  if (row->keeps_cache) draw(self, row, COUNTER_TOKENS, sample->at, tokens, 2);
}
