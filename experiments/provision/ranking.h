/* Offline studies on paper: which choices are the best, and why others are none. */
#ifndef EXPERIMENTS_PROVISION_RANKING_H
#define EXPERIMENTS_PROVISION_RANKING_H
#include "experiments/provision/provision.h"

/* Characters of the column that names the designs. */
int provision_name_width(const Provision *study);
/* The best of each design, then all choices of each on the first seed. */
void ranking_print_table(const Provision *study, const DesignOutcome *outcomes, FILE *out);
/* A line for each choice and seed. */
void ranking_print_csv(const Provision *study, const DesignOutcome *outcomes, FILE *out);
/* The choices of a design on every seed, as a list. */
void ranking_print_json(const Provision *study, const DesignOutcome *outcome, FILE *out);
/* What would be measured, for --dry-run. */
void ranking_print_plan(const Design *design, FILE *out);
#endif
