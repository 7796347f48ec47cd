/* Where the iteration times of runs come from, and what is known of their error. */
#include "base/text.h"
#include "experiments/report/report.h"
#include <math.h>
#include <string.h>

static bool told_before(const Report *self, uint32_t i) {
  const char *name = self->pools[i].pool->perfmodel->name;
  for (uint32_t k = 0; k < i; k++)
    if (strcmp(self->pools[k].pool->perfmodel->name, name) == 0) return true;
  return false;
}

static void print_source(const PerfModel *model, FILE *out) {
  Arena arena;
  arena_init(&arena);
  const char *name = text_shown(model->name, &arena);
  if (!model->measured)
    fprintf(out, "%s: not measured, its error is unknown\n", name);
  else if (isnan(model->held_out_error))
    fprintf(out, "measured (%s), its error is unknown\n", name);
  else
    fprintf(out, "measured (%s), held-out error %.1f%%\n", name, 100 * model->held_out_error);
  arena_done(&arena);
}

/* Images that were encoded in no time. */
static void print_encoder(const Report *self, FILE *out) {
  bool in_no_time = false;
  for (uint32_t i = 0; i < self->result->n_pools; i++) {
    Tick time;
    in_no_time |= sim_encodes(&self->config->sim, self->result->pools[i].pool, &time) && time == 0;
  }
  const int64_t tokens = in_no_time ? self->result->metrics.encoder_tokens : 0;
  char count[32];
  if (tokens > 0)
    fprintf(out,
            "encoder      %s tokens of images took no time, as no performance model has their "
            "encoder: set the batcher's encoder_time_per_token\n",
            format_count((double)tokens, count));
}

void report_print_times(const Report *self, FILE *out) {
  for (uint32_t i = 0; i < self->result->n_pools; i++) {
    if (told_before(self, i)) continue;
    fputs("times        ", out);
    print_source(self->pools[i].pool->perfmodel, out);
  }
  print_encoder(self, out);
  if (report_extrapolated(&self->result->totals) == 0) return;
  const ExtrapolatedFigures *figures = &self->extrapolated;
  fprintf(out,
          "extrapolated %.1f%% of iterations and %.1f%% of time are outside the measured range "
          "(far: %.1f%%, %.1f%%)\n",
          100 * figures->iterations_share, 100 * figures->time_share,
          100 * figures->far_iterations_share, 100 * figures->far_time_share);
}

/* ---- Of many runs ---- */

void times_add(TimesKnown *self, const ExtrapolatedFigures *figures) {
  const bool measured = figures->perfmodel_measured != 0, known = !isnan(figures->perfmodel_error);
  const TimesKnown one = {.known = measured && known,
                          .error = known ? figures->perfmodel_error : 0,
                          .unknown = measured && !known,
                          .computed = !measured,
                          .extrapolated = figures->time_share,
                          .far = figures->far_time_share};
  times_merge(self, &one);
}

void times_merge(TimesKnown *self, const TimesKnown *other) {
  self->known |= other->known;
  self->unknown |= other->unknown;
  self->computed |= other->computed;
  self->error = fmax(self->error, other->error);
  if (other->extrapolated > self->extrapolated) {
    self->extrapolated = other->extrapolated;
    self->far = other->far;
  }
}

const char *times_text(const TimesKnown *self, Arena *arena) {
  const char *text = "";
  if (self->known)
    text = arena_printf(arena, "measured, held-out error up to %.1f%%", 100 * self->error);
  if (self->unknown)
    text = arena_printf(arena, "%s%smeasured, with unknown error", text, *text ? "; some " : "");
  if (self->computed)
    text = arena_printf(arena, "%s%sfrom a roofline, not measured, with unknown error", text,
                        *text ? "; some " : "");
  return text;
}

const char *times_extrapolated_text(const TimesKnown *self, const char *run, Arena *arena) {
  if (!(self->extrapolated > 0)) return NULL;
  return arena_printf(arena,
                      "up to %.1f%% of the time of %s (far: %.1f%%) is outside the measured range, "
                      "where the error is unknown",
                      100 * self->extrapolated, run, 100 * self->far);
}
