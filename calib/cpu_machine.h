/* What the system says of this machine's processor. Unknown numbers are 0, or NAN for the clock. */
#ifndef CALIB_CPU_MACHINE_H
#define CALIB_CPU_MACHINE_H
#include "calib/backend.h"

/* Of a backend that runs so many threads on this processor; its library is left to it. */
CalibDevice cpu_machine_describe(int32_t threads);
/* Of the last-level cache that the first CPU uses. */
int64_t cpu_machine_cache_bytes(void);
/* What this process can take without swapping: of the machine, of the control groups it is in, and
 * of its own limits. */
int64_t cpu_machine_available_bytes(void);
/* `telemetry` of a backend that runs on this processor: the clock of the CPU that this thread is
 * on. */
void cpu_machine_telemetry(void *state, CalibTelemetry *ret_telemetry);
#endif
