/* For how long so many instances of a pool are up, as a run had it and as a closed form has it.
 *
 * A source of faults that alternates between MTBF and MTTR, with a start of the engine of s after
 * each repair, holds its instances down for (MTTR + E[min(s, U)]) / (MTBF + MTTR) of the time, U
 * the time until it fails again (renewal reward theorem). An instance is up while none of its
 * sources holds it down, and sources are independent of one another. So the number of instances
 * that are up has a distribution in closed form where any two sources take either nothing in
 * common or the one all that the other takes, as GPUs, machines, racks and power feeds do: within a
 * domain that is up the numbers of its parts add up (a convolution), and with one that is down the
 * number is 0. Without domains it is the binomial distribution.
 *
 * Of a pool with spares it is the number of instances that could serve; that as many are up as are
 * wanted leaves out the time in which a spare starts. Left out is also that instances which start
 * together from one store share its bandwidth. */
#ifndef EXPERIMENTS_REPORT_UPTIME_H
#define EXPERIMENTS_REPORT_UPTIME_H
#include "experiments/report/report.h"

/* Instances that a pool begins with. */
uint32_t uptime_wanted(const PoolSpec *pool);
/* The share of time in which so many instances or more were up; something may fail. */
double uptime_share(const PoolResult *result, uint32_t n, Tick span);
/* [pool_machines + 1] the shares of time with so many instances that nothing holds down, in the
 * long run; NULL where it has no closed form: nothing fails, outages are scheduled or drained,
 * sources take instances in part in common, or there are too many of either. */
const double *uptime_expected(const SimConfig *config, uint32_t pool, Arena *arena);
/* That at least as many are up as the pool begins with; NAN likewise. */
double uptime_expected_share(const SimConfig *config, uint32_t pool, Arena *arena);
/* Lines of a report: that, and what an outage consists of. */
void uptime_print(const Report *self, FILE *out);
#endif
