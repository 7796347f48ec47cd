/* How sure the answers of a study are, on paper: the range of each under seeds and under what the
 * iteration times may be off by, what that leaves undecided, and what those times are. */
#ifndef EXPERIMENTS_PROVISION_SURE_H
#define EXPERIMENTS_PROVISION_SURE_H
#include "experiments/provision/provision.h"

/* "mean 21 +- 1.2 machines (95%)" of several seeds, or that their runs are equal. */
void sure_print_mean(const Provision *study, const DesignOutcome *outcome, FILE *out);
/* "19..23", ">=19" where nothing holds at the other end, "-" of one seed alone. Returns `text`. */
const char *sure_range_text(const Provision *study, const DesignOutcome *outcome, char text[80]);
/* "split: 19 to 23 machines; 21 most likely (3 seeds, times 3.8% off)"; nothing without a range. */
void sure_print_range(const Provision *study, const DesignOutcome *outcome, FILE *out);
/* How close each limit is at an answer. */
void sure_print_limits(const DesignOutcome *outcome, FILE *out);
/* Designs that may be as good as the best one (-1: there is none), where times come from, and how
 * much of them was extrapolated. */
void sure_print_times(const Provision *study, const DesignOutcome *outcomes, int best, FILE *out);
#endif
