/* See speculative.h. Methods by their names in vLLM's `speculative_config`. */
#include "sim/batcher/speculative.h"
#include "sim/batcher/batcher.h"

typedef enum DraftMethod { METHOD_NGRAM, METHOD_DRAFT_MODEL, METHOD_EAGLE, METHOD_MTP } DraftMethod;
static const char *const methods[] = {"ngram", "draft_model", "eagle", "mtp", NULL};

typedef struct Speculative {
  int method; // DraftMethod
  int64_t num_speculative_tokens, mtp_modules;
  Tick drafter_time;
  double acceptance_error;
  const Node *acceptance;
} Speculative;

static const OptionSpec options[] = {
    OPTION_OF(Speculative, method, OPTION_CHOICE, .required = true, .choices = methods,
              .help = "What proposes the drafts: n-grams of the request's own tokens, a draft "
                      "model, an EAGLE head, or the model's MTP layers."),
    OPTION_OF(Speculative, num_speculative_tokens, OPTION_INT, .required = true, .min = 1,
              .max = SPECULATIVE_TOKENS_MAX,
              .help = "Number of draft tokens of each request in a step."),
    OPTION_OF(Speculative, mtp_modules, OPTION_INT, .fallback = "1", .min = 1,
              .max = SPECULATIVE_TOKENS_MAX,
              .help =
                  "Number of MTP modules (method: mtp). A single one makes all drafts in turn."),
    OPTION_OF(Speculative, drafter_time, OPTION_TICKS,
              .absent =
                  "0 of n-grams; of eagle and mtp one average layer of the model and its head "
                  "for each draft; required of a draft_model",
              .help = "Time that the drafter takes in each step that makes tokens."),
    OPTION_OF(Speculative, acceptance, OPTION_NODE, .required = true,
              .help = "Drafts that are accepted: the mean number of tokens that a step makes of a "
                      "request, from 1 to 1 + num_speculative_tokens, or for each draft the share "
                      "of steps that accept it and those before it. A map has one of these for "
                      "each component or class of a mix."),
    OPTION_OF(Speculative, acceptance_error, OPTION_REAL, .fallback = "0", .max = 1,
              .help = "Relative error of the acceptance. It widens the error of the iteration "
                      "times, where that is known."),
    {0},
};

/* The schedule of least variance with a mean, as that of vLLM's synthetic acceptance: steps accept
 * the whole number of drafts below it or one more. */
static int bind_length(const Speculative *self, const Node *node, double *rates, Diag *diag) {
  const OptionSpec spec = {.key = "acceptance",
                           .type = OPTION_REAL,
                           .min = 1,
                           .max = (double)(1 + self->num_speculative_tokens)};
  double left;
  if (option_bind_one(&spec, node, &left, diag)) return -1;
  left -= 1;
  for (int64_t i = 0; i < self->num_speculative_tokens; i++, left -= 1)
    rates[i] = left >= 1 ? 1 : left > 0 ? left : 0;
  return 0;
}

static int bind_rates(const Speculative *self, const Node *list, double *rates, Diag *diag) {
  static const OptionSpec spec = {.key = "acceptance", .type = OPTION_REAL, .max = 1};
  if (list->kind != NODE_LIST || list->n_children != self->num_speculative_tokens)
    return diag_error(diag, list->at,
                      "'acceptance' must be a number or a list of num_speculative_tokens = %lld",
                      (long long)self->num_speculative_tokens);
  int64_t i = 0;
  for (const Node *rate = list->first; rate; rate = rate->next, i++) {
    if (option_bind_one(&spec, rate, &rates[i], diag)) return -1;
    if (i > 0 && rates[i] > rates[i - 1])
      return diag_error(diag, rate->at, "shares of accepted drafts must not rise");
  }
  return 0;
}

static int bind_one(const Speculative *self, const Node *node, Acceptance *ret, Arena *arena,
                    Diag *diag) {
  double *rates = ARENA_ARRAY(arena, double, self->num_speculative_tokens);
  *ret = (Acceptance){
      .name = node == self->acceptance ? NULL : node->key, .at = node->key_at, .rates = rates};
  return (node->kind == NODE_SCALAR ? bind_length : bind_rates)(self, node, rates, diag);
}

/* One of all requests, or one for each name. */
static int bind_acceptance(const Speculative *self, Speculation *ret, Arena *arena, Diag *diag) {
  const Node *node = self->acceptance;
  const bool map = node->kind == NODE_MAP && node->n_children > 0;
  Acceptance *all = ARENA_ARRAY(arena, Acceptance, map ? node->n_children : 1);
  int status = 0;
  ret->acceptance = all;
  for (const Node *one = map ? node->first : node; one; one = map ? one->next : NULL)
    status |= bind_one(self, one, &all[ret->n_acceptance++], arena, diag);
  return status;
}

/* A module that makes all drafts in turn sees the tokens of the step, then the draft before each;
 * several see the tokens of the step. */
static DrafterPasses passes_of(int64_t num_speculative_tokens, bool modules) {
  const int64_t all = modules ? num_speculative_tokens : 1;
  return (DrafterPasses){all, num_speculative_tokens - all};
}

int speculative_bind(Speculation *self, const Node *map, Place owner, Arena *arena, Diag *diag) {
  Speculative written = {.drafter_time = -1};
  *self = (Speculation){0};
  if (!map) return 0;
  if (option_bind(options, map, NULL, owner, &written, diag)) return -1;
  const int64_t n = written.num_speculative_tokens;
  Speculation accepts = {0};
  if (bind_acceptance(&written, &accepts, arena, diag)) return -1;
  const bool trained = written.method == METHOD_EAGLE || written.method == METHOD_MTP;
  const bool modules = written.method == METHOD_MTP && written.mtp_modules > 1;
  if (written.method != METHOD_MTP && written.mtp_modules > 1)
    return diag_error(diag, map->at, "'mtp_modules' needs method: mtp");
  if (written.method == METHOD_DRAFT_MODEL && written.drafter_time < 0)
    return diag_error(diag, map->at, "'drafter_time' is needed with method: draft_model");
  *self = (Speculation){.num_speculative_tokens = (int32_t)n,
                        .lookahead = written.method == METHOD_NGRAM ? 0 : (int32_t)n,
                        .mtp = written.method == METHOD_MTP,
                        .draft_slots = written.method == METHOD_DRAFT_MODEL,
                        .prefill_lookahead = modules ? (int32_t)n : trained,
                        .drafter_time = written.drafter_time > 0 ? written.drafter_time : 0,
                        .passes = trained && written.drafter_time < 0 ? passes_of(n, modules)
                                                                      : (DrafterPasses){0},
                        .error = written.acceptance_error,
                        .acceptance = accepts.acceptance,
                        .n_acceptance = accepts.n_acceptance};
  return 0;
}
