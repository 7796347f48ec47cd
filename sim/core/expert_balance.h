/* Experts of an instance on its GPUs, the load of the busiest of these, and EPLB's rearrangements
 * (RULES.md, "Loads of experts"). Of instances whose attention ranks step together (lockstep.h);
 * each forward is one of the engine's steps.
 *
 * A forward's experts take as long as those of a GPU that has the load of the busiest one, in the
 * mean over the layers: of x tokens what the performance model says of x·f / f0, f being that over
 * the mean of all GPUs and f0 the same of the loads that the model's times are of
 * (PerfModel.experts, PerfModel.busiest). */
#ifndef SIM_CORE_EXPERT_BALANCE_H
#define SIM_CORE_EXPERT_BALANCE_H
#include "perfmodel/perfmodel.h"
#include "sim/core/eplb.h"
#include "sim/core/expert_load.h"

typedef struct ExpertSpec ExpertSpec;
/* Of a pool. */
struct ExpertSpec {
  ExpertLoadSpec load;
  EplbShape shape;
  int64_t step_interval;        // forwards between two rearrangements; 0: experts stay
  int64_t first_step;           // before the first
  int64_t window_size;          // forwards before one whose loads it is by
  bool use_async;               // weights move beside forwards, which go on with the old placement
  Tick rearrange_time;          // of the host, in each
  int64_t expert_bytes;         // of an expert in one layer
  int64_t node_rate, wide_rate; // bytes/s of each GPU and direction: on a machine, to others
};

typedef struct ExpertBalance {
  const ExpertSpec *spec;
  ExpertLoad load;
  Eplb eplb;
  int32_t *expert_of, *next_of; // [n_layers · n_slots]; of these the present
  int64_t *seen;                // [n_layers · n_experts] tokens in the window, in parts of a token
  int64_t tokens;               // of them since the loads last changed
  int64_t n_forwards;           // since the last rearrangement
  int64_t interval;             // before the next
  int64_t imbalance;            // f in EPLB_ONE
  Tick arrives_at;              // next_of takes its place then; TICK_MAX: none is on its way
  int64_t *sent, *received;     // [2 · n_gpus] experts of a layer: on the machine, to others
  bool *gone;                   // [n_gpus] it has no experts (RULES.md, "Ranks that fail")
  int32_t n_gone;
  int32_t *packed; // [n_slots] reused
} ExpertBalance;

void expert_balance_init(ExpertBalance *self, const ExpertSpec *spec, uint64_t seed,
                         const char *stream, Arena *arena);
/* What came with a forward. */
typedef struct Rearrangement {
  bool happens;
  int64_t n_moved;  // experts of a layer that come from another GPU
  int64_t n_loaded; // that no GPU has
  Tick ticks;       // that it takes, beside forwards with use_async, but for those that are loaded
} Rearrangement;

/* A forward is about to begin at `now` or later; one with a rearrangement begins after that. */
Rearrangement expert_balance_begin(ExpertBalance *self, Tick now);
/* What a forward of so many tokens takes more than with the loads of the model; it may be less. */
FineTick expert_balance_more(const ExpertBalance *self, const PerfModel *model, int64_t tokens);
/* A forward is launched, and its tokens are seen. */
void expert_balance_count(ExpertBalance *self, int64_t tokens);
/* The instance starts anew, with the first placement. */
void expert_balance_restart(ExpertBalance *self);
/* So many GPUs from `first` on have no experts any more, or places for them again. */
void expert_balance_set_gone(ExpertBalance *self, int32_t first, int32_t n, bool gone);
/* Whether so many GPUs have a place for each expert. */
bool expert_balance_fits(const ExpertSpec *spec, int64_t gpus);
/* Experts are placed on the GPUs that there are, by what was seen since the last rearrangement: at
 * once, whatever use_async says. */
Rearrangement expert_balance_regroup(ExpertBalance *self);
/* Each expert has a place, and the imbalance is that of the placement. */
void expert_balance_audit(const ExpertBalance *self);
/* Ticks that moving from one placement of a layer to another takes, and in `ret_moved` how many
 * experts come from another GPU. From its own GPU an expert comes at once; else from the holder
 * that has sent the least, on the same machine if there is one. As long as the busiest direction of
 * a link of a GPU. Experts that no GPU has are counted in `ret_loaded`, and take no time here. */
Tick expert_balance_move(ExpertBalance *self, const int32_t *from, const int32_t *to,
                         int64_t *ret_moved, int64_t *ret_loaded);
#endif
