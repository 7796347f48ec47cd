/* A decision of a scheduler while it is made: who runs gets tokens in deciding.c, then who waits is
 * admitted in admitting.c. */
#ifndef SIM_CORE_DECISION_H
#define SIM_CORE_DECISION_H
#include "sim/core/scheduling.h"

typedef struct Decision {
  Step *step;
  int64_t tokens, budget;         // that it may have, and of those left
  int64_t threshold;              // of a prefill; INT64_MAX: none
  int64_t prompt_tokens, prompts; // tokens and numbers of prompts that it may have yet
  int64_t n_preempted;
  int64_t input;      // that those scheduled and their drafter may have yet (speculation.h)
  int64_t encoder;    // that it may encode yet (encoder.h)
  bool wants_encoder; // somebody had fewer tokens for want of those, or of room for them
  bool by_rank;       // prompts are on ranks, which have tokens of their own
  bool holds;         // prompts wait for decodes (prefill_schedule_interval)
  bool prefills;      // it has tokens of a prompt
  bool chunked;       // of one that ran
  bool stopped;       // who had to give way is in the step that runs: nobody after it gets tokens
} Decision;

static inline int64_t lesser(int64_t a, int64_t b) {
  return a < b ? a : b;
}

/* Tokens that it has blocks for when it has computed `done`: with those of its drafter. */
static inline int64_t scheduler_slots(const Scheduler *self, int64_t done) {
  const int64_t most = done > self->max_slots ? done : self->max_slots;
  return lesser(done + self->limits.speculation.lookahead, most);
}

/* Tokens of one decided step and the blocks for them. In deciding.c. */
KvReach scheduler_reach(const Instance *instance, const Request *request, int64_t tokens);

/* Tokens of a request that steps with drafts compute at most; none is needed of a last one. */
static inline int64_t scheduler_reaches(const Scheduler *self) {
  return lesser(self->max_model_len - 1, self->max_slots);
}

/* Whether a request is decoded here. One that will be elsewhere ends with its first token: the
 * engine asks for no more. */
static inline bool stays_here(const Instance *instance, const Request *request) {
  return request->decode_instance == instance->ix;
}

/* Its next `tokens`, for which there are blocks, are in the step. */
void decision_schedule(Simulation *self, Instance *instance, Decision *decision, RequestIx request,
                       int64_t tokens);
/* What the proposal of its scheduler says of it: the order of those that wait, and its limits. In
 * proposing.c. */
void decision_propose(Simulation *self, Instance *instance, Decision *decision);
/* Whether a proposal orders those that wait, by what may change from one decision to the next. In
 * proposing.c. */
bool proposal_sorts(const Scheduler *scheduler);
/* Admits of those that wait whoever may join. */
void decision_admit(Simulation *self, Instance *instance, Decision *decision);
#endif
