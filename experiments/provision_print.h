/* The answers of a study on paper: a table for people, JSON and CSV for programs. */
#ifndef EXPERIMENTS_PROVISION_PRINT_H
#define EXPERIMENTS_PROVISION_PRINT_H
#include "experiments/provision.h"

void provision_print(const Provision *study, const DesignOutcome *outcomes, OutputFormat format,
                     FILE *out);
/* What would be searched, for --dry-run. */
void provision_print_plan(const Provision *study, FILE *out);
#endif
