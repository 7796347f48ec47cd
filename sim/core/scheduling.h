/* What a scheduler decides, and the beginning and end of its steps. See scheduler.h. */
#ifndef SIM_CORE_SCHEDULING_H
#define SIM_CORE_SCHEDULING_H
#include "sim/core/scheduler.h"
#include "sim/core/state.h"

/* How an engine decides. */
struct SchedulerRules {
  bool alternates; // the batch sits steps with prefill out
  bool tails;      // who makes the last token in a step that runs is still in the batch
  /* Gives an instance what they keep of it. Optional. */
  void (*start)(Simulation *self, Instance *instance);
  /* Decides the next step; it may be empty. Whether the next decision may be another though nothing
   * happens. */
  bool (*decide)(Simulation *self, Instance *instance, Step *step);
  /* `n` further decisions of a run were as the newest. Optional. */
  void (*repeated)(Simulation *self, Instance *instance, int64_t n);
  /* The most iterations of the batch until a decision may be another though nothing else happens;
   * INT64_MAX: however many there are. */
  int64_t (*watch)(const Simulation *self, const Instance *instance);
  /* A request has made its last token and is about to leave; its KV has `tokens`. Optional. */
  void (*finishes)(Simulation *self, Instance *instance, RequestIx request, int64_t tokens);
  /* A prefill of `tokens` has ended, which goes on here or leaves for elsewhere. Optional. */
  void (*prefilled)(Simulation *self, Instance *instance, RequestIx request, int64_t tokens);
  /* Nothing is there to be decided. Optional. */
  void (*idles)(Simulation *self, Instance *instance);
  /* As Loop.withdraw, and Loop.forget. */
  int32_t (*withdraw)(Simulation *self, Instance *instance, RequestIx request);
  void (*forget)(Instance *instance);
};
extern const SchedulerRules scheduler_rules_vllm, scheduler_rules_sglang;

/* A request that is given up leaves the scheduler, whatever steps have of it; the tokens that those
 * which have not ended make of it, for nobody. On an instance that has failed they make none. In
 * withdrawing.c. */
int32_t scheduler_withdraw(Simulation *self, Instance *instance, RequestIx request);
/* It leaves the batch, given up; the tokens of its output that decided steps make. In
 * withdrawing.c. */
int64_t scheduler_withdraw_from_batch(Simulation *self, Instance *instance, RequestIx request);
/* A request that leaves was preempted when a step had the end of its prompt, whose token counts:
 * what is computed of the prompt was not dropped, and is booked as of one that was not preempted.
 * In withdrawing.c. */
void scheduler_recall_prefill(Simulation *self, Instance *instance, RequestIx request);
/* The tokens of a request that are booked as computed where it leaves now, in each step that is
 * decided and does not end now (Step.n_ahead). In withdrawing.c. */
void scheduler_count_ahead(const Simulation *self, const Instance *instance, RequestIx request);
/* So many tokens of the step are in `booked` already, as computed. In withdrawing.c. */
void step_forfeits(Simulation *self, Step *step, int64_t *booked, int64_t tokens);
/* The step does not end: what is booked of it was not computed. In withdrawing.c. */
void step_take_back_forfeits(Step *step);
/* Of an instance with no request left: what it had decided never runs, and what ran has not ended.
 * In withdrawing.c. */
void scheduler_forget(Instance *instance);
/* The same, and of its connector what was on its way. In steps.c. */
void scheduler_lose_memory(Simulation *self, Instance *instance);
/* Whether something that has come may change the next decision. In admitting.c. */
bool scheduler_wake(const InstanceView *view, Wake why, RequestIx request);

/* As SchedulerRules.watch, of vLLM: until a decision may admit the first of those that wait, as
 * what a run makes may be what its prompt begins with. In admitting.c. */
int64_t scheduler_watch(const Simulation *self, const Instance *instance);
/* A decision of a step begins. In deciding.c. */
void scheduler_begin_decision(Simulation *self, Instance *instance, Step *step);
/* A new item of a step. In deciding.c. */
ScheduledItem *scheduler_add_item(Simulation *self, Step *step, RequestIx request,
                                  StepItemKind kind);
/* It is in the batch from the next decision on, with `made` tokens once the newest step has run. In
 * deciding.c. */
void scheduler_join_batch(Simulation *self, Instance *instance, RequestIx request, int32_t made);
/* The batch takes part in the step: who it is of, and what it computes. In deciding.c. */
void scheduler_add_batch(Simulation *self, Instance *instance, Step *step);
/* An item's part of the shape of its step. In deciding.c. */
void scheduler_add_shape(const Simulation *self, Step *step, const ScheduledItem *item);
/* Items of a request in a step are forgotten; the tokens that it makes by itself in that. In
 * withdrawing.c. */
int32_t scheduler_scrub(Step *step, RequestIx request);
/* On an instance that has failed: chunks of it that are decided are not done. In withdrawing.c. */
void scheduler_take_back(Simulation *self, const Instance *instance, RequestIx request);
/* Those of the batch that have made their last token in the step leave it. In deciding.c. */
void scheduler_end_sequences(Simulation *self, Instance *instance, Step *step);
/* It leaves the batch, and is in no further step. In deciding.c. */
void scheduler_leave_batch(Simulation *self, Instance *instance, RequestIx request);
/* Before whom a request waits that has given way: ahead of its likes. In deciding.c. */
RequestIx scheduler_head_for(const Simulation *self, const Instance *instance,
                             const Request *request);
/* Gives an instance a scheduler that has at most so many decided steps. In steps.c, as what
 * follows. */
void scheduler_start(Simulation *self, Instance *instance, size_t n_places);
/* Once the instance has its memory. An engine starts only if one request of its longest has room,
 * so that its drafts have it. */
void scheduler_limit_drafts(Instance *instance);
/* Nothing can run though KV has come in from elsewhere, and none that leaves will free memory: the
 * last to come must give way. */
bool scheduler_gives_way(Simulation *self, Instance *instance);
/* What those in a step that begins are up to. */
void scheduler_tell_of_beginnings(Simulation *self, Instance *instance, const Step *step);
/* What the encoder takes before a step, and the drafter behind it. */
Tick scheduler_beside_ticks(const Instance *instance, const Step *step);
/* The present step is what the instance computes from now on; its ticks, or those of the first if
 * others like it follow. */
Tick scheduler_begin_step(Simulation *self, Instance *instance);
/* It has ended. As Loop.end, and Loop.break_off. */
bool scheduler_end_step(Simulation *self, Instance *instance);
void scheduler_break_off(Simulation *self, Instance *instance);
/* Has it pause or go on from its next decision on. In pausing.c. */
void scheduler_pause(Simulation *self, Instance *instance, const PauseSpec *pause);
/* It decides a step: what it was told to do holds. In pausing.c. */
void scheduler_hear_pauses(Simulation *self, Instance *instance, Step *decided);
/* Enters it among those that are scheduled alone. In deciding.c. */
void scheduler_schedule_alone(Simulation *self, Instance *instance, RequestIx request);
/* Takes it out of those. In deciding.c. */
void scheduler_forget_alone(Scheduler *scheduler, RequestIx request);
/* Whether a step has a token of one that is in the batch, with that. In deciding.c. */
bool step_has_row(const Step *step, const Request *request);
/* Whether a request makes its last token with the batch in a step; `step` may be NULL. In
 * deciding.c. */
bool step_ends(const Step *step, RequestIx request);
#endif
