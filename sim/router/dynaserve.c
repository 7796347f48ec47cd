/* DynaServe's global scheduler (arXiv 2504.09285): each request is cut at some token, and its two
 * parts run on two instances that serve both phases. From its abstract: the cut may be at any token
 * of prompt and output, makes two parts at most, and follows from the time that the request's
 * prefill and decode take and from the loads of the instances; batches are those of the instances.
 * Ours, as the paper's algorithm is not at hand: what a load is, which instances, the search.
 *
 * A load is the work of the parts that were sent to an instance and have not left it, in ns:
 * the time of the prompt's tokens, alone and at once, and for each token of output a share of an
 * iteration that decodes `batch` sequences. The first part goes to the instance with the least load
 * and the second to the next; the cut is where the loads of the two are then the most alike, which
 * a binary search finds, as one only grows with it and the other only shrinks. Where prefill and
 * decode instances are apart, the first part goes to one of those and the second to one of these.
 */
#include "sim/predictor/predictor.h"
#include "sim/router/router.h"
#include <math.h>

typedef enum Rule { RULE_BALANCED, RULE_PROMPT, RULE_SHARE } Rule;

/* What of a request's work has been sent and not left, in ns. A part counts as half an hour at
 * most: a predicted range may have no end, and loads of a million requests must not overflow. */
typedef struct Sent {
  InstanceIx first, second;
  int64_t first_work, second_work;
} Sent;

static const double TICKS_PER_NS = (double)TICKS_PER_SECOND / 1e9;
static const double WORK_MAX = 1.8e12; // ns

typedef struct State {
  int rule;     // Rule
  int estimate; // Estimate
  double share;
  int64_t batch;
  Arena *arena;
  Column *work; // sent to each instance
  Sent *sent;   // [capacity] by slot
  size_t n_sent, capacity;
} State;

/* A request on the two instances. */
typedef struct Parts {
  const PerfModel *first, *second;
  int64_t prompt, output;           // tokens
  double first_token, second_token; // ticks of a token of output
  double first_load, second_load;
} Parts;

static void start(void *state, const ClusterView *view, uint64_t seed, Arena *arena) {
  (void)seed;
  State *self = state;
  self->arena = arena;
  self->work = column_new(view->columns.all);
}

/* --- the work of a part */

/* Tokens of a prompt, those before them computed. */
static double prompt_ticks(const PerfModel *model, int64_t from, int64_t to) {
  if (from >= to) return 0;
  const BatchShape shape = {.prefill_tokens = to - from, .prefill_area2 = to * to - from * from};
  return (double)perfmodel_iteration(model, &shape, NULL);
}

static double token_ticks(const State *self, const PerfModel *model, int64_t context) {
  const int64_t seqs = self->batch < model->max_decode_seqs ? self->batch : model->max_decode_seqs;
  return (double)perfmodel_decode_step(model, seqs, seqs * context) / (double)seqs;
}

static double first_ticks(const Parts *self, int64_t cut) {
  const int64_t prompt = cut < self->prompt ? cut : self->prompt;
  return prompt_ticks(self->first, 0, prompt) + (double)(cut - prompt) * self->first_token;
}

static double second_ticks(const Parts *self, int64_t cut) {
  const int64_t prompt = cut < self->prompt ? cut : self->prompt;
  const int64_t output = self->output - (cut - prompt);
  return prompt_ticks(self->second, prompt, self->prompt) + (double)output * self->second_token;
}

static int64_t work_of(double ticks) {
  return (int64_t)fmin(ticks / TICKS_PER_NS, WORK_MAX);
}

/* By how much the first instance would have more to do. */
static double excess(const Parts *self, int64_t cut) {
  return self->first_load + first_ticks(self, cut) - self->second_load - second_ticks(self, cut);
}

/* Of equals the lower. */
static int64_t balanced(const Parts *self) {
  int64_t low = 0, high = self->prompt + self->output; // the first with an excess, if there is one
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (excess(self, middle) >= 0)
      high = middle;
    else
      low = middle + 1;
  }
  return low > 0 && fabs(excess(self, low - 1)) <= fabs(excess(self, low)) ? low - 1 : low;
}

static int64_t choose_cut(const State *self, const Parts *parts) {
  switch ((Rule)self->rule) {
  case RULE_PROMPT:
    return parts->prompt;
  case RULE_SHARE:
    return (int64_t)(self->share * (double)(parts->prompt + parts->output) + 0.5);
  case RULE_BALANCED:
    break;
  }
  return balanced(parts);
}

/* --- books */

static void settle(State *self, RequestIx ix, bool all) {
  Sent *sent = &self->sent[ix];
  if (sent->first_work > 0) column_add(self->work, sent->first, -sent->first_work);
  sent->first_work = 0;
  if (!all || sent->second_work == 0) return;
  column_add(self->work, sent->second, -sent->second_work);
  sent->second_work = 0;
}

static Sent *open_books(State *self, RequestIx ix) {
  ARENA_RESERVE(self->arena, self->sent, self->capacity, (size_t)ix + 1);
  for (; self->n_sent <= ix; self->n_sent++)
    self->sent[self->n_sent] = (Sent){0};
  settle(self, ix, true);
  return &self->sent[ix];
}

static void observe(void *state, const ClusterView *view, RequestIx ix, Observation what,
                    InstanceIx instance) {
  (void)view, (void)instance;
  if (what == OBSERVED_TRANSFERRED)
    settle(state, ix, false);
  else if (what == OBSERVED_FINISHED || what == OBSERVED_CANCELLED)
    settle(state, ix, true);
}

/* --- the choice */

/* The output that is foreseen: a token at least, and no more than its client allows. */
static int64_t foreseen(const State *self, const Request *request) {
  const int64_t output = prediction_output(request, (Estimate)self->estimate);
  const int64_t least = output > 1 ? output : 1;
  return least < request->max_tokens ? least : request->max_tokens;
}

/* Where roles move there may be none of a role and none that is mixed for a while. */
static InstanceIx least_of(State *self, const ClusterView *view, Role role, Role other,
                           InstanceIx but) {
  const RoleList *lists = view->by_role;
  const RoleList *list = &lists[lists[role].count         ? role
                                : lists[ROLE_MIXED].count ? ROLE_MIXED
                                                          : other];
  if (but == INSTANCE_NONE) return column_least(self->work, list);
  return column_least_but(self->work, list, but);
}

static Placement send(State *self, const Parts *parts, InstanceIx first, InstanceIx second,
                      RequestIx ix) {
  const int64_t all = parts->prompt + parts->output;
  const int64_t cut = second == INSTANCE_NONE ? all : choose_cut(self, parts);
  Sent *sent = open_books(self, ix);
  *sent = (Sent){.first = first, .second = second};
  sent->first_work = work_of(first_ticks(parts, cut));
  if (second != INSTANCE_NONE) sent->second_work = work_of(second_ticks(parts, cut));
  column_add(self->work, first, sent->first_work);
  if (second == INSTANCE_NONE) return (Placement){.prefill = first, .decode = first};
  column_add(self->work, second, sent->second_work);
  if (cut == 0) return (Placement){second, second, .roles_stay = true, .claimed = INSTANCE_NONE};
  const int32_t most = INT32_MAX;
  return (Placement){.prefill = first, .decode = second, .cut = cut < most ? (int32_t)cut : most};
}

static Placement pick(void *state, const ClusterView *view, RequestIx ix) {
  State *self = state;
  const Request *request = &view->requests[ix];
  const InstanceIx first = least_of(self, view, ROLE_PREFILL, ROLE_DECODE, INSTANCE_NONE);
  const InstanceIx second = least_of(self, view, ROLE_DECODE, ROLE_PREFILL, first);
  Parts parts = {.first = view->instances[first].pool->perfmodel,
                 .prompt = request->prompt_tokens,
                 .output = foreseen(self, request)};
  const int64_t context = parts.prompt + parts.output / 2;
  parts.first_token = token_ticks(self, parts.first, context);
  parts.first_load = TICKS_PER_NS * (double)column_at(self->work, first);
  if (second != INSTANCE_NONE) {
    parts.second = view->instances[second].pool->perfmodel;
    parts.second_token = token_ticks(self, parts.second, context);
    parts.second_load = TICKS_PER_NS * (double)column_at(self->work, second);
  }
  return send(self, &parts, first, second, ix);
}

static const char *const rules[] = {"balanced", "prompt", "share", NULL}; // as Rule
static const char *const estimates[] = {"low", "high", NULL};             // as Estimate

static const OptionSpec options[] = {
    {"cut", OPTION_CHOICE, offsetof(State, rule), "balanced", .choices = rules,
     .help = "Token after which a request is cut: where the loads of both instances are the most "
             "alike (balanced), the last of the prompt (prompt), or a share of all tokens."},
    {"share", OPTION_REAL, offsetof(State, share), "0.5", .min = 0, .max = 1,
     .help = "Share of the tokens of a request before its cut. It applies to cut share."},
    {"estimate", OPTION_CHOICE, offsetof(State, estimate), "high", .choices = estimates,
     .help = "End of the predicted range of output tokens by which a request is cut."},
    {"batch", OPTION_INT, offsetof(State, batch), "64", .min = 1, .max = 65536,
     .help = "Sequences in the batch of which a decode's token is counted as one share."},
    {0},
};

const Router router_dynaserve = {
    .policy = {.name = "dynaserve",
               .help = "Cuts each request at a token, so that the loads of two instances are alike "
                       "(DynaServe).",
               .state_size = sizeof(State),
               .options = options},
    .cuts = true,
    .start = start,
    .pick = pick,
    .observe = observe,
};
