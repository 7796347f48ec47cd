/* The loop of an instance: how it decides what it computes next, and what the end of that brings.
 * There are five. `loop_of_plans` asks the instance's batcher for a plan whenever an iteration has
 * ended (plans.c). `loop_of_steps` has a scheduler decide steps, one of them ahead of the step that
 * runs where the engine does so (scheduler.h, steps.c). `loop_of_flights` has it keep several in
 * the stages of a pipeline (flights.h), and `loop_of_ranks` in step with those of other ranks
 * (lockstep.h), with which `loop_of_rank_rounds` also decides together (rank_rounds.h). iteration.h
 * drives them. */
#ifndef SIM_CORE_LOOP_H
#define SIM_CORE_LOOP_H
#include "sim/core/state.h"

struct Loop {
  /* The batch is as of the newest decision, and has the blocks of all that is decided. Without this
   * it is as of the last iteration that ended, or of those of a decode run that are booked. */
  bool decides_ahead;
  /* Gives an instance what the loop keeps of it. Optional. */
  void (*start)(Simulation *self, Instance *instance);
  /* A request has come to an instance, or its KV has. Optional. */
  void (*hear)(Simulation *self, Instance *instance, RequestIx request);
  /* The instance fails. Optional. */
  void (*fail)(Instance *instance);
  /* Of rounds that are planned together (flight_plan.h): brings the instance up to now; blocks that
   * decisions until now took of which it does not know; what happens now comes between two of them.
   * Optional: none are planned. */
  void (*catch_up)(Simulation *self, Instance *instance);
  int64_t (*growth)(const Simulation *self, const Instance *instance);
  void (*cut)(Simulation *self, Instance *instance);
  /* Decides what an idle instance computes and begins it; that may be nothing. */
  void (*begin)(Simulation *self, Instance *instance);
  /* The event of an instance has come: whether it ends no iteration. Optional: it does. */
  bool (*goes_on)(Simulation *self, Instance *instance);
  /* The iteration or run in progress has ended: its tokens are there. Whether that changed anything
   * but the tokens of the batch. */
  bool (*end)(Simulation *self, Instance *instance, bool prefills);
  /* The instance has failed: nothing is made of the iteration in progress. */
  void (*break_off)(Simulation *self, Instance *instance);
  /* The instance has lost its memory, and has no request left: what it had decided never runs.
   * Optional. */
  void (*forget)(Simulation *self, Instance *instance);
  /* A request that an iteration in progress computes is given up. It leaves as that ends; at once
   * where none is in progress. */
  void (*leave)(Simulation *self, Instance *instance, RequestIx request);
  /* Takes a request that leaves early out of all that is decided; the tokens that the iteration in
   * progress makes of it for nobody. Optional. */
  int32_t (*withdraw)(Simulation *self, Instance *instance, RequestIx request);
  /* The computed tokens of the request that was withdrawn last are `booked` there, those of an
   * iteration that is decided and has not begun as well. Optional. */
  void (*withdrawn)(Simulation *self, Instance *instance, int64_t *booked);
  /* Requests that leave as the iteration in progress ends. */
  int64_t (*count_leaving)(const Instance *instance);
  /* Prompts of which the iteration in progress computes a chunk. */
  int64_t (*count_prompts)(const Instance *instance);
  /* Requests that have been admitted and are computed, or could be. */
  int64_t (*count_running)(const Instance *instance);
  /* The first iteration since the batch changed has ended at `end`: books the gap between the token
   * that each sequence made in it and the one before. */
  void (*book_gaps)(Simulation *self, const Instance *instance, Tick end);
  /* How long the iteration that begins lasts. Optional: as the performance model or the executor
   * says. */
  Tick (*ticks)(const Simulation *self, const Instance *instance, Extrapolation *ret_extrapolation);
  /* Fills Simulation.sequences with those of an iteration of `shape` that begins, of a decode run
   * `done` iterations beyond those that the batch knows of; how many prefill, which come first. */
  size_t (*list)(Simulation *self, const Instance *instance, const BatchShape *shape, int64_t done);
};

extern const Loop loop_of_plans, loop_of_steps, loop_of_flights, loop_of_ranks, loop_of_rank_rounds;
#endif
