/* What instances tell a router: their loads and what their prefix caches hold, as old as it is.
 *
 * Without an interval a router sees everything as it is. With one, instances report at multiples of
 * it, and a report is known `delay` later: a router sees the last one that is known. Of reports of
 * one tick and arrivals the reports come first. A report tells what has changed since the one
 * before, so one that nobody would see can be left out (feature/reporting.c does): the next one
 * has it too. */
#ifndef SIM_CORE_REPORTS_H
#define SIM_CORE_REPORTS_H
#include "sim/core/cache_watch.h"
#include "sim/core/cluster.h"
#include "sim/core/prompt_keys.h"
#include "sim/core/segment_holders.h"
#include "sim/policy.h"

typedef struct ReportOptions {
  Tick interval; // 0: none
  Tick delay;
} ReportOptions;

/* Their rows in a table of options, for a ReportOptions `field` of a policy's state. */
#define REPORT_OPTIONS(Type, field, usual_interval)                                                \
  {"interval",                                                                                     \
   OPTION_TICKS,                                                                                   \
   offsetof(Type, field.interval),                                                                 \
   usual_interval,                                                                                 \
   .min = 0,                                                                                       \
   .max = 60,                                                                                      \
   .help = "Time between reports of the instances to the router. With 0 s the router sees the "    \
           "present state."},                                                                      \
  {                                                                                                \
    "delay", OPTION_TICKS, offsetof(Type, field.delay), "0 s",                                     \
        .min = 0, .max = 60, .help = "Time from a report until the router knows it."               \
  }

/* Whether they fit each other; -1 with an entry in `diag`. Arguments as of Policy.check, and the
 * key of the delay. */
int reports_check(const ReportOptions *options, const char *key, const Node *map, Place owner,
                  Diag *diag);

typedef struct InstanceReport {
  int64_t n_waiting; // requests that are in line here without KV, or whose KV waits to come
  int64_t used_blocks, kv_blocks; // of KV memory: held, there are
} InstanceReport;

/* One that is not known yet: of all instances of the view. */
typedef struct Report {
  Tick at;
  InstanceReport *loads; // [n_instances]
  CacheChange *changes;  // those of instance m end at ends[m]
  size_t *ends;          // [n_instances]
  size_t n_changes, changes_capacity;
  int64_t *figures; // [REPORTED · n_instances] of columns, where those are reported
} Report;

/* Columns of a view that are reported: all of them. */
enum { REPORTED = 5 };

/* Instances whose caches are asked alike. */
typedef struct CacheGroup {
  int64_t block_size;
  RadixIndex *index;   // of radix trees; NULL: others
  bool of_layers;      // in groups, whose runs are not watched
  InstanceIx *members; // [n_members]
  uint32_t n_members;
  struct CacheGroup *next;
} CacheGroup;

struct Reports {
  ReportOptions options;
  bool of_caches;
  Arena *arena;
  const ClusterView *view;
  InstanceReport *known; // [n_instances] with an interval
  SegmentHolders cached; // what caches of blocks hold
  CacheGroup *groups;
  CacheWatch *watch; // of caches in `cached`; NULL: all are looked at each time
  int32_t *runs;     // [n_instances] of the last match
  Tick made_at;      // the last report; -1: none
  uint64_t n_known;  // reports, with those of the beginning
  Report *pending;   // [n_reserved] a ring of those under way
  size_t first, n, n_reserved;
  ClusterView seen; // with columns as known, where those are reported
  bool of_columns, leaves_sent;
};

/* Until a report is known instances are as they are now. `of_caches`: reports tell what they have
 * cached. */
Reports *reports_new(const ReportOptions *options, bool of_caches, const ClusterView *view,
                     Arena *arena);
/* Whether it has caches that can be watched: of those only the ones that a prompt needs are looked
 * at. The watch must be told of all requests, none of which comes to an instance but by the router,
 * and is shared by those who are. */
bool reports_can_watch(const Reports *self);
void reports_watch(Reports *self, CacheWatch *watch);
/* From now on reports tell of the columns of the view, too, for a router that reads those. What it
 * sends after a report was made counts beside it, unless `leaves_sent`. */
void reports_tell_columns(Reports *self, bool leaves_sent);
/* The view with columns as far as they are known, as of now: until the next call. */
const ClusterView *reports_view(Reports *self);
/* Figures of an instance's columns at present; REPORTED of them. */
void reports_figures(const Reports *self, InstanceIx instance, int64_t *ret_figures);
/* A request was sent to an instance, whose columns had these figures before. */
void reports_sent(Reports *self, InstanceIx instance, const int64_t *before);
/* All instances report now. */
void reports_make(Reports *self);
/* Brings what is known up to now. */
void reports_see(Reports *self);
/* Another number for other loads; 0: they may change at any time. */
static inline uint64_t reports_n_known(const Reports *self) {
  return self->options.interval > 0 ? self->n_known : 0;
}
/* The load of an instance, as far as is known. */
InstanceReport reports_load(const Reports *self, InstanceIx instance);
/* How many of the first `n` blocks of a prompt, from the first on, an instance has cached, as far
 * as is known; 0 where it keeps no cache. */
int64_t reports_match(const Reports *self, InstanceIx instance, PromptKeys *keys, int64_t n);
/* The same of all full blocks of a prompt for each instance: by instance, until the next match. */
const int32_t *reports_match_all(Reports *self, PromptKeys *keys, int64_t prompt_tokens);
#endif
