/* How far a run is, known from the workload: of its requests, or of its time. */
#include "experiments/base/progress.h"
#include <inttypes.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static const double QUIET_S = 1, REFRESH_S = 0.1;
static const double TOLD_S = 30; // between lines where there is no terminal

static double seconds_of(clockid_t clock) {
  struct timespec at;
  return clock_gettime(clock, &at) ? 0 : (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

double clock_monotonic(void) {
  return seconds_of(CLOCK_MONOTONIC);
}

double clock_read_monotonic(void *context) {
  (void)context;
  return clock_monotonic();
}

double clock_cpu(void) {
  return seconds_of(CLOCK_THREAD_CPUTIME_ID);
}

void progress_init(Progress *self, const WorkloadConfig *workload) {
  *self = (Progress){.workload = workload, .began_s = clock_monotonic()};
}

/* Of the whole run; 0 when that is not known. */
static double share_done(const WorkloadConfig *workload, uint64_t finished, Tick now) {
  double share = 0;
  if (workload->requests > 0)
    share = (double)finished / (double)workload->requests;
  else if (workload->duration > 0)
    share = (double)now / ((double)workload->duration * (double)workload->loop);
  return share < 1 ? share : 1;
}

/* The line begins anew, with a bar where the share is known. */
static void put_bar(double share) {
  enum { BAR = 30 };
  const int filled = (int)(share * BAR);
  fputs("\r\033[K", stderr);
  if (share > 0)
    fprintf(stderr, "[%.*s%*s] %3.0f%%  ", filled, "##############################", BAR - filled,
            "", 100 * share);
}

/* Whether a line on a terminal is to be shown anew. */
static bool is_time(double began_s, double *shown_s, bool *shown) {
  const double at = clock_monotonic();
  if (at - began_s < QUIET_S || at - *shown_s < REFRESH_S || !isatty(STDERR_FILENO)) return false;
  *shown_s = at;
  return *shown = true;
}

static void clear_line(bool shown) {
  if (!shown) return;
  fputs("\r\033[K", stderr);
  fflush(stderr);
}

void progress_update(void *progress, uint64_t finished, Tick now) {
  Progress *self = progress;
  if (!is_time(self->began_s, &self->shown_s, &self->shown)) return;
  const double elapsed = self->shown_s - self->began_s;
  const double share = share_done(self->workload, finished, now);
  put_bar(share);
  fprintf(stderr, "%.0f s simulated  %llu requests  %.0f/s", tick_seconds(now),
          (unsigned long long)finished, (double)finished / elapsed);
  if (share > 0) fprintf(stderr, "  %.0f s left", elapsed * (1 - share) / share);
  fflush(stderr);
}

void progress_done(Progress *self) {
  clear_line(self->shown);
}

bool progress_begins(double began_s, double *shown_s) {
  const bool terminal = isatty(STDERR_FILENO);
  const double at = clock_monotonic();
  if (at - began_s < (terminal ? QUIET_S : TOLD_S) ||
      at - *shown_s < (terminal ? REFRESH_S : TOLD_S))
    return false;
  *shown_s = at;
  fputs(terminal ? "\r" : "note: so far ", stderr);
  return true;
}

void progress_said(void) {
  fputs(isatty(STDERR_FILENO) ? "\033[K" : "\n", stderr);
  fflush(stderr);
}

void tally_init(Tally *self, int64_t points) {
  *self = (Tally){.points = points, .began_s = clock_monotonic()};
}

double tally_rate(const Tally *self) {
  const double elapsed = clock_monotonic() - self->began_s;
  return elapsed > 0 ? (double)(self->done + self->failed) / elapsed : 0;
}

void tally_show(Tally *self) {
  if (!is_time(self->began_s, &self->shown_s, &self->shown)) return;
  const int64_t ended = tally_ended(self);
  const double rate = tally_rate(self);
  put_bar((double)ended / (double)self->points);
  fprintf(stderr, "%" PRId64 " of %" PRId64 " points  %" PRId64 " failed  %.0f/s", ended,
          self->points, self->failed, rate);
  if (rate > 0) fprintf(stderr, "  %.0f s left", (double)(self->points - ended) / rate);
  fflush(stderr);
}

void tally_done(Tally *self) {
  clear_line(self->shown);
}
