/* See caller.h. */
#include "experiments/commands/caller.h"
#include "base/text.h"
#include "experiments/base/interrupt.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE = 512 };
static const char NAME[] = "caller";

/* Hooks have their options alone, of which a proposal of the list has its own: the one that is
 * open. */
static Caller *open_one;

static void give_up(Caller *self, const char *why) {
  self->wrong = arena_copy(self->arena, why, strlen(why));
  self->ends = SIGTERM;
}

/* The answer to a question, in `line`; false: there is none, now or since an earlier one. */
static bool ask(Caller *self, char line[LINE], const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static bool ask(Caller *self, char line[LINE], const char *format, ...) {
  if (interrupt_signal) self->ends = interrupt_signal;
  if (self->wrong || self->ends) return false;
  va_list list;
  va_start(list, format);
  vfprintf(self->questions, format, list);
  va_end(list);
  if (fflush(self->questions) != 0 || !fgets(line, LINE, self->answers)) {
    give_up(self, "the caller does not answer");
    return false;
  }
  line[strcspn(line, "\n")] = '\0';
  if (line[0] == '!') give_up(self, line + 1);
  return !self->wrong;
}

static void refuse(Caller *self, const char *hook, const char *line, const char *wanted) {
  give_up(self, arena_printf(self->arena, "'%s' must return %s, not '%s'", hook, wanted, line));
}

static int64_t whole(Caller *self, const char *hook, const InstanceView *view) {
  char line[LINE], *end = NULL;
  const Instance *instance = view->instance;
  if (!ask(self, line, "%s %" PRId64 " %" PRId64 " %" PRIu32 " %" PRId64 "\n", hook, view->now,
           instance->pool->block_size, (uint32_t)instance->prefill_queue.count,
           instance->free_blocks))
    return INT64_MAX;
  errno = 0;
  const long long value = strtoll(line, &end, 10);
  if (end != line && !*end && errno == 0 && value >= 1) return value;
  refuse(self, hook, line, "a whole number from 1");
  return INT64_MAX;
}

static double rank(const void *options, const InstanceView *view, RequestIx ix) {
  (void)options;
  Caller *self = open_one;
  char line[LINE], *end = NULL;
  int64_t unheld;
  const Request *request = &view->requests[ix];
  const Instance *instance = view->instance;
  if (!ask(self, line,
           "rank %" PRId64 " %" PRId64 " %" PRId32 " %" PRId32 " %" PRId32 " %" PRId32 " %" PRId64
           " %" PRId64 " %" PRIu32 " %" PRId64 "\n",
           view->now, request->arrived_at, request->prompt_tokens, request->max_tokens,
           request->output_tokens, request->priority, view_hit_blocks(view, ix, &unheld),
           instance->pool->block_size, (uint32_t)instance->prefill_queue.count,
           instance->free_blocks))
    return 0;
  const double value = strtod(line, &end);
  if (end != line && !*end && !isnan(value)) return value;
  refuse(self, "rank", line, "a number");
  return 0;
}

static int64_t prefill_tokens(const void *options, const InstanceView *view) {
  (void)options;
  return whole(open_one, "prefill_tokens", view);
}

static int64_t prefill_seqs(const void *options, const InstanceView *view) {
  (void)options;
  return whole(open_one, "prefill_seqs", view);
}

static bool add_hook(Proposal *self, const char *name) {
  if (strcmp(name, "rank") == 0)
    self->rank = rank;
  else if (strcmp(name, "prefill_tokens") == 0)
    self->prefill_tokens = prefill_tokens;
  else if (strcmp(name, "prefill_seqs") == 0)
    self->prefill_seqs = prefill_seqs;
  else
    return false;
  return true;
}

/* A descriptor, and what stands behind it. */
static int descriptor(const char **text) {
  char *end = NULL;
  const long fd = strtol(*text, &end, 10);
  const bool good = end != *text && *end == ',' && fd > 2 && fd < 1 << 20;
  *text = good ? end + 1 : "";
  return good && fcntl((int)fd, F_GETFD) >= 0 ? (int)fd : -1;
}

int caller_open(Caller *self, const char *text, Arena *arena, Diag *diag) {
  const char *rest = text;
  const int in = descriptor(&rest), out = descriptor(&rest);
  *self = (Caller){.arena = arena,
                   .proposal = {.policy = {.name = NAME, .help = "Decisions of the caller."}}};
  bool good = in >= 0 && out >= 0 && *rest;
  for (const char *name = rest; good && *name;) {
    const size_t length = strcspn(name, ",");
    good = add_hook(&self->proposal, arena_copy(arena, name, length));
    name += length + (name[length] == ',');
  }
  if (!good)
    return diag_error(diag, place_of_file("--proposal-caller"),
                      "'%s' is not two open descriptors and the hooks behind them", text);
  fcntl(in, F_SETFD, FD_CLOEXEC);
  fcntl(out, F_SETFD, FD_CLOEXEC);
  self->answers = fdopen(in, "r");
  self->questions = fdopen(out, "w");
  if (!self->answers || !self->questions) {
    caller_close(self);
    return diag_environment(diag, place_of_file("--proposal-caller"), "cannot ask: %s",
                            strerror(errno));
  }
  signal(SIGPIPE, SIG_IGN); // a caller that is gone is one that does not answer
  open_one = self;
  proposal_give(&self->proposal);
  return 0;
}

int caller_check(const Caller *self, Diag *diag) {
  if (!self->wrong) return 0;
  diag->n_entries = 0; // that it was interrupted
  return diag_error(diag, place_of_file("proposal"), "%s", text_shown(self->wrong, self->arena));
}

void caller_close(Caller *self) {
  if (open_one == self) {
    open_one = NULL;
    proposal_give(NULL);
  }
  if (self->answers) fclose(self->answers);
  if (self->questions) fclose(self->questions);
  self->answers = self->questions = NULL;
}
