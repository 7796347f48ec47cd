/* The rows that one run has in each table. */
#ifndef EXPERIMENTS_RESULTS_ROWS_H
#define EXPERIMENTS_RESULTS_ROWS_H
#include "experiments/results/results.h"

/* All within the transaction that results.c has begun. */
int rows_add_request(Results *self, const RequestRecord *record, Diag *diag);
int rows_add_run(Results *self, const Report *report, uint64_t config_digest, Arena *arena,
                 Diag *diag);
int rows_add_failure(Results *self, const Config *config, uint64_t config_digest,
                     const char *reason, Arena *arena, Diag *diag);
int rows_add_measured(Results *self, const EngineRun *run, Arena *arena, Diag *diag);
#endif
