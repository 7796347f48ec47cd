/* Numbers of instances that rows of InferenceX leave out. Pinned: which deployment a row is of in
 * each of the ways in which its degrees were filled in, and that it says so; why a row is of none;
 * and, with TANDEM_DATA_DIR, that of the published rows that have their numbers none is found to be
 * of another deployment once these are hidden. */
#include "base/csv.h"
#include "experiments/measured/measured.h"
#include "tests/unit/testing.h"
#include <stdlib.h>

TestSuite(measured_recipes, .init = setup_data, .fini = teardown);

static const char header[] =
    "id,silicon_data_source,concurrency,backend,backend_version,model_path,system,precision,mode,"
    "isl,osl,silicon_ttft_ms,silicon_tpot_ms,tp_size,pp_size,attention_dp_size,moe_tp_size,"
    "moe_ep_size,prefill_num_workers,prefill_tp_size,prefill_pp_size,prefill_attention_dp_size,"
    "prefill_moe_tp_size,prefill_moe_ep_size,decode_num_workers,decode_tp_size,decode_pp_size,"
    "decode_attention_dp_size,decode_moe_tp_size,decode_moe_ep_size,measured_at,image\n";

static Measured load(const char *rows) {
  Measured measured;
  const char *text = arena_printf(&arena, "%s%s", header, rows);
  const MeasuredOptions options = {.rows = temp_file(text, strlen(text), &arena),
                                   .perfmodel = "roofline"};
  const int status = measured_load(&measured, &options, &arena, &diag);
  unlink(options.rows);
  cr_assert_eq(status, 0, "%s", diag.n_entries ? diag.entries[0].message : "");
  return measured;
}

/* What a row is of: clients, engine, version, GPU and format, lengths, degrees of prefill and of
 * decode as they are written, day, and behind a comma its image if it has one. */
typedef struct Written {
  const char *clients, *what, *lengths, *prefill, *decode, *day;
} Written;

static const MeasuredPoint *load_split(const Written *row) {
  const char *text = arena_printf(&arena, "a,,%s,%s,disagg,%s,500,9,,,,,,,%s,,%s,%s%s\n",
                                  row->clients, row->what, row->lengths, row->prefill, row->decode,
                                  row->day, strchr(row->day, ',') ? "" : ",");
  const Measured measured = load(text);
  cr_assert_eq(measured.n_points, 1);
  return &measured.points[0];
}

#define R1(engine, version, gpu, precision)                                                        \
  engine "," version ",deepseek-ai/DeepSeek-R1," gpu "," precision

Test(measured_recipes, a_row_without_numbers_is_of_the_deployment_that_fits_it) {
  static const struct {
    Written row;
    int64_t prefills, decodes;
    const char *degrees;
  } cases[] = {
      // GPUs of an instance, with the experts of prefill
      {{"2192", R1("trtllm", "0.8.1.post1", "b200_sxm", "fp4"), "1024,1024", "4,1,1,1,4",
        "8,1,1,2,4", "2026-01-29"},
       1,
       2,
       "tp1 dp4 ep4 | tp1 dp8 ep8"},
      // prefill of long prompts has no attention data parallelism, whatever the month's list says
      {{"192", R1("trtllm", "0.8.1.post1", "h200_sxm", "fp8"), "8192,1024", "8,1,1,1,8",
        "8,1,1,1,8", "2026-02-14"},
       2,
       3,
       "tp8 ep8 | tp1 dp8 ep8"},
      {{"192", R1("trtllm", "0.8.1.post1", "h200_sxm", "fp8"), "8192,1024", "8,1,1,1,8",
        "8,1,1,1,8", "2026-03-23"},
       2,
       3,
       "tp8 ep8 | tp1 dp8 ep8"},
      // all GPUs: 8 of prefill with 4 each, and 16
      {{"2150", R1("trtllm", "", "gb200", "fp4"), "8192,1024", "48,1,1,48,1", "48,1,1,48,1",
        "2025-12-05"},
       8,
       1,
       "tp1 dp4 ep4 | tp1 dp16 ep16"},
      // nothing
      {{"12000", R1("sglang", "0.5.5.post2", "gb200", "fp4"), "1024,1024", "1,1,1,1,1", "1,1,1,1,1",
        "2025-12-21"},
       4,
       1,
       "tp1 dp4 ep4 | tp1 dp32 ep32"},
      // listed again with speculative decoding, but with another image
      {{"16", R1("sglang", "0.5.8.post1", "b200_sxm", "fp4"), "1024,1024", "4,1,1,1,4", "8,1,1,2,4",
        "2026-02-11,lmsysorg/sglang:v0.5.8.post1-cu130-runtime"},
       1,
       5,
       "tp1 dp4 ep4 | tp8 ep8"},
      // as many GPUs and clients are listed for days after it
      {{"1024", R1("sglang", "", "gb200", "fp8"), "8192,1024", "72,1,1,72,1", "72,1,1,72,1",
        "2025-12-05"},
       6,
       1,
       "tp1 dp8 ep8 | tp1 dp24 ep24"},
      // with speculative decoding, too
      {{"10", R1("trtllm", "0.8.1.post1", "b200_sxm", "fp4"), "1024,1024", "4,1,1,1,4", "8,1,1,2,4",
        "2026-01-29"},
       1,
       5,
       "tp1 dp4 ep4 | tp8 ep8"},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    const MeasuredPoint *point = load_split(&cases[i].row);
    cr_assert_null(point->why, "%zu: %s", i, point->why);
    cr_expect_str_eq(measured_degrees(point, &arena), cases[i].degrees, "%zu: %s", i,
                     measured_degrees(point, &arena));
    cr_expect_eq(point->pools[MEASURED_PREFILL].workers, cases[i].prefills);
    cr_expect_eq(point->pools[MEASURED_DECODE].workers, cases[i].decodes);
    cr_assert_not_null(point->solved);
    cr_expect_eq(strstr(point->solved, "speculative") != NULL, i == COUNT(cases) - 1, "%zu", i);
  }
}

/* Drafts differ among the clients of one deployment, and their number is that of the recipe. All
 * clients' drafts have room in a step. */
Test(measured_recipes, a_row_listed_with_drafts_alone_is_simulated_with_them) {
  static const struct {
    Written row;
    const char *degrees;
    int drafts, tokens; // of a step: (1 + drafts) of each client and a prompt, in 64s
  } cases[] = {
      {{"1214", R1("trtllm", "0.8.1.post1", "b200_sxm", "fp4"), "1024,1024", "4,1,1,1,4",
        "8,1,1,2,4", "2026-01-29"},
       "tp1 dp4 ep4 | tp1 dp8 ep8",
       2,
       8192}, // the least there is
      {{"4968", R1("trtllm", "0.8.1.post1", "b200_sxm", "fp4"), "1024,1024", "4,1,1,1,4",
        "8,1,1,2,4", "2026-01-29"},
       "tp1 dp4 ep4 | tp1 dp8 ep8",
       1,
       11072},
      {{"3072", R1("trtllm", "0.8.1.post2", "gb200", "fp4"), "1024,8192", "4,1,1,1,4", "16,1,1,4,4",
        "2026-03-23"},
       "tp1 dp4 ep4 | tp1 dp16 ep16",
       3,
       13376},
      {{"6144", R1("trtllm", "0.8.1.post2", "gb200", "fp4"), "1024,8192", "4,1,1,1,4", "16,1,1,4,4",
        "2026-03-23"},
       "tp1 dp4 ep4 | tp1 dp16 ep16",
       1,
       13376},
      {{"1075", R1("trtllm", "", "gb200", "fp4"), "8192,1024", "48,1,1,48,1", "48,1,1,48,1",
        "2025-12-05"},
       "tp1 dp4 ep4 | tp1 dp16 ep16",
       2,
       11520},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    const MeasuredPoint *point = load_split(&cases[i].row);
    cr_assert_null(point->why, "%zu: %s", i, point->why);
    cr_expect_str_eq(measured_degrees(point, &arena), cases[i].degrees, "%zu", i);
    cr_expect_eq(point->script.drafts, cases[i].drafts, "%zu", i);
    cr_expect_eq(point->script.max_num_batched_tokens, cases[i].tokens, "%zu: %d", i,
                 (int)point->script.max_num_batched_tokens);
    cr_expect_not_null(strstr(point->solved, "with speculative decoding"));
    cr_expect_not_null(strstr(point->assumed, "by its recipe"));
    // both pools have them
    const char *drafts = arena_printf(
        &arena, "speculative: {method: mtp, num_speculative_tokens: %d, ", cases[i].drafts);
    const char *first = strstr(point->config, drafts);
    cr_assert_not_null(first, "%zu: %s", i, point->config);
    cr_expect_not_null(strstr(first + 1, drafts), "%zu: %s", i, point->config);
  }
}

Test(measured_recipes, a_row_of_no_deployment_or_of_several_is_not_simulated) {
  static const struct {
    Written row;
    const char *why;
  } cases[] = {
      {{"1024", R1("sglang", "0.5.8.post1", "b200_sxm", "fp4"), "1024,1024", "4,1,1,1,4",
        "8,1,1,2,4", "2026-02-11"},
       "speculative decoding only, which is not simulated with SGLang"},
      {{"16", R1("sglang", "0.5.8.post1", "b200_sxm", "fp4"), "1024,1024", "4,1,1,1,4", "8,1,1,2,4",
        "2026-02-11,lmsysorg/sglang:v0.5.8.post1-cu130"},
       "speculative decoding only, which is not simulated with SGLang"},
      {{"1024", R1("trtllm", "0.8.1.post1", "h200_sxm", "fp8"), "1024,1024", "8,1,1,1,8",
        "8,1,1,1,8", "2026-02-14"},
       "several that InferenceX lists fit its columns, all with speculative decoding"},
      {{"512", R1("sglang", "0.5.8.post1", "b200_sxm", "fp4"), "1024,1024", "4,1,1,1,4",
        "8,1,1,2,4", "2026-02-11"},
       "several"},
      {{"2193", R1("trtllm", "0.8.1.post1", "b200_sxm", "fp4"), "1024,1024", "4,1,1,1,4",
        "8,1,1,2,4", "2026-01-29"},
       "none"},
      {{"2192", R1("trtllm", "0.9.0", "b200_sxm", "fp4"), "1024,1024", "4,1,1,1,4", "8,1,1,2,4",
        "2026-01-29"},
       "none"},
      {{"2192", R1("trtllm", "0.8.1.post1", "b200_sxm", "fp4"), "1024,1024", "4,1,1,1,4",
        "4,1,1,1,4", "2026-01-29"},
       "none"},
      {{"2192", "trtllm,0.8.1.post1,meta-llama/Llama-3.1-70B,b200_sxm,fp4", "1024,1024",
        "4,1,1,1,4", "8,1,1,2,4", "2026-01-29"},
       "none"},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    const MeasuredPoint *point = load_split(&cases[i].row);
    cr_assert_not_null(point->why, "%zu", i);
    cr_expect_not_null(strstr(point->why, cases[i].why), "%zu: %s", i, point->why);
    cr_expect_not_null(strstr(point->why, "numbers of prefill and decode instances"));
    cr_expect(!point->solved && !point->config);
  }
}

/* A rack's row with the GPUs of all instances is one of a split cluster. */
Test(measured_recipes, an_aggregated_row_of_all_gpus_is_split) {
  const char *row =
      "a,,%s,trtllm,,deepseek-ai/DeepSeek-R1,gb200,fp4,agg,1024,1024,500,9,%s,1,1,%s,1"
      ",,,,,,,,,,,,,2025-11-17,\n";
  Measured measured = load(arena_printf(&arena, row, "4300", "12", "12"));
  const MeasuredPoint *point = &measured.points[0];
  cr_assert(!point->why && point->solved, "%s", point->why);
  cr_expect_str_eq(measured_mode(point), "disagg");
  cr_expect_str_eq(measured_degrees(point, &arena), "tp1 dp4 ep4 | tp1 dp8 ep8");
  cr_expect_eq(measured_gpus(point), 12);
  measured = load(arena_printf(&arena, row, "4300", "72", "72"));
  cr_expect_not_null(strstr(measured.points[0].why, "counts all GPUs"));
}

/* ---- The rows that have their numbers ---- */

typedef struct Row {
  const char *id, *concurrency, *backend, *backend_version, *model_path, *system, *precision, *mode,
      *isl, *osl, *measured_at, *image;
  int64_t prefill_num_workers, prefill_tp_size, prefill_attention_dp_size, prefill_moe_ep_size,
      decode_num_workers, decode_tp_size, decode_attention_dp_size;
} Row;

#define TEXT(field)                                                                                \
  { .name = #field, .type = CSV_TEXT, .offset = offsetof(Row, field), .may_be_empty = true }
#define COUNTED(field)                                                                             \
  { .name = #field, .type = CSV_INT, .offset = offsetof(Row, field), .may_be_empty = true }
static const CsvColumn columns[] = {TEXT(id),
                                    TEXT(concurrency),
                                    TEXT(backend),
                                    TEXT(backend_version),
                                    TEXT(model_path),
                                    TEXT(system),
                                    TEXT(precision),
                                    TEXT(mode),
                                    TEXT(isl),
                                    TEXT(osl),
                                    TEXT(measured_at),
                                    TEXT(image),
                                    COUNTED(prefill_num_workers),
                                    COUNTED(prefill_tp_size),
                                    COUNTED(prefill_attention_dp_size),
                                    COUNTED(prefill_moe_ep_size),
                                    COUNTED(decode_num_workers),
                                    COUNTED(decode_tp_size),
                                    COUNTED(decode_attention_dp_size),
                                    {0}};

/* The row as those without numbers are: GPUs of instances, with the experts of prefill; of SGLang
 * before 0.5.8 ones. */
static const char *hidden(const Row *row) {
  const bool ones = strncmp(row->backend_version, "0.5.5", 5) == 0;
  const long long prefill = ones ? 1 : row->prefill_tp_size * row->prefill_attention_dp_size;
  const long long decode = ones ? 1 : row->decode_tp_size * row->decode_attention_dp_size;
  const long long expert = ones ? 1 : row->prefill_moe_ep_size;
  return arena_printf(&arena,
                      "%s,,%s,%s,%s,%s,%s,%s,disagg,%s,%s,500,9,,,,,,,%lld,1,1,%lld,%lld,,%lld,"
                      "1,1,%lld,%lld,%s,%s\n",
                      row->id, row->concurrency, row->backend, row->backend_version,
                      row->model_path, row->system, row->precision, row->isl, row->osl, prefill,
                      prefill / expert, expert, decode, decode / expert, expert, row->measured_at,
                      row->image);
}

static bool has_numbers(const Row *row) {
  return row->prefill_num_workers > 0 && strcmp(row->mode, "disagg") == 0 &&
         strstr(row->model_path, "DeepSeek");
}

Test(measured_recipes, hidden_numbers_are_found_again) {
  const char *path = data_path("TANDEM_DATA_DIR", "measured/e2e/inferencex.csv.gz", &arena);
  if (!path) cr_skip_test("TANDEM_DATA_DIR has no measurements");
  static int64_t given[1024][2];
  Csv csv;
  Row row = {0};
  const char *rows = "";
  size_t n = 0;
  int found = 0, several = 0;
  cr_assert(!csv_open(&csv, path, &arena, &diag) && !csv_header(&csv, columns, false, &diag));
  while (csv_next(&csv, &row, &diag) > 0 && n < 1024) {
    if (!has_numbers(&row)) continue;
    given[n][0] = row.prefill_num_workers;
    given[n++][1] = row.decode_num_workers;
    rows = arena_printf(&arena, "%s%s", rows, hidden(&row));
  }
  const Measured measured = load(rows);
  cr_assert_eq(measured.n_points, n);
  for (size_t i = 0; i < measured.n_points; i++) {
    const MeasuredPoint *point = &measured.points[i];
    if (!point->solved) {
      cr_expect(point->why && strstr(point->why, "several"), "%s: %s", point->id, point->why);
      several++;
      continue;
    }
    found++;
    cr_expect(point->pools[0].workers == given[i][0] && point->pools[1].workers == given[i][1],
              "%s has %d and %d, not %d and %d", point->id, (int)given[i][0], (int)given[i][1],
              (int)point->pools[0].workers, (int)point->pools[1].workers);
  }
  cr_expect(found >= 137, "%d found of %zu, %d fit several", found, n, several);
}
