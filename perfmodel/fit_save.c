/* Writes model files. Times are rounded to ticks, and no curve falls; that no row of
 * decode_attention lies below another is settled where the file is read (table_rows.h). */
#include "base/cleanup.h"
#include "base/output.h"
#include "base/sort.h"
#include "base/text.h"
#include "perfmodel/fit_file.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { POINTS_OF_TABLES = 12 }; // that a file repeats

/* ---- Text ---- */

/* In double quotes; '?' for what the reader would not take for text. */
static void write_text(FILE *out, const char *text) {
  putc('"', out);
  for (size_t run = 0; *text; text += run) {
    if (*text == '"' || *text == '\\') putc('\\', out);
    run = 1 + strcspn(text + 1, "\"\\");
    text_put(out, text, run, '?');
  }
  putc('"', out);
}

/* Names stand bare where YAML cannot take them for anything else. */
static void write_name(FILE *out, const char *name) {
  static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  bool is_word = name[0] && strchr(plain, name[0]) - plain < 52;
  if (is_word && strspn(name, plain) == strlen(name) && strpbrk(name, "0123456789"))
    fputs(name, out);
  else
    write_text(out, name);
}

/* A line "key: text", the text in quotes. */
static void write_line(FILE *out, const char *key, const char *text) {
  fprintf(out, "%s: ", key);
  write_text(out, text);
  putc('\n', out);
}

static void write_name_line(FILE *out, const char *key, const char *name) {
  fprintf(out, "%s: ", key);
  write_name(out, name);
  putc('\n', out);
}

static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

/* ---- Curves ---- */

static void write_seconds(FILE *out, Tick ticks) {
  fprintf(out, "%lld.%012lld", (long long)(ticks / TICKS_PER_SECOND),
          (long long)(ticks % TICKS_PER_SECOND));
}

static void write_knot(FILE *out, const char *indent, int64_t x, Tick ticks) {
  fprintf(out, "%s- [%lld, ", indent, (long long)x);
  write_seconds(out, ticks);
  fputs("]\n", out);
}

/* The knots of a line that is longer than a segment may be. Each is rounded down from the line, so
 * that of two rows that do not come closer these do so by a tick at most. */
static void write_between(FILE *out, const char *indent, int64_t x0, Tick t0, int64_t x1, Tick t1) {
  int64_t pieces = (x1 - x0 - 1) / PWL_RUN_MAX + 1;
  for (int64_t i = 1; i < pieces; i++)
    write_knot(out, indent, x0 + (x1 - x0) / pieces * i,
               t0 + (Tick)((FineTick)(t1 - t0) * i / pieces));
}

static void write_knots(FILE *out, const char *indent, int n, const int64_t *x, const Tick *ticks) {
  write_between(out, indent, 0, ticks[0], x[0], ticks[0]);
  for (int k = 0; k < n; k++) {
    if (k > 0) write_between(out, indent, x[k - 1], ticks[k - 1], x[k], ticks[k]);
    write_knot(out, indent, x[k], ticks[k]);
  }
}

/* Ticks at the knots, that do not fall. */
static void round_curve(const FitCurve *curve, Tick least, Tick *ret_ticks) {
  for (int k = 0; k < curve->n_knots; k++) {
    const Tick ticks = tick_from_seconds(curve->seconds[k]);
    ret_ticks[k] = least = ticks > least ? ticks : least;
  }
}

/* Six digits: rows are compared to a fifty-thousandth (table_rows.h). */
static void write_flow(FILE *out, int n, const int64_t *x, const double *seconds) {
  fputs("knots: [", out);
  for (int k = 0; k < n; k++)
    fprintf(out, "%s[%lld, %.6g]", k > 0 ? ", " : "", (long long)x[k], seconds[k]);
  fputs("]", out);
}

/* In one line where terms follow tables. */
static void write_curve(FILE *out, const char *key, const char *unit, const FitCurve *curve,
                        Tick least, bool tables) {
  Tick ticks[FIT_KNOTS_MAX];
  round_curve(curve, least, ticks);
  if (curve->n_knots == 0 || ticks[curve->n_knots - 1] == 0) {
    fprintf(out, "%s: none\n", key);
    return;
  }
  fprintf(out, "%s:\n  measured: [%lld, %lld]\n", key, (long long)curve->low,
          (long long)curve->high);
  if (tables && curve->x[curve->n_knots - 1] <= PWL_RUN_MAX) {
    double seconds[FIT_KNOTS_MAX];
    for (int k = 0; k < curve->n_knots; k++)
      seconds[k] = tick_seconds(ticks[k]);
    fputs("  ", out);
    write_flow(out, curve->n_knots, curve->x, seconds);
    fprintf(out, " # [%s, seconds]\n", unit);
    return;
  }
  fprintf(out, "  knots: # [%s, seconds]\n", unit);
  write_knots(out, "    ", curve->n_knots, curve->x, ticks);
}

/* ---- Tables: over means here, over sums in the file ---- */

/* The sums of a row's knots. */
static void sums_of_row(const FitRow *row, int64_t *ret_x) {
  for (int k = 0; k < row->curve.n_knots; k++)
    ret_x[k] = span_total(row->curve.x[k], row->key);
}

static void write_row(FILE *out, const FitRow *row) {
  Tick ticks[FIT_KNOTS_MAX];
  int64_t x[FIT_KNOTS_MAX];
  sums_of_row(row, x);
  fprintf(out, "    - sequences: %lld\n      measured: [%lld, %lld]\n      knots:\n",
          (long long)row->key, (long long)span_total(row->curve.low, row->key),
          (long long)span_total(row->curve.high, row->key));
  round_curve(&row->curve, 0, ticks);
  write_knots(out, "        ", row->curve.n_knots, x, ticks);
}

/* One curve for all numbers of sequences, with the range of these. */
static void write_shared_row(FILE *out, const FitResult *self, const FitCurve *curve) {
  Tick ticks[FIT_KNOTS_MAX];
  int64_t low = INT64_MAX, high = 0;
  for (int i = 0; i < self->n_points; i++) {
    const int64_t seqs = self->points[i].batch.decode_seqs;
    if (seqs > 0 && seqs < low) low = seqs;
    if (seqs > high) high = seqs;
  }
  fprintf(out,
          "  measured: [%lld, %lld]\n  rows: # knots: [context tokens of all sequences, seconds]\n"
          "    - sequences: %lld\n      measured: [%lld, %lld]\n      knots:\n",
          (long long)low, (long long)high, (long long)low, (long long)curve->low,
          (long long)curve->high);
  round_curve(curve, 0, ticks);
  write_knots(out, "        ", curve->n_knots, curve->x, ticks);
}

/* A row to a line. */
static void write_table(FILE *out, const char *term, const char *unit, const char *key,
                        const FitTable *table) {
  if (table->n_rows == 0) return;
  fprintf(out, "%s:\n  rows: # knots: [%s, seconds]\n", term, unit);
  for (int r = 0; r < table->n_rows; r++) {
    const FitRow *row = &table->rows[r];
    const FitCurve *curve = &row->curve;
    int64_t x[FIT_KNOTS_MAX];
    sums_of_row(row, x);
    fprintf(out, "    - {%s: %lld, measured: [%lld, %lld], ", key, (long long)row->key,
            (long long)span_total(curve->low, row->key),
            (long long)span_total(curve->high, row->key));
    write_flow(out, curve->n_knots, x, curve->seconds);
    fputs("}\n", out);
  }
}

static void write_prefill(FILE *out, const FitResult *self) {
  if (self->model.prefill.n_rows == 0)
    write_curve(out, "prefill_attention", "sum of new * (2 * past + new)",
                &self->model.curves[PROFILE_PREFILL_ATTENTION], 0, self->tables);
  else
    write_table(out, "prefill_attention", "sum of new * (2 * past + new)", "tokens",
                &self->model.prefill);
}

/* Its own, or what the profile says that it is of decode_attention. */
static void write_mixed(FILE *out, const FitResult *self, const Profile *profile) {
  const char *factor = profile_fact(profile, "mixed_attention_factor");
  if (self->model.mixed.n_rows > 0)
    write_table(out, "mixed_attention", "context tokens of all sequences", "sequences",
                &self->model.mixed);
  else if (factor)
    fprintf(out, "mixed_attention: {factor: %.8g}\n", strtod(factor, NULL));
}

static void write_decode(FILE *out, const FitResult *self) {
  const FitCurve *shared = &self->model.curves[PROFILE_DECODE_ATTENTION];
  if (self->tables && self->model.decode.n_rows > 0) {
    write_table(out, "decode_attention", "context tokens of all sequences", "sequences",
                &self->model.decode);
    return;
  }
  if (self->model.decode.n_rows == 0 && shared->n_knots == 0) {
    fputs("decode_attention: none\n", out);
    return;
  }
  fputs("decode_attention:\n", out);
  if (self->model.decode.n_rows == 0) {
    write_shared_row(out, self, shared);
    return;
  }
  fputs("  rows: # knots: [context tokens of all sequences, seconds]\n", out);
  for (int r = 0; r < self->model.decode.n_rows; r++)
    write_row(out, &self->model.decode.rows[r]);
}

/* ---- The record of the fit ---- */

static void write_score(FILE *out, const char *key, const FitScore *score) {
  if (isnan(score->mape)) return;
  fprintf(out, ",\n      %s: [%.2f, %.2f, %.2f]", key, 100 * score->mape, 100 * score->p95,
          100 * score->worst);
}

static void write_scores(FILE *out, const FitResult *self) {
  fputs("  # Relative errors in percent: [mean, 95th percentile, worst].\n  scores:\n", out);
  for (int part = 0; part < FIT_PARTS; part++) {
    const FitPartScores *scores = &self->parts[part];
    if (scores->configurations == 0) continue;
    fprintf(out, "    %s: {rows: %lld, configurations: %lld, noise: %.2f",
            fit_part_name((FitPart)part), (long long)scores->rows,
            (long long)scores->configurations, 100 * scores->noise);
    write_score(out, "train", &scores->train);
    write_score(out, "random", &scores->random);
    write_score(out, "held_out", &scores->held_out);
    write_score(out, "held_out_size", &scores->held_out_size);
    fputs("}\n", out);
  }
}

static void write_points(FILE *out, const FitResult *self) {
  fputs(
      "  # Medians: [op, prefill_tokens, prefill_area2, decode_seqs, context_tokens, logit_seqs,\n"
      "  #   seconds]\n",
      out);
  const int step = self->tables ? (self->n_points - 1) / POINTS_OF_TABLES + 1 : 1;
  if (step > 1) fprintf(out, "  # Of %d every %d-th.\n", self->n_points, step);
  fputs("  points:\n", out);
  for (int i = 0; i < self->n_points; i += step) {
    const FitPoint *point = &self->points[i];
    const BatchShape *batch = &point->batch;
    fprintf(out, "    - [%s, %lld, %lld, %lld, %lld, %lld, ", profile_op_name(point->op),
            (long long)batch->prefill_tokens, (long long)batch->prefill_area2,
            (long long)batch->decode_seqs, (long long)batch->context_tokens,
            (long long)batch->logit_seqs);
    if (self->tables)
      fprintf(out, "%.6g", point->seconds);
    else
      write_seconds(out, tick_from_seconds(point->seconds));
    fputs("]\n", out);
  }
}

static void write_record(FILE *out, const FitResult *self, const Profile *profile) {
  fputs("fit:\n", out);
  write_line(out, "  profile", base_name(profile->path));
  fprintf(out, "  digest: \"%016llx\" # of all its rows\n  facts:\n",
          (unsigned long long)profile_digest(profile));
  for (size_t i = 0; i < profile->n_facts; i++) {
    const ProfileFact *fact = &profile->facts[i];
    fputs("    ", out);
    write_text(out, fact->key);
    write_line(out, "", strcmp(fact->key, "source") == 0 ? base_name(fact->value) : fact->value);
  }
  if (profile->n_facts == 0) fputs("    {}\n", out);
  write_line(out, "  engine_preset", self->options.preset);
  fprintf(out, "  engine_inside: %s\n  seed: %llu\n  unused: %lld # decodes of unknown context\n",
          self->whole ? "linear" : "overhead", (unsigned long long)self->options.seed,
          (long long)self->left_out.early_stops);
  if (self->joined) fprintf(out, "  iterations: %s # fit_join.h\n", fit_way_name(self->way));
  if (self->left_out.other_mode > 0)
    fprintf(out, "  mode: %s\n", self->options.mode ? self->options.mode : "graph");
  if (self->all_reduce) write_line(out, "  all_reduce", self->all_reduce);
  write_scores(out, self);
  write_points(out, self);
}

static int dtype_of_fact(const Profile *profile, const char *key) {
  const char *name = profile_fact(profile, key);
  for (int i = 0; name && dtype_names[i]; i++)
    if (strcmp(dtype_names[i], name) == 0) return i;
  return DTYPE_BF16;
}

static int64_t degree_of_fact(const Profile *profile, const char *key) {
  const char *text = profile_fact(profile, key);
  const int64_t degree = text ? strtoll(text, NULL, 10) : 1;
  return degree >= 1 && degree <= 1024 ? degree : 1;
}

PerfSetup fit_setup(const Profile *profile, const ProfileGroup *group) {
  return (PerfSetup){.model = group->model,
                     .gpu = group->gpu,
                     .engine = profile_fact(profile, "engine"),
                     .engine_version = profile_fact(profile, "engine_version"),
                     .weight_dtype = dtype_of_fact(profile, "weight_dtype"),
                     .kv_cache_dtype = dtype_of_fact(profile, "kv_cache_dtype"),
                     .tensor_parallel_size = group->tensor_parallel_size,
                     .attention_data_parallel_size =
                         degree_of_fact(profile, "attention_data_parallel_size"),
                     .expert_parallel_size = degree_of_fact(profile, "expert_parallel_size")};
}

bool fit_has_format(const PerfSetup *setup) {
  return setup->weight_dtype != DTYPE_BF16 || setup->kv_cache_dtype != DTYPE_BF16;
}

/* Nothing of an engine that is not known. */
static void write_setup(FILE *out, const Profile *profile, const ProfileGroup *group) {
  const PerfSetup setup = fit_setup(profile, group);
  const char *captured = profile_fact(profile, "captured_batch_sizes");
  if (setup.engine) write_name_line(out, "engine", setup.engine);
  if (setup.engine && setup.engine_version) write_line(out, "engine_version", setup.engine_version);
  if (setup.engine || fit_has_format(&setup))
    fprintf(out, "weight_dtype: %s\nkv_cache_dtype: %s\n", dtype_names[setup.weight_dtype],
            dtype_names[setup.kv_cache_dtype]);
  if (setup.engine && setup.attention_data_parallel_size > 1)
    fprintf(out, "attention_data_parallel_size: %lld\n",
            (long long)setup.attention_data_parallel_size);
  if (setup.engine && setup.expert_parallel_size > 1)
    fprintf(out, "expert_parallel_size: %lld\n", (long long)setup.expert_parallel_size);
  if (captured) write_name_line(out, "captured_batch_sizes", captured);
}

static void write_model(FILE *out, const FitResult *self, const Profile *profile) {
  const FitCurve *curves = self->model.curves;
  fputs("# Written by `tandem fit`; perfmodel/README.md describes it.\nform: composed\n", out);
  write_name_line(out, "model", self->group.model);
  write_name_line(out, "gpu", self->group.gpu);
  fprintf(out, "tensor_parallel_size: %d\n", (int)self->group.tensor_parallel_size);
  write_setup(out, profile, &self->group);
  fputs("overhead: ", out);
  write_seconds(out, tick_from_seconds(self->model.overhead));
  fputs(" s\n", out);
  write_curve(out, "linear", "tokens of the iteration", &curves[PROFILE_LINEAR], 1, self->tables);
  write_prefill(out, self);
  write_decode(out, self);
  write_mixed(out, self, profile);
  write_curve(out, "head", "sequences that need logits", &curves[PROFILE_HEAD], 0, self->tables);
  write_record(out, self, profile);
}

const char *fit_text(const FitResult *self, const Profile *profile, size_t *ret_length) {
  for (size_t room = 1 << 18;; room *= 2) { // most are a tenth of it
    char *text = arena_alloc(profile->arena, room);
    FILE *memory = fmemopen(text, room, "w");
    if (!memory) arena_exhausted(room);
    write_model(memory, self, profile);
    const long length = fflush(memory) == 0 ? ftell(memory) : -1;
    fclose(memory);
    *ret_length = (size_t)length;
    if (length >= 0 && *ret_length < room) return text;
  }
}

int fit_save(const FitResult *self, const Profile *profile, const char *path, Diag *diag) {
  Output out;
  PerfModel model;
  size_t length = 0;
  const char *text = fit_text(self, profile, &length);
  if (perfmodel_parse(&model, path, text, length, 1, profile->arena, diag) ||
      output_open(&out, path, profile->arena, diag))
    return -1;
  fwrite(text, 1, length, out.file);
  return output_commit(&out, diag);
}
