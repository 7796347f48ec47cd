/* Rows by mode and state of the cache, and what all-reduces add to them. */
#include "perfmodel/fit_rows.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Which rows ---- */

/* Attention of decodes is one call with prefill where the batch has that. */
static FitTerm term_of(const ProfileRow *row) {
  const bool mixed = row->op == PROFILE_DECODE_ATTENTION && row->batch.prefill_tokens > 0;
  return mixed ? FIT_MIXED_ATTENTION : (FitTerm)row->op;
}

static bool is_of(const FitRows *self, const ProfileRow *row, FitTerm term) {
  return term_of(row) == term && profile_in_group(row, self->group);
}

static bool is_cold_and_alone(const ProfileRow *row) {
  return !row->busy && strcmp(row->cache, "hot") != 0;
}

/* Neither what is queued nor a graph has the host in it. */
static bool has_mode_of(const ProfileRow *row, const char *mode) {
  return strcmp(strcmp(row->mode, "queued") == 0 ? "graph" : row->mode, mode) == 0;
}

static bool has_mode(const FitRows *self, FitTerm op) {
  for (size_t i = 0; i < self->profile->n_rows; i++) {
    const ProfileRow *row = &self->profile->rows[i];
    if (is_of(self, row, op) && is_cold_and_alone(row) && has_mode_of(row, self->mode)) return true;
  }
  return false;
}

/* Where generation stopped early the context of the decodes is unknown; their prompts are sound. */
static bool is_early_stop(const ProfileRow *row) {
  return row->batch.decode_seqs > 0 && strcmp(row->stop, "early_stop") == 0;
}

static int select_rows(FitRows *self, FitTerm op, const ProfileRow **ret_rows) {
  const bool one_mode = has_mode(self, op);
  int n = 0;
  for (size_t i = 0; i < self->profile->n_rows; i++) {
    const ProfileRow *row = &self->profile->rows[i];
    if (!is_of(self, row, op)) continue;
    if (!is_cold_and_alone(row))
      self->left_out.hot_or_busy++;
    else if (profile_is_sustained(row))
      self->left_out.sustained++;
    else if (one_mode && *row->mode && !has_mode_of(row, self->mode))
      self->left_out.other_mode++;
    else if (is_early_stop(row))
      self->left_out.early_stops++;
    else
      ret_rows[n++] = row;
  }
  return n;
}

/* ---- Runs that were cut short ---- */

/* 0, 1 or more configurations of an operator. */
static int count_configurations(const FitRows *self, ProfileOp op) {
  const ProfileRow *first = NULL;
  for (size_t i = 0; i < self->profile->n_rows; i++) {
    const ProfileRow *row = &self->profile->rows[i];
    if (row->op != op || !profile_in_group(row, self->group)) continue;
    if (first && first->configuration != row->configuration) return 2;
    first = row;
  }
  return first != NULL;
}

static bool any_iteration(const FitRows *self, bool of_decodes) {
  for (size_t i = 0; i < self->profile->n_rows; i++) {
    const ProfileRow *row = &self->profile->rows[i];
    const int64_t work = of_decodes ? row->batch.decode_seqs : row->batch.prefill_tokens;
    if (row->op == PROFILE_ITERATION && work > 0 && profile_in_group(row, self->group)) return true;
  }
  return false;
}

/* Whether a group has iterations, and not all operators that their batches need: a run that was
 * cut short leaves such a profile. */
static bool lacks_operators(const FitRows *self) {
  if (count_configurations(self, PROFILE_ITERATION) < 2) return false;
  const int n_prefill = count_configurations(self, PROFILE_PREFILL_ATTENTION);
  const int n_decode = count_configurations(self, PROFILE_DECODE_ATTENTION);
  return count_configurations(self, PROFILE_LINEAR) < 2 || n_prefill == 1 || n_decode == 1 ||
         count_configurations(self, PROFILE_HEAD) == 1 ||
         (n_prefill == 0 && any_iteration(self, false)) ||
         (n_decode == 0 && any_iteration(self, true));
}

static int64_t count_operators(const FitRows *self) {
  int64_t n = 0;
  for (size_t i = 0; i < self->profile->n_rows; i++) {
    const ProfileRow *row = &self->profile->rows[i];
    n += row->op > PROFILE_ITERATION && row->op < PROFILE_TERMS &&
         profile_in_group(row, self->group);
  }
  return n;
}

bool fit_rows_drop_incomplete(FitRows *self) {
  if (!lacks_operators(self)) return false;
  self->left_out.incomplete = count_operators(self);
  return true;
}

/* ---- All-reduces ---- */

static int compare_sizes(const void *a, const void *b) {
  const ProfileRow *r = *(const ProfileRow *const *)a, *s = *(const ProfileRow *const *)b;
  if (r->size != s->size) return r->size < s->size ? -1 : 1;
  if (r->op != s->op) return r->op < s->op ? -1 : 1;
  return (r->median_us > s->median_us) - (r->median_us < s->median_us);
}

/* The median of each size by the faster of NCCL and kernels that read the others' memory, as
 * engines take these where they are; a larger one takes no less time. Returns how many were
 * modelled. */
static int make_curve(FitRows *self, const ProfileRow **rows, int n) {
  int modelled = 0;
  double fastest = INFINITY;
  qsort(rows, (size_t)n, sizeof *rows, compare_sizes);
  int64_t *bytes = ARENA_ARRAY(self->arena, int64_t, n + 1);
  double *seconds = ARENA_ARRAY(self->arena, double, n + 1);
  self->bytes = bytes;
  self->seconds = seconds;
  for (int first = 0, i = 1; i <= n; i++) {
    modelled += strcmp(rows[i - 1]->stop, "modelled") == 0;
    const ProfileRow *of = rows[first];
    if (i < n && rows[i]->size == of->size && rows[i]->op == of->op) continue;
    double median = (rows[(first + i - 1) / 2]->median_us + rows[(first + i) / 2]->median_us) / 2;
    fastest = fmin(fastest, 1e-6 * median);
    first = i;
    if (i < n && rows[i]->size == of->size) continue;
    int at = self->n_sizes++;
    bytes[at] = of->size;
    seconds[at] = fmax(fastest, at > 0 ? seconds[at - 1] : 0);
    fastest = INFINITY;
  }
  return modelled;
}

/* Lines between sizes; the last goes on, and the least time is that of the smallest. */
static double curve_at(const FitRows *self, int64_t bytes) {
  int i = 0, n = self->n_sizes;
  if (n == 1 || bytes <= self->bytes[0]) return self->seconds[0];
  while (i + 2 < n && bytes >= self->bytes[i + 1])
    i++;
  double share = (double)(bytes - self->bytes[i]) / (double)(self->bytes[i + 1] - self->bytes[i]);
  return self->seconds[i] + share * (self->seconds[i + 1] - self->seconds[i]);
}

/* Seconds of one all-reduce; 0 where nothing is lacking or known. */
static double fit_rows_all_reduce(const FitRows *self, int64_t bytes) {
  return self->all_reduce_source && !self->lacks_all_reduce ? curve_at(self, bytes) : 0;
}

/* Says where the times of all-reduces come from. */
static void find_all_reduce(FitRows *self) {
  const char *fact = profile_fact(self->profile, "all_reduce");
  const FitAllReduce *all_reduce = &self->all_reduce;
  if (self->group->tensor_parallel_size == 1 || !fact || strcmp(fact, "none") != 0) return;
  const ProfileRow **rows = ARENA_ARRAY(self->arena, const ProfileRow *, self->group->n_rows + 1);
  int n = select_rows(self, (FitTerm)PROFILE_ALL_REDUCE, rows);
  n += select_rows(self, (FitTerm)PROFILE_ALL_REDUCE_PEER, rows + n);
  int modelled = n > 0 ? make_curve(self, rows, n) : 0;
  self->lacks_all_reduce = all_reduce->calls == 0 || (n == 0 && !all_reduce->source);
  if (n == 0) {
    self->n_sizes = all_reduce->n_sizes;
    self->bytes = all_reduce->bytes;
    self->seconds = all_reduce->seconds;
  }
  if (all_reduce->calls == 0)
    self->all_reduce_source = "missing: the model is not known";
  else if (n > 0)
    self->all_reduce_source =
        arena_printf(self->arena, "%lld an iteration, from %d %s row%s of the profile",
                     (long long)all_reduce->calls, n,
                     modelled == 0   ? "measured"
                     : modelled == n ? "modelled"
                                     : "measured and modelled",
                     n == 1 ? "" : "s");
  else if (all_reduce->source)
    self->all_reduce_source = arena_printf(self->arena, "%lld an iteration, %s",
                                           (long long)all_reduce->calls, all_reduce->source);
  else
    self->all_reduce_source = "missing: measured on one GPU";
}

/* A copy of the row with the all-reduces of its tokens. */
static const ProfileRow *with_all_reduces(const FitRows *self, const ProfileRow *row) {
  ProfileRow *copy = ARENA_NEW(self->arena, ProfileRow);
  int64_t tokens = row->batch.prefill_tokens + row->batch.decode_seqs;
  double seconds = fit_rows_all_reduce(self, tokens * self->all_reduce.bytes_per_token);
  *copy = *row;
  copy->median_us += 1e6 * (double)self->all_reduce.calls * seconds;
  return copy;
}

/* ---- Sustained ---- */

static bool is_burst_of(const ProfileRow *row, const ProfileRow *sustained) {
  const BatchShape *a = &row->batch, *b = &sustained->batch;
  return row->op == PROFILE_ITERATION && !profile_is_sustained(row) && is_cold_and_alone(row) &&
         strcmp(row->mode, sustained->mode) == 0 && a->prefill_tokens == b->prefill_tokens &&
         a->prefill_area2 == b->prefill_area2 && a->decode_seqs == b->decode_seqs &&
         a->context_tokens == b->context_tokens && a->logit_seqs == b->logit_seqs;
}

/* The mean of the replicates; NAN: there are none. */
static double burst_us(const FitRows *self, const ProfileRow *sustained) {
  double sum = 0;
  int n = 0;
  for (size_t i = 0; i < self->profile->n_rows; i++) {
    const ProfileRow *row = &self->profile->rows[i];
    if (!profile_in_group(row, self->group) || !is_burst_of(row, sustained)) continue;
    sum += row->median_us;
    n++;
  }
  return n > 0 ? sum / n : NAN;
}

int fit_rows_sustained(const FitRows *self, FitSustained *ret_sustained) {
  int n = 0;
  for (size_t i = 0; i < self->profile->n_rows; i++) {
    const ProfileRow *row = &self->profile->rows[i];
    if (row->op != PROFILE_ITERATION || !profile_is_sustained(row) ||
        !profile_in_group(row, self->group))
      continue;
    const double ratio = row->median_us / burst_us(self, row);
    if (isfinite(ratio)) ret_sustained[n++] = (FitSustained){row->batch, ratio};
  }
  return n;
}

/* ---- Both ---- */

void fit_rows_init(FitRows *self, const Profile *profile, const ProfileGroup *group,
                   const char *mode, const FitAllReduce *all_reduce, Arena *arena) {
  *self = (FitRows){
      .profile = profile, .group = group, .mode = mode, .all_reduce = *all_reduce, .arena = arena};
  find_all_reduce(self);
  for (size_t i = 0; i < profile->n_rows; i++) {
    const ProfileRow *row = &profile->rows[i];
    const bool sums = row->op == PROFILE_ALL_REDUCE || row->op == PROFILE_ALL_REDUCE_PEER;
    const bool used = row->op < PROFILE_TERMS || (sums && self->n_sizes > 0);
    self->left_out.details += !used && profile_in_group(row, group);
  }
}

int fit_rows_of(FitRows *self, FitTerm term, const ProfileRow **ret_rows) {
  int n = select_rows(self, term, ret_rows);
  bool adds = self->all_reduce_source && !self->lacks_all_reduce &&
              (term == FIT_LINEAR || term == (FitTerm)PROFILE_ITERATION);
  for (int i = 0; adds && i < n; i++)
    ret_rows[i] = with_all_reduces(self, ret_rows[i]);
  return n;
}
