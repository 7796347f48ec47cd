/* See parts.h. */
#include "sim/books/parts.h"
#include "sim/core/pipeline.h"
#include "sim/core/request_states.h"
#include <assert.h>

static Tick min(Tick a, Tick b) {
  return a < b ? a : b;
}

static Tick max(Tick a, Tick b) {
  return a > b ? a : b;
}

/* Takes at most `ticks` >= 0 out of what is left, for one cause. */
static void take(TimeParts *parts, Cause cause, Tick ticks, Tick *left) {
  const Tick taken = max(min(ticks, *left), 0);
  parts->of[cause] += taken;
  *left -= taken;
}

/* --- by the performance model */

static int64_t stages_of(const Instance *instance) {
  return instance->pipeline ? instance->pipeline->n_stages : 1;
}

/* The engine's host in one iteration with logits of `seqs`. */
static Tick host_ticks(const Simulation *self, const Instance *instance, int64_t seqs) {
  const PerfModel *model = instance->pool->perfmodel;
  if (self->config->executor) return 0;
  return model->overhead * stages_of(instance) + model->host_per_sequence * seqs;
}

/* How much longer a step of all ranks takes than one of this rank's batch would. */
static Tick ranks_wait_ticks(const Simulation *self, const Instance *instance,
                             const BatchShape *shape, Tick ticks) {
  RanksTime time = {0};
  if (!instance->lockstep || self->config->executor) return 0;
  perfmodel_add_rank(&time, instance->perfmodel, shape, instance->run.drafts, instance->run.beside);
  return max(ticks - perfmodel_ranks(&time), 0);
}

/* An iteration on the instance while nothing else goes through its stages. */
static Tick alone_ticks(const Instance *instance, const BatchShape *shape) {
  const PerfModel *model = instance->pool->perfmodel;
  if (!instance->pipeline) return perfmodel_iteration(model, shape, NULL);
  const int64_t stages = stages_of(instance);
  Tick last;
  const Tick stage = perfmodel_stage(model, shape, NULL, stages, &last, NULL);
  const Tick send = tick_nearest(model->send * (shape->prefill_tokens + shape->decode_seqs));
  return (stages - 1) * (stage + send) + last;
}

/* Decode iterations of one sequence with context `from` and on, `to` not included. */
static Tick decodes_alone(const Instance *instance, int64_t from, int64_t to) {
  const PerfModel *model = instance->pool->perfmodel;
  if (instance->pipeline) {
    Tick ticks = 0;
    for (int64_t context = from; context < to; context++)
      ticks += alone_ticks(
          instance, &(BatchShape){.decode_seqs = 1, .context_tokens = context, .logit_seqs = 1});
    return ticks;
  }
  FineTick fine = 0;
  while (from < to) {
    const DecodePiece *piece = perfmodel_decode(model, 1, from);
    const int64_t n = min(to, piece->end) - from;
    fine += decode_piece_fine(piece, from) * n + piece->slope * (n * (n - 1) / 2);
    from += n;
  }
  return tick_nearest(fine);
}

/* --- booking */

/* What a request's group has spent on loading weights. */
static Tick reshards_of(const Simulation *self, const Request *request) {
  if (request->prefill_instance == INSTANCE_NONE) return 0;
  const Group *group = self->instances[request->prefill_instance].group;
  if (!group) return 0;
  const Tick present = group->state == GROUP_TURNS ? self->now - group->since : 0;
  return group->totals.ticks[GROUP_RESHARDS] + present;
}

/* All until `at`, to the cause that it waits for. */
static void book_until(const Simulation *self, RequestIx ix, Tick at) {
  const Request *request = &self->requests.slots[ix];
  RequestParts *parts = &self->parts[ix];
  const Tick reshards = reshards_of(self, request);
  Tick left = at - parts->since;
  assert(left >= 0 && !parts->decodes);
  if (request_resumes(request)) take(&parts->booked, CAUSE_resume, left, &left);
  if (parts->cause != CAUSE_front) // before that it had no group
    take(&parts->booked, request->first_token_at < 0 ? CAUSE_prefill_reshard : CAUSE_reshard,
         reshards - parts->reshards, &left);
  if (parts->cause == CAUSE_link_wait) take(&parts->booked, CAUSE_transfer, parts->wire, &left);
  parts->booked.of[parts->cause] += left;
  parts->since = at;
  parts->reshards = reshards;
}

static void book(const Simulation *self, RequestIx ix) {
  book_until(self, ix, self->now);
}

/* The KV of a part of a prompt is handed over before there is a first token. */
static Cause cause_of(const Request *request, Cause cause) {
  const bool early = request->cut == CUT_PROMPT && cause != CAUSES;
  return early && metrics_causes[cause].is_late ? CAUSE_handover : cause;
}

void parts_begin(Simulation *self, RequestIx ix) {
  ARENA_RESERVE(self->arena, self->parts, self->parts_capacity, self->requests.n_slots);
  self->parts[ix] =
      (RequestParts){.since = self->requests.slots[ix].arrived_at, .cause = CAUSE_front};
}

void parts_begin_copy(Simulation *self, RequestIx ix) {
  parts_begin(self, ix);
  self->parts[ix].cause = CAUSE_hedge;
}

void parts_enter(Simulation *self, RequestIx ix, RequestState to) {
  const Request *request = &self->requests.slots[ix];
  RequestParts *parts = &self->parts[ix];
  const Cause cause =
      cause_of(request, (Cause)request_states[to].causes[request->first_token_at >= 0]);
  if (parts->decodes) return; // preempted in a step that is not over: it leaves with that
  book(self, ix);
  if (cause == CAUSES) return;
  const bool between = cause == CAUSE_prefill_queue && request->prefilled_tokens > 0;
  parts->cause = between ? CAUSE_prefill_wait : cause;
}

void parts_wait(Simulation *self, RequestIx ix, Cause cause) {
  if (self->parts[ix].decodes) return; // the same
  book(self, ix);
  self->parts[ix].cause = cause_of(&self->requests.slots[ix], cause);
}

void parts_held(Simulation *self, RequestIx ix, bool held) {
  const Cause from = held ? CAUSE_prefill_queue : CAUSE_rank_wait;
  if (self->parts[ix].cause == from)
    parts_wait(self, ix, held ? CAUSE_rank_wait : CAUSE_prefill_queue);
}

void parts_moves(Simulation *self, RequestIx ix, Tick ticks) {
  parts_wait(self, ix, CAUSE_link_wait);
  self->parts[ix].wire = ticks;
}

/* --- prefill */

static void book_chunk(const Simulation *self, const Instance *instance, const BatchShape *chunk,
                       Tick left, TimeParts *parts) {
  const InstanceParts *iteration = &self->instance_parts[instance->ix];
  const Tick alone = alone_ticks(instance, chunk);
  take(parts, CAUSE_prefill_stall, left - iteration->work, &left);
  take(parts, CAUSE_prefill_ranks, iteration->ranks, &left);
  take(parts, CAUSE_prefill_host, iteration->host, &left);
  take(parts, CAUSE_prefill, alone - host_ticks(self, instance, chunk->logit_seqs), &left);
  parts->of[CAUSE_prefill_batch] += left;
}

void parts_chunk_ended(Simulation *self, const Instance *instance, RequestIx ix, int64_t tokens,
                       int64_t past, bool last) {
  const BatchShape chunk = {
      .prefill_tokens = tokens, .prefill_area2 = tokens * (2 * past + tokens), .logit_seqs = last};
  RequestParts *parts = &self->parts[ix];
  book_until(self, ix, max(parts->since, instance->run.began_at)); // preempted in it: since then
  const Tick ticks = self->now - parts->since;
  const Request *request = &self->requests.slots[ix];
  if (request_resumes(request))
    parts->booked.of[CAUSE_resume] += ticks;
  else if (request->first_token_at < 0)
    book_chunk(self, instance, &chunk, ticks, &parts->booked);
  else
    parts->booked.of[CAUSE_recompute] += ticks;
  parts->booked.chunks++;
  parts->since = self->now;
  parts->cause = last || request->first_token_at >= 0 ? CAUSE_preempted : CAUSE_prefill_wait;
}

void parts_lost(Simulation *self, RequestIx ix) {
  static const Cause lost[] = {CAUSE_prefill_wait, CAUSE_prefill,       CAUSE_prefill_batch,
                               CAUSE_prefill_host, CAUSE_prefill_stall, CAUSE_prefill_ranks};
  RequestParts *parts = &self->parts[ix];
  const Request *request = &self->requests.slots[ix];
  if (request->first_token_at >= 0 || request_resumes(request)) return; // of dropped KV
  parts_wait(self, ix, CAUSE_prefill_preempted);
  for (size_t i = 0; i < sizeof lost / sizeof *lost; i++) {
    parts->booked.of[CAUSE_prefill_preempted] += parts->booked.of[lost[i]];
    parts->booked.of[lost[i]] = 0;
  }
}

void parts_first_delivered(Simulation *self, RequestIx ix) {
  RequestParts *parts = &self->parts[ix];
  book(self, ix);
  for (Cause cause = 0; cause < CAUSES; cause++) {
    if (!metrics_causes[cause].is_late) continue;
    parts->booked.of[CAUSE_handover] += parts->booked.of[cause];
    parts->booked.of[cause] = 0;
  }
}

void parts_begin_anew(Simulation *self, RequestIx ix) {
  RequestParts *parts = &self->parts[ix];
  book(self, ix);
  parts->cause = CAUSE_outage;
  if (self->requests.slots[ix].resumed_tokens > 0) return;
  for (Cause cause = 0; cause < CAUSES; cause++) {
    if (cause == CAUSE_front || cause == CAUSE_admission || cause == CAUSE_outage) continue;
    parts->booked.of[CAUSE_outage] += parts->booked.of[cause];
    parts->booked.of[cause] = 0;
  }
}

/* --- iterations, and decodes in them */

void parts_prefills_begin(Simulation *self, const Instance *instance, const BatchShape *shape,
                          Tick ticks) {
  InstanceParts *parts = &self->instance_parts[instance->ix];
  parts->work = ticks;
  parts->ranks = ranks_wait_ticks(self, instance, shape, ticks);
  parts->host = min(host_ticks(self, instance, shape->logit_seqs), ticks);
  parts->decodes = parts->decode_host = 0;
  if (shape->decode_seqs == 0) return;
  const BatchShape decodes = {.decode_seqs = shape->decode_seqs,
                              .context_tokens = shape->context_tokens,
                              .logit_seqs = shape->decode_seqs};
  parts->decodes = min(alone_ticks(instance, &decodes), ticks);
  parts->decode_host = min(host_ticks(self, instance, shape->decode_seqs), parts->decodes);
}

void parts_iterations_end(Simulation *self, const Instance *instance, bool prefills) {
  InstanceParts *parts = &self->instance_parts[instance->ix];
  const DecodeRun *run = &instance->run;
  if (prefills) {
    const Tick other = max(parts->work - parts->decodes - parts->ranks, 0);
    parts->times.ranks += parts->work - parts->decodes - other;
    parts->times.other += other;
    parts->times.host += parts->decode_host;
  } else {
    const BatchShape shape = {
        .decode_seqs = run->seqs, .context_tokens = run->context, .logit_seqs = run->seqs};
    parts->times.host += host_ticks(self, instance, run->seqs) * run->done;
    parts->times.ranks += ranks_wait_ticks(self, instance, &shape, run->modelled);
  }
}

/* It made nothing: it is in no other times. Those of its run before it are. */
void parts_broken_off(Simulation *self, const Instance *instance) {
  InstanceParts *parts = &self->instance_parts[instance->ix];
  const DecodeRun *run = &instance->run;
  parts->times.idle += self->now - run->part_began_at;
  if (run->done > 0) parts->times.host += host_ticks(self, instance, run->seqs) * run->done;
}

/* Where a batch stands still the iteration in progress is another's as far as it has come. */
static BatchTimes times_of(const Simulation *self, const Instance *instance) {
  BatchTimes times = self->instance_parts[instance->ix].times;
  times.stall = (Tick)instance->totals.stall_ticks;
  times.idle +=
      instance->idle_ticks + (instance->idle_since < 0 ? 0 : self->now - instance->idle_since);
  if (instance->activity == ACTIVITY_PREFILL && instance->decodes_paused)
    times.other += self->now - instance->run.began_at;
  return times;
}

void parts_joined(Simulation *self, const Instance *instance, RequestIx ix) {
  RequestParts *parts = &self->parts[ix];
  book(self, ix);
  parts->decodes = true;
  parts->tokens = self->requests.slots[ix].generated_tokens;
  parts->then = times_of(self, instance);
}

/* Idle with a batch is an instance that has failed, or a group's: others' copies, or the end of its
 * shape. Afterwards it is left out, unless it is on its way elsewhere. */
void parts_left(Simulation *self, const Instance *instance, RequestIx ix, int64_t tokens) {
  const int64_t prompt = self->requests.slots[ix].prompt_tokens;
  RequestParts *parts = &self->parts[ix];
  const BatchTimes now = times_of(self, instance), *then = &parts->then;
  if (!parts->decodes) return;
  const int64_t made = tokens - parts->tokens;
  const Tick alone = decodes_alone(instance, prompt + parts->tokens, prompt + tokens);
  Tick left = self->now - parts->since;
  const Cause idle = instance->dead       ? CAUSE_resume
                     : instance->lockstep ? CAUSE_decode_ranks
                                          : CAUSE_store;
  take(&parts->booked, idle, now.idle - then->idle, &left);
  take(&parts->booked, CAUSE_decode_stall, now.stall - then->stall, &left);
  take(&parts->booked, CAUSE_decode_prefill, now.other - then->other, &left);
  take(&parts->booked, CAUSE_decode_ranks, now.ranks - then->ranks, &left);
  take(&parts->booked, CAUSE_decode_host, now.host - then->host, &left);
  take(&parts->booked, CAUSE_decode, alone - host_ticks(self, instance, 1) * made, &left);
  parts->booked.of[CAUSE_decode_batch] += left;
  parts->since = self->now;
  parts->reshards = reshards_of(self, &self->requests.slots[ix]);
  parts->decodes = false;
  parts->cause = CAUSE_preempted;
}

/* --- audit */

static void audit_request(const Simulation *self, RequestIx ix) {
  const Request *request = &self->requests.slots[ix];
  const RequestParts *parts = &self->parts[ix];
  Tick sums[2] = {0, 0};
  for (Cause cause = 0; cause < CAUSES; cause++) {
    assert(parts->booked.of[cause] >= 0);
    sums[metrics_causes[cause].is_late] += parts->booked.of[cause];
  }
  assert(parts->since <= self->now && sums[0] + sums[1] == parts->since - request->arrived_at);
  const bool apart =
      request->resumed_tokens > 0 || (request->remakes_first && !request_awaits_first(request));
  const Tick first = apart ? self->delivered[ix].first_token_at : request->first_token_at;
  assert(sums[1] == 0 || sums[0] == first - request->arrived_at);
}

void parts_audit(const Simulation *self) {
  for (RequestIx ix = 0; self->keeps_parts && ix < self->requests.n_slots; ix++)
    if (self->requests.slots[ix].state != REQUEST_FREE) audit_request(self, ix);
}
