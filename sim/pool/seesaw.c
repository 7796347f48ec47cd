/* When a group of GPUs changes its shape (Seesaw §4.2). Transition-minimising: it leaves prefill
 * when the store cannot take the next prompt or none is left, and decode when the store is empty
 * and prompts wait. The two other schedules are those it is compared with (Seesaw §2.2, Fig. 2).
 *
 * The paper turns back when the store is empty, to fill it again: its stores, 80 GiB a GPU of 24 or
 * 40 GB, are several times the GPUs' KV. Here that KV goes to the store first, and a store not much
 * larger than it would have room for a prompt or two, a turn for each. So decode goes on until
 * `min_room` of the store is free beside it: half, which stores of twice the GPUs' KV and more,
 * those of the paper, always have. */
#include "sim/pool/pool.h"

typedef enum Schedule {
  TRANSITION_MINIMIZING,
  PREFILL_PRIORITIZING, // decodes give way to any prompt that there is room for
  DECODE_PRIORITIZING,  // a batch, as large as the GPUs hold, is decoded to its end
} Schedule;

static const char *const schedules[] = {"transition_minimizing", "prefill_prioritizing",
                                        "decode_prioritizing", NULL};

typedef struct State {
  int schedule; // Schedule
  bool finish;
  double min_room; // share of the store
} State;

static bool leaves_prefill(const State *self, const GroupView *view) {
  const bool work = view->n_stored + view->n_decoding > 0;
  const bool batch_full =
      self->schedule == DECODE_PRIORITIZING && view->stored_blocks >= view->gpu_blocks;
  return work && (view->n_prompts == 0 || !view->takes_prompt || batch_full);
}

static bool leaves_decode(const State *self, const GroupView *view) {
  if (view->n_prompts == 0 || !view->takes_prompt) return false;
  if (self->schedule == PREFILL_PRIORITIZING) return true;
  if (view->n_stored + view->n_decoding == 0) return true; // only prompts begun hold the store
  const bool finish = self->finish || self->schedule == DECODE_PRIORITIZING;
  if (view->n_stored > 0 || (finish && view->n_decoding > 0)) return false;
  return (double)view->room_blocks >= self->min_room * (double)view->store_blocks;
}

static GroupShape shape(void *state, const GroupView *view) {
  const State *self = state;
  if (view->shape == SHAPE_PREFILL)
    return leaves_prefill(self, view) ? SHAPE_DECODE : SHAPE_PREFILL;
  return leaves_decode(self, view) ? SHAPE_PREFILL : SHAPE_DECODE;
}

static const OptionSpec options[] = {
    {"schedule", OPTION_CHOICE, offsetof(State, schedule), "transition_minimizing",
     .choices = schedules, .help = "when the GPUs turn to the other phase"},
    {"finish", OPTION_BOOL, offsetof(State, finish), "false",
     .help = "sequences on the GPUs end there before they turn, instead of being copied out"},
    {"min_room", OPTION_REAL, offsetof(State, min_room), "50%", .min = 0, .max = 1,
     .help = "share of the store that the KV on the GPUs must leave free before they turn back"},
    {0}};

const PoolPolicy pool_seesaw = {
    .policy = {.name = "seesaw",
               .help =
                   "pools that share their GPUs change between prefill and decode shapes (Seesaw)",
               .state_size = sizeof(State),
               .options = options},
    .shape = shape,
};
