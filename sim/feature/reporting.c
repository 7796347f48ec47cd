/* Instances report to a router that asks for it (core/reports.h), all at the same times: at an
 * interval and known after a delay, or as they are whenever it looks. To any other router that goes
 * by loads they report if the run says so (SimConfig.report_interval). */
#include "sim/core/reports.h"
#include "sim/feature/features.h"

/* The last time of a report that is known at `at`. */
static Tick last_known(const Reports *reports, Tick at) {
  const Tick interval = reports->options.interval, made_at = at - reports->options.delay;
  return made_at < 0 ? 0 : made_at / interval * interval;
}

/* All instances report at the same times. */
static void make_reports(Simulation *self) {
  for (uint32_t d = 0; d < self->n_deployments; d++)
    reports_make(sim_cluster(self, &self->deployments[d])->reports);
}

/* Caches are looked at only where a prompt needs it; unless copies of requests come to instances
 * beside the router. */
static void watch_caches(Simulation *self) {
  for (uint32_t d = 0; d < self->n_deployments; d++) {
    Reports *reports = self->deployments[d].view.reports;
    if (self->config->hedge.after > 0 || !reports_can_watch(reports)) continue;
    CacheWatch *watch = ARENA_NEW(self->arena, CacheWatch);
    cache_watch_init(watch, self->n_instances, self->arena);
    reports_watch(reports, watch);
  }
}

/* Reports of a request's deployment, where its caches are watched. */
static CacheWatch *watch_of(Simulation *self, RequestIx ix) {
  return sim_deployment(self, &self->requests.slots[ix])->view.reports->watch;
}

static void enter(Simulation *self, RequestIx ix) {
  CacheWatch *watch = watch_of(self, ix);
  const Request *request = &self->requests.slots[ix];
  if (watch)
    cache_watch_enter(watch, ix, &self->memory[ix].content, request->prompt_tokens,
                      (int64_t)request->prompt_tokens + request->output_tokens);
}

static void leave(Simulation *self, RequestIx ix) {
  CacheWatch *watch = watch_of(self, ix);
  if (watch) cache_watch_leave(watch, ix);
}

/* The first report is now. */
static void prepare(Simulation *self) {
  agenda_reserve(&self->agenda, EVENT_REPORT, 1);
  const SimConfig *config = self->config;
  const ReportOptions of_run = {config->report_interval, config->report_delay};
  const ReportOptions *options =
      self->router->reports ? self->router->reports(self->deployments[0].router_state) : &of_run;
  for (uint32_t d = 0; d < self->n_deployments; d++) {
    Deployment *deployment = &self->deployments[d];
    const ClusterView *view = sim_cluster(self, deployment);
    deployment->view.reports = reports_new(options, self->router->needs_caches, view, self->arena);
    if (!self->router->reports)
      reports_tell_columns(deployment->view.reports, config->report_leaves_sent);
  }
  watch_caches(self);
  if (options->interval == 0) return;
  make_reports(self);
  agenda_set(&self->agenda, EVENT_REPORT, 0, options->interval);
}

/* Nothing is placed before the next event, so a report is left out if a later one is known by then.
 * The event keeps its insertion number: those of others do not hang on how many reports are made.
 */
static void handle(Simulation *self, uint32_t target) {
  (void)target;
  const Reports *reports = self->deployments[0].view.reports;
  const Tick interval = reports->options.interval;
  const bool last = self->agenda.n_events == 0;
  const Tick wanted = last ? self->now : last_known(reports, agenda_first_at(&self->agenda));
  if (wanted <= self->now && reports->made_at < self->now) make_reports(self);
  if (interval > TICK_MAX - self->now) return; // there is none past the end of simulated time
  const Tick next = wanted > self->now ? wanted : self->now + interval;
  agenda_move(&self->agenda, EVENT_REPORT, 0, next, self->event.seq);
}

/* What it knows is brought up to now. */
static void see(Simulation *self, Deployment *deployment) {
  Reports *reports = deployment->view.reports;
  const Tick interval = reports->options.interval;
  if (interval > 0 && self->now % interval == 0 && reports->made_at < self->now) make_reports(self);
  sim_cluster(self, deployment);
  reports_see(reports);
}

static bool is_used(const Simulation *self) {
  return self->router->reports || (self->router->reads_loads && self->config->report_interval > 0);
}

const Feature feature_reporting = {
    .is_used = is_used,
    .prepare = prepare,
    .handlers = {[EVENT_REPORT] = handle},
    .router_looks = see,
    .routed = enter,
    .slot_freed = leave,
};
