/* `tandem trace FILE --every T`: how many requests and tokens come in each interval, of a trace or
 * of the workload of a configuration. */
#ifndef EXPERIMENTS_COMMANDS_TRACE_RATES_H
#define EXPERIMENTS_COMMANDS_TRACE_RATES_H
#include "experiments/base/writer.h"
#include "traces/trace_file.h"

/* Whether it is a configuration by its name. */
bool trace_is_config(const char *path);
/* Prints the intervals of the trace at `path`, read as `reading`, or of the configuration's
 * workload, drawn by its seed; where it is a mix, a row for each component. 0 or -1. */
int trace_print_rates(const char *path, const TraceReading *reading, Tick every,
                      OutputFormat format, Arena *arena, Diag *diag);
#endif
