/* The parts of the CUDA backend that need no CUDA: names, how memory is divided, where a batch's
 * tokens lie. */
#define _GNU_SOURCE // affinity
#include "calib/gpu_name.h"
#include "kernels/batch_layout.h"
#include "kernels/memory_plan.h"
#include "kernels/near_cpus.h"
#include "kernels/split_kv.h"
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int n_checks, n_failures;

#define EXPECT(condition) expect((condition), #condition, __LINE__)
static void expect(bool is_true, const char *what, int line) {
  n_checks++;
  if (is_true) return;
  n_failures++;
  printf("line %d: %s\n", line, what);
}

// --- names -------------------------------------------------------------------------------------

static void test_names(void) {
  static const struct {
    const char *name;
    double gb;
    const char *key;
  } cases[] = {
      {"NVIDIA H200", 150, "h200-141gb"},
      {"NVIDIA H100 80GB HBM3", 85, "h100-80gb"},
      {"NVIDIA H100 PCIe", 85, "h100-80gb-pcie"},
      {"NVIDIA A100-SXM4-80GB", 85, "a100-80gb"},
      {"NVIDIA A100-SXM4-40GB", 42, "a100-40gb"},
      {"NVIDIA GH200 480GB", 101, "gh200-96gb"},
      {"NVIDIA GH200 480GB", 151, "gh200-144gb"},
      {"NVIDIA RTX 6000 Ada  Generation!", 48, "rtx-6000-ada-generation"},
      {"", 1, "gpu"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char key[64];
    gpu_key(cases[i].name, (int64_t)(cases[i].gb * 1e9), key, sizeof key);
    EXPECT(strcmp(key, cases[i].key) == 0);
  }
  char cut[8];
  gpu_key("NVIDIA Something Long", 0, cut, sizeof cut);
  EXPECT(strcmp(cut, "somethi") == 0);
}

static void test_throttle(void) {
  EXPECT(throttle_reasons(0x1 | 0x2 | 0x100) == 0); // idle, set by the owner, display
  EXPECT(throttle_reasons(0x4 | 0x1) == 0x4);       // power
  EXPECT(throttle_reasons(0x8 | 0x20 | 0x40 | 0x80) == (0x8 | 0x20 | 0x40 | 0x80)); // heat, brake
}

// --- the host's side ---------------------------------------------------------------------------

/* A folder like the kernel's with a GPU whose local_cpulist is `text`. */
static void write_cpulist(const char *root, const char *text) {
  char path[256] = "";
  static const char *const parts[] = {"/sys", "/bus", "/pci", "/devices", "/0000:3b:00.0"};
  size_t n = (size_t)snprintf(path, sizeof path, "%s", root);
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    n += (size_t)snprintf(path + n, sizeof path - n, "%s", parts[i]);
    mkdir(path, 0777);
  }
  snprintf(path + n, sizeof path - n, "/local_cpulist");
  FILE *file = fopen(path, "w");
  if (!file) abort();
  fputs(text, file);
  fclose(file);
}

static void remove_cpulist(const char *root) {
  static const char *const parts[] = {"/sys/bus/pci/devices/0000:3b:00.0/local_cpulist",
                                      "/sys/bus/pci/devices/0000:3b:00.0",
                                      "/sys/bus/pci/devices",
                                      "/sys/bus/pci",
                                      "/sys/bus",
                                      "/sys",
                                      ""};
  char path[256];
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    snprintf(path, sizeof path, "%s%s", root, parts[i]);
    remove(path);
  }
}

/* The list that is read of such a file. */
static const char *read_back(const char *root, const char *text) {
  static char list[32];
  write_cpulist(root, text);
  near_cpus_read(root, "0000:3B:00.0", list, sizeof list);
  return list;
}

static void test_near_lists(void) {
  char root[] = "/tmp/near-XXXXXX", list[32];
  if (!mkdtemp(root)) abort();
  EXPECT(strcmp(read_back(root, "0-31,64-95\n"), "0-31,64-95") == 0);
  EXPECT(strcmp(read_back(root, "7"), "7") == 0);
  static const char *const strange[] = {"",      "\n",
                                        "3-1",   "0-99999999999999999999",
                                        "1,,2",  "0-",
                                        "-1",    "0;reboot",
                                        "1 - 2", "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14"};
  for (size_t i = 0; i < sizeof strange / sizeof *strange; i++)
    EXPECT(strcmp(read_back(root, strange[i]), "") == 0);
  near_cpus_read(root, "0000:3C:00.0", list, sizeof list); // no such device
  EXPECT(*list == '\0');
  near_cpus_read(root, "../../etc", list, sizeof list);
  EXPECT(*list == '\0');
  remove_cpulist(root);
}

/* A list with a CPU that the thread may run on keeps it there until it is let; one without does
 * not, and is no fact then. */
static void test_near_kept(void) {
  cpu_set_t before, now;
  NearCpus near;
  char list[32];
  int cpu = 0;
  if (sched_getaffinity(0, sizeof before, &before)) abort();
  while (!CPU_ISSET(cpu, &before))
    cpu++;
  snprintf(list, sizeof list, "%d", cpu);
  near_cpus_keep(&near, list);
  sched_getaffinity(0, sizeof now, &now);
  EXPECT(CPU_COUNT(&now) == 1 && CPU_ISSET(cpu, &now));
  near_cpus_let(&near);
  sched_getaffinity(0, sizeof now, &now);
  EXPECT(CPU_EQUAL(&now, &before));
  snprintf(list, sizeof list, "1023");
  near_cpus_keep(&near, list);
  sched_getaffinity(0, sizeof now, &now);
  EXPECT(CPU_ISSET(1023, &before) || (CPU_EQUAL(&now, &before) && *list == '\0'));
  near_cpus_let(&near);
}

// --- memory ------------------------------------------------------------------------------------

static const CalibModel llama2_70b = {.name = "llama2-70b",
                                      .num_hidden_layers = 80,
                                      .hidden_size = 8192,
                                      .num_attention_heads = 64,
                                      .num_key_value_heads = 8,
                                      .head_dim = 128,
                                      .intermediate_size = 28672,
                                      .vocab_size = 32000,
                                      .max_position_embeddings = 4096,
                                      .tensor_parallel_size = 8,
                                      .block_size = 16};
enum { H200_CACHE = 60 << 20 };
static const int64_t H200_FREE = INT64_C(140) << 30;

static void test_shapes(void) {
  const LayerShape shape = layer_shape(&llama2_70b);
  EXPECT(shape.qkv == 1280 && shape.attention == 1024 && shape.up == 7168 && shape.ffn == 3584);
  EXPECT(2 * layer_matrix_elements(&shape) == INT64_C(2) * 8192 * (1280 + 1024 + 7168 + 3584));
  EXPECT(shape.vocab == 4000);
  CalibModel opt = llama2_70b;
  opt.vocab_size = 50272; // 6284 columns, which are no multiple of 8
  EXPECT(layer_shape(&opt).vocab == 6288);
}

static void test_memory(void) {
  char error[CALIB_ERROR_SIZE] = "";
  MemoryPlan plan;
  EXPECT(memory_plan_init(&plan, &llama2_70b, H200_FREE, H200_CACHE, error) == CALIB_OK);
  /* The smallest product, of 16 MiB, must not come again within 150 MiB. */
  EXPECT(plan.layers == 10);
  EXPECT(plan.heads * plan.head_bytes >= 5 * (int64_t)H200_CACHE / 2);
  EXPECT(plan.page_bytes == 2 * 1 * 128 * 16 * 2);
  EXPECT(plan.weight_bytes + plan.reserved_bytes + plan.n_pages * plan.page_bytes <= H200_FREE);
  EXPECT(plan.n_pages * plan.page_bytes > H200_FREE / 2);

  CalibModel whole = llama2_70b;
  whole.tensor_parallel_size = 1;
  EXPECT(memory_plan_init(&plan, &whole, H200_FREE, H200_CACHE, error) == CALIB_OK);
  EXPECT(plan.layers == 2);

  const int64_t small = INT64_C(4) << 30;
  EXPECT(memory_plan_init(&plan, &whole, small, H200_CACHE, error) == CALIB_REJECTED);
  EXPECT(strstr(error, "tensor_parallel_size 2 fits") ||
         strstr(error, "tensor_parallel_size 4 fits"));
  EXPECT(memory_plan_init(&plan, &whole, 1 << 20, H200_CACHE, error) == CALIB_REJECTED);
  EXPECT(strstr(error, "no tensor_parallel_size fits"));
}

/* Experts are kept whole, and what one token takes of them must not come again within the cache;
 * weights of 8 bits are half as large, with a scale for a product or for each block. */
static void test_kinds_of_weights(void) {
  char error[CALIB_ERROR_SIZE] = "";
  MemoryPlan plan;
  CalibModel moe = llama2_70b, fp8 = llama2_70b;
  moe.num_experts = 128;
  moe.num_experts_per_tok = 8;
  moe.moe_intermediate_size = 1024;
  moe.hidden_size = 2048;
  const LayerShape experts = layer_shape(&moe);
  EXPECT(experts.ffn == 128 && experts.up == 256 && experts.picked == 8);
  EXPECT(layer_matrix_elements(&experts) ==
         INT64_C(2048) * (1280 + 1024 + 128 * (256 + 128) + 128));
  EXPECT(memory_plan_init(&plan, &moe, H200_FREE, H200_CACHE, error) == CALIB_OK);
  EXPECT(plan.layers == 38); // 4 MiB of a token's experts' down, 150 MiB
  fp8.weights = CALIB_FP8_BLOCK;
  const LayerShape blocks = layer_shape(&fp8);
  EXPECT(memory_plan_init(&plan, &fp8, H200_FREE, H200_CACHE, error) == CALIB_OK);
  EXPECT(plan.matrix_bytes == layer_matrix_elements(&blocks));
  EXPECT(plan.scale_bytes == 4 * (10 * 64 + 64 * 8 + 56 * 64 + 64 * 28));
  EXPECT(plan.layers == 19);
  fp8.weights = CALIB_FP8;
  EXPECT(memory_plan_init(&plan, &fp8, H200_FREE, H200_CACHE, error) == CALIB_OK);
  EXPECT(plan.scale_bytes == 4 * 16); // one of each product, 16 bytes apart
}

static void test_refusals(void) {
  char error[CALIB_ERROR_SIZE];
  MemoryPlan plan;
  for (int i = 0; i < 9; i++) {
    static const char *const says[] = {"fp32",    "head_dim",      "block_size",
                                       "divided", "multiple of 8", "experts of 8 bits",
                                       "so many", "with biases",   "multiple of 128"};
    CalibModel model = llama2_70b;
    if (i == 0) model.dtype = CALIB_FP32;
    if (i == 1) model.head_dim = 96;
    if (i == 2) model.block_size = 8;
    if (i == 3) model.tensor_parallel_size = 3;
    if (i == 4) model.intermediate_size = 28664 / 8 * 8 + 8 * 4;
    if (i == 5 || i == 6) model.num_experts = i == 5 ? 8 : 1024;
    if (i == 5 || i == 6) model.num_experts_per_tok = 2;
    if (i == 5 || i == 6) model.moe_intermediate_size = 1024;
    if (i == 5 || i >= 7) model.weights = CALIB_FP8_BLOCK;
    if (i == 7) model.bias = true;
    if (i == 8) model.intermediate_size = 8 * 192;
    error[0] = '\0';
    EXPECT(memory_plan_init(&plan, &model, H200_FREE, H200_CACHE, error) == CALIB_REJECTED);
    EXPECT(strstr(error, says[i]));
  }
}

// --- batches -----------------------------------------------------------------------------------

static const BatchPlace place = {.block_size = 16,
                                 .group = 4,
                                 .kv_heads = 1,
                                 .layers = 3,
                                 .n_pages = 100,
                                 .decode_blocks = 8,
                                 .prefill_blocks = {8, 8},
                                 .seed = 5};

static void test_batch_rows(void) {
  const CalibSequence sequences[] = {{20, 0}, {5, 30}, {1, 15}, {1, 16}};
  const CalibBatch batch = {sequences, 2, 2, 3};
  char error[CALIB_ERROR_SIZE];
  BatchLayout layout;
  EXPECT(batch_layout_init(&layout, &place, &batch, error) == CALIB_OK);
  EXPECT(layout.tokens == 27 && layout.prefill_tokens == 25 && layout.max_new == 20);
  EXPECT(layout.max_pages == 3 && layout.pages == 2 + 3 + 1 + 2);
  EXPECT(layout.kv_layers == 3 && layout.part_pages == 33);
  EXPECT(layout.at.row_starts[0] == 0 && layout.at.row_starts[1] == 20 &&
         layout.at.row_starts[2] == 25);
  EXPECT(layout.at.past[0] == 0 && layout.at.past[1] == 30);
  EXPECT(layout.at.contexts[0] == 16 && layout.at.contexts[1] == 17);
  EXPECT(layout.at.positions[0] == 0 && layout.at.positions[19] == 19 &&
         layout.at.positions[20] == 30);
  EXPECT(layout.at.positions[25] == 15 && layout.at.positions[26] == 16);
  /* One prompt ends here, and both decodes. */
  EXPECT(layout.at.logit_rows[0] == 19 && layout.at.logit_rows[1] == 25 &&
         layout.at.logit_rows[2] == 26);
  /* Slots follow the page table, and no page belongs to two sequences. */
  bool seen[100] = {false}, is_shared = false;
  for (int i = 0; i < 4; i++) {
    const int32_t *pages = layout.at.page_table + i * layout.max_pages;
    const int32_t context = sequences[i].new_tokens + sequences[i].past_tokens;
    for (int page = 0; page < (context + 15) / 16; page++) {
      EXPECT(pages[page] >= 0 && pages[page] < layout.part_pages);
      is_shared = is_shared || seen[pages[page]];
      seen[pages[page]] = true;
    }
  }
  EXPECT(!is_shared);
  const int32_t *second = layout.at.page_table + layout.max_pages;
  EXPECT(layout.at.slots[20] == second[1] * 16 + 14 && layout.at.slots[22] == second[2] * 16);
  EXPECT(layout.at.slots[26] == layout.at.page_table[3 * layout.max_pages + 1] * 16);
  EXPECT(layout.decode_splits.rows == layout.at.split_starts[2] && layout.decode_splits.rows >= 2);
  EXPECT(layout.at.split_sequences[0] == 0 &&
         layout.at.split_sequences[layout.decode_splits.rows - 1] == 1);
  int32_t *copy = malloc(layout.n_words * sizeof *copy);
  memcpy(copy, layout.words, layout.n_words * sizeof *copy);
  const BatchArrays arrays = batch_layout_arrays(&layout, copy);
  EXPECT(arrays.logit_rows[2] == 26 && arrays.page_table[0] == layout.at.page_table[0]);
  free(copy);
  batch_layout_done(&layout);
}

/* Splits of prefills: behind a long context, and where a tile of 128 rows has all places. */
static void test_batch_splits(void) {
  const CalibSequence sequences[] = {{20, 1200}, {5, 0}};
  const CalibBatch batch = {sequences, 2, 0, 2};
  char error[CALIB_ERROR_SIZE];
  BatchLayout layout;
  EXPECT(batch_layout_init(&layout, &place, &batch, error) == CALIB_OK);
  EXPECT(layout.tile_rows == 64 && layout.decode_splits.rows == 0);
  EXPECT(layout.prefill_splits.most > 1 && layout.prefill_splits.tokens < 1200);
  EXPECT(layout.at.prefill_starts[1] == 20 * layout.prefill_splits.most);
  EXPECT(layout.at.prefill_starts[2] == layout.at.prefill_starts[1]); // none of the short one
  EXPECT(layout.prefill_splits.rows == layout.at.prefill_starts[2]);
  batch_layout_done(&layout);
  BatchPlace small = place;
  small.prefill_blocks[1] = 2;
  EXPECT(batch_layout_init(&layout, &small, &batch, error) == CALIB_OK);
  EXPECT(layout.tile_rows == 128);
  EXPECT(layout.prefill_splits.most == 1 && layout.prefill_splits.rows == 0);
  batch_layout_done(&layout);
  small.prefill_blocks[0] = small.prefill_blocks[1] = 0; // other kernels attend
  EXPECT(batch_layout_init(&layout, &small, &batch, error) == CALIB_OK);
  EXPECT(layout.tile_rows == 64 && layout.prefill_splits.most == 1);
  batch_layout_done(&layout);
}

static void test_pool(void) {
  const CalibSequence sequence = {.new_tokens = 1, .past_tokens = 16 * 60 - 1};
  const CalibBatch batch = {&sequence, 0, 1, 1};
  char error[CALIB_ERROR_SIZE];
  BatchLayout layout;
  EXPECT(batch_layout_init(&layout, &place, &batch, error) == CALIB_OK);
  EXPECT(layout.kv_layers == 1 && layout.part_pages == 100); // two layers of 60 pages would not fit
  batch_layout_done(&layout);
  BatchPlace small = place;
  small.n_pages = 59;
  EXPECT(batch_layout_init(&layout, &small, &batch, error) == CALIB_OUT_OF_MEMORY);
  EXPECT(strstr(error, "60 pages") && strstr(error, "59 fit"));
  BatchPlace table = place;
  table.max_positions = 959;
  EXPECT(batch_layout_init(&layout, &table, &batch, error) == CALIB_REJECTED);
  table.max_positions = 960;
  EXPECT(batch_layout_init(&layout, &table, &batch, error) == CALIB_OK);
  batch_layout_done(&layout);
}

static void test_bad_batches(void) {
  static const CalibSequence none = {0, 5}, two = {2, 5}, one = {1, 5}, before = {1, -1};
  const CalibBatch batches[] = {{&one, 0, 0, 0}, {&none, 1, 0, 0}, {&two, 0, 1, 0},
                                {&one, 0, 1, 2}, {&one, 0, 1, -1}, {&before, 0, 1, 0},
                                {&one, -1, 2, 0}};
  for (size_t i = 0; i < sizeof batches / sizeof batches[0]; i++) {
    char error[CALIB_ERROR_SIZE] = "";
    BatchLayout layout;
    EXPECT(batch_layout_init(&layout, &place, &batches[i], error) == CALIB_REJECTED);
    EXPECT(error[0] != '\0');
  }
}

static void test_drawing(void) {
  int32_t pages[64];
  bool seen[64] = {false};
  int moved = 0;
  draw_pages(pages, 64, 64, 3);
  for (int i = 0; i < 64; i++) {
    EXPECT(pages[i] >= 0 && pages[i] < 64 && !seen[pages[i]]);
    seen[pages[i]] = true;
    moved += pages[i] != i;
  }
  EXPECT(moved > 48);
}

int main(void) {
  test_names();
  test_throttle();
  test_near_lists();
  test_near_kept();
  test_shapes();
  test_memory();
  test_kinds_of_weights();
  test_refusals();
  test_batch_rows();
  test_batch_splits();
  test_pool();
  test_bad_batches();
  test_drawing();
  printf("cuda plans: %d checks, %d failed\n", n_checks, n_failures);
  return n_failures > 0;
}
