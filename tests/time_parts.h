/* What holds of the parts of a request's time. */
#ifndef TESTS_TIME_PARTS_H
#define TESTS_TIME_PARTS_H
#include "sim/books/metrics.h"

/* All its time has gone somewhere, that before its first token apart: what is wrong, or NULL. */
static inline const char *time_parts_check(const RequestRecord *record, const TimeParts *parts) {
  Tick sums[2] = {0, 0};
  for (Cause cause = 0; cause < CAUSES; cause++) {
    if (parts->of[cause] < 0) return "a part of a request's time is negative";
    sums[metrics_causes[cause].is_late] += parts->of[cause];
  }
  const Tick end = record->cancelled ? record->cancelled_at : record->last_token_at;
  if (!record->rejected && sums[0] + sums[1] != end - record->arrived_at)
    return "the parts of a request do not add up to its time";
  if (record->first_token_at >= 0 && sums[0] != record->first_token_at - record->arrived_at)
    return "the parts of a request do not add up to its TTFT";
  return NULL;
}
#endif
