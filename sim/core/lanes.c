/* See lanes.h. */
#include "sim/core/lanes.h"
#include "sim/core/run_part.h"
#include <assert.h>
#include <string.h>

/* Passes that are planned at once: fewer after some were undone. An event costs as much as a dozen
 * passes, so that few more are worth it. */
enum { HORIZON_MIN = 32, HORIZON_MAX = 128 };

/* Stages of iterations that are planned take less, and they begin sooner, so that a plan does not
 * come near the end of simulated time. */
static const Tick LONGEST = TICK_MAX >> 20, LATEST = TICK_MAX >> 2;

/* A lane with an iteration in progress. */
typedef struct Lane {
  Tick end; // of it
  uint64_t order;
  int64_t left; // iterations that may follow; 0: it is not known what does
  Tick send;
  DecodeStages stages;
  Tick *ends; // of the present part: its next
  Instance *instance;
} Lane;

void lanes_init(Pipeline *self, Instance *first, uint32_t n, Arena *arena) {
  self->first = first;
  self->n_lanes = n;
  self->lanes = ARENA_ARRAY(arena, Lane, n);
  self->horizon = HORIZON_MIN;
}

/* --- undoing */

static bool has_begun(const Simulation *self, const PlannedPass *pass) {
  return pass->at < self->now || (pass->at == self->now && pass->order <= self->reached);
}

static void undo_last(Pipeline *self) {
  const size_t n = (size_t)self->n_stages;
  assert(self->n_passes > 0);
  const PlannedPass *pass = &self->passes[--self->n_passes];
  memcpy(self->free_at, self->before + self->n_passes * n, n * sizeof *self->free_at);
  pass->lane->run.part--;
  self->horizon = HORIZON_MIN;
}

/* To where the parts of lanes end now, in the place that each has among events of one time. */
static void move_ends(Simulation *self, const Pipeline *pipeline) {
  for (uint32_t i = 0; i < pipeline->n_lanes; i++) {
    const Instance *lane = &pipeline->first[i];
    if (lane->activity != ACTIVITY_DECODE) continue;
    const Event *event = agenda_find(&self->agenda, EVENT_ITERATION, lane->ix);
    const Tick end = sim_part_end(&lane->run);
    if (event && event->at != end)
      agenda_move(&self->agenda, EVENT_ITERATION, lane->ix, end, event->seq);
  }
}

void lanes_drop_plan(Simulation *self, Pipeline *pipeline) {
  const size_t n = pipeline->n_passes;
  while (pipeline->n_passes > 0 && !has_begun(self, &pipeline->passes[pipeline->n_passes - 1]))
    undo_last(pipeline);
  if (pipeline->n_passes < n) move_ends(self, pipeline);
  pipeline->n_passes = 0;
}

void lanes_shorten(Simulation *self, const Instance *lane, int64_t part) {
  Pipeline *pipeline = lane->pipeline;
  if (lane->run.part <= part) return;
  while (lane->run.part > part)
    undo_last(pipeline);
  move_ends(self, pipeline);
}

/* --- planning */

/* Whether the first `n` iterations are of usual length. */
static bool are_short(const Lane *lane, int64_t n) {
  DecodeStages stages = lane->stages;
  Tick last;
  stages.layers += stages.step * (n < HORIZON_MAX ? n : HORIZON_MAX);
  const Tick stage = decode_stages_next(&stages, &last);
  return stage < LONGEST && last < LONGEST && lane->send < LONGEST;
}

/* Iterations that may follow the present one, and what they take; 0: none may. */
static int64_t left_of(const Instance *instance, Lane *lane) {
  const DecodeRun *run = &instance->run;
  const PerfModel *model = instance->perfmodel;
  const int64_t done = run->done + run->part, seqs = run->seqs;
  if (instance->activity != ACTIVITY_DECODE || instance->moves_kv) return 0;
  if (run->limit <= done || run->drafts > 0 || run->beside > 0) return 0;
  const int64_t context = run->context + seqs * done;
  const DecodePiece *piece = perfmodel_decode(model, seqs, context);
  if (piece->extrapolation != run->extrapolation || run->planned_by != model) return 0;
  lane->stages = decode_stages_of(model, piece, seqs, context, instance->pipeline->n_stages);
  lane->send = tick_nearest(model->send * seqs);
  const int64_t tokens = piece->end - context, most = run->limit - done;
  const int64_t left = tokens < most * seqs ? (tokens + seqs - 1) / seqs : most;
  return are_short(lane, left) ? left : 0;
}

/* Lanes with an iteration in progress, and whether any may go on. */
static uint32_t gather(const Simulation *self, Pipeline *pipeline, bool *ret_any) {
  uint32_t n = 0;
  *ret_any = false;
  for (uint32_t i = 0; i < pipeline->n_lanes; i++) {
    Instance *instance = &pipeline->first[i];
    const Event *event = agenda_find(&self->agenda, EVENT_ITERATION, instance->ix);
    if (!event) continue;
    Lane *lane = &pipeline->lanes[n++];
    lane->instance = instance;
    lane->ends = NULL;
    lane->end = event->at;
    lane->order = event->order;
    lane->left = left_of(instance, lane);
    *ret_any |= lane->left > 0;
  }
  return n;
}

static Lane *first_to_end(Lane *lanes, uint32_t n) {
  Lane *first = &lanes[0];
  for (uint32_t i = 1; i < n; i++) {
    Lane *lane = &lanes[i];
    if (lane->end < first->end || (lane->end == first->end && lane->order < first->order))
      first = lane;
  }
  return first;
}

/* One pass of a lane as its present iteration ends, as pipeline_pass has it. */
static inline void pass(Pipeline *pipeline, Lane *lane, Tick stage, Tick last) {
  const size_t n = (size_t)pipeline->n_stages, place = pipeline->n_passes++;
  Tick *free_at = pipeline->free_at, *before = pipeline->before + place * n;
  pipeline->passes[place] = (PlannedPass){lane->instance, lane->end, lane->order};
  Tick at = lane->end;
  for (size_t s = 0; s < n - 1; s++) {
    before[s] = free_at[s];
    if (at < free_at[s]) at = free_at[s];
    at += stage;
    free_at[s] = at;
    at += lane->send;
  }
  before[n - 1] = free_at[n - 1];
  if (at < free_at[n - 1]) at = free_at[n - 1];
  free_at[n - 1] = lane->end = *lane->ends++ = at + last;
  lane->left--;
}

/* Room for a plan of so many passes more. */
static void reserve(Simulation *self, Pipeline *pipeline, uint32_t n, size_t more) {
  const size_t most = pipeline->n_passes + more;
  ARENA_RESERVE(self->arena, pipeline->passes, pipeline->passes_capacity, most);
  ARENA_RESERVE(self->arena, pipeline->before, pipeline->before_capacity,
                most * (size_t)pipeline->n_stages);
  for (uint32_t i = 0; i < n; i++) {
    Lane *lane = &pipeline->lanes[i];
    DecodeRun *run = &lane->instance->run;
    if (lane->left == 0) continue;
    const size_t part = (size_t)run->part, left = (size_t)lane->left;
    ARENA_RESERVE(self->arena, run->ends, run->ends_capacity, part + (left < more ? left : more));
    if (part == 1) run->ends[0] = lane->end;
    lane->ends = run->ends + part;
  }
}

void lanes_plan(Simulation *self, Pipeline *pipeline) {
  bool any;
  if (self->step || self->config->executor || self->now > LATEST) return;
  const uint32_t n = gather(self, pipeline, &any);
  if (!any) return;
  const size_t most = pipeline->n_passes + pipeline->horizon;
  reserve(self, pipeline, n, pipeline->horizon);
  if (pipeline->horizon < HORIZON_MAX) pipeline->horizon *= 2;
  while (pipeline->n_passes < most) {
    Lane *lane = n == 1 ? pipeline->lanes : first_to_end(pipeline->lanes, n);
    if (lane->left == 0 || lane->end > LATEST) break;
    Tick last;
    const Tick stage = decode_stages_next(&lane->stages, &last);
    pass(pipeline, lane, stage, last);
  }
  for (uint32_t i = 0; i < n; i++)
    if (pipeline->lanes[i].ends) {
      DecodeRun *run = &pipeline->lanes[i].instance->run;
      run->part = pipeline->lanes[i].ends - run->ends;
    }
  move_ends(self, pipeline);
}
