/* Speculative decoding in a question: what makes the drafts, and how many of them are accepted. */
#include "experiments/plan/plan.h"
#include "sim/batcher/batcher.h"
#include "sim/policies.h"
#include <string.h>

static const char DRAFTS[] = "policies.batcher.speculative", METHOD[] = ".method",
                  ACCEPTANCE[] = ".acceptance";

/* Whether an assignment is of the key, or of one below it. */
static bool is_below(const char *assignment, const char *key) {
  const size_t length = strlen(key);
  return strncmp(assignment, key, length) == 0 && strchr(".=", assignment[length]);
}

/* Whether --set has all drafts, or this key of them; NULL: any. */
static bool says(const Question *asked, const char *key) {
  for (const char *const *one = asked->assignments; one && *one; one++) {
    if (!is_below(*one, DRAFTS)) continue;
    const char *rest = *one + strlen(DRAFTS);
    if (!key || *rest == '=' || is_below(rest, key)) return true;
  }
  return false;
}

static int check_engine(const ServingEngine *engine, Diag *diag) {
  const Batcher *batcher = NULL;
  for (const Policy *const *one = policy_list(POLICY_BATCHER); *one; one++)
    if (strcmp((*one)->name, engine->batcher) == 0) batcher = (const Batcher *)*one;
  if (batcher && batcher->speculation) return 0;
  diag_error(diag, place_of_file("--speculative"),
             "speculative decoding of engine '%s' is not modelled", engine->name);
  return diag_hint(diag, "it is modelled with --engine vllm and --engine trtllm");
}

int question_resolve_drafts(Plan *self, const ServingEngine *engine, Diag *diag) {
  const Question *asked = self->question;
  const Place at = place_of_file("--speculative");
  if (asked->drafts <= 0) return 0;
  if (check_engine(engine, diag)) return -1;
  const bool own = says(asked, METHOD);
  self->mtp = !own && self->model.num_nextn_predict_layers > 0;
  if (!self->mtp && !own) {
    diag_error(diag, at,
               "model '%s' has no MTP layers: give --set %s.method=eagle and --set "
               "%s.acceptance=TOKENS",
               self->model.name, DRAFTS, DRAFTS);
    return diag_hint(diag,
                     "the method may also be ngram or draft_model; the acceptance is the mean "
                     "number of tokens that a step makes of a request");
  }
  if (!self->mtp || says(asked, ACCEPTANCE)) return 0;
  if (asked->drafts > ACCEPTANCE_DRAFTS_MAX) {
    diag_error(diag, at, "no acceptance is published of more than %d drafts",
               (int)ACCEPTANCE_DRAFTS_MAX);
    return diag_hint(diag, "give --set %s.acceptance=TOKENS, the tokens that a step makes", DRAFTS);
  }
  self->has_acceptance = true;
  self->acceptance = acceptance_published(self->model.name, asked->drafts);
  return 0;
}

int plan_set_keys(Plan *plan, Arena *arena, Diag *diag) {
  const Question *asked = plan->question;
  size_t n = 0, n_kept = 0;
  while (asked->assignments && asked->assignments[n])
    n++;
  if (n == 0) return 0;
  const char **kept = ARENA_ARRAY(arena, const char *, n + 1);
  for (size_t i = 0; i < n; i++)
    if (asked->drafts != 0 || !is_below(asked->assignments[i], DRAFTS))
      kept[n_kept++] = asked->assignments[i];
  Node *root = yaml_parse("(the study)", plan->text, strlen(plan->text), arena, diag);
  const ConfigChanges changes = {.assignments = kept, .seed = -1, .tie_seed = -1};
  if (!root || config_change(root, &changes, arena, diag)) return -1;
  plan->text = arena_printf(arena, "%s\n", node_text(root, arena));
  return 0;
}
