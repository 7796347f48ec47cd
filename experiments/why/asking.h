/* What the parts of this room share: rows of requests, and what causes are called. */
#ifndef EXPERIMENTS_WHY_ASKING_H
#define EXPERIMENTS_WHY_ASKING_H
#include "experiments/why/why.h"

extern const char *const why_part_names[CAUSES];    // "front_s"
extern const char *const why_part_meanings[CAUSES]; // as 'tandem list figures' has them

/* A request as its row has it; times are NAN and machines -1 where they never came. */
typedef struct WhyRequest {
  int64_t id, prompt_tokens, output_tokens, cached_tokens, generated_tokens, chunks, recomputes;
  int64_t prefill_machine, decode_machine, lost_with;
  bool rejected;
  double arrived_s, prefill_began_s, first_token_s, decode_began_s, last_token_s, cancelled_s,
      failed_s;
  double parts[CAUSES]; // seconds
} WhyRequest;

/* Its E2E, or the time until its client gave up. */
double why_total(const WhyRequest *request);
/* The statement's columns from `column` on, as SELECT id … of why_request_columns. */
extern const char why_request_columns[];
void why_read(sqlite3_stmt *statement, int column, WhyRequest *ret_request);
/* "prefill 3", or its pool's name where that has one machine. */
const char *why_machine(Why *self, int64_t machine);
/* "late because 55.0 s in line for …": the largest part that is not the request's own work, and who
 * was ahead or beside. NULL with entries. */
const char *why_sentence(Why *self, const WhyRequest *request);
/* "81%", or "<1%". */
const char *why_share(double part, double whole, char text[32]);
#endif
