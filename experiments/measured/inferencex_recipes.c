/* Numbers of instances that a row leaves out. InferenceX publishes which deployments it runs with
 * how many clients, and what a row has of its own — engine, version, month, GPU, number format,
 * lengths, clients, the GPUs of an instance or of all of them — is enough to find the one that it
 * is of, or to see that there are several. */
#include "experiments/measured/inferencex.h"
#include <string.h>

typedef struct Heading {
  const char *engine, *gpu, *precision;
  int64_t prompt, output;
  const char *version, *image; // how they begin and end; NULL, and of a row "": any
  const char *since, *before;  // days or their beginnings; NULL: any
} Heading;

/* A heading, or a deployment of the one before it. */
typedef struct Recipe {
  Heading of;
  int64_t drafts; // of the MTP layer in a step; 0: no speculative decoding
  MeasuredPool pools[MEASURED_POOLS];
  int64_t clients[12]; // 0: no more
} Recipe;

#define OF(...) {.of = {__VA_ARGS__}},
/* The two differ in a field: a macro that both went through would count an instance's degrees as
 * arguments of its own. */
#define PLAIN(prefills, prefill, decodes, decode, ...)                                             \
  {.pools = {{prefills, prefill, 1, 0}, {decodes, decode, 1, 0}}, .clients = {__VA_ARGS__}},
#define DRAFT(drafts_, prefills, prefill, decodes, decode, ...)                                    \
  {.drafts = drafts_,                                                                              \
   .pools = {{prefills, prefill, 1, 0}, {decodes, decode, 1, 0}},                                  \
   .clients = {__VA_ARGS__}},
#define TP(n)  n, 1, 1
#define TEP(n) n, 1, n
#define DP(n)  1, n, 1
#define DEP(n) 1, n, n
static const Recipe recipes[] = {
#include "experiments/measured/inferencex_recipes.def"
};

static bool begins(const char *text, const char *with) {
  return !with || !*text || strncmp(text, with, strlen(with)) == 0;
}

static bool ends(const char *text, const char *with) {
  const size_t length = with ? strlen(with) : 0, all = strlen(text);
  return length == 0 || all == 0 || (all >= length && strcmp(text + all - length, with) == 0);
}

static bool is_heading_of(const Heading *self, const MeasuredPoint *point,
                          const InferenceXRow *row) {
  const char *day = row->measured_at;
  return strcmp(self->engine, row->backend) == 0 && strcmp(self->gpu, row->system) == 0 &&
         strcmp(self->precision, row->precision) == 0 && strstr(row->model_path, "DeepSeek") &&
         self->prompt == point->prompt_tokens.written &&
         self->output == point->output_tokens.written &&
         begins(row->backend_version, self->version) && ends(row->image, self->image) &&
         (!*day || ((!self->since || strcmp(day, self->since) >= 0) &&
                    (!self->before || strcmp(day, self->before) < 0)));
}

static int64_t gpus_of(const MeasuredPool *pool) {
  return pool->tensor * pool->attention;
}

static bool has_degrees(const Recipe *self, const InferenceXWritten *written) {
  const MeasuredPool *prefill = &self->pools[MEASURED_PREFILL],
                     *decode = &self->pools[MEASURED_DECODE];
  const int64_t all = prefill->workers * gpus_of(prefill) + decode->workers * gpus_of(decode);
  if (written->gpus > 0 && written->gpus == all) return true;
  if (written->decode_gpus == 0) return false; // all that is written is of all GPUs
  if (written->prefill_gpus * written->decode_gpus == 1) return true; // nothing is written
  return written->prefill_gpus == gpus_of(prefill) && written->decode_gpus == gpus_of(decode) &&
         written->prefill_expert == prefill->expert;
}

static bool has_clients(const Recipe *self, int64_t clients) {
  for (size_t i = 0; i < sizeof self->clients / sizeof *self->clients; i++)
    if (clients > 0 && self->clients[i] == clients) return true;
  return false;
}

static bool same_pools(const Recipe *a, const Recipe *b) {
  return memcmp(a->pools, b->pools, sizeof a->pools) == 0;
}

/* Those that fit a row: the first without and with speculative decoding, or NULL, and whether
 * another one differs from it. */
typedef struct Found {
  const Recipe *plain, *drafting;
  bool several_plain, several_drafting;
} Found;

static void take_recipe(Found *self, const Recipe *recipe) {
  const bool drafts = recipe->drafts > 0;
  const Recipe **first = drafts ? &self->drafting : &self->plain;
  if (!*first) *first = recipe;
  if (!same_pools(*first, recipe) || (*first)->drafts != recipe->drafts)
    *(drafts ? &self->several_drafting : &self->several_plain) = true;
}

static Found find_recipes(const MeasuredPoint *point, const InferenceXRow *row,
                          const InferenceXWritten *written) {
  Found ret = {0};
  bool here = false;
  for (const Recipe *recipe = recipes; recipe < recipes + sizeof recipes / sizeof *recipes;
       recipe++) {
    if (recipe->of.engine)
      here = is_heading_of(&recipe->of, point, row);
    else if (here && has_clients(recipe, point->clients) && has_degrees(recipe, written))
      take_recipe(&ret, recipe);
  }
  return ret;
}

static const char *take_deployment(MeasuredPoint *point, const Recipe *recipe, const char *solved) {
  memcpy(point->pools, recipe->pools, sizeof point->pools);
  point->script.drafts = recipe->drafts;
  point->solved = solved;
  return NULL;
}

static const char several[] = "several that InferenceX lists fit its columns";

const char *inferencex_solve(MeasuredPoint *point, const InferenceXRow *row,
                             const InferenceXWritten *written) {
  const Found found = find_recipes(point, row, written);
  const Recipe *plain = found.plain, *drafting = found.drafting;
  if (!plain && !drafting) return "none that InferenceX lists fits its columns";
  if (!plain && strcmp(point->engine, "sglang") == 0)
    return "InferenceX lists its columns with speculative decoding only, which is not simulated "
           "with SGLang";
  if (!plain && found.several_drafting)
    return "several that InferenceX lists fit its columns, all with speculative decoding";
  if (!plain)
    return take_deployment(point, drafting,
                           "the one deployment that InferenceX lists for its columns, with "
                           "speculative decoding");
  if (found.several_plain) return several;
  if (!drafting)
    return take_deployment(point, plain,
                           "the one deployment that InferenceX lists for its columns");
  if (found.several_drafting || !same_pools(plain, drafting)) return several;
  return take_deployment(point, plain,
                         "the one deployment that InferenceX lists for its columns, without "
                         "speculative decoding, with which it is listed, too");
}
