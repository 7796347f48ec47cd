/* See watch.h. */
#include "tests/swarm/watch.h"
#include "base/hash.h"

typedef struct WatchedMachine {
  IterationSpan span; // the newest, with those before that it goes on with
  int64_t n_prefills, n_decodes;
  Total busy, stalled;
  Tick sampled_at, copied[LINK_DIRECTIONS];
} WatchedMachine;

static void expect(Watch *self, bool holds, const char *wrong) {
  if (!holds && !self->wrong) self->wrong = wrong;
}

/* The order of what happens at one time may hang on how runs are coalesced. */
static void see(Watch *self, const int64_t *numbers, size_t n) {
  self->seen += hash_bytes(numbers, n * sizeof *numbers);
}

static void see_span(Watch *self, const IterationSpan *span) {
  const int64_t numbers[] = {span->instance,
                             span->begin,
                             span->end,
                             span->n_iterations,
                             span->shape.prefill_tokens,
                             span->shape.decode_seqs,
                             span->shape.context_tokens,
                             span->n_prompts,
                             span->stall};
  if (span->end > 0) see(self, numbers, sizeof numbers / sizeof *numbers);
}

static void on_iterations(void *context, const IterationSpan *span) {
  Watch *self = context;
  WatchedMachine *machine = &self->machines[span->instance];
  IterationSpan *last = &machine->span;
  const bool prefills = span->shape.prefill_tokens > 0;
  // A step in flight may be over when the one before it is.
  expect(self, span->begin >= last->end && span->end >= span->begin, "spans overlap");
  expect(self, span->n_iterations >= 0 && (!prefills || span->n_iterations <= 1),
         "a span has several iterations of a prefill");
  expect(self, (span->n_prompts > 0) == prefills && span->shape.decode_seqs >= 0,
         "prefill without a prompt");
  expect(self, 0 <= span->stall && span->stall <= span->end - span->begin, "a stall is too long");
  expect(self,
         !span->goes_on ||
             (span->begin == last->end && span->shape.decode_seqs == last->shape.decode_seqs),
         "a run goes on that had ended");
  *(prefills ? &machine->n_prefills : &machine->n_decodes) += span->n_iterations;
  machine->busy += span->end - span->begin;
  machine->stalled += span->stall;
  if (span->goes_on) {
    last->end = span->end;
    last->n_iterations += span->n_iterations;
    last->stall += span->stall;
    return;
  }
  see_span(self, last);
  *last = *span;
}

static void on_transfer(void *context, const TransferSpan *span) {
  Watch *self = context;
  expect(self, span->end > span->begin || !span->arrived, "a transfer takes no time");
  expect(self, span->from != span->to && span->bytes >= 0, "a transfer to itself");
  self->n_transfers++;
  self->transferred_bytes += span->bytes;
}

static void on_copy(void *context, const CopySpan *span) {
  Watch *self = context;
  Tick *copied = &self->machines[span->link].copied[span->direction];
  expect(self, span->begin >= *copied && span->end > span->begin, "copies overlap");
  expect(self, span->link <= span->instance && span->bytes > 0, "a copy over another's link");
  *copied = span->end;
}

static void on_outcome(void *context, Tick at, Outcome outcome, uint64_t request,
                       InstanceIx machine, int64_t a, int64_t b) {
  eventlog_add(&((Watch *)context)->log, at, outcome, request, machine, a, b);
}

static void on_sample(void *context, const InstanceSample *sample) {
  Watch *self = context;
  WatchedMachine *machine = &self->machines[sample->instance];
  expect(self, sample->at > machine->sampled_at && sample->at % self->observer.interval == 0,
         "a sample at a wrong time");
  expect(self, 0 <= sample->used_blocks && sample->used_blocks <= sample->kv_blocks,
         "more blocks are used than there are");
  expect(self, sample->n_waiting >= 0 && sample->n_running >= 0, "fewer requests than none");
  machine->sampled_at = sample->at;
  const int64_t numbers[] = {sample->at,        sample->instance,   sample->prefills,
                             sample->decodes,   sample->n_waiting,  sample->n_running,
                             sample->kv_blocks, sample->used_blocks};
  see(self, numbers, sizeof numbers / sizeof *numbers);
}

static void on_group(void *context, const TimelineRow *row) {
  const int64_t numbers[] = {row->at,         row->group,        row->shape,     row->activity,
                             row->gpu_blocks, row->store_blocks, row->n_prompts, row->n_decoding};
  see(context, numbers, sizeof numbers / sizeof *numbers);
}

void watch_init(Watch *self, const SimConfig *config, Tick interval, Arena *arena) {
  *self = (Watch){.observer = {.context = self,
                               .on_iterations = on_iterations,
                               .on_transfer = on_transfer,
                               .on_copy = on_copy,
                               .on_outcome = on_outcome,
                               .on_group = on_group,
                               .on_sample = on_sample,
                               .interval = interval}};
  eventlog_init(&self->log, NULL);
  for (uint32_t p = 0; p < config->n_pools; p++)
    self->n_machines += config->pools[p].count;
  self->machines = ARENA_ARRAY(arena, WatchedMachine, self->n_machines);
  for (uint32_t m = 0; m < self->n_machines; m++)
    self->machines[m].sampled_at = -1;
}

const char *watch_check(Watch *self, const SimResult *result) {
  for (uint32_t m = 0; m < self->n_machines; m++) {
    WatchedMachine *machine = &self->machines[m];
    const InstanceTotals *totals = &result->instances[m];
    see_span(self, &machine->span);
    expect(self, machine->busy == instance_busy_ticks(totals), "spans are not the busy time");
    expect(self,
           machine->n_prefills == totals->prefill_iterations &&
               machine->n_decodes == totals->decode_iterations,
           "spans are not the iterations");
    expect(self, machine->stalled == totals->stall_ticks, "spans are not the stalls");
  }
  expect(self,
         self->n_transfers == result->metrics.transfers &&
             self->transferred_bytes == result->metrics.transferred_bytes,
         "transfers that were told of are not those that were booked");
  expect(self, self->log.digest == result->digest, "outcomes that were told of are others");
  return self->wrong;
}
