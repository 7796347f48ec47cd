/* Measured rows near to a question. Pinned: the nearest ones of a small table by brute force, over
 * random questions; that another GPU is never near; the words; the program's own table. */
#include "base/rng.h"
#include "perfmodel/near_rows.h"
#include "tests/unit/testing.h"
#include <math.h>
#include <sys/stat.h>

TestSuite(near_rows, .init = setup_folder, .fini = teardown_folder);

#define HEADER                                                                                     \
  "# a\nid,engine,version,gpu,model,weights,mode,degrees,gpus,isl,osl,concurrency,drafts,rows,"    \
  "ttft_ms,tpot_ms,ttft_error,tpot_error,odd\n"

/* Two shapes of the same width, one with twice the layers. */
static void write_models(void) {
  static const char shape[] =
      "num_hidden_layers: %d\nhidden_size: 512\nnum_attention_heads: 8\n"
      "num_key_value_heads: 8\nhead_dim: 64\nintermediate_size: 1024\nvocab_size: 1000\n"
      "max_position_embeddings: 1000\ngated_mlp: true\nbias: false\n"
      "tie_word_embeddings: false\nlearned_positions: false\nhidden_act: silu\nnorm: rms\n"
      "position_embedding_type: rope\ndtype_bytes: 2\n";
  mkdir(in_folder("models"), 0777);
  write_file(in_folder("models/small.yaml"), arena_printf(&arena, shape, 8));
  write_file(in_folder("models/large.yaml"), arena_printf(&arena, shape, 16));
}

static void remove_models(void) {
  remove(in_folder("models/small.yaml"));
  remove(in_folder("models/large.yaml"));
  remove(in_folder("models"));
  remove(in_folder("measured_rows.csv"));
}

static Llm load(const char *name) {
  Llm model;
  cr_assert_eq(llm_load(&model, name, folder, place_of_file(NULL), &arena, &diag), 0, "%s",
               diag.n_entries > 0 ? diag.entries[0].message : "");
  return model;
}

/* A row of the table as numbers, and its distance by the words of near_rows.h. */
typedef struct Plain {
  int engine, model, split, drafts, bits, tensor, attention, expert, isl, osl, clients;
  bool same_gpu;
} Plain;

static double octaves(double a, double b) {
  return fabs(log(a) - log(b)) / log(2);
}

static double far(const Plain *a, const Plain *b, const Llm *models) {
  const double one = (double)llm_parameters(&models[0]), two = (double)llm_parameters(&models[1]);
  double sum = 0;
  if (a->engine != b->engine) sum += 64;
  if (a->model != b->model) sum += 8 + 2 * octaves(one, two); // neither has experts
  sum += 2 * octaves(a->bits, b->bits);
  if (a->split != b->split) sum += 4;
  if ((a->drafts > 0) != (b->drafts > 0)) sum += 4;
  sum += octaves(a->tensor * a->attention, b->tensor * b->attention);
  if ((a->attention > 1) != (b->attention > 1)) sum += 1;
  if ((a->expert > 1) != (b->expert > 1)) sum += 1;
  sum += octaves(a->isl, b->isl) / 2 + octaves(a->osl, b->osl) / 2;
  return sum + octaves((double)a->clients / (a->tensor * a->attention),
                       (double)b->clients / (b->tensor * b->attention)) /
                   2;
}

static int draw(Rng *rng, int n) {
  return (int)rng_below(rng, (uint64_t)n);
}

static Plain draw_plain(Rng *rng) {
  Plain row = {0};
  row.engine = draw(rng, 2);
  row.model = draw(rng, 2);
  row.split = draw(rng, 2);
  row.drafts = draw(rng, 3);
  row.bits = 4 << draw(rng, 3);
  row.tensor = 1 << draw(rng, 4);
  row.attention = 1 << draw(rng, 2);
  row.expert = 1 << draw(rng, 2);
  row.isl = 1 + draw(rng, 4000);
  row.osl = 1 + draw(rng, 4000);
  row.clients = 1 + draw(rng, 500);
  row.same_gpu = draw(rng, 4) > 0;
  return row;
}

static const char *const engines[] = {"vllm", "sglang"}, *const names[] = {"small", "large"};

static const char *text_of(const Plain *row, int number) {
  const char *degrees =
      arena_printf(&arena, "tp%d%s%s", row->tensor, row->attention > 1 ? " dp2" : "",
                   row->expert > 1 ? " ep2" : "");
  return arena_printf(&arena, "r%d,%s,1.0,%s,x/%s,%s%d,%s,%s%s,%d,%d,%d,%d,%d,1,1,1,0.1,-0.1,\n",
                      number, engines[row->engine], row->same_gpu ? "g" : "h", names[row->model],
                      row->bits == 16 ? "bf" : "fp", row->bits, row->split ? "disagg" : "agg",
                      row->split ? "tp1 | " : "", degrees, row->tensor * row->attention, row->isl,
                      row->osl, row->clients, row->drafts);
}

static Llm in_bits(Llm model, int bits) {
  model.weight_dtype = model.attention_dtype = model.expert_dtype = bits == 16  ? DTYPE_BF16
                                                                    : bits == 8 ? DTYPE_FP8
                                                                                : DTYPE_INT4;
  return model;
}

Test(near_rows, the_nearest_are_those_of_a_brute_force) {
  enum { ROWS = 60, QUESTIONS = 200, WANTED = 3 };
  Plain rows[ROWS];
  const char *table = HEADER;
  Rng rng;
  rng_init(&rng, 3, "near rows");
  write_models();
  for (int i = 0; i < ROWS; i++) {
    rows[i] = draw_plain(&rng);
    table = arena_printf(&arena, "%s%s", table, text_of(&rows[i], i));
  }
  write_file(in_folder("measured_rows.csv"), table);
  const Llm models[] = {load("small"), load("large")};
  for (int q = 0; q < QUESTIONS; q++) {
    const Plain plain = draw_plain(&rng);
    const Llm model = in_bits(models[plain.model], plain.bits);
    const NearQuestion asked = {.gpu = "g",
                                .engine = engines[plain.engine],
                                .model = &model,
                                .split = plain.split,
                                .degrees = {plain.tensor, 1, 1, plain.attention, plain.expert},
                                .drafts = plain.drafts,
                                .prompt_tokens = plain.isl,
                                .output_tokens = plain.osl,
                                .in_flight =
                                    (double)plain.clients / (plain.tensor * plain.attention)};
    NearRows near;
    cr_assert_eq(near_rows_find(&near, &asked, folder, WANTED, &arena, &diag), 0);
    cr_assert_eq(near.n, WANTED);
    double before = -1;
    for (int k = 0; k < WANTED; k++) { // each is the least of those that are left
      double least = INFINITY;
      for (int i = 0; i < ROWS; i++) {
        const double distance = far(&plain, &rows[i], models);
        if (rows[i].same_gpu && distance > before + 1e-9) least = fmin(least, distance);
      }
      cr_expect_float_eq(near.rows[k].distance, least, 1e-6, "question %d, row %d", q, k);
      cr_expect_str_eq(near.rows[k].gpu, "g");
      before = least;
    }
  }
  remove_models();
}

Test(near_rows, words) {
  write_models();
  write_file(in_folder("measured_rows.csv"),
             HEADER "one,vllm,0.12.0,g,x/Small,fp8,agg,tp2,2,1024,128,64,0,1,90,9,-0.034,0.006,\n"
                    "two,trtllm,,g,Large,fp4,disagg,tp1 | tp2,3,1000,1,,3,2,90,9,0.5,-0.5,odd\n");
  const Llm model = load("small");
  NearRows near;
  NearQuestion asked = {.gpu = "g", .engine = "vllm", .model = &model};
  cr_assert_eq(near_rows_find(&near, &asked, folder, 3, &arena, &diag), 0);
  const char *const *lines = near_rows_lines(&near, "g", &arena);
  static const char *const expected[] = {
      "nearest of 2 rows on g; Tandem was off by",
      "TTFT -3%, TPOT +1%: vllm 0.12.0, Small fp8, tp2, 1024 + 128 tokens, 64 clients",
      "  one",
      "TTFT +50%, TPOT -50%: trtllm, Large fp4, tp1 | tp2, drafts, 1000 + 1 tokens (odd)",
      "  two",
      "to repeat a row: tandem report measured FOLDER --id ID"};
  for (size_t i = 0; i < COUNT(expected); i++)
    cr_expect_str_eq(lines[i], expected[i]);
  cr_expect_null(lines[COUNT(expected)]);
  asked.gpu = "other";
  cr_assert_eq(near_rows_find(&near, &asked, folder, 3, &arena, &diag), 0);
  cr_expect_str_eq(near_rows_lines(&near, "other", &arena)[0],
                   "no row that was measured on other is known");
  write_file(in_folder("measured_rows.csv"), "id,gpu\none,g\n");
  cr_expect_eq(near_rows_find(&near, &asked, folder, 3, &arena, &diag), -1);
  remove(in_folder("measured_rows.csv"));
  cr_assert_eq(near_rows_find(&near, &asked, folder, 3, &arena, &diag), 0);
  cr_expect(!near.there && near.n == 0);
  remove_models();
}

/* A question that is a row finds it, whatever its load. */
Test(near_rows, the_table_of_the_program) {
  const char *root = arena_printf(&arena, "%s/perfmodel", getenv("TANDEM_SOURCE_DIR"));
  const LlmFormats fp8 = {DTYPE_FP8, LLM_UNSAID, LLM_UNSAID, LLM_UNSAID};
  Llm model;
  cr_assert_eq(llm_load_as(&model, "llama3.1-70b", &fp8, root, place_of_file(NULL), &arena, &diag),
               0);
  const NearQuestion asked = {.gpu = "h100-80gb",
                              .engine = "vllm",
                              .model = &model,
                              .degrees = {4, 1, 1, 1, 1},
                              .prompt_tokens = 1024,
                              .output_tokens = 1024,
                              .in_flight = 16};
  NearRows near;
  cr_assert_eq(near_rows_find(&near, &asked, root, 1, &arena, &diag), 0);
  cr_assert(near.n == 1 && near.n_on_gpu > 100);
  cr_expect(near.rows[0].distance < 1e-9 && near.rows[0].concurrency == 64, "%s at %g",
            near.rows[0].id, near.rows[0].distance);
}
