/* See plan_valleys.h.
 *
 * The fleet of the day holds its peak. At a step of the profile it needs fewer instances, in
 * proportion to the rate, and what is left of them, whole instances, works on the batch job: each
 * as many requests per second as an instance that is full (plan_batch.c). At the lowest rate of the
 * time until the deadline the number of instances is searched, because a small fleet holds less in
 * proportion; no step of that time has fewer. What the valleys do not hold takes instances more,
 * which work on the job alone until its deadline. */
#include "experiments/commands/plan_valleys.h"
#include "base/text.h"
#include "experiments/base/cells.h"
#include "experiments/commands/plan_batch.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef struct Valley {
  const char *design, *batch_design, *machine;
  double online, online_gpus; // instances for the peak
  double lowest;              // instances for the lowest rate of the time
  double batch, batch_gpus;   // instances of a fleet for the job alone
  double start_h, deadline_h; // when the job is there; its time
  double free_hours, rate;    // instance hours that are left; requests/s of an instance
  double more;                // instances beside those of the day
  double shared_gpus;         // of both together
} Valley;

/* The fleet of the day. */
static int find_online(const RateSearch *how, const Question *asked, double rate,
                       const char *design, double *ret_instances, double *ret_gpus,
                       const char **ret_design, const char **ret_machine) {
  const PlanOnly only = {.name = design};
  Question online = *asked;
  Plan plan;
  Study study = {0};
  online.batch = 0;
  online.deadline_s = 0;
  online.split = SPLIT_NO;
  online.rate = rate;
  if (design) {
    online.only = &only;
    online.n_only = 1;
    online.seeds = 1;
  }
  int status = rate_search(how, &online, &plan, &study);
  if (status == 0 && study.best < 0) {
    study_explain(&study);
    status = -1;
  }
  if (status == 0) {
    const DesignOutcome *outcome = &study.outcomes[study.best];
    const char *name = outcome->design->name;
    *ret_instances = (double)outcome->answers[0].fleet.n[ROLE_MIXED];
    *ret_gpus = outcome->answers[0].fleet.takes.gpus;
    *ret_design = arena_copy(how->arena, name, strlen(name));
    *ret_machine = arena_copy(how->arena, plan.machine, strlen(plan.machine));
  }
  study_close(&study);
  return status;
}

/* The job by itself on the design with the fewest GPUs, and what an instance of the day does. */
static int find_batch(const RateSearch *how, const Question *asked, const ValleyJob *job,
                      Valley *valley) {
  Question batch = *asked;
  Plan plan;
  Study study = {0};
  batch.slo = NULL;
  batch.day = NULL;
  batch.rate = 0;
  batch.headroom = 0;
  if (job->isl > 0) {
    batch.isl = job->isl;
    batch.osl = job->osl;
    batch.lengths = NULL;
  }
  int status = rate_search(how, &batch, &plan, &study);
  for (int d = 0; status == 0 && d < study.provision.n_designs; d++) {
    const BatchTimes times = batch_times(&study.outcomes[d]);
    if (times.why_not || !(times.s[1] > times.s[0])) continue;
    const char *name = study.provision.designs[d].name;
    const double requests = (double)asked->batch;
    const double instances = batch_instances(&times, requests, asked->deadline_s);
    const double gpus = instances > 0 ? batch_takes(&times, instances, how->arena).gpus : INFINITY;
    if (strcmp(name, valley->design) == 0)
      valley->rate = (times.n[1] - times.n[0]) / (times.s[1] - times.s[0]);
    if (!(gpus < valley->batch_gpus)) continue;
    valley->batch = instances;
    valley->batch_gpus = gpus;
    valley->batch_design = arena_copy(how->arena, name, strlen(name));
  }
  study_close(&study);
  if (status == 0 && (valley->rate == 0 || isinf(valley->batch_gpus)))
    status = diag_error(how->diag, place_of_file("--deadline"),
                        "no number of instances ends the batch job in that time");
  return status;
}

static int fill(Valley *self, const RateSearch *how, const Question *asked, const ValleyJob *job) {
  RateProfile day;
  Valleys valleys;
  const char *unused;
  double gpus;
  *self = (Valley){.batch_gpus = INFINITY, .deadline_h = asked->deadline_s / 3600};
  if (plan_profile(&day, asked->day, how->arena, how->diag) ||
      find_online(how, asked, asked->rate, NULL, &self->online, &self->online_gpus, &self->design,
                  &self->machine) ||
      find_batch(how, asked, job, self))
    return -1;
  valleys_make(&valleys, &day, self->online, 0, how->arena);
  const double step_h = valleys.step_s / 3600;
  self->start_h = isnan(job->start_h) ? step_h * valleys_best(&valleys, asked->deadline_s)
                                      : fmod(job->start_h, step_h * day.n);
  double peak = 0;
  for (int i = 0; i < day.n; i++)
    peak = fmax(peak, day.values[i]);
  const double lowest = valleys_lowest(&day, 3600 * self->start_h, asked->deadline_s) / peak;
  if (lowest > 0 && find_online(how, asked, lowest * asked->rate, self->design, &self->lowest,
                                &gpus, &unused, &unused))
    return -1;
  valleys_make(&valleys, &day, self->online, self->lowest, how->arena);
  const double free_s = valleys_free(&valleys, 3600 * self->start_h, asked->deadline_s);
  const double missing_s = (double)asked->batch / self->rate - free_s;
  self->free_hours = free_s / 3600;
  self->more = fmax(ceil(missing_s / asked->deadline_s - 1e-9), 0);
  self->shared_gpus = self->online_gpus * (1 + self->more / self->online);
  if (self->shared_gpus <= self->online_gpus + self->batch_gpus) return 0;
  self->more = self->batch; // a fleet of its own, of a better design
  self->shared_gpus = self->online_gpus + self->batch_gpus;
  return 0;
}

static void print_rows(const Valley *self, const Question *asked, OutputFormat format) {
  Rows rows = {format, stdout, "", .gap = "\n ", .end = "\n]\n"};
  rows_put(&rows, (Cell[]){{CELL_OF_TEXT("machine", self->machine)},
                           {CELL_OF_TEXT("design", self->design)},
                           {CELL_OF_TEXT("batch_design", self->batch_design)},
                           {CELL_OF_NUMBER("requests", (double)asked->batch)},
                           {CELL_OF_NUMBER("deadline_h", self->deadline_h)},
                           {CELL_OF_NUMBER("start_h", self->start_h)},
                           {CELL_OF_NUMBER("online_instances", self->online)},
                           {CELL_OF_NUMBER("online_gpus", self->online_gpus)},
                           {CELL_OF_NUMBER("lowest_instances", self->lowest)},
                           {CELL_OF_NUMBER("batch_instances", self->batch)},
                           {CELL_OF_NUMBER("batch_gpus", self->batch_gpus)},
                           {CELL_OF_NUMBER("separate_gpus", self->online_gpus + self->batch_gpus)},
                           {CELL_OF_NUMBER("free_instance_hours", self->free_hours)},
                           {CELL_OF_NUMBER("requests_per_s_instance", self->rate)},
                           {CELL_OF_NUMBER("more_instances", self->more)},
                           {CELL_OF_NUMBER("shared_gpus", self->shared_gpus)},
                           {0}});
  rows_end(&rows);
}

static const char *plural(double n) {
  return n == 1 ? "" : "s";
}

static void print_table(const Valley *self, const Question *asked, Arena *arena) {
  const double separate = self->online_gpus + self->batch_gpus;
  const double saved = separate - self->shared_gpus;
  char requests[32];
  printf("question    %s,\n            and %s requests that are there at hour %.4g of %s, within "
         "%.4g h\n",
         plan_title(asked, self->machine, arena), format_count((double)asked->batch, requests),
         self->start_h, text_shown(asked->day, arena), self->deadline_h);
  printf("separate    %.0f GPUs: %.0f instance%s of %s for the peak of the day, %.0f of %s for the "
         "batch job\n",
         separate, self->online, plural(self->online), self->design, self->batch,
         self->batch_design);
  printf("shared      %.0f GPUs: ", self->shared_gpus);
  if (saved > 0)
    printf("%.0f fewer (%.0f%%)", saved, 100 * saved / separate);
  else
    printf("none fewer, fleets of their own are as good");
  printf("; %.0f instance%s more than the day needs\n", self->more, plural(self->more));
  printf("valleys     leave %.4g of %.4g instance hours until the deadline, for %s requests at "
         "%.4g/s\n",
         self->free_hours, self->online * self->deadline_h,
         format_count(floor(3600 * self->free_hours * self->rate), requests), self->rate);
  printf("note        whole instances go over to the batch job, in no time; GPUs count, not whole "
         "machines. The\n"
         "            day needs instances in proportion to its rate, at the lowest %.0f, as "
         "simulated\n",
         self->lowest);
}

int valleys_answer(const RateSearch *how, const Question *asked, const ValleyJob *job,
                   OutputFormat format) {
  Valley valley;
  if (fill(&valley, how, asked, job)) return EXIT_INPUT;
  if (format == OUTPUT_TABLE)
    print_table(&valley, asked, how->arena);
  else
    print_rows(&valley, asked, format);
  return EXIT_DONE;
}
