/* Binding the `workload:` block.
 *
 * A block is of one of two kinds, each with an option table. A key of the other kind is refused by
 * name, so that nobody believes in a rate that was not applied. */
#include "traces/mix.h"
#include <math.h>
#include <string.h>

/* What the tables fill in: the configuration, and what needs a second look. */
typedef struct Bound {
  WorkloadConfig config;
  const Node *patience, *windows;
  int format; // index into format_choices
  int clock;  // of clock_choices
  const Node *columns;
  const Node *lengths, *arrivals, *system_prompts, *documents, *closed_loop, *sessions, *priorities;
  const Node *images;
} Bound;

#define PATIENCE_ROW                                                                               \
  {                                                                                                \
    .key = "patience", .type = OPTION_NODE, .offset = AT(patience),                                \
    .help = "Clients that give up: {ttft: …, e2e: …, share: …}.", .absent = "none"                 \
  }
#define AT(field) offsetof(Bound, field)
#define TIME_MIN  1e-9 // seconds
#define TIME_MAX  9e6
#define RATE_MIN  1e-6 // per second
#define RATE_MAX  1e9

#define CLIENT_ROW(name, text)                                                                     \
  { .key = #name, .type = OPTION_NODE, .offset = AT(name), .help = (text), .absent = "none" }
#define CLOSED_LOOP_ROW                                                                            \
  CLIENT_ROW(                                                                                      \
      closed_loop,                                                                                 \
      "Clients that wait for each answer before the next request: {clients: …, requests: …}.")
#define PRIORITIES_ROW                                                                             \
  CLIENT_ROW(priorities, "Priorities of the requests: {values: [{priority: …, share: …}, …]}.")

#define MAX_TOKENS_ROW                                                                             \
  {                                                                                                \
    .key = "max_tokens", .type = OPTION_INT, .offset = AT(config.max_tokens), .min = 1,            \
    .max = TRACE_TOKENS_MAX,                                                                       \
    .help = "Most output tokens that the client of a request allows (max_tokens of the API). "     \
            "Longer outputs end there; shorter ones end by an EOS token.",                         \
    .absent = "the rest of the model's context"                                                    \
  }
#define IGNORE_EOS_ROW                                                                             \
  {                                                                                                \
    .key = "ignore_eos", .type = OPTION_BOOL, .offset = AT(config.ignore_eos),                     \
    .fallback = "false",                                                                           \
    .help = "Set max_tokens of each request to its output tokens, so that it ends by that, as "    \
            "benchmarks do. With false it ends by an EOS token, which engines do not foresee."     \
  }

const OptionSpec workload_replay_options[] = {
    {"trace", OPTION_STRING, AT(config.trace), .required = true,
     .help = "Path of the trace file to replay."},
    {"format", OPTION_CHOICE, AT(format), "auto", .choices = format_choices, .listed = "traces",
     .help = "Format of the trace. With auto the first line decides."},
    {"columns", OPTION_NODE, AT(columns),
     .help = "Columns of the trace, by name or number: {arrival: …, prompt: …, output: …}.",
     .absent = "those of the format"},
    {"time", OPTION_CHOICE, AT(clock), "auto", .choices = clock_choices,
     .help = "Unit or notation of the times in the trace."},
    {"sort", OPTION_BOOL, AT(config.reading.sort), "false",
     .help =
         "Sort the rows by time. The trace is then held in memory and may have at most 512 MiB."},
    {"start", OPTION_TICKS, AT(config.start), .max = TIME_MAX,
     .help = "Time in the trace at which the replay begins. Earlier rows are left out.",
     .absent = "that of the first row"},
    {"duration", OPTION_TICKS, AT(config.duration), .min = TIME_MIN, .max = TIME_MAX,
     .word = "auto", .absent = "the whole trace",
     .help = "Duration of the replay; later rows are left out. With auto the run stops as "
             "precision says."},
    {"windows", OPTION_NODE, AT(windows),
     .help = "Times in the trace at which parts of it begin that are replayed one after the other, "
             "without what lies between them: [0 s, 2 h, …]. Each is as long as window.",
     .absent = "all of it"},
    {"window", OPTION_TICKS, AT(config.window), .min = TIME_MIN, .max = TIME_MAX,
     .help = "Duration of each of the windows.", .absent = "none"},
    {"rate", OPTION_RATE, AT(config.rate), .min = RATE_MIN, .max = RATE_MAX,
     .help = "Mean rate to which the times are scaled.", .absent = "that of the trace"},
    {"rate_scale", OPTION_REAL, AT(config.rate_scale), "1", .min = 1e-6, .max = 1e6,
     .help = "Factor on the rate."},
    {"loop", OPTION_INT, AT(config.loop), "1", .min = 1, .max = INFINITY,
     .help = "Number of passes over the trace."},
    PATIENCE_ROW,
    {"requests", OPTION_INT, AT(config.requests), .min = 1, .max = INFINITY,
     .help = "Number of requests after which the workload ends.", .absent = "the whole trace",
     .also = "num_prompts num_requests"},
    MAX_TOKENS_ROW,
    IGNORE_EOS_ROW,
    CLOSED_LOOP_ROW,
    PRIORITIES_ROW,
    {0}};

const OptionSpec workload_synthetic_options[] = {
    {"lengths", OPTION_NODE, AT(lengths), .required = true, .listed = "lengths",
     .help =
         "Distribution of the lengths: the name or path of a table, or {prompt: …, output: …}."},
    {"arrivals", OPTION_NODE, AT(arrivals),
     .help = "Arrival process: {process: …, rate: …}. It is required without closed_loop.",
     .absent = "none"},
    {"correlation", OPTION_REAL, AT(config.correlation), "0", .min = -0.999, .max = 0.999,
     .help = "Rank correlation of prompt and output tokens."},
    {"system_prompts", OPTION_NODE, AT(system_prompts),
     .help = "System prompts, one of which begins each prompt: {count: …, tokens: …, zipf: …}.",
     .absent = "none"},
    {"documents", OPTION_NODE, AT(documents),
     .help = "Documents, one of which follows the system prompt in each prompt: {count: …, tokens: "
             "…, zipf: …}.",
     .absent = "none"},
    CLIENT_ROW(images, "Images of the prompts, or other inputs that the model's encoder encodes: "
                       "{count: …, tokens: …, distinct: …}."),
    {"max_model_len", OPTION_INT, AT(config.max_model_len), .min = 2, .max = INFINITY,
     .help = "Context in tokens at which outputs end.", .absent = "outputs keep their lengths"},
    MAX_TOKENS_ROW,
    IGNORE_EOS_ROW,
    {"duration", OPTION_TICKS, AT(config.duration), .min = TIME_MIN, .max = TIME_MAX,
     .word = "auto", .absent = "none; requests ends the workload",
     .help = "Time at which arrivals end. With auto the run stops as precision says."},
    {"requests", OPTION_INT, AT(config.requests), .min = 1, .max = INFINITY,
     .help = "Number of requests after which the workload ends.",
     .absent = "none; duration ends the workload", .also = "num_prompts num_requests"},
    PATIENCE_ROW,
    {"seed", OPTION_INT, AT(config.seed), .max = INFINITY,
     .help = "Seed of the arrivals and lengths.", .absent = "that of the run"},
    CLOSED_LOOP_ROW,
    CLIENT_ROW(sessions, "Conversations of several turns: {turns: …, think_time: …}."),
    PRIORITIES_ROW,
    {0}};

#define COLUMN_ROW(name, which, text)                                                              \
  { (name), OPTION_STRING, (which) * sizeof(const char *), .help = (text), .absent = "none" }

const OptionSpec workload_column_options[] = {
    COLUMN_ROW("arrival", TRACE_ARRIVAL, "Column with the arrival time of the request."),
    COLUMN_ROW("prompt", TRACE_PROMPT, "Column with the number of prompt tokens."),
    COLUMN_ROW("output", TRACE_OUTPUT, "Column with the number of output tokens."),
    COLUMN_ROW("session", TRACE_SESSION,
               "Column with the session of the request. Its prompt begins with the earlier turns "
               "of that session."),
    COLUMN_ROW("max_tokens", TRACE_MAX_TOKENS,
               "Column with the most output tokens that the client allows."),
    COLUMN_ROW("images", TRACE_IMAGES,
               "Column with the images of the prompt, between spaces: their tokens of the prompt, "
               "TOKENS@PLACE where one does not follow the one before, and =NAME where it may come "
               "again."),
    {0}};

static bool has_key(const OptionSpec *specs, const char *key) {
  while (specs->key && strcmp(specs->key, key) != 0)
    specs++;
  return specs->key != NULL;
}

/* Binds by the table of one kind; keys that only the `other` kind knows are refused by name. */
static int bind_kind(const OptionSpec *specs, const OptionSpec *other, const char *refusal,
                     const Node *node, Bound *bound, Diag *diag) {
  const char *foreign[16] = {NULL};
  int n = 0, status = 0;
  for (; other->key; other++)
    if (!has_key(specs, other->key)) foreign[n++] = other->key;
  for (int i = 0; i < n; i++) {
    const Node *child = node_find(node, foreign[i]);
    if (child) status = diag_error(diag, child->key_at, "'%s' %s", foreign[i], refusal);
    if (child && has_key(workload_arrival_options, foreign[i]))
      diag_hint(diag, "if requests are drawn, set 'arrivals.%s'", foreign[i]);
  }
  return option_bind(specs, node, foreign, node->at, bound, diag) || status ? -1 : 0;
}

static void take_automatic(WorkloadConfig *config) {
  config->automatic = config->duration < 0;
  if (config->automatic) config->duration = 0;
}

/* Its clients; `paced`: the rows have a rate besides. */
static int bind_closed_loop(Bound *bound, const Node *workload, bool paced, Diag *diag) {
  const Node *node = bound->closed_loop;
  ClosedLoopConfig *loop = &bound->config.closed_loop;
  if (!node) return 0;
  int status = option_bind(closed_loop_options, node, NULL, node->at, loop, diag);
  const Node *requests = node_find(node, "requests"), *ramp = node_find(node, "ramp");
  if (requests && node_find(workload, "requests"))
    status = diag_error(diag, requests->key_at,
                        "'requests' is also set in the workload: the two exclude each other");
  if (ramp && paced)
    status = diag_error(diag, ramp->key_at, "'ramp' cannot be used with 'arrivals'");
  if (loop->requests > 0) bound->config.requests = loop->requests;
  loop->timed = paced;
  if (!paced && !bound->config.trace) loop->until = bound->config.duration;
  return status;
}

static int bind_priorities(Bound *bound, Arena *arena, Diag *diag) {
  if (!bound->priorities) return 0;
  bound->config.priorities_at = bound->priorities->key_at;
  return priorities_bind(&bound->config.priorities, bound->priorities, arena, diag);
}

/* A format has the columns that are not named; without one all must be. */
static int bind_columns(Bound *bound, Diag *diag) {
  TraceReading *reading = &bound->config.reading;
  if (bound->format > 0) reading->format = format_at(bound->format - 1);
  reading->clock = (TraceClock)bound->clock;
  if (!bound->columns) return 0;
  if (option_bind(workload_column_options, bound->columns, NULL, bound->columns->at,
                  reading->columns, diag))
    return -1;
  const Node *images = node_find(bound->columns, "images");
  if (images) bound->config.images_at = images->key_at;
  return 0;
}

enum { WINDOWS_MAX = 10000 };

/* Starts of windows, which do not overlap. */
static int bind_windows(Bound *bound, const Node *workload, Arena *arena, Diag *diag) {
  const Node *list = bound->windows, *length = node_find(workload, "window");
  WorkloadConfig *config = &bound->config;
  if (!list && length)
    return diag_error(diag, length->key_at, "'window' needs 'windows', the times where they begin");
  if (!list) return 0;
  if (!length) return diag_error(diag, list->at, "'windows' needs 'window', how long each lasts");
  if (config->start > 0 || config->duration > 0)
    return diag_error(diag, list->at, "'windows' excludes 'start' and 'duration'");
  if (list->kind != NODE_LIST || list->n_children == 0 || list->n_children > WINDOWS_MAX)
    return diag_error(diag, list->at, "'windows' must be a list of 1 to %d times", WINDOWS_MAX);
  Tick *starts = ARENA_ARRAY(arena, Tick, list->n_children), next = 0;
  for (const Node *item = list->first; item; item = item->next) {
    double seconds = 0;
    if (item->kind != NODE_SCALAR || !units_parse(item->text, DIM_TIME, &seconds) || seconds < 0 ||
        seconds > TIME_MAX)
      return diag_error(diag, item->at, "a window must begin at a time from 0, such as 2 h");
    const Tick start = tick_from_seconds(seconds);
    if (start < next)
      return diag_error(diag, item->at, "a window begins before the end of the one before it");
    starts[config->n_windows++] = start;
    next = start + config->window;
  }
  config->windows = starts;
  return 0;
}

static int bind_replay(Bound *bound, const Node *node, const char *config_dir, Arena *arena,
                       Diag *diag) {
  if (bind_kind(workload_replay_options, workload_synthetic_options,
                "cannot be used with 'trace', which has its own arrivals and lengths", node, bound,
                diag))
    return -1;
  const Node *rate_scale = node_find(node, "rate_scale");
  if (rate_scale && node_find(node, "rate"))
    return diag_error(diag, rate_scale->key_at, "'rate' and 'rate_scale' exclude each other");
  const Node *rate = rate_scale ? rate_scale : node_find(node, "rate");
  if (rate && bound->closed_loop) {
    diag_error(diag, rate->key_at, "'%s' cannot be used with 'closed_loop'", rate->key);
    diag_hint(diag, "the clients take the rows of the trace in order and send at their own times");
    return -1;
  }
  if (bind_closed_loop(bound, node, false, diag) || bind_priorities(bound, arena, diag)) return -1;
  WorkloadConfig *config = &bound->config;
  take_automatic(config);
  if (bind_columns(bound, diag) || bind_windows(bound, node, arena, diag)) return -1;
  // clients that wait do not ask when, unless a part is cut out by time
  config->reading.untimed = bound->closed_loop && config->start == 0 && config->duration == 0 &&
                            !config->windows && !config->reading.sort;
  config->trace = path_resolve(config->trace, config_dir, arena);
  return 0;
}

/* Clients that wait need none: they find all requests there. */
static int bind_arrivals(Bound *bound, const Node *node, const char *data_dir,
                         const char *config_dir, Arena *arena, Diag *diag) {
  WorkloadConfig *config = &bound->config;
  if (!bound->arrivals && bound->closed_loop) {
    config->arrivals = ARRIVAL_AT_ONCE;
    return 0;
  }
  if (!bound->arrivals) {
    diag_error(diag, node->at, "missing key 'arrivals'");
    diag_hint(diag,
              "for example {process: poisson, rate: 4 /s}; or 'closed_loop', clients that wait");
    return -1;
  }
  const ArrivalSetting setting = {data_dir, config_dir, config->duration};
  ArrivalConfig arrivals;
  if (arrivals_bind(&arrivals, bound->arrivals, &setting, arena, diag)) return -1;
  config->arrivals = arrivals.process;
  config->rate = arrivals.rate;
  config->cv = arrivals.cv;
  config->pattern = arrivals.pattern;
  return 0;
}

/* Whether it ends. */
static int check_end(const Bound *bound, const Node *node, Diag *diag) {
  const WorkloadConfig *config = &bound->config;
  if (config->automatic && config->arrivals == ARRIVAL_AT_ONCE && bound->arrivals)
    return diag_error(diag, node_find(node, "duration")->at,
                      "'auto' waits for a steady state, which arrivals at once do not have");
  if (config->automatic || config->requests > 0 || config->sessions.count > 0) return 0;
  if (config->arrivals == ARRIVAL_AT_ONCE && bound->arrivals)
    return diag_error(diag, node->at, "arrivals at once need 'requests', their number");
  if (config->duration > 0) return 0;
  if (!bound->arrivals)
    return diag_error(diag, bound->closed_loop->at,
                      "the clients never stop: set 'duration' or 'requests'");
  diag_error(diag, node->at, "the arrivals never end: set 'duration' or 'requests'");
  if (bound->sessions) diag_hint(diag, "or set 'count' of the sessions");
  return -1;
}

/* The new tokens of all turns are of one distribution unless they have one of their own. */
static int bind_sessions(Bound *bound, const char *data_dir, const char *config_dir, Arena *arena,
                         Diag *diag) {
  SessionsConfig *sessions = &bound->config.sessions;
  if (!bound->sessions) return 0;
  sessions->prompt = bound->config.prompt;
  sessions->output = bound->config.output;
  return sessions_bind(sessions, bound->sessions, data_dir, config_dir, arena, diag);
}

static int bind_synthetic(Bound *bound, const Node *node, const char *data_dir,
                          const char *config_dir, Arena *arena, Diag *diag) {
  if (bind_kind(workload_synthetic_options, workload_replay_options,
                "goes with 'trace' only, not with 'lengths'", node, bound, diag))
    return -1;
  WorkloadConfig *config = &bound->config;
  take_automatic(config);
  int status = bind_arrivals(bound, node, data_dir, config_dir, arena, diag);
  status |= lengths_bind(bound->lengths, data_dir, config_dir, &config->prompt, &config->output,
                         arena, diag);
  if (bound->system_prompts)
    status |= sharing_bind(bound->system_prompts, data_dir, config_dir, &config->system_prompts,
                           arena, diag);
  if (bound->documents)
    status |= sharing_bind(bound->documents, data_dir, config_dir, &config->documents, arena, diag);
  if (bound->images) {
    config->images_at = bound->images->key_at;
    status |= images_bind(&config->images, bound->images, data_dir, config_dir, arena, diag);
  }
  status |= bind_closed_loop(bound, node, bound->arrivals != NULL, diag);
  status |= bind_sessions(bound, data_dir, config_dir, arena, diag);
  status |= bind_priorities(bound, arena, diag);
  return status ? -1 : check_end(bound, node, diag);
}

/* Keys of sessions where there are none. */
static int refuse_loose(const Node *node, Diag *diag) {
  static const char *const keys[] = {"turns", "think_time"};
  int status = 0;
  for (int i = 0; i < 2; i++) {
    const Node *child = node_find(node, keys[i]);
    if (!child) continue;
    status = diag_error(diag, child->key_at, "'%s' belongs in 'sessions'", keys[i]);
    diag_hint(diag, "for example sessions: {turns: {constant: 5}, think_time: {constant: 5 s}}");
  }
  return status;
}

int workload_bind(WorkloadConfig *self, const Node *node, const char *data_dir,
                  const char *config_dir, Arena *arena, Diag *diag) {
  if (node->kind != NODE_MAP)
    return diag_error(diag, node->at, "'workload' must be a map with 'trace' or 'lengths'");
  if (node_find(node, "mix")) return mix_bind(self, node, data_dir, config_dir, arena, diag);
  const Node *trace = node_find(node, "trace"), *lengths = node_find(node, "lengths");
  if (trace && lengths)
    return diag_error(diag, lengths->key_at, "'trace' and 'lengths' exclude each other");
  if (refuse_loose(node, diag)) return -1;
  if (!trace && !lengths)
    return diag_error(diag, node->at, "the workload needs 'trace' (a file) or 'lengths' (drawn)");
  Bound bound = {.config = {.rate_scale = 1, .loop = 1, .seed = -1, .at = node->at}};
  int status = trace ? bind_replay(&bound, node, config_dir, arena, diag)
                     : bind_synthetic(&bound, node, data_dir, config_dir, arena, diag);
  if (bound.patience) status |= patience_bind(&bound.config.patience, bound.patience, diag);
  if (status) return -1;
  const Node *max_tokens = node_find(node, "max_tokens");
  if (max_tokens && bound.config.ignore_eos)
    return diag_error(diag, max_tokens->key_at, "'max_tokens' and 'ignore_eos' exclude each other");
  *self = bound.config;
  return 0;
}

/* What is asked, before anybody waits: of sessions how each begins. */
static TraceSource *open_rows(const WorkloadConfig *self, uint64_t seed, Arena *arena, Diag *diag) {
  if (self->trace) return replay_open(self, arena, diag);
  if (!self->sessions.given) return synthetic_open(self, seed, arena);
  WorkloadConfig *starts = ARENA_NEW(arena, WorkloadConfig);
  *starts = *self;
  starts->requests = self->sessions.count;
  return synthetic_open(starts, seed, arena);
}

/* The lesser of two limits, of which 0 is none. */
static int64_t lesser(int64_t a, int64_t b) {
  return a == 0 || (b > 0 && b < a) ? b : a;
}

static TraceSource *open_source(const WorkloadConfig *self, uint64_t seed, Arena *arena,
                                Diag *diag) {
  TraceSource *source = open_rows(self, seed, arena, diag);
  if (!source) return NULL;
  if (self->priorities.n_values > 0)
    source = priorities_open(&self->priorities, source, seed, arena);
  if (self->closed_loop.clients > 0) source = closed_loop_open(&self->closed_loop, source, arena);
  if (!self->sessions.given) return source;
  const SessionsSetting setting = {.starts = source,
                                   .correlation = self->correlation,
                                   .context = lesser(self->max_model_len, self->context),
                                   .max_tokens = self->max_tokens,
                                   .requests = self->requests,
                                   .seed = seed};
  return sessions_open(&self->sessions, &setting, arena);
}

TraceSource *workload_open(const WorkloadConfig *self, uint64_t run_seed, Arena *arena,
                           Diag *diag) {
  const uint64_t seed = self->seed < 0 ? run_seed : (uint64_t)self->seed;
  if (self->n_components > 0) return mix_open(self, seed, arena, diag);
  TraceSource *source = open_source(self, seed, arena, diag);
  if (source && self->patience.share > 0)
    source = patience_open(&self->patience, source, seed, arena);
  if (!source) return NULL;
  source->ignores_eos = self->ignore_eos;
  source->max_tokens = self->max_tokens > 0 ? (int32_t)self->max_tokens : INT32_MAX;
  return source;
}

bool workload_waits(const WorkloadConfig *self) {
  return self->closed_loop.clients > 0 || self->sessions.given;
}

double workload_expected(const WorkloadConfig *self) {
  if (self->requests > 0) return (double)self->requests;
  double sum = 0;
  for (int i = 0; i < self->n_components; i++) {
    const double expected = workload_expected(&self->components[i].of);
    if (expected == 0) return 0;
    sum += expected;
  }
  if (self->n_components > 0) return sum;
  if (self->trace || workload_waits(self)) return 0;
  if (self->pattern.given && self->pattern.n_states == 0)
    return rate_curve_expected(&self->pattern.curve, self->duration);
  return self->rate * tick_seconds(self->duration);
}

bool workload_has_rate(const WorkloadConfig *self) {
  return self->n_components == 0 && self->arrivals < ARRIVAL_STEPS;
}

int32_t workload_least_prompt(const WorkloadConfig *self) {
  if (self->trace) return 1;
  int32_t least = TRACE_TOKENS_MAX;
  for (int i = 0; i < self->n_components; i++) {
    const int32_t prompt = workload_least_prompt(&self->components[i].of);
    if (prompt < least) least = prompt;
  }
  if (self->n_components > 0) return least;
  LengthSampler prompts;
  length_sampler_init(&prompts, &self->prompt);
  return length_at(&prompts, 0);
}
