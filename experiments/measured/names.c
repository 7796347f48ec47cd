/* What others call models, machines and number formats. */
#include "experiments/measured/set.h"
#include "perfmodel/datafile.h"
#include "perfmodel/llm.h"
#include <ctype.h>
#include <string.h>

/* ---- Models ---- */

/* Checkpoints of one shape: the name that times are under. */
static const char *const same_shapes[][2] = {{"deepseekv31", "deepseekv3"},
                                             {"qwen330ba3binstruct2507", "qwen330ba3b"},
                                             {"llama3370b", "llama3170b"}};

/* "llama3170b" of "meta-llama/Llama-3.1-70B-Instruct": letters and digits without what says how it
 * was trained on or packed. */
static const char *plain_name(const char *model, Arena *arena) {
  static const char *const packings[] = {"instruct", "nvfp4", "fp8", "fp4", "bf16"};
  const char *slash = strrchr(model, '/');
  const char *from = slash ? slash + 1 : model;
  char *name = arena_copy(arena, from, strlen(from)), *end = name;
  for (const char *at = from; *at; at++)
    if (isalnum((unsigned char)*at)) *end++ = (char)tolower((unsigned char)*at);
  *end = '\0';
  for (bool cut = true; cut;) {
    cut = false;
    for (size_t i = 0; i < sizeof packings / sizeof *packings; i++) {
      const size_t length = strlen(name), tail = strlen(packings[i]);
      if (length <= tail || strcmp(name + length - tail, packings[i]) != 0) continue;
      name[length - tail] = '\0';
      cut = true;
    }
  }
  return name;
}

static const char *find_model(const char *plain, const char *root, Arena *arena) {
  for (const char *const *name = datafile_names(root, "models", arena); *name; name++)
    if (strcmp(plain_name(*name, arena), plain) == 0) return *name;
  return NULL;
}

const char *measured_model_name(const char *model, const char *root, Arena *arena) {
  const char *plain = plain_name(model, arena);
  for (size_t i = 0; i < sizeof same_shapes / sizeof *same_shapes; i++)
    if (strcmp(plain, same_shapes[i][0]) == 0) plain = same_shapes[i][1];
  return find_model(plain, root, arena);
}

/* ---- Machines and formats ---- */

typedef struct Name {
  const char *theirs, *ours;
} Name;

static const char *find(const Name *names, const char *theirs) {
  for (; names->theirs; names++)
    if (strcmp(names->theirs, theirs) == 0) return names->ours;
  return NULL;
}

const char *measured_machine_name(const char *gpu) {
  static const Name machines[] = {{"a100_sxm", "dgx-a100"},
                                  {"h100_sxm", "dgx-h100"},
                                  {"h200_sxm", "dgx-h200"},
                                  {"b200_sxm", "dgx-b200"},
                                  {"gb200", "gb200-nvl72"},
                                  {"H100", "dgx-h100"},
                                  {"H200", "dgx-h200"},
                                  {"B200", "dgx-b200"},
                                  {"GB200", "gb200-nvl72"},
                                  {"RTX4090", "rtx-4090"},
                                  {"RTXPRO6000", "rtx-pro-6000-x8"},
                                  {NULL, NULL}};
  return find(machines, gpu);
}

/* A checkpoint is converted to narrower numbers, never to wider ones: gpt-oss, whose experts are
 * mxfp4, is the same whether a set calls it fp4 or fp8. */
const char *measured_quantization(const char *model, const char *precision, const char *root,
                                  Arena *arena, Diag *diag) {
  static const struct {
    const char *theirs;
    Dtype ours;
  } formats[] = {{"bf16", DTYPE_BF16},
                 {"fp8", DTYPE_FP8},
                 {"fp8_block", DTYPE_FP8_BLOCK},
                 {"fp4", DTYPE_NVFP4},
                 {"int4", DTYPE_INT4}};
  Llm llm;
  if (llm_load(&llm, model, root, place_of_file(NULL), arena, diag)) return NULL;
  const double own = dtype_bytes(llm_quantization(&llm));
  for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
    if (strcmp(precision, formats[i].theirs) == 0)
      return dtype_bytes(formats[i].ours) < 0.9 * own ? dtype_names[formats[i].ours] : "";
  return NULL;
}
