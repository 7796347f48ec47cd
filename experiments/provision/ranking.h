/* Offline studies on paper: which choices are the best, and why others are none. */
#ifndef EXPERIMENTS_PROVISION_RANKING_H
#define EXPERIMENTS_PROVISION_RANKING_H
#include "experiments/base/cells.h"
#include "experiments/provision/provision.h"

/* The best of each design, then all choices of each on the first seed. */
void ranking_print_table(const Provision *study, const DesignOutcome *outcomes, FILE *out);
/* A row for each choice of a design on every seed, of CSV or JSON. */
void ranking_put(Rows *rows, const Provision *study, const DesignOutcome *outcome);
/* What would be measured, for --dry-run. */
void ranking_print_plan(const Design *design, FILE *out);
#endif
