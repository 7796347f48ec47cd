/* Which program this is. */
#ifndef EXPERIMENTS_BASE_VERSION_H
#define EXPERIMENTS_BASE_VERSION_H
#include <stdint.h>

extern const char tandem_version[];
/* The commit that it was built from, "-dirty" behind it when files had been changed since;
 * "unknown" without git. */
extern const char tandem_commit[];
/* Equal in programs that give equal outcomes for equal configurations, by all rules (epoch.h). */
uint64_t outcome_epoch(void);
#endif
