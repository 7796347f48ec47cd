/* What others call a model: the names of checkpoints. */
#include "perfmodel/datafile.h"
#include "perfmodel/llm.h"
#include <ctype.h>
#include <string.h>

/* Checkpoints of one shape: the name that times are under. */
static const char *const same_shapes[][2] = {{"deepseekv31", "deepseekv3"},
                                             {"qwen330ba3binstruct2507", "qwen330ba3b"},
                                             {"llama3370b", "llama3170b"},
                                             {"glm51", "glm5"}};

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

const char *llm_name_of(const char *model, const char *root, Arena *arena) {
  const char *plain = plain_name(model, arena);
  for (size_t i = 0; i < sizeof same_shapes / sizeof *same_shapes; i++)
    if (strcmp(plain, same_shapes[i][0]) == 0) plain = same_shapes[i][1];
  return find_model(plain, root, arena);
}
