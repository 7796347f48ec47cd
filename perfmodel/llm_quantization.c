/* Number formats of checkpoints: quantization_config of Hugging Face's library, of NVIDIA's
 * Model Optimizer, of compressed-tensors and of Quark, by the names that these give to formats and
 * to modules.
 *
 * Each part of each layer has a format: that of the whole, of a list of modules, or none (16 bits)
 * where a list leaves modules out. A part is named by any of its modules. Dense layers are taken to
 * come before those with experts. */
#include "base/text.h"
#include "perfmodel/llm_hugging_face.h"
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PLAIN = LLM_UNSAID, UNKNOWN = -2 };

typedef struct Formats {
  const Llm *llm;
  const struct PartNames *parts; // [LLM_PARTS]
  signed char *dtypes;           // [LLM_PARTS][num_hidden_layers]: Dtype, or PLAIN
  Diag *diag;
} Formats;

/* What words of a file stand for. */
typedef struct Format {
  const char *words; // between spaces; NULL behind the last row
  int dtype;         // unless `read` tells it by the rest of the file
  int (*read)(const Formats *self, const Node *config);
  bool of_experts; // alone, where there are any
  bool in_groups;  // 'config_groups' of compressed-tensors and Model Optimizer
} Format;

/* Modules that name a part, as checkpoints have them below `layers.N.`. */
typedef struct PartNames {
  LlmPart part;
  const char *const *names;
} PartNames;

static const char *const QKV_NAMES[] = {
    "self_attn.q_proj",        "self_attn.k_proj",    "self_attn.qkv_proj", "self_attn.q_a_proj",
    "self_attn.q_b_proj",      "self_attn.kv_b_proj", "attn.wq_b",          "attention.wqkv",
    "linear_attn.in_proj_qkv", "mixer.q_proj",        "mixer.in_proj",      NULL};
static const char *const OUT_NAMES[] = {
    "self_attn.o_proj", "attn.wo_b", "attention.wo", "linear_attn.out_proj", "mixer.o_proj",
    "mixer.out_proj",   NULL};
static const char *const MLP_NAMES[] = {
    "mlp.gate_proj", "mlp.up_proj", "mlp.gate_up_proj", "feed_forward.gate_proj", "ffn.w1",
    "mixer.up_proj", NULL};
static const char *const SHARED_NAMES[] = {"mlp.shared_experts.gate_proj",
                                           "mlp.shared_expert.gate_proj",
                                           "mlp.shared_mlp.gate_proj",
                                           "feed_forward.shared_expert.gate_proj",
                                           "block_sparse_moe.shared_experts.gate_proj",
                                           "ffn.shared_experts.w1",
                                           "share_expert.gate_proj",
                                           "mixer.shared_experts.up_proj",
                                           NULL};
static const char *const EXPERT_NAMES[] = {"mlp.experts.0.gate_proj",
                                           "mlp.experts.gate_up_proj",
                                           "block_sparse_moe.experts.0.w1",
                                           "block_sparse_moe.experts.0.gate_proj",
                                           "feed_forward.experts.gate_up_proj",
                                           "feed_forward.experts.0.gate_proj",
                                           "ffn.experts.0.w1",
                                           "experts.0.gate_proj",
                                           "moe.gate_proj",
                                           "mixer.experts.0.up_proj",
                                           NULL};
static const char *const PARALLEL_EXPERT_NAMES[] = {"experts.0.gate_proj", "experts.gate_up_proj",
                                                    "moe.experts.0.gate_proj", NULL};

static const PartNames PARTS[] = {{LLM_QKV, QKV_NAMES},
                                  {LLM_OUT, OUT_NAMES},
                                  {LLM_MLP, MLP_NAMES},
                                  {LLM_SHARED_EXPERTS, SHARED_NAMES},
                                  {LLM_EXPERTS, EXPERT_NAMES}};
/* Where the MLP of a layer stands beside its experts. */
static const PartNames PARALLEL_PARTS[] = {{LLM_QKV, QKV_NAMES},
                                           {LLM_OUT, OUT_NAMES},
                                           {LLM_MLP, MLP_NAMES},
                                           {LLM_SHARED_EXPERTS, MLP_NAMES},
                                           {LLM_EXPERTS, PARALLEL_EXPERT_NAMES}};

/* ---- Names of modules ---- */

enum { MAX_PATTERN = 4096, MAX_ALTERNATIVES = 256 };

/* Whether `pattern`, '*' for anything, is `name` or what it begins with, up to a '.'. */
static bool glob(const char *pattern, const char *name) {
  char below[MAX_PATTERN + 2];
  snprintf(below, sizeof below, "%s.*", pattern);
  return fnmatch(pattern, name, FNM_NOESCAPE) == 0 || fnmatch(below, name, FNM_NOESCAPE) == 0;
}

/* Whether it does from some component of the name on. */
static bool names(const char *pattern, const char *name) {
  for (; name; name = strchr(name, '.') ? strchr(name, '.') + 1 : NULL)
    if (glob(pattern, name)) return true;
  return false;
}

/* A pattern of compressed-tensors, "re:.*self_attn.*", as '*' for anything: without what anchors
 * and escapes, and of digits ("[0-9]+") any text. False: it says more. */
static bool plain_pattern(char *to, size_t size, const char *from) {
  size_t n = 0;
  const bool regular = strncmp(from, "re:", 3) == 0;
  if (regular) from += 3;
  for (; *from && n + 1 < size; from++) {
    if (regular && (*from == '^' || *from == '$')) continue;
    if (regular && *from == '\\' && from[1] != 'd') continue;
    const bool digits = regular && (*from == '[' || *from == '\\');
    if (digits || (regular && *from == '.' && (from[1] == '*' || from[1] == '+'))) {
      const char *end = *from == '[' ? strchr(from, ']') : from + 1;
      if (!end) return false;
      from = end;
      if (digits && (from[1] == '+' || from[1] == '*')) from++;
      to[n++] = '*';
      continue;
    }
    if (regular && strchr("()|?+{}", *from)) return false;
    to[n++] = *from;
  }
  to[n] = '\0';
  return true;
}

typedef struct Module {
  int64_t layer; // UNKNOWN: any
  const char *rest;
} Module;

/* Of "model.layers.12.mlp*" the layer and what follows; without layers all of it. */
static Module module_of(const char *pattern) {
  const char *at = strstr(pattern, "layers.");
  if (!at || (at > pattern && at[-1] != '.' && at[-1] != '*')) return (Module){UNKNOWN, pattern};
  at += strlen("layers.");
  char *end;
  const int64_t layer = strtoll(at, &end, 10);
  const bool numbered = end > at;
  const char *rest = numbered ? end : at + strcspn(at, ".");
  if (*rest == '.') rest++;
  return (Module){numbered ? layer : UNKNOWN, *rest ? rest : "*"};
}

static void part_set(const Formats *self, LlmPart part, int64_t layer, int dtype) {
  const int64_t layers = self->llm->num_hidden_layers;
  signed char *row = self->dtypes + part * layers;
  if (layer == UNKNOWN)
    memset(row, dtype, (size_t)layers);
  else if (layer >= 0 && layer < layers)
    row[layer] = (signed char)dtype;
}

static void parts_set(const Formats *self, int dtype, bool experts_alone) {
  for (int part = 0; part < LLM_PARTS; part++)
    if (!experts_alone || part == LLM_EXPERTS) part_set(self, (LlmPart)part, UNKNOWN, dtype);
}

static void plain_set(const Formats *self, const char *pattern, int dtype) {
  const Module module = module_of(pattern);
  for (int i = 0; i < LLM_PARTS; i++)
    for (const char *const *name = self->parts[i].names; *name; name++)
      if (module.rest == pattern ? names(module.rest, *name) : glob(module.rest, *name)) {
        part_set(self, self->parts[i].part, module.layer, dtype);
        break;
      }
}

/* The first "(a|b)" or "[ab]" of letters, which is no range. */
static const char *alternatives_of(const char *text) {
  for (; *text; text++)
    if (*text == '(' ||
        (*text == '[' && text[1] >= 'A' && strcspn(text, "^-") > strcspn(text, "]")))
      return text;
  return NULL;
}

/* Each alternative in its place, `left` of them at most; -1: a pattern that says more. */
static int module_set(const Formats *self, const char *text, int dtype, int *left) {
  const char *open = strncmp(text, "re:", 3) == 0 ? alternatives_of(text) : NULL;
  char pattern[MAX_PATTERN];
  if (strlen(text) >= sizeof pattern || (*left)-- == 0) return -1;
  if (!open) {
    if (!plain_pattern(pattern, sizeof pattern, text)) return -1;
    plain_set(self, pattern, dtype);
    return 0;
  }
  const char *close = strchr(open, *open == '(' ? ')' : ']'), *each = open + 1;
  if (strncmp(each, "?:", 2) == 0) each += 2;
  if (!close || memchr(each, '(', (size_t)(close - each))) return -1;
  while (each < close) {
    const size_t before = (size_t)(open - text), n = *open == '[' ? 1 : strcspn(each, "|)");
    memcpy(pattern, text, before);
    memcpy(pattern + before, each, n);
    strcpy(pattern + before + n, close + 1);
    if (module_set(self, pattern, dtype, left)) return -1;
    each += *open == '[' ? n : n + 1;
  }
  return 0;
}

static int modules_set(const Formats *self, const Node *list, int dtype) {
  int status = 0;
  for (const Node *each = list && list->kind == NODE_LIST ? list->first : NULL; each;
       each = each->next) {
    int left = MAX_ALTERNATIVES;
    if (each->kind != NODE_SCALAR || module_set(self, each->text, dtype, &left) == 0) continue;
    status = diag_error(self->diag, each->at, "the pattern of modules is not supported");
    diag_hint(self->diag,
              "a pattern may have '.*', '[0-9]+' and '(a|b)' and at most 4,096 characters");
  }
  return status;
}

/* ---- Formats ---- */

/* NULL: the node is no word of the rows. */
static const Format *format_of(const Formats *self, const Node *node, const char *key,
                               const Format *rows) {
  enum { WORDS_MAX = 32 };
  const char *words[WORDS_MAX] = {NULL};
  const Format *formats[WORDS_MAX];
  int n = 0, choice;
  for (; rows->words; rows++)
    for (const char *at = rows->words; *at; at += strspn(at, " ")) {
      const size_t length = strcspn(at, " ");
      formats[n] = rows;
      words[n++] = arena_copy(&self->diag->arena, at, length);
      at += length;
    }
  const OptionSpec spec = {.key = key, .type = OPTION_CHOICE, .choices = words};
  return option_bind_one(&spec, node, &choice, self->diag) ? NULL : formats[choice];
}

static int word_dtype(const Formats *self, const Node *node, const char *key, const Format *rows) {
  const Format *format = format_of(self, node, key, rows);
  return format ? format->dtype : UNKNOWN;
}

/* What quant_algo says. W8A8 and the like name weights first. */
static int algorithm_dtype(const Formats *self, const Node *node) {
  static const Format algorithms[] = {
      {"FP8 FP8_PER_CHANNEL_PER_TOKEN", .dtype = DTYPE_FP8},
      {"FP8_PB_WO FP8_BLOCK", .dtype = DTYPE_FP8_BLOCK},
      {"MXFP8", .dtype = DTYPE_MXFP8},
      {"NVFP4 W4A16_NVFP4 NVFP4_AWQ W4A8_NVFP4_FP8", .dtype = DTYPE_NVFP4},
      {"MXFP4 W4A16_MXFP4 W4A8_MXFP4_FP8", .dtype = DTYPE_MXFP4},
      {"W4A16 W4A16_AWQ W4A8_AWQ INT4_AWQ", .dtype = DTYPE_INT4},
      {"W8A16 W8A8_SQ_PER_CHANNEL INT8", .dtype = DTYPE_INT8},
      {"MIXED_PRECISION", .dtype = PLAIN},
      {0}};
  return word_dtype(self, node, "quant_algo", algorithms);
}

static int64_t number(const Node *map, const char *key) {
  const Node *node = llm_find_set(map, key);
  return node && node->kind == NODE_SCALAR ? strtoll(node->text, NULL, 10) : 0;
}

static bool says(const Node *map, const char *key, const char *word) {
  const Node *node = llm_find_set(map, key);
  return node && node->kind == NODE_SCALAR && strcmp(node->text, word) == 0;
}

/* {num_bits, type, strategy, group_size} of compressed-tensors. */
static int scheme_dtype(const Formats *self, const Node *scheme) {
  const int64_t bits = number(scheme, "num_bits"), group = number(scheme, "group_size");
  const bool real = says(scheme, "type", "float");
  if (bits == 8 && !real) return DTYPE_INT8;
  if (bits == 8)
    return says(scheme, "strategy", "block") ? DTYPE_FP8_BLOCK
           : group == 32                     ? DTYPE_MXFP8
                                             : DTYPE_FP8;
  if (bits == 4) return !real ? DTYPE_INT4 : group == 32 ? DTYPE_MXFP4 : DTYPE_NVFP4;
  diag_error(self->diag, scheme->at, "a format of %lld bits is not supported", (long long)bits);
  diag_hint(self->diag, "'num_bits' of weights and KV must be 4 or 8");
  return UNKNOWN;
}

/* Whether targets are all matrices: none is named, or their class. */
static bool targets_all(const Node *targets) {
  if (!targets || targets->kind != NODE_LIST || !targets->first) return true;
  for (const Node *each = targets->first; each; each = each->next)
    if (each->kind == NODE_SCALAR && strcmp(each->text, "Linear") == 0) return true;
  return false;
}

/* Of all modules unless `targets` names some; what names some goes before what does not. */
static int groups_bind(const Formats *self, const Node *config, const Node *groups) {
  if (!groups || groups->kind != NODE_MAP)
    return diag_error(self->diag, config->at, "missing key 'config_groups' or 'quant_algo'");
  for (int named = 0; named < 2; named++)
    for (const Node *group = groups->first; group; group = group->next) {
      const Node *weights = llm_find_set(group, "weights");
      const Node *targets = llm_find_set(group, "targets");
      if (!weights || targets_all(targets) == (named == 1)) continue;
      const int dtype = scheme_dtype(self, weights);
      if (dtype == UNKNOWN) return -1;
      if (named == 0) parts_set(self, dtype, false);
      if (named == 1 && modules_set(self, targets, dtype)) return -1;
    }
  return 0;
}

/* {module: {quant_algo}}. */
static int layers_bind(const Formats *self, const Node *modules) {
  for (const Node *each = modules->first; each; each = each->next) {
    const Node *node = llm_find_set(each, "quant_algo");
    const int dtype = node ? algorithm_dtype(self, node) : PLAIN;
    if (dtype == UNKNOWN) return -1;
    int left = MAX_ALTERNATIVES;
    if (each->key && module_set(self, each->key, dtype, &left))
      return diag_error(self->diag, each->key_at, "the pattern of modules is not supported");
  }
  return 0;
}

static int bits_dtype(const Formats *self, const Node *config) {
  const Node *node = llm_find_set(config, "bits");
  const int64_t bits = node ? number(config, "bits") : 4;
  if (bits == 4) return DTYPE_INT4;
  if (bits == 8) return DTYPE_INT8;
  diag_error(self->diag, node->at, "weights of %lld bits are not supported", (long long)bits);
  diag_hint(self->diag, "'bits' must be 4 or 8");
  return UNKNOWN;
}

/* {weight: {dtype: fp4, group_size: 32}} of AMD's Quark, or a list of such. */
static int quark_dtype(const Formats *self, const Node *config) {
  static const Format words[] = {{"fp8_e4m3", .dtype = DTYPE_FP8},
                                 {"fp4 mxfp4", .dtype = DTYPE_MXFP4},
                                 {"int8", .dtype = DTYPE_INT8},
                                 {"int4 uint4", .dtype = DTYPE_INT4},
                                 {0}};
  const Node *weight = llm_find_set(llm_find_set(config, "global_quant_config"), "weight");
  if (weight && weight->kind == NODE_LIST) weight = weight->first;
  const Node *dtype = llm_find_set(weight, "dtype");
  if (!dtype) {
    diag_error(self->diag, config->at, "missing key 'dtype' of 'global_quant_config.weight'");
    return UNKNOWN;
  }
  return word_dtype(self, dtype, "dtype", words);
}

static int flags_dtype(const Formats *self, const Node *config) {
  if (says(config, "load_in_4bit", "true")) return DTYPE_INT4;
  if (says(config, "load_in_8bit", "true")) return DTYPE_INT8;
  diag_error(self->diag, config->at, "missing key 'load_in_4bit' or 'load_in_8bit'");
  return UNKNOWN;
}

/* Of a name of torchao's, Int4WeightOnlyConfig or int4_weight_only, the number and its kind. */
static int torchao_dtype(const Formats *self, const Node *config) {
  const Node *type = llm_find_set(config, "quant_type");
  const Node *whole = llm_find_set(type, "default");
  const Node *word = whole ? llm_find_set(whole, "_type") : type;
  static const Format kinds[] = {
      {"loat8", .dtype = DTYPE_FP8}, {"nt4", .dtype = DTYPE_INT4}, {"nt8", .dtype = DTYPE_INT8}};
  for (size_t i = 0; word && word->kind == NODE_SCALAR && i < sizeof kinds / sizeof *kinds; i++)
    if (strstr(word->text, kinds[i].words)) return kinds[i].dtype;
  diag_error(self->diag, (word ? word : config)->at,
             "'quant_type' names a format that is not supported");
  diag_hint(self->diag, "float8, int8 and int4 weights are supported");
  return UNKNOWN;
}

/* {quant_config: {weight_quant_params: {nbits}}} of HQQ. */
static int hqq_dtype(const Formats *self, const Node *config) {
  const Node *inner = llm_find_set(llm_find_set(config, "quant_config"), "weight_quant_params");
  const int64_t bits = number(inner, "nbits");
  if (bits == 4 || bits == 8) return bits == 4 ? DTYPE_INT4 : DTYPE_INT8;
  diag_error(self->diag, config->at, "weights of %lld bits are not supported", (long long)bits);
  diag_hint(self->diag, "'nbits' of 'weight_quant_params' must be 4 or 8");
  return UNKNOWN;
}

static int fp8_dtype(const Formats *self, const Node *config) {
  (void)self;
  return llm_find_set(config, "weight_block_size") ? DTYPE_FP8_BLOCK : DTYPE_FP8;
}

/* What quant_method says. */
static const Format METHODS[] = {
    {"fp8 fbgemm_fp8 ptpc_fp8 w8a8_fp8 modelopt_fp8", .read = fp8_dtype},
    {"mxfp4", .dtype = DTYPE_MXFP4, .of_experts = true},
    {"awq awq_marlin auto_awq gptq gptq_marlin gptqmodel auto-round auto_round intel/auto-round",
     .read = bits_dtype},
    {"bitsandbytes", .read = flags_dtype},
    {"compressed-tensors compressed_tensors modelopt", .in_groups = true},
    {"quark", .read = quark_dtype},
    {"torchao", .read = torchao_dtype},
    {"hqq", .read = hqq_dtype},
    {"w8a8_int8 eetq", .dtype = DTYPE_INT8},
    {"experts_int8", .dtype = DTYPE_INT8, .of_experts = true},
    {"mxfp8", .dtype = DTYPE_MXFP8},
    {"modelopt_fp4", .dtype = DTYPE_NVFP4},
    {0}};

/* Formats of the whole and of modules that are named; Hugging Face's mxfp4 is of experts alone. */
static int formats_bind(const Formats *self, const Node *config) {
  const Node *method = llm_find_set(config, "quant_method");
  const Node *algorithm = llm_find_set(config, "quant_algo");
  const Node *modules = llm_find_set(config, "quantized_layers");
  const Node *groups = llm_find_set(config, "config_groups");
  if (algorithm) {
    const int dtype = algorithm_dtype(self, algorithm);
    if (dtype == UNKNOWN) return -1;
    parts_set(self, says(config, "quant_method", "fp8") ? fp8_dtype(self, config) : dtype, false);
    if (dtype == PLAIN && !modules) return groups_bind(self, config, groups);
    return modules && modules->kind == NODE_MAP ? layers_bind(self, modules) : 0;
  }
  const Format *kind = method ? format_of(self, method, "quant_method", METHODS) : NULL;
  if (method && !kind) return -1;
  if (!method || kind->in_groups) return groups_bind(self, config, groups);
  const int dtype = kind->read ? kind->read(self, config) : kind->dtype;
  if (dtype == UNKNOWN) return -1;
  parts_set(self, dtype, kind->of_experts && self->llm->num_experts > 0);
  return 0;
}

static int kv_cache_bind(Llm *llm, const Formats *self, const Node *config) {
  static const char *const keys[] = {"kv_cache_quant_algo", "kv_cache_scheme", "kv_cache_dtype",
                                     NULL};
  static const Format words[] = {{"FP8 fp8 fp8_e4m3 fp8_e5m2", .dtype = DTYPE_FP8},
                                 {"NVFP4", .dtype = DTYPE_NVFP4},
                                 {"INT8 int8", .dtype = DTYPE_INT8},
                                 {"auto", .dtype = LLM_UNSAID},
                                 {"bfloat16 float16", .dtype = DTYPE_BF16},
                                 {0}};
  for (const char *const *key = keys; *key; key++) {
    const Node *node = llm_find_set(config, *key);
    if (!node) continue;
    const int dtype =
        node->kind == NODE_MAP ? scheme_dtype(self, node) : word_dtype(self, node, *key, words);
    if (dtype == UNKNOWN) return -1;
    llm->kv_cache_dtype = dtype;
    return 0;
  }
  return 0;
}

/* ---- What comes of them ---- */

/* Sums a part's parameters by format, and its mean bytes. */
static void part_count(Llm *llm, const Formats *self, LlmPart part, double sums[DTYPE_COUNT]) {
  const int64_t layers = llm->num_hidden_layers, dense = llm_dense_layers(llm);
  const bool of_dense = part == LLM_MLP, of_experts = part >= LLM_SHARED_EXPERTS;
  const int64_t first = of_experts ? dense : 0, last = of_dense ? dense : layers;
  if (last <= first) return;
  const int plain = llm->dtype_bytes == 4 ? DTYPE_FP32 : DTYPE_BF16;
  const double each = (double)llm_part_parameters(llm, part) / (double)(last - first);
  double bytes = 0;
  for (int64_t i = first; i < last; i++) {
    const int own = self->dtypes[part * layers + i], dtype = own == PLAIN ? plain : own;
    sums[dtype] += each;
    bytes += dtype_bytes((Dtype)dtype);
  }
  llm->part_bytes[part] = bytes / (double)(last - first);
}

static int most_of(const double sums[DTYPE_COUNT], int fallback) {
  int most = 0;
  for (int i = 1; i < DTYPE_COUNT; i++)
    if (sums[i] > sums[most]) most = i;
  return sums[most] > 0 ? most : fallback;
}

static void formats_take(Llm *llm, const Formats *self) {
  double attention[DTYPE_COUNT] = {0}, dense[DTYPE_COUNT] = {0}, experts[DTYPE_COUNT] = {0};
  part_count(llm, self, LLM_QKV, attention);
  part_count(llm, self, LLM_OUT, attention);
  part_count(llm, self, LLM_MLP, dense);
  part_count(llm, self, LLM_SHARED_EXPERTS, dense);
  part_count(llm, self, LLM_EXPERTS, experts);
  llm->attention_dtype = most_of(attention, DTYPE_BF16);
  llm->weight_dtype = most_of(dense, llm->attention_dtype);
  llm->expert_dtype = most_of(experts, llm->weight_dtype);
}

int llm_quantization_bind(Llm *self, const Node *config, bool parallel_mlp, Arena *arena,
                          Diag *diag) {
  static const char *const left_out[] = {
      "modules_to_not_convert",  "ignored_layers", "ignore",
      "exclude_modules",         "exclude",        "llm_int8_skip_modules",
      "modules_to_not_quantize", "skip_modules",   NULL};
  if (config->kind != NODE_MAP) return diag_error(diag, config->at, "expected a JSON object");
  const size_t size = (size_t)(LLM_PARTS * self->num_hidden_layers);
  Formats formats = {.llm = self,
                     .parts = parallel_mlp && self->num_experts > 0 ? PARALLEL_PARTS : PARTS,
                     .dtypes = arena_alloc(arena, size),
                     .diag = diag};
  memset(formats.dtypes, PLAIN, size);
  if (formats_bind(&formats, config) || kv_cache_bind(self, &formats, config)) return -1;
  // of a format within another one, only what stays out of both
  const bool within = says(config, "quant_method", "fp8") && llm_find_set(config, "quant_algo");
  for (const char *const *key = left_out; *key && !(within && key > left_out); key++)
    if (modules_set(&formats, llm_find_set(config, *key), PLAIN)) return -1;
  formats_take(self, &formats);
  return 0;
}

int llm_quantization_beside(const char *path, const Node **ret_node, Arena *arena, Diag *diag) {
  static const char end[] = "config.json";
  if (!path || strlen(path) < strlen(end) || strcmp(path + strlen(path) - strlen(end), end) != 0)
    return 0;
  const char *beside =
      arena_printf(arena, "%.*shf_quant_%s", (int)(strlen(path) - strlen(end)), path, end);
  if (access(beside, R_OK) != 0) return 0;
  const Node *root = yaml_load(beside, arena, diag);
  if (!root) return -1;
  const Node *node = llm_find_set(root, "quantization");
  if (!node) return diag_error(diag, root->at, "missing key 'quantization'");
  *ret_node = node;
  return 0;
}
