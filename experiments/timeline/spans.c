/* What lasts: iterations, transfers, copies, activities of groups. */
#include "experiments/timeline/recorder.h"

const SliceFigures recorder_machine_figures = {"iterations",
                                               {{FIGURE_SUM, "iterations"},
                                                {FIGURE_SUM, "prompts"},
                                                {FIGURE_SUM, "prefill_tokens"},
                                                {FIGURE_SUM, "decode_tokens"},
                                                {FIGURE_OWN, "sequences"},
                                                {FIGURE_OWN, "context_tokens"},
                                                {FIGURE_TICKS, "stall_us"}}};

static const SliceFigures transfer_figures = {"transfers",
                                              {{FIGURE_JOINED, "transfers"},
                                               {FIGURE_SUM, "bytes"},
                                               {FIGURE_NUMBER, "request"},
                                               {FIGURE_NUMBER, "from"},
                                               {FIGURE_NUMBER, "to"}}};

static const SliceFigures copy_figures = {
    "copies", {{FIGURE_JOINED, "copies"}, {FIGURE_SUM, "bytes"}, {FIGURE_NUMBER, "machine"}}};

const SliceFigures recorder_group_figures = {"several", {{FIGURE_NONE, NULL}}};

/* Draws a slice that was told of, and counts it. */
static void draw(Recorder *self, Track *track, const Slice *slice, bool goes_on) {
  if (slice->end > self->counts.end) self->counts.end = slice->end;
  if (!recorder_draws(self, slice->begin, slice->end)) return;
  self->counts.slices += !goes_on;
  track_put(track, slice, self->options->join, goes_on, &self->events);
}

/* ---- Machines ---- */

void recorder_draw_iterations(void *recorder, const IterationSpan *span) {
  Recorder *self = recorder;
  const BatchShape *shape = &span->shape;
  const bool prefills = shape->prefill_tokens > 0;
  const Slice slice = {.name = !prefills                ? "decode"
                               : shape->decode_seqs > 0 ? "mixed"
                                                        : "prefill",
                       .begin = span->begin,
                       .end = span->end,
                       .busy = span->end - span->begin,
                       .n = 1,
                       .figures = {span->n_iterations, span->n_prompts, shape->prefill_tokens,
                                   shape->decode_seqs * span->n_iterations, shape->decode_seqs,
                                   shape->context_tokens, span->stall}};
  MachineRow *row = &self->machines[span->instance];
  if (row->shown) draw(self, &row->track, &slice, span->goes_on);
}

/* It was away since its last iteration, at most. */
void recorder_end_away(Recorder *self, MachineRow *row, Tick at) {
  if (!row->away) return;
  const Tick ends = row->track.newest.n > 0 ? row->track.newest.end : row->track.ends;
  const Slice slice = {
      .name = row->away, .begin = row->away_at > ends ? row->away_at : ends, .end = at, .n = 1};
  row->away = NULL;
  if (row->shown && slice.begin < slice.end) draw(self, &row->track, &slice, false);
}

static void begin_away(Recorder *self, MachineRow *row, const char *what, Tick at) {
  recorder_end_away(self, row, at);
  row->away = what;
  row->away_at = at;
}

static void draw_role(Recorder *self, MachineRow *row, Tick at, int64_t from, int64_t to) {
  char name[40];
  snprintf(name, sizeof name, "%s to %s", role_name((Role)from), role_name((Role)to));
  recorder_end_away(self, row, at);
  if (recorder_draws(self, at, at + 1)) events_instant(&self->events, row->track.id, name, at);
}

/* What a machine then does in place of iterations; NULL: it is of something else. */
static const char *const away_after[OUTCOMES] = {
    [OUTCOME_FLIP] = "flip",    [OUTCOME_FAILURE] = "down", [OUTCOME_AWAY] = "maintenance",
    [OUTCOME_REPAIR] = "start", [OUTCOME_START] = "start",  [OUTCOME_OFF] = "off"};

void recorder_draw_outcome(void *recorder, Tick at, Outcome outcome, uint64_t request,
                           InstanceIx machine, int64_t a, int64_t b) {
  Recorder *self = recorder;
  if (outcome == OUTCOME_FIRST_TOKEN)
    recorder_begin_arrow(self, request, machine, at);
  else if (outcome == OUTCOME_DECODE_BEGIN)
    recorder_end_arrow(self, request, machine, at);
  else if (outcome == OUTCOME_LAST_TOKEN || outcome == OUTCOME_CANCELLED)
    recorder_drop_arrow(self, request);
  else if (outcome == OUTCOME_ROLE && self->machines[machine].shown)
    draw_role(self, &self->machines[machine], at, a, b);
  else if (outcome == OUTCOME_UP)
    recorder_end_away(self, &self->machines[machine], at);
  else if (away_after[outcome])
    begin_away(self, &self->machines[machine], away_after[outcome], at);
}

/* ---- Links ---- */

/* The first of a machine's rows on which the transfer can come next, perhaps a new one. */
static Track *find_lane(Recorder *self, InstanceIx machine, const Slice *slice) {
  Lanes *lanes = &self->machines[machine].sent;
  for (size_t i = 0; i < lanes->n; i++)
    if (track_takes(&lanes->tracks[i], slice, self->options->join)) return &lanes->tracks[i];
  const char *name = arena_printf(self->arena, "instance %u out", machine);
  ARENA_RESERVE(self->arena, lanes->tracks, lanes->capacity, lanes->n + 1);
  Track *track = &lanes->tracks[lanes->n++];
  *track = (Track){.id = recorder_add_row(self, PROCESS_SENT, name, machine),
                   .figures = &transfer_figures};
  return track;
}

void recorder_draw_transfer(void *recorder, const TransferSpan *span) {
  Recorder *self = recorder;
  const bool shown = self->machines[span->from].shown || self->machines[span->to].shown;
  if (!shown || !recorder_draws(self, span->begin, span->end)) return;
  const Slice slice = {.name = span->arrived ? "transfer" : "transfer, given up",
                       .begin = span->begin,
                       .end = span->end,
                       .busy = span->end - span->begin,
                       .n = 1,
                       .figures = {1, span->bytes, (int64_t)span->request, span->from, span->to}};
  Track *track = find_lane(self, span->from, &slice);
  draw(self, track, &slice, false);
  if (span->arrived) recorder_bend_arrow(self, span->request, track->id, span->end);
}

void recorder_draw_copy(void *recorder, const CopySpan *span) {
  static const char *const ways[] = {[LINK_TO_GPU] = "to GPU", [LINK_TO_CPU] = "to CPU"};
  Recorder *self = recorder;
  Track *track = &self->machines[span->link].copied[span->direction];
  if (!self->machines[span->instance].shown) return;
  if (track->id.tid == 0) {
    const char *name =
        arena_printf(self->arena, "machine %u %s", span->link, ways[span->direction]);
    const int64_t place = LINK_DIRECTIONS * (int64_t)span->link + span->direction;
    *track = (Track){.id = recorder_add_row(self, PROCESS_COPIED, name, place),
                     .figures = &copy_figures};
  }
  const Slice slice = {.name = "copy",
                       .begin = span->begin,
                       .end = span->end,
                       .busy = span->end - span->begin,
                       .n = 1,
                       .figures = {1, span->bytes, span->instance}};
  draw(self, track, &slice, false);
}

/* ---- Groups ---- */

void recorder_end_group(Recorder *self, GroupRow *group, Tick end) {
  Slice slice = {.name = group_activity_name(group->newest.activity),
                 .begin = group->newest.at,
                 .end = end,
                 .busy = end - group->newest.at,
                 .n = 1};
  if (group->shown && group->newest.at >= 0 && end > group->newest.at)
    draw(self, &group->track, &slice, false);
}

static void count_group(Recorder *self, GroupRow *group, const TimelineRow *row) {
  const int64_t blocks[COUNTER_LINES] = {row->gpu_blocks, row->store_blocks};
  const EventArg args[] = {
      {ARG_WHOLE, "gpu", blocks[0], 0}, {ARG_WHOLE, "store", blocks[1], 0}, {0}};
  if (!group->shown || !recorder_draws(self, row->at, row->at + 1) ||
      (blocks[0] == group->counted[0] && blocks[1] == group->counted[1]))
    return;
  for (int i = 0; i < COUNTER_LINES; i++)
    group->counted[i] = blocks[i];
  events_counter(&self->events, group->track.id.pid, group->counter, row->at, args);
}

void recorder_draw_group(void *recorder, const TimelineRow *row) {
  Recorder *self = recorder;
  GroupRow *group = &self->groups[row->group];
  count_group(self, group, row);
  if (group->newest.at >= 0 && group->newest.activity == row->activity) return;
  recorder_end_group(self, group, row->at);
  group->newest = *row;
}
