/* The physics of a profile, before anything is fitted to it: what cannot be, or cannot have been
 * measured.
 *
 * Rows are looked at in series: one operator of one group, measured in one way (mode, cache, busy),
 * whole iterations apart by prefill, decode and both. Within a series, a point does more work than
 * another when the numbers that its time depends on are at least as large: (prefill_tokens,
 * prefill_area2) in prefill, (decode_seqs, context_tokens) in decode, new tokens in `linear`,
 * logit_seqs in `head`, size in an operator finer than these; in whole prefills also logit_seqs,
 * because engines spend time on each prompt, and in `prefill_attention` also the mean context,
 * because few tokens after a long past read more. */
#ifndef PERFMODEL_CHECK_PROFILE_H
#define PERFMODEL_CHECK_PROFILE_H
#include "perfmodel/profile.h"

typedef enum CheckRule {
  CHECK_ROOFLINE,      // faster than the peaks of the GPU allow
  CHECK_OUT_OF_MEMORY, // more work than another point in less than half of its time
  CHECK_NON_MONOTONE,  // more work than another point in less time, beyond the noise of both
  CHECK_REPLICATES,    // replicates that disagree
  CHECK_CLOCK,         // the clock fell meanwhile (profile_clock.h)
  CHECK_COPIES,        // replicates equal to the last digit
  CHECK_MULTIPLE,      // times are a constant multiple of another group's
  CHECK_ZERO,          // a missing value stored as 0
  CHECK_ZERO_SPREAD,   // several samples without any spread
  CHECK_RULES,
} CheckRule;

/* "roofline", "out-of-memory", …. */
const char *check_rule_name(CheckRule rule);

typedef struct CheckFinding {
  CheckRule rule;
  const ProfileGroup *group;
  ProfileOp op;
  size_t first, n_rows; // of CheckReport.rows
  const char *reason;   // a sentence without a full stop
} CheckFinding;

typedef struct CheckReport {
  Arena *arena;
  const Profile *profile;
  CheckFinding *findings; // by series, then by rule
  size_t n_findings, findings_capacity;
  size_t *rows; // indices into the profile's, each finding's ascending
  size_t n_rows, rows_capacity;
  const char **notes; // rules that could not be applied, and why
  size_t n_notes, notes_capacity;
} CheckReport;

/* Looks at every row by every rule. Rooflines take models and machines from `data_dir`; `profile`
 * must outlive the report. */
void check_profile(CheckReport *self, const Profile *profile, const char *data_dir, Arena *arena);
/* A copy of the profile without the rows of the findings. A zero that is a missing value, and a
 * spread that was not measured, only lose the value. */
void check_clean(const CheckReport *self, Profile *ret_cleaned, Arena *arena);
#endif
