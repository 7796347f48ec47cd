/* How far a run is, known from the workload: of its requests, or of its time. */
#include "experiments/progress.h"
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static const double QUIET_S = 1, REFRESH_S = 0.1;

static double seconds_of(clockid_t clock) {
  struct timespec at;
  return clock_gettime(clock, &at) ? 0 : (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

double clock_monotonic(void) {
  return seconds_of(CLOCK_MONOTONIC);
}

double clock_cpu(void) {
  return seconds_of(CLOCK_PROCESS_CPUTIME_ID);
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

void progress_update(void *progress, uint64_t finished, Tick now) {
  Progress *self = progress;
  const double at = clock_monotonic(), elapsed = at - self->began_s;
  if (elapsed < QUIET_S || at - self->shown_s < REFRESH_S || !isatty(STDERR_FILENO)) return;
  self->shown = true;
  self->shown_s = at;
  const double share = share_done(self->workload, finished, now);
  fputs("\r\033[K", stderr);
  if (share > 0) {
    enum { BAR = 30 };
    const int filled = (int)(share * BAR);
    fprintf(stderr, "[%.*s%*s] %3.0f%%  ", filled, "##############################", BAR - filled,
            "", 100 * share);
  }
  fprintf(stderr, "%.0f s simulated  %llu requests  %.0f/s", tick_seconds(now),
          (unsigned long long)finished, (double)finished / elapsed);
  if (share > 0) fprintf(stderr, "  %.0f s left", elapsed * (1 - share) / share);
  fflush(stderr);
}

void progress_done(Progress *self) {
  if (!self->shown) return;
  fputs("\r\033[K", stderr);
  fflush(stderr);
}
