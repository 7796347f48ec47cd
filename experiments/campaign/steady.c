/* See steady.h. */
#include "experiments/campaign/steady.h"
#include <math.h>

enum { FIRST = 1000, LEAST_E2ES = 5, ROUND = 100 };

static const double reserve = 1.1; // of requests beyond those that should do
static const double least_growth = 1.25, most_growth = 8, blind_growth = 4;

void steady_init(Steady *self, const LengthConfig *length) {
  *self = (Steady){.length = length};
  self->requests = length->most < FIRST ? length->most : FIRST;
}

Pass steady_pass(const Report *report) {
  const SimResult *result = report->result;
  const Metrics *metrics = &result->metrics;
  const double arrivals = tick_seconds(metrics->last_arrival_at - metrics->first_arrival_at);
  const double longest = (double)metrics->e2e.max / TICKS_PER_SECOND;
  return (Pass){.arrived = (int64_t)(metrics->asked.requests + result->left_out),
                .start = report->start,
                .hopeless = report->saturated || report->lost,
                .saturated = report->saturated,
                .least_known = report->least_known.share,
                .e2es = longest > 0 ? arrivals / longest : 0};
}

/* How many times as many requests must be counted; 1: those are enough. A range shrinks with their
 * root. */
static double growth_of(const Steady *self, const Pass *pass) {
  const LengthConfig *length = self->length;
  if (pass->hopeless) return 2; // once more, to be sure
  if (isnan(pass->least_known) || (length->finds_start && !pass->start.ended)) return blind_growth;
  double growth = 1;
  const double wide = pass->least_known / length->precision;
  if (wide > 1) growth = reserve * wide * wide;
  if (pass->e2es < LEAST_E2ES) growth = fmax(growth, reserve * LEAST_E2ES / pass->e2es);
  return growth;
}

static int64_t grown(const Steady *self, double growth) {
  const double now = (double)self->requests, counted = now - (double)self->left_out;
  const double wanted = (double)self->left_out + growth * counted;
  const double next = fmin(fmax(wanted, least_growth * now), most_growth * now);
  const double round = ceil(next / ROUND) * ROUND, most = (double)self->length->most;
  return (int64_t)(round < most ? round : most);
}

bool steady_goes_on(Steady *self, const Pass *pass, LengthEnd *ret_end) {
  const bool over = pass->arrived < self->requests;
  const bool last = over || self->requests == self->length->most;
  const double growth = growth_of(self, pass);
  const bool sure = pass->hopeless && (last || self->hopeless);
  *ret_end = sure          ? pass->saturated ? LENGTH_SATURATED : LENGTH_LOST
             : growth <= 1 ? LENGTH_REACHED
             : over        ? LENGTH_WORKLOAD
                           : LENGTH_MOST;
  if (sure) return false;
  self->hopeless = pass->hopeless;
  const bool more_start = self->length->finds_start && !pass->hopeless && pass->start.ended &&
                          (int64_t)pass->start.requests > self->left_out;
  if (!more_start && (growth <= 1 || last)) return false;
  if (more_start) self->left_out = (int64_t)pass->start.requests;
  if (growth > 1 && !last) self->requests = grown(self, growth);
  return true;
}
