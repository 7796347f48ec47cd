/* A ring of slots around a pool of threads. */
#include "experiments/campaign/campaign.h"
#include "experiments/base/interrupt.h"
#include "experiments/base/workers.h"
#include <string.h>

static const double BATCH_S = 0.05; // of runs that share a transaction
static const double IDLE_S = 1;     // between calls of Campaign.idle

/* What is under way, and the slots that are free. */
typedef struct Slots {
  const Campaign *campaign;
  Workers workers;
  void **free; // [n_free]
  int n_free;
  Diag *diag;
} Slots;

static void free_slot(Slots *self, void *run) {
  if (self->campaign->release) self->campaign->release(run);
  self->free[self->n_free++] = run;
}

/* Gives threads what there is to run. */
static int feed(Slots *self) {
  const Campaign *campaign = self->campaign;
  while (self->n_free > 0) {
    if (interrupt_signal) return diag_interrupted(self->diag);
    void *run = self->free[self->n_free - 1];
    memset(run, 0, campaign->run_size);
    const int status = campaign->next(campaign->context, run);
    if (status <= 0) return status;
    self->n_free--;
    workers_push(&self->workers, campaign->make, run);
  }
  return 0;
}

/* The next run that has ended; meanwhile a transaction does not stay open for long. */
static void *pop(Slots *self, int *status) {
  Results *results = self->campaign->results;
  if (results && self->workers.n_in_flight > 0 &&
      !workers_wait(&self->workers, results_due(results)) && results_flush(results, self->diag))
    *status = -1;
  const Campaign *campaign = self->campaign;
  while (campaign->idle && self->workers.n_in_flight > 0 && !workers_wait(&self->workers, IDLE_S))
    campaign->idle(campaign->context);
  return workers_pop(&self->workers);
}

/* An interrupt ends the feeding; a failure the taking too. */
static int run_all(Slots *self) {
  const Campaign *campaign = self->campaign;
  int status = 0, fed = 0;
  for (;;) {
    if (status == 0 && fed == 0) fed = feed(self);
    if (fed < 0 && !interrupt_signal) status = -1;
    void *run = pop(self, &status);
    if (!run) return status < 0 ? status : fed;
    if (status == 0) status = campaign->take(campaign->context, run);
    free_slot(self, run);
  }
}

int campaign_run(const Campaign *self, Arena *arena, Diag *diag) {
  const int n = self->ahead * self->jobs;
  Slots slots = {.campaign = self, .free = ARENA_ARRAY(arena, void *, n), .diag = diag};
  for (; slots.n_free < n; slots.n_free++)
    slots.free[slots.n_free] = arena_alloc(arena, self->run_size);
  if (workers_init(&slots.workers, self->jobs, n, arena, diag)) return -1;
  if (self->results) results_batch(self->results, BATCH_S);
  int status = run_all(&slots);
  workers_done(&slots.workers);
  if (self->results) {
    results_batch(self->results, 0);
    if (results_flush(self->results, diag)) status = -1;
  }
  return status;
}
