/* See recorder.h. */
#include "experiments/timeline/recorder.h"

/* ---- Rows ---- */

/* The tid of machine 0, above all pids: a row whose tid is its pid passes for a main thread. It is
 * a power of ten, since viewers show the tid behind the machine's number. */
static uint32_t first_tid(const Recorder *self) {
  uint32_t tid = 10;
  while (tid <= self->n_machines || tid <= self->config->sim.n_pools + OTHER_PROCESSES)
    tid *= 10;
  return tid;
}

static void init_machines(Recorder *self) {
  const SimConfig *sim = &self->config->sim;
  for (uint32_t p = 0; p < sim->n_pools; p++)
    self->n_machines += sim->pools[p].count;
  self->machines = ARENA_ARRAY(self->arena, MachineRow, self->n_machines);
  self->next_tid = first_tid(self);
  InstanceIx m = 0;
  for (uint32_t p = 0; p < sim->n_pools; p++) {
    const PoolSpec *pool = &sim->pools[p];
    for (uint32_t i = 0; i < pool->count; i++, m++) {
      self->machines[m] = (MachineRow){
          .pool = pool,
          .pid = p + 1,
          .shown = self->options->machines[m],
          .keeps_cache = sim_keeps_cache(sim, pool),
          .is_second_shape = sim_is_second_shape(sim, p),
          .track = {.id = {p + 1, self->next_tid++}, .figures = &recorder_machine_figures},
          .arrow_at = -1,
      };
      recorder_name_counters(self, &self->machines[m], m);
    }
  }
}

static uint32_t replicas_of(const PoolSpec *pool) {
  return pool->count / pool_replica_lanes(pool);
}

/* Whether a machine of one of its shapes is drawn; each replica has `count / replicas` of each. */
static bool shows_group(const Recorder *self, const GroupSpec *spec, uint32_t replica) {
  const SimConfig *sim = &self->config->sim;
  InstanceIx first = 0;
  for (uint32_t p = 0; p < sim->n_pools; first += sim->pools[p].count, p++) {
    if (p != spec->pools[SHAPE_PREFILL] && p != spec->pools[SHAPE_DECODE]) continue;
    const uint32_t each = sim->pools[p].count / replicas_of(&sim->pools[p]);
    for (uint32_t i = 0; i < each; i++)
      if (self->machines[first + replica * each + i].shown) return true;
  }
  return false;
}

static void init_groups(Recorder *self) {
  const SimConfig *sim = &self->config->sim;
  for (uint32_t g = 0; g < sim->n_groups; g++)
    self->n_groups += replicas_of(&sim->pools[sim->groups[g].pools[SHAPE_PREFILL]]);
  self->groups = ARENA_ARRAY(self->arena, GroupRow, self->n_groups);
  GroupRow *row = self->groups;
  for (uint32_t g = 0; g < sim->n_groups; g++) {
    const GroupSpec *spec = &sim->groups[g];
    const uint32_t n = replicas_of(&sim->pools[spec->pools[SHAPE_PREFILL]]);
    for (uint32_t i = 0; i < n; i++, row++) {
      *row = (GroupRow){.name = arena_printf(self->arena, "%s %u", spec->name, i),
                        .shown = shows_group(self, spec, i),
                        .track = {.figures = &recorder_group_figures},
                        .newest.at = -1,
                        .counted = {-1, -1}};
      row->counter = arena_printf(self->arena, "%s KV blocks", row->name);
      if (row->shown)
        row->track.id = recorder_add_row(self, PROCESS_GROUPS, row->name, row - self->groups);
    }
  }
}

/* ---- Names ---- */

TrackId recorder_add_row(Recorder *self, OtherProcess process, const char *name, int64_t place) {
  static const char *const names[OTHER_PROCESSES] = {[PROCESS_SENT] = "sent by instances",
                                                     [PROCESS_COPIED] = "links to CPU memory",
                                                     [PROCESS_GROUPS] = "groups of GPUs"};
  const uint32_t pid = self->config->sim.n_pools + 1 + (uint32_t)process;
  const TrackId id = {pid, self->next_tid++};
  if (!self->named[process]) events_name(&self->events, (TrackId){pid, 0}, names[process], pid);
  self->named[process] = true;
  events_name(&self->events, id, name, place);
  return id;
}

static void name_machines(Recorder *self) {
  uint32_t named = 0;
  for (InstanceIx m = 0; m < self->n_machines; m++) {
    const MachineRow *row = &self->machines[m];
    if (!row->shown) continue;
    if (row->pid != named)
      events_name(&self->events, (TrackId){row->pid, 0},
                  arena_printf(self->arena, "%s: %u x %s", row->pool->name,
                               pool_machines(row->pool), row->pool->machine),
                  row->pid);
    named = row->pid;
    events_name(&self->events, row->track.id, arena_printf(self->arena, "machine %u", m), m);
  }
}

/* ---- From the beginning to the end ---- */

void recorder_init(Recorder *self, const TimelineOptions *options, const Config *config, FILE *out,
                   Arena *arena) {
  *self = (Recorder){.observer = {.context = self,
                                  .on_iterations = recorder_draw_iterations,
                                  .on_transfer = recorder_draw_transfer,
                                  .on_copy = recorder_draw_copy,
                                  .on_outcome = recorder_draw_outcome,
                                  .on_group = recorder_draw_group,
                                  .on_sample = recorder_draw_sample,
                                  .interval = options->interval},
                     .options = options,
                     .config = config,
                     .arena = arena,
                     .powers = ARENA_ARRAY(arena, double, config->sim.n_pools)};
  for (uint32_t p = 0; p < config->sim.n_pools; p++)
    self->powers[p] = -1;
  events_begin(&self->events, out);
  init_machines(self);
  name_machines(self);
  init_groups(self);
}

void recorder_end(Recorder *self) {
  for (InstanceIx m = 0; m < self->n_machines; m++) {
    MachineRow *row = &self->machines[m];
    recorder_end_away(self, row, self->counts.end);
    track_end(&row->track, &self->events);
    for (size_t i = 0; i < row->sent.n; i++)
      track_end(&row->sent.tracks[i], &self->events);
    for (int direction = 0; direction < LINK_DIRECTIONS; direction++)
      track_end(&row->copied[direction], &self->events);
  }
  for (uint32_t g = 0; g < self->n_groups; g++) {
    recorder_end_group(self, &self->groups[g], self->counts.end);
    track_end(&self->groups[g].track, &self->events);
  }
  self->counts.slices_drawn = self->events.slices;
}
