/* Encoder inputs of requests on an instance that is scheduled step by step, such as images: what of
 * them its cache has, and what a step encodes (RULES.md, "Encoder inputs").
 *
 * The cache holds whole outputs by name. Those that a request refers to stay; the others are
 * evicted for new ones, the one that was left longest ago first. A request refers to an output
 * from the decision that needs it until a step has ended by which all of its place is computed. */
#ifndef SIM_CORE_ENCODER_H
#define SIM_CORE_ENCODER_H
#include "base/key_map.h"
#include "sim/core/decision.h"

/* An input of a request. Of those with one name the first says whether it refers to the output. */
typedef struct RequestInput {
  TraceInput of;
  bool refers;
} RequestInput;

typedef struct RequestInputs {
  RequestInput *items; // by place
  size_t n, capacity;
} RequestInputs;

typedef struct EncoderOutput {
  uint64_t id;
  int32_t tokens, references;
  uint32_t older, newer; // of those that may be evicted; OUTPUT_NONE: none
} EncoderOutput;

#define OUTPUT_NONE UINT32_MAX

typedef struct Encoder {
  Arena *arena;
  int64_t size, n_free, n_freeable; // tokens; the last are those free or not referred to
  KeyMap places;                    // in `outputs`, by name
  EncoderOutput *outputs;
  size_t capacity;
  uint32_t n_used, unused; // places below n_used, of which those from `unused` on have no output
  uint32_t oldest, newest;
  size_t *chosen; // inputs of the newest request that was looked at, to be encoded
  size_t n_chosen, chosen_capacity;
} Encoder;

void encoder_init(Encoder *self, int64_t size, Arena *arena);
/* Of the `tokens` > 0 behind those that a request has computed, those that a step may have, which
 * encodes `budget` tokens at most. It refers to what the cache has; what is to be encoded is
 * chosen, and room made for it. */
int64_t encoder_fit(Encoder *self, RequestInputs *inputs, int64_t computed, int64_t tokens,
                    int64_t budget);
/* The chosen inputs, of the same request, are encoded: their tokens. `*ret_inputs`: a bit for each
 * of the first 64. */
int64_t encoder_take(Encoder *self, RequestInputs *inputs, uint64_t *ret_inputs);
/* A request leaves its outputs, as far as their places end within `computed` tokens. */
void encoder_leave(Encoder *self, RequestInputs *inputs, int64_t computed);
/* The books against each other and against so many references of requests. Asserts. */
void encoder_audit(const Encoder *self, int64_t n_references);

/* Gives an instance its encoder. */
void encoding_start(Simulation *self, Instance *instance);
/* Keeps the inputs of a row that has come. */
void encoding_arrived(Simulation *self, RequestIx request, const TraceRow *row);
/* A copy of a request has the same. */
void encoding_copied(Simulation *self, RequestIx request, RequestIx copy);
/* As encoder_fit, in a decision; where others have taken what it needs, the next may be another. */
int64_t encoding_fit(Simulation *self, Instance *instance, Decision *decision, RequestIx request,
                     int64_t computed, int64_t tokens);
/* It has an item of the step for a chunk that was looked at just now. */
void encoding_take(Simulation *self, Instance *instance, Decision *decision, RequestIx request,
                   ScheduledItem *item);
/* It leaves the outputs of places within `computed` tokens; INT64_MAX: all. */
void encoding_leave(Simulation *self, Instance *instance, RequestIx request, int64_t computed);
/* References of a request. */
int64_t encoding_references(const Simulation *self, RequestIx request);
#endif
