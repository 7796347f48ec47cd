/* See subject.h: what others measured nearest to an answer, and how far predictions of it were off.
 * What the iteration times of its last pool are of is in their name. */
#include "experiments/config/config.h"
#include "experiments/findings/subject.h"
#include "perfmodel/near_rows.h"
#include "perfmodel/setup.h"
#include <string.h>

enum { NEAR = 3 };

/* Of the first run of an answer: the times of the pool that decodes, and the load of each GPU: by
 * Little's law what is decoded at a time. */
static const char answer_sql[] =
    "SELECT pool.perfmodel, count(*) OVER () > 1, "
    "  (SELECT value FROM metric WHERE run_id = pool.run_id AND scope = 'run' "
    "   AND name = 'prompt_tokens') / completed.value, "
    "  (SELECT value FROM metric WHERE run_id = pool.run_id AND scope = 'run' "
    "   AND name = 'output_tokens') / completed.value, "
    "  (SELECT value FROM metric WHERE run_id = pool.run_id AND scope = 'run' "
    "   AND name = 'output_tokens_per_s_per_gpu') "
    "  * (SELECT value FROM metric WHERE run_id = pool.run_id AND scope = 'run' "
    "     AND name = 'tpot_s' AND statistic = 'mean') "
    "FROM pool LEFT JOIN metric AS completed ON completed.run_id = pool.run_id "
    "  AND completed.scope = 'run' AND completed.name = 'completed' "
    "WHERE pool.run_id = (SELECT min(value) FROM json_each(:runs)) ORDER BY pool.pool DESC LIMIT 1";

/* False where the times say not what they are of. */
static bool read_setup(PerfSetup *ret, const char *perfmodel, Arena *arena) {
  const char *slash = strchr(perfmodel, '/');
  *ret = (PerfSetup){0};
  return slash &&
         setup_parse_folder(ret, arena_copy(arena, perfmodel, (size_t)(slash - perfmodel)),
                            arena) &&
         setup_parse_name(ret, slash + 1, arena);
}

static double known(double value) {
  return value > 0 ? value : 0;
}

/* The rows; false where nothing can be said. */
static bool find(const Subject *answer, PerfSetup *ret_setup, NearRows *ret) {
  Arena *arena = answer->of->arena;
  CLEANUP_STATEMENT sqlite3_stmt *row = subject_ask(answer, answer_sql);
  if (!row || sqlite3_step(row) != SQLITE_ROW ||
      !read_setup(ret_setup, results_text(row, 0, arena), arena))
    return false;
  const LlmFormats formats = {.weight_dtype = ret_setup->weight_dtype,
                              .attention_dtype = LLM_UNSAID,
                              .expert_dtype = LLM_UNSAID,
                              .kv_cache_dtype = LLM_UNSAID};
  const char *root = arena_printf(arena, "%s/perfmodel", config_data_root());
  Llm model;
  Diag unsaid;
  diag_init(&unsaid);
  const NearQuestion asked = {.gpu = ret_setup->gpu,
                              .engine = ret_setup->engine,
                              .model = &model,
                              .split = sqlite3_column_int(row, 1),
                              .degrees = {.tensor = ret_setup->tensor_parallel_size,
                                          .pipeline = 1,
                                          .data = 1,
                                          .attention = ret_setup->attention_data_parallel_size,
                                          .expert = ret_setup->expert_parallel_size},
                              .prompt_tokens = known(results_real(row, 2)),
                              .output_tokens = known(results_real(row, 3)),
                              .in_flight = known(results_real(row, 4))};
  const bool found = llm_load_as(&model, ret_setup->model, &formats, root, place_of_file(NULL),
                                 arena, &unsaid) == 0 &&
                     near_rows_find(ret, &asked, root, NEAR, arena, &unsaid) == 0;
  diag_done(&unsaid);
  return found && ret->there;
}

static void put_row(Page *page, const NearRow *row) {
  page_row(page, NULL);
  page_cell(page, true, "%s %s", row->engine, row->version);
  page_cell(page, true, "%s in %s, %s", row->model, row->weights, row->degrees);
  page_cell(page, true, "%.0f + %.0f", row->isl, row->osl);
  if (row->concurrency > 0)
    page_cell(page, false, "%.0f", row->concurrency);
  else
    page_cell(page, false, "-");
  page_cell(page, false, "%+.1f%%", 100 * row->ttft_error);
  page_cell(page, false, "%+.1f%%", 100 * row->tpot_error);
  page_cell(page, true, "%s%s", row->id, *row->odd ? " (odd)" : "");
  page_row_end(page);
}

void put_near(const Subject *answer) {
  static const PageColumn columns[] = {{.head = "engine", .is_text = true},
                                       {.head = "model", .is_text = true},
                                       {.head = "tokens", .is_text = true},
                                       {.head = "clients"},
                                       {.head = "TTFT error"},
                                       {.head = "TPOT error"},
                                       {.head = "row", .is_text = true}};
  Page *page = &answer->of->page;
  PerfSetup setup;
  NearRows near;
  if (!find(answer, &setup, &near)) return;
  if (near.n == 0) {
    page_element(page, "p", NULL, "No row that was measured on %s is known.", setup.gpu);
    return;
  }
  page_table(page, columns, 7, "Nearest measured rows, and how far predictions of them were off");
  for (int i = 0; i < near.n; i++)
    put_row(page, &near.rows[i]);
  page_table_end(page);
  page_element(page, "p", NULL, "To repeat a row, with the published measurements in FOLDER:");
  page_element(page, "pre", NULL, "tandem report measured FOLDER --id %s", near.rows[0].id);
}
