/* Times of one layer's experts by how many tokens there are and how many of the experts they
 * reach, as LLMServingSim measures them: moe.csv, tokens,activated_experts,time_us. Each token goes
 * to as many experts as the model says, spread evenly over those that are reached. */
#ifndef PERFMODEL_IMPORT_EXPERT_TIMES_H
#define PERFMODEL_IMPORT_EXPERT_TIMES_H
#include "base/diag.h"
#include <stdint.h>

typedef struct ExpertTime {
  int64_t tokens, activated_experts;
  double time_us;
} ExpertTime;

typedef struct ExpertTimes {
  ExpertTime *rows; // [n], by tokens, then by experts
  size_t n, capacity;
} ExpertTimes;

/* Reads moe.csv; `path` must outlive `arena`. 0, or −1 with entries. */
int expert_times_read(ExpertTimes *self, const char *path, Arena *arena, Diag *diag);
/* Microseconds, between rows by lines; with fewer or more experts than were measured, those of the
 * nearest. */
double expert_times_us(const ExpertTimes *self, double tokens, double experts);
/* How many of `experts` some of `tokens` choose when each picks `topk` at random. */
double experts_reached(double experts, double topk, double tokens);
#endif
