/* Timelines by the rules of the Trace Event format: what each kind of event must have, slices of a
 * row that do not overlap, arrows whose ends lie in slices; and that they are the run's figures. */
#include "base/json.h"
#include "experiments/timeline/timeline.h"
#include "tests/unit/testing.h"
#include <stdio.h>

TestSuite(timeline, .init = setup_folder, .fini = teardown_folder);

/* ---- The rules ---- */

/* Assertions of Criterion are too slow to hold of each event. */
#define RULE(holds, ...)                                                                           \
  do {                                                                                             \
    if (!(holds)) cr_assert_fail(__VA_ARGS__);                                                     \
  } while (0)

enum { ROWS_MAX = 4096, PIDS_MAX = 16 };

typedef struct Interval {
  int64_t begin, end; // ns
} Interval;

/* A row, by its tid. */
typedef struct Row {
  int64_t pid;
  bool named;
  Interval *slices;
  size_t n, capacity;
  int64_t iterations, busy_ns;
} Row;

typedef struct ArrowEnds {
  int64_t at[3]; // of s, t and f; -1: none
  int64_t tid[3];
} ArrowEnds;

typedef struct Checked {
  Row rows[ROWS_MAX];
  ArrowEnds *arrows; // by id
  size_t n_arrows, capacity;
  int64_t n_slices, n_counters, n_drawn; // arrows
  char names[200];                       // of slices and instants
  int64_t first_ns, last_ns;
} Checked;

enum { PH, PID, TID, NAME, TS, DUR, ARGS, CAT, ID, BP, SCOPE, EVENT_KEYS };
static const char *const event_keys[] = {"ph",   "pid", "tid", "name", "ts", "dur",
                                         "args", "cat", "id",  "bp",   "s"};

/* Of digits at the head of `text`, so many of which there are `n`. (strtoll and sscanf may look for
 * the end of all the text.) */
static int64_t digits_of(const char *text, int length, int *ret_n) {
  int64_t value = 0;
  int n = 0;
  for (; n < length && n < 18 && text[n] >= '0' && text[n] <= '9'; n++)
    value = 10 * value + (text[n] - '0');
  *ret_n = n;
  return value;
}

/* Microseconds with three decimals. */
static int64_t ns_of(Field field) {
  int n = 0, decimals = 0;
  const int64_t us = digits_of(field.text, field.length, &n);
  const char *point = field.text + n;
  const int left = field.length - n - 1;
  const int64_t ns = left > 0 && *point == '.' ? digits_of(point + 1, left, &decimals) : 0;
  RULE(n > 0 && decimals == 3 && left == 3, "'%.*s'", field.length, field.text);
  return us * 1000 + ns;
}

static int64_t whole(Field field) {
  int n = 0;
  const int64_t value = digits_of(field.text, field.length, &n);
  RULE(n > 0 && n == field.length, "'%.*s'", field.length, field.text);
  return value;
}

static void read_object(const Line *line, Field field, const char *const *keys, int n,
                        Field *ret_values) {
  JsonScanner scanner = json_scanner(line, field, &diag);
  memset(ret_values, 0, (size_t)n * sizeof *ret_values);
  RULE(json_object(&scanner, keys, n, ret_values) == 0, "%.*s", field.length, field.text);
}

static Row *row_of(Checked *self, const Field *event) {
  const int64_t tid = whole(event[TID]);
  RULE(0 < tid && tid < ROWS_MAX, "a tid of %lld", (long long)tid);
  Row *row = &self->rows[tid];
  RULE(row->pid == 0 || row->pid == whole(event[PID]), "a tid is of one process");
  row->pid = whole(event[PID]);
  return row;
}

static void note_name(Checked *self, Field name) {
  const char *quoted = arena_printf(&arena, "%.*s", name.length, name.text);
  if (!strstr(self->names, quoted)) strcat(self->names, quoted);
  RULE(strlen(self->names) < sizeof self->names - 60, "names: %s", self->names);
}

static void check_slice(Checked *self, const Line *line, const Field *event) {
  static const char *const keys[] = {"iterations", "busy_us"};
  Field args[2];
  Row *row = row_of(self, event);
  const int64_t begin = ns_of(event[TS]), end = begin + ns_of(event[DUR]);
  RULE(row->n == 0 || row->slices[row->n - 1].end <= begin, "slices overlap: %.*s",
       event[PH].length + 60, event[PH].text);
  ARENA_RESERVE(&arena, row->slices, row->capacity, row->n + 1);
  row->slices[row->n++] = (Interval){begin, end};
  read_object(line, event[ARGS], keys, 2, args);
  if (args[0].text) row->iterations += whole(args[0]);
  if (args[1].text)
    row->busy_ns += ns_of(args[1]);
  else if (!field_is(event[NAME], "\"flip\"")) // a machine that turns is not busy
    row->busy_ns += end - begin;
  self->n_slices++;
  note_name(self, event[NAME]);
  if (begin < self->first_ns) self->first_ns = begin;
  if (end > self->last_ns) self->last_ns = end;
}

static void check_flow(Checked *self, const Field *event, int point) {
  const size_t id = (size_t)whole(event[ID]);
  RULE(event[CAT].text && (point == 2) == (event[BP].text != NULL), "an arrow without its keys");
  const size_t had = self->capacity;
  ARENA_RESERVE(&arena, self->arrows, self->capacity, id + 1);
  for (size_t i = had; i < self->capacity; i++)
    self->arrows[i] = (ArrowEnds){.at = {-1, -1, -1}};
  if (id >= self->n_arrows) self->n_arrows = id + 1;
  RULE(self->arrows[id].at[point] < 0, "an arrow is drawn twice");
  self->arrows[id].at[point] = ns_of(event[TS]);
  self->arrows[id].tid[point] = whole(event[TID]);
}

static void check_counter(Checked *self, const Line *line, Field args) {
  static const char *const keys[] = {"waiting",  "running", "used",  "cached",
                                     "computed", "W",       "store", "gpu"};
  Field values[COUNT(keys)];
  int n = 0;
  read_object(line, args, keys, (int)COUNT(keys), values);
  for (size_t i = 0; i < COUNT(keys); i++) {
    if (!values[i].text) continue;
    double value = 0;
    n++;
    RULE(field_number(values[i], 1e18, &value), "a counter below 0");
  }
  RULE(n > 0, "a counter without a value");
  self->n_counters++;
}

static void check_event(Checked *self, const Line *line, Field text) {
  Field event[EVENT_KEYS];
  read_object(line, text, event_keys, EVENT_KEYS, event);
  RULE(event[PH].text && event[PH].length == 3 && event[NAME].text, "no phase or name");
  const char phase = event[PH].text[1];
  RULE(whole(event[PID]) > 0, "no process");
  switch (phase) {
  case 'M':
    RULE(event[ARGS].text, "a name without its text");
    if (field_is(event[NAME], "\"thread_name\"")) row_of(self, event)->named = true;
    break;
  case 'X':
    check_slice(self, line, event);
    break;
  case 's':
  case 't':
  case 'f':
    check_flow(self, event, phase == 's' ? 0 : phase == 't' ? 1 : 2);
    break;
  case 'C':
    ns_of(event[TS]);
    check_counter(self, line, event[ARGS]);
    break;
  case 'i':
    ns_of(event[TS]);
    note_name(self, event[NAME]);
    RULE(event[SCOPE].text, "an instant of nothing");
    break;
  default:
    RULE(false, "an event of phase %c", phase);
  }
}

/* Whether a slice of the row lasts at that time. */
static bool lasts(const Row *row, int64_t at) {
  size_t low = 0, high = row->n;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (row->slices[middle].end <= at)
      low = middle + 1;
    else
      high = middle;
  }
  return low < row->n && row->slices[low].begin <= at;
}

static void check_arrows(Checked *self) {
  for (size_t id = 0; id < self->n_arrows; id++) {
    const ArrowEnds *arrow = &self->arrows[id];
    RULE((arrow->at[0] < 0) == (arrow->at[2] < 0), "arrow %zu has one end", id);
    self->n_drawn += arrow->at[0] >= 0;
    Tick last = 0;
    for (int i = 0; i < 3; i++) {
      if (arrow->at[i] < 0) continue;
      RULE(arrow->at[i] >= last, "arrow %zu goes back", id);
      RULE(lasts(&self->rows[arrow->tid[i]], arrow->at[i]), "arrow %zu, %d: no slice", id, i);
      last = arrow->at[i];
    }
  }
}

static Checked *check(char *text, size_t size) {
  static const char *const keys[] = {"traceEvents", "displayTimeUnit", "otherData"};
  Checked *self = ARENA_NEW(&arena, Checked);
  Field values[3], event;
  self->first_ns = INT64_MAX;
  for (size_t i = 0; i < size; i++)
    if (text[i] == '\n') text[i] = ' '; // the scanner is for one line
  const Line line = {text, (int)size, 1, "timeline"};
  read_object(&line, (Field){0}, keys, 3, values);
  cr_assert(field_is(values[1], "\"ms\"") && values[2].text);
  JsonScanner events = json_scanner(&line, values[0], &diag);
  int status;
  while ((status = json_element(&events, &event)) > 0)
    check_event(self, &line, event);
  cr_assert_eq(status, 0);
  for (int i = 0; i < ROWS_MAX; i++)
    RULE(self->rows[i].n == 0 || self->rows[i].named, "row %d has no name", i);
  check_arrows(self);
  return self;
}

/* ---- Runs ---- */

static Replay ran;
static TimelineOptions drawn;
static TimelineCounts counts;

static void load(const char *yaml) {
  write_file(path, yaml);
  const int status = replay_load_config(&ran, path, NULL, &arena, &diag);
  diag_print(&diag, stderr);
  cr_assert_eq(status, 0);
  drawn = (TimelineOptions){.interval = TICKS_PER_SECOND,
                            .machines = timeline_machines(&ran.config, NULL, &arena, &diag)};
}

static Checked *draw(void) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  cr_assert_not_null(out);
  const int status = timeline_write(&drawn, &ran, out, &counts, &diag);
  fclose(out);
  diag_print(&diag, stderr);
  cr_assert_eq(status, 0);
  cr_assert_eq(counts.bytes, (int64_t)size);
  Checked *checked = check(text, size);
  cr_expect_eq(checked->n_slices, counts.slices_drawn);
  cr_expect_eq(checked->n_drawn, counts.arrows_drawn);
  free(text);
  return checked;
}

/* The same run, for its figures. */
static const InstanceTotals *figures(void) {
  cr_assert_eq(replay_run(&ran, &arena, &diag), 0);
  return ran.result.instances;
}

enum { FIRST_TID = 10 }; // of machines, in order

static void check_figures(const Checked *checked) {
  const InstanceTotals *machines = figures();
  for (uint32_t m = 0; m < ran.result.n_instances; m++) {
    const Row *row = &checked->rows[FIRST_TID + m];
    const double busy = total_seconds(instance_busy_ticks(&machines[m]));
    const int64_t iterations = machines[m].prefill_iterations + machines[m].decode_iterations;
    cr_expect_eq(row->iterations, iterations, "machine %u", m);
    // each slice is cut to nanoseconds at both ends
    cr_expect_float_eq((double)row->busy_ns / 1e9, busy, 2e-9 * (double)(counts.slices + 1),
                       "machine %u: %.9f s, not %.9f", m, (double)row->busy_ns / 1e9, busy);
  }
}

#define AZURE(rate, duration)                                                                      \
  "model: llama2-70b\nmax_model_len: none\nworkload: {lengths: azure-conv-2023, arrivals: "        \
  "{process: poisson, rate: " rate " /s}, duration: " duration "}\n"

static const struct {
  const char *yaml, *names[8]; // that are drawn of it
} clusters[] = {
    {AZURE("12", "40 s") "pools:\n"
                         "  front: {role: prefill, machine: dgx-h100, count: 2}\n"
                         "  back: {role: decode, machine: dgx-h100, count: 3}\n"
                         "policies: {router: splitwise, pool: splitwise_mixed, batcher: splitwise,"
                         " transfer: splitwise}\nperfmodel: splitwise-2023\n",
     {"prefill", "decode", "transfer", "decode to mixed", "mixed to decode"}},
    // a cache, steps of one batch that are runs, and a name to be escaped
    {AZURE("4", "40 s") "engine: vllm-0.12\n"
                        "pools: {\"a\\\"b\": {role: mixed, machine: dgx-h100}}\n"
                        "perfmodel: splitwise-2023\n",
     {"mixed", "decode"}},
    // lanes of a pipeline, groups that change their shape over a store
    {AZURE("1", "20 s") "pools:\n"
                        "  p: {role: prefill, machine: dgx-h100, tensor_parallel_size: 1, "
                        "pipeline_parallel_size: 4, cpu_memory: 100 GiB}\n"
                        "  d: {role: decode, machine: dgx-h100, tensor_parallel_size: 4, "
                        "cpu_memory: 100 GiB}\n"
                        "groups: {gpus: {prefill: p, decode: d}}\n"
                        "policies: {pool: seesaw, batcher: continuous}\nperfmodel: roofline\n",
     {"prefill", "decode", "copy", "reshard", "drain", "stall"}},
    // flips, and copies through CPU memory
    {AZURE("2", "60 s") "pools:\n"
                        "  front: {role: prefill, machine: dgx-h100, count: 4}\n"
                        "  back: {role: decode, machine: dgx-h100}\n"
                        "network: {path: indirect}\n"
                        "policies: {pool: {name: tetriinfer_flip, idle_for: 1 s, flip_time: 2 s, "
                        "only_if_other_busy: false}, batcher: continuous, dispatcher: "
                        "power_of_two, router: token_jsq}\nperfmodel: splitwise-2023\n",
     {"prefill", "decode", "transfer", "copy", "flip", "prefill to decode"}}};

static void check_names(const Checked *checked, const char *const *names) {
  for (; *names; names++)
    cr_expect(strstr(checked->names, arena_printf(&arena, "\"%s\"", *names)), "no '%s' in %s",
              *names, checked->names);
}

Test(timeline, is_by_the_rules_and_the_figures_of_the_run) {
  for (size_t i = 0; i < COUNT(clusters); i++) {
    load(clusters[i].yaml);
    const Checked *all = draw();
    cr_expect_eq(counts.slices, counts.slices_drawn, "cluster %zu", i);
    cr_expect_eq(counts.arrows, counts.arrows_drawn, "cluster %zu", i);
    cr_expect_eq(all->n_drawn > 0, ran.config.sim.n_pools > 1);
    cr_expect_gt(all->n_counters, 10);
    check_figures(all);
    check_names(all, clusters[i].names);
    drawn.join = TICKS_PER_SECOND / 2;
    const Checked *joined = draw();
    cr_expect_lt(joined->n_slices, all->n_slices, "cluster %zu", i);
    cr_expect_leq(joined->n_drawn, all->n_drawn);
    check_figures(joined);
  }
}

Test(timeline, an_hour_of_azure_is_below_50_mb) {
  load(AZURE("5.5", "1 h") "pools:\n"
                           "  front: {role: prefill, machine: dgx-h100, count: 2}\n"
                           "  back: {role: decode, machine: dgx-h100, count: 3}\n"
                           "perfmodel: splitwise-2023\n");
  drawn.interval = 0;
  cr_assert_eq(timeline_choose(&drawn, &ran, 45000000, &diag), 0);
  cr_expect(drawn.join == 0 && drawn.interval <= 5 * TICKS_PER_SECOND);
  draw();
  cr_expect_lt(counts.bytes, 50000000);
  cr_expect_gt(counts.arrows_drawn, 19000);
}

Test(timeline, a_size_chooses_what_is_joined) {
  load(clusters[0].yaml);
  for (int64_t size = 1000000; size >= 200000; size /= 2) {
    drawn.interval = 0;
    cr_assert_eq(timeline_choose(&drawn, &ran, size, &diag), 0);
    draw();
    cr_expect_lt(counts.bytes, size + size / 4, "%lld", (long long)counts.bytes);
    cr_expect_gt(counts.bytes, size / 10, "%lld", (long long)counts.bytes);
  }
  cr_expect_lt(counts.slices_drawn, counts.slices);
}

Test(timeline, a_window_and_machines_are_drawn_alone) {
  load(clusters[0].yaml);
  drawn.from = 10 * TICKS_PER_SECOND;
  drawn.to = 20 * TICKS_PER_SECOND;
  const Checked *window = draw();
  cr_expect_gt(window->first_ns, INT64_C(9000000000)); // a run may have begun before
  cr_expect_lt(window->last_ns, INT64_C(24000000000));
  cr_expect_gt(window->n_drawn, 50);
  drawn.machines = timeline_machines(&ran.config, "front,4", &arena, &diag);
  const Checked *some = draw();
  for (int m = 0; m < 5; m++)
    cr_expect_eq(some->rows[FIRST_TID + m].n, m < 2 || m == 4 ? window->rows[FIRST_TID + m].n : 0,
                 "machine %d", m);
  cr_expect(0 < some->n_drawn && some->n_drawn < window->n_drawn);
}

Test(timeline, machines_are_named_by_pool_and_number) {
  static const struct {
    const char *list, *message;
  } wrong[] = {{"5", "'5' is outside the instances 0 to 4"},
               {"2..1", "'2..1' is outside the instances 0 to 4"},
               {"fron", "'fron' is neither a pool nor an instance such as 3 or 5..7"},
               {"", "'' is neither a pool nor an instance such as 3 or 5..7"}};
  load(clusters[0].yaml);
  const bool *some = timeline_machines(&ran.config, "0,2..3", &arena, &diag);
  cr_expect(some && some[0] && !some[1] && some[2] && some[3] && !some[4]);
  for (size_t i = 0; i < COUNT(wrong); i++) {
    cr_expect_null(timeline_machines(&ran.config, wrong[i].list, &arena, &diag));
    cr_expect_str_eq(diag.entries[i].message, wrong[i].message);
  }
  cr_expect_str_eq(diag.entries[2].hint, "did you mean 'front'?");
}
