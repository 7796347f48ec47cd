/* See best.h. */
#include "experiments/provision/best.h"

enum { SURE = 2 }; // designs whose answers are searched on all seeds, and with times moved

static Replicate *first_of(const BestSearch *self, int design) {
  return &self->replicates[design * self->n_places];
}

static OpenSearch open_of(const BestSearch *self, Replicate *first) {
  const Answer least = {.fleet.takes = design_takes(first->design, first->result.least.counts)};
  return (OpenSearch){first, provision_value(self->provision, &least), least.fleet.takes.gpus};
}

/* Below 0: the first one takes less, 0: as much. */
static int compare_open(const OpenSearch *a, const OpenSearch *b) {
  if (a->value != b->value) return a->value < b->value ? -1 : 1;
  return a->gpus < b->gpus ? -1 : a->gpus > b->gpus;
}

/* Designs of which none has less left of its limits can still go before the open one. */
static int count_better(const BestSearch *self, const OpenSearch *open) {
  int n = 0;
  for (int d = 0; d < self->provision->n_designs; d++) {
    Replicate *first = first_of(self, d);
    if (!first->result.done || !first->result.found) continue;
    const Answer answer = replicate_answer(self->provision, first);
    const OpenSearch found = {first, provision_value(self->provision, &answer),
                              answer.fleet.takes.gpus};
    n += compare_open(&found, open) < 0;
  }
  return n;
}

/* How many of the others have a better answer. */
static int rank_of(const BestSearch *self, int design) {
  const Provision *provision = self->provision;
  const Answer mine = replicate_answer(provision, first_of(self, design));
  int rank = 0;
  for (int d = 0; d < provision->n_designs; d++) {
    const Answer other = replicate_answer(provision, first_of(self, d));
    rank += other.found && (!mine.found || provision_is_better(provision, &other, &mine) ||
                            (d < design && !provision_is_better(provision, &mine, &other)));
  }
  return rank;
}

static void settle(BestSearch *self) {
  for (int i = 0; i < self->n_open; i++) {
    SearchResult *result = &self->open[i].first->result;
    self->open[i].first->given_up = result->done = true;
    result->found = false;
  }
  self->n_open = 0;
  for (int d = 0; d < self->provision->n_designs; d++)
    first_of(self, d)->first_seed_alone = rank_of(self, d) >= SURE;
}

void best_init(BestSearch *self, const Provision *provision, Replicate *replicates, int n_places,
               Arena *arena) {
  *self = (BestSearch){.provision = provision, .replicates = replicates, .n_places = n_places};
  if (provision->n_best == 0) return;
  self->open = ARENA_ARRAY(arena, OpenSearch, provision->n_designs);
  self->n_open = provision->n_designs;
  for (int d = 0; d < provision->n_designs; d++)
    for (int i = 0; i < COUNTS_MAX && i < provision->designs[d].n_counts; i++)
      first_of(self, d)->result.least.counts[i] = provision->designs[d].counts[i].low;
  best_update(self);
}

void best_update(BestSearch *self) {
  if (self->n_open == 0) return;
  self->n_open = 0;
  for (int d = 0; d < self->provision->n_designs; d++) {
    if (first_of(self, d)->result.done) continue;
    const OpenSearch one = open_of(self, first_of(self, d));
    int at = self->n_open++;
    for (; at > 0 && compare_open(&one, &self->open[at - 1]) < 0; at--)
      self->open[at] = self->open[at - 1];
    self->open[at] = one;
  }
  if (self->n_open == 0 || count_better(self, &self->open[0]) >= self->provision->n_best)
    settle(self);
}
