/* What is published of the acceptance of MTP layers (acceptance.def), for those who have not
 * measured their own: the traffic decides it, and these are of coding prompts. */
#ifndef PERFMODEL_ACCEPTANCE_H
#define PERFMODEL_ACCEPTANCE_H
#include <stdbool.h>
#include <stdint.h>

enum { ACCEPTANCE_DRAFTS_MAX = 8 }; // that were measured

/* Tokens that a step makes of a request. */
typedef struct PublishedAcceptance {
  double low, high; // of the model, or of all models that were measured
  bool own;
} PublishedAcceptance;

/* Of a model with 1 to ACCEPTANCE_DRAFTS_MAX drafts. */
PublishedAcceptance acceptance_published(const char *model, int64_t drafts);
/* The middle, in hundredths as the source has it, and how far the ends are from it, as a share. */
double acceptance_middle(const PublishedAcceptance *self);
double acceptance_error(const PublishedAcceptance *self);
#endif
