/* Tables of a plan and of what came of it. */
#include "base/text.h"
#include "calib/environment.h"
#include "calib/operators.h"
#include "experiments/base/progress.h"
#include "experiments/commands/calibrate.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void print_group(const Calibrate *self, const CalibrateGroup *group) {
  printf("%s on %s, tensor_parallel_size %d\n", group->model.name, self->open.device.gpu,
         (int)group->model.tensor_parallel_size);
}

/* Each reason once, with how many points it keeps back. */
static void print_waived(const Plan *plan) {
  for (size_t i = 0; i < plan->n; i++) {
    const char *why = plan->points[i].waived;
    size_t n = 0, first = plan->n;
    for (size_t k = 0; why && k < plan->n; k++) {
      if (!plan->points[k].waived || strcmp(plan->points[k].waived, why) != 0) continue;
      if (first == plan->n) first = k;
      n++;
    }
    if (why && first == i) printf("  %zu waived: %s\n", n, why);
  }
}

static void print_plan_row(const char *name, const int *counts, int waived) {
  printf("  %-18s", name);
  for (int class = 0; class < PLAN_CLASSES; class ++)
    printf(" %7d", counts[class]);
  printf(" %7d\n", waived);
}

static void print_group_plan(const Plan *plan) {
  int total[PLAN_CLASSES] = {0}, all_waived = 0;
  printf("  %-18s %7s %7s %7s %7s %7s %7s\n", "points", "anchor", "coarse", "fine", "long",
         "detail", "waived");
  for (int op = 0; op < CALIB_N_OPS; op++) {
    int counts[PLAN_CLASSES] = {0}, waived = 0, n = 0;
    for (size_t i = 0; i < plan->n; i++) {
      const PlanPoint *planned = &plan->points[i];
      if (planned->point.op != (CalibOp)op) continue;
      n++;
      waived += planned->waived != NULL;
      counts[planned->class] += !planned->waived;
      total[planned->class] += !planned->waived;
    }
    all_waived += waived;
    if (n > 0) print_plan_row(calib_op_name((CalibOp)op), counts, waived);
  }
  print_plan_row("all", total, all_waived);
}

/* How a budget that is too short for all samples is met, or not. */
static void print_shortened(const CalibrateGroup *group, const PlanRates *rates,
                            const SampleLimits *limits, double seconds, double budget) {
  const SampleLimits fit = plan_limits(&group->plan, &group->model, rates, limits, budget);
  const double least = plan_seconds(&group->plan, &group->model, rates, &fit);
  if (seconds > budget)
    printf("; about %.0f s with fewer samples%s", least,
           least > 1.01 * budget ? ", and still longer than the budget" : "");
  putchar('\n');
}

void calibrate_print_plan(const Calibrate *self, const SampleLimits *limits, double budget) {
  const PlanRates rates = plan_rates(self->hardware, &self->open.device);
  double all = 0;
  printf("%s, backend '%s'\n", self->open.device.name,
         self->open.table ? self->open.table->name : "none");
  for (size_t i = 0; i < self->n_groups; i++) {
    const CalibrateGroup *group = &self->groups[i];
    if (group->rejected) continue;
    const double seconds = plan_seconds(&group->plan, &group->model, &rates, limits);
    all += seconds;
    print_group(self, group);
    print_group_plan(&group->plan);
    print_waived(&group->plan);
    printf("  %zu points in about %.0f s", plan_left(&group->plan), seconds);
    print_shortened(group, &rates, limits, seconds, budget / (double)self->n_groups);
  }
  printf("about %.0f s in total, without loading the model\n", all);
}

static void print_group_summary(const Calibrate *self, const CalibrateGroup *group) {
  const Plan *plan = &group->plan;
  size_t measured = 0;
  for (size_t i = 0; i < plan->n; i++)
    measured += plan->points[i].readings > 0;
  print_group(self, group);
  if (group->rejected) {
    puts("  nothing measured: it does not fit");
    return;
  }
  printf("  %zu of %zu points measured, %zu left\n", measured, plan->n, plan_left(plan));
  print_waived(plan);
}

static void print_verified(const HarnessReport *report) {
  double worst = 0;
  int at = 0;
  for (int op = 0; op < CALIB_N_OPS; op++) {
    if (report->worst_error[op] <= worst) continue;
    worst = report->worst_error[op];
    at = op;
  }
  if (worst > 0)
    printf("  verified against references; the largest error is %.2g, in %s\n", worst,
           calib_op_name((CalibOp)at));
  if (report->verified > 0)
    printf("  %lld sizes verified in %.1f s%s\n", (long long)report->verified,
           report->verify_seconds,
           report->unverified > 0 ? ", the others skipped for lack of time" : "");
}

void calibrate_print_summary(const Calibrate *self, const HarnessReport *report,
                             const char *output_path) {
  bool any = false;
  for (size_t i = 0; i < self->n_groups; i++) {
    print_group_summary(self, &self->groups[i]);
    any |= !self->groups[i].rejected;
  }
  if (!any) return;
  printf("%s\n", self->open.device.name);
  if (report->best_flops > 0) printf("  at best %.4g TFLOP/s", 1e-12 * report->best_flops);
  if (report->best_memory > 0) printf(", %.4g GB/s from memory", 1e-9 * report->best_memory);
  if (report->best_link > 0) printf(", %.4g GB/s over a link", 1e-9 * report->best_link);
  if (report->best_flops > 0) putchar('\n');
  printf("  %lld samples, %lld of them outliers\n", (long long)report->samples,
         (long long)report->outliers);
  printf("  drift %.2f%% at most between %lld readings of the anchors; %lld points measured again, "
         "%lld flagged\n",
         100 * report->worst_drift, (long long)report->anchors, (long long)report->remeasured,
         (long long)report->flagged);
  if (report->slowed > 0)
    printf("  clock below 75%% of its usual rate at %lld readings\n", (long long)report->slowed);
  if (report->most_power > 0)
    printf("  power %.0f to %.0f W, throttled by: %s\n", report->least_power, report->most_power,
           environment_throttle(report->throttle, self->arena));
  print_verified(report);
  printf("'%s': %s\n", text_shown(output_path, self->arena), environment_end_name(report->end));
}

void calibrate_show(void *progress, size_t done, size_t left, double seconds_left) {
  enum { BAR = 30 };
  const double refresh_s = 0.1;
  CalibrateProgress *self = progress;
  const double at = clock_monotonic();
  if (at - self->shown_s < refresh_s || !isatty(STDERR_FILENO)) return;
  self->shown = true;
  self->shown_s = at;
  const int filled = (int)(BAR * done / (done + left));
  fprintf(stderr, "\r\033[K%s tp%d [%.*s%*s] %zu of %zu points", self->group->model.name,
          (int)self->group->model.tensor_parallel_size, filled, "##############################",
          BAR - filled, "", done, done + left);
  if (isfinite(seconds_left) && seconds_left > 0) fprintf(stderr, "  %.0f s left", seconds_left);
  fflush(stderr);
}

void calibrate_hide(CalibrateProgress *self) {
  if (!self->shown) return;
  fputs("\r\033[K", stderr);
  fflush(stderr);
}
