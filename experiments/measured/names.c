/* What others call machines and number formats. */
#include "experiments/measured/set.h"
#include "perfmodel/llm.h"
#include <string.h>

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
                                  {"b300_sxm", "dgx-b300"},
                                  {"gb200", "gb200-nvl72"},
                                  {"gb300", "gb300-nvl72"},
                                  {"H100", "dgx-h100"},
                                  {"H200", "dgx-h200"},
                                  {"B200", "dgx-b200"},
                                  {"GB200", "gb200-nvl72"},
                                  {"RTX4090", "rtx-4090"},
                                  {"RTXPRO6000", "rtx-pro-6000-x8"},
                                  {NULL, NULL}};
  return find(machines, gpu);
}

/* Makers whose FP8 checkpoints are of blocks: weight_block_size in the config.json of
 * Qwen/Qwen3.5-397B-A17B-FP8 and its like. */
static bool has_blocks(const char *model) {
  return strncmp(model, "qwen3.5-", 8) == 0;
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
  if (strcmp(precision, "fp8") == 0 && has_blocks(model)) precision = "fp8_block";
  const double own = dtype_bytes(llm_quantization(&llm));
  for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
    if (strcmp(precision, formats[i].theirs) == 0)
      return dtype_bytes(formats[i].ours) < 0.9 * own ? dtype_names[formats[i].ours] : "";
  return NULL;
}
