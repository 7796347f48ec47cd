/* `tandem plan --day PROFILE --batch N --deadline TIME`: a batch job in the valleys of a day,
 * beside fleets of their own for both. */
#ifndef EXPERIMENTS_COMMANDS_PLAN_VALLEYS_H
#define EXPERIMENTS_COMMANDS_PLAN_VALLEYS_H
#include "experiments/commands/plan_rate.h"

/* What is asked of the batch job beside the question. */
typedef struct ValleyJob {
  int64_t isl, osl; // 0: as the requests of the day have them
  double start_h;   // hour of the profile when it is there; NAN: when the valleys leave most
} ValleyJob;

/* Answers a question that has a day, a batch and a deadline. The exit code. */
int valleys_answer(const RateSearch *how, const Question *asked, const ValleyJob *job,
                   OutputFormat format);
#endif
