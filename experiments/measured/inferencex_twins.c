/* What rows of InferenceX say of one another: numbers of workers, and who ran with speculative
 * decoding, of which there is no column. */
#include "base/hash.h"
#include "base/key_map.h"
#include "experiments/measured/inferencex.h"
#include <string.h>

/* ---- Split clusters that were told of twice ---- */

static bool has_workers(const MeasuredPoint *point) {
  return point->split && !point->why && !point->solved && !point->unsolved;
}

static uint64_t times_key(const MeasuredPoint *point) {
  const struct {
    double ttft, tpot;
    int64_t clients, prompt, output;
  } key = {point->measured[MEASURED_TTFT], point->measured[MEASURED_TPOT], point->clients,
           point->prompt_tokens.written, point->output_tokens.written};
  const uint64_t hash = hash_bytes(&key, sizeof key);
  return hash ? hash : 1;
}

static void take_pools(MeasuredPoint *point, const MeasuredPoint *other) {
  if (strcmp(point->engine, other->engine) != 0 || strcmp(point->gpu, other->gpu) != 0) return;
  memcpy(point->pools, other->pools, sizeof point->pools);
  point->solved = "those of a row with the same times, which has them";
  point->unsolved = NULL;
}

/* Points from `first` on are of one file. */
void inferencex_find_workers(Measured *self, size_t first) {
  KeyMap map = {0};
  for (size_t i = first; i < self->n_points; i++)
    if (has_workers(&self->points[i]))
      *key_map_put(&map, times_key(&self->points[i]), self->arena) = (uint32_t)i + 1;
  for (size_t i = first; i < self->n_points; i++) {
    MeasuredPoint *point = &self->points[i];
    if (!point->split || point->why || has_workers(point)) continue;
    const uint32_t *other = key_map_find(&map, times_key(point));
    if (other) take_pools(point, &self->points[*other - 1]);
    if (point->unsolved)
      measured_refuse(
          point, arena_printf(self->arena,
                              "a split cluster whose numbers of prefill and decode instances are "
                              "not given: %s",
                              point->unsolved));
  }
}

/* ---- Speculative decoding ---- */

static const char faster_than_twin[] =
    "it was at least 1.12 times as fast as a row with the same columns: perhaps with speculative "
    "decoding";

/* A row with the same of all that columns tell, but faster by more than runs differ. */
static uint64_t setup_key(const MeasuredPoint *point, Arena *arena) {
  const char *text = arena_printf(
      arena, "%s %s %s %s %s %lld %lld %lld %lld %lld", point->engine, point->version, point->gpu,
      point->precision, measured_degrees(point, arena), (long long)point->pools[0].workers,
      (long long)measured_gpus(point), (long long)point->clients,
      (long long)point->prompt_tokens.written, (long long)point->output_tokens.written);
  const uint64_t hash = hash_bytes(text, strlen(text));
  return hash ? hash : 1;
}

static bool may_speculate(const MeasuredPoint *point) {
  return !point->why && !point->odd && point->script.drafts == 0 &&
         strstr(point->model, "DeepSeek");
}

void inferencex_find_speculation(Measured *self, size_t first) {
  const double faster = 1.12;
  KeyMap slowest = {0};
  Arena arena;
  arena_init(&arena);
  for (size_t i = first; i < self->n_points; i++) {
    const MeasuredPoint *point = &self->points[i];
    if (!may_speculate(point)) continue;
    uint32_t *at = key_map_put(&slowest, setup_key(point, &arena), &arena);
    if (*at == 0 || point->measured[MEASURED_TPOT] > self->points[*at - 1].measured[MEASURED_TPOT])
      *at = (uint32_t)i + 1;
  }
  for (size_t i = first; i < self->n_points; i++) {
    MeasuredPoint *point = &self->points[i];
    if (!may_speculate(point)) continue;
    const uint32_t at = *key_map_find(&slowest, setup_key(point, &arena));
    if (faster * point->measured[MEASURED_TPOT] < self->points[at - 1].measured[MEASURED_TPOT])
      measured_note_odd(point, faster_than_twin);
  }
  arena_done(&arena);
}

/* InferenceX's change log (perf-changelog.yaml) has TensorRT-LLM 1.2.0rc6.post3 for its `-mtp`
 * configurations alone, and began with those on the 14th of January. */
bool inferencex_has_prediction(const MeasuredPoint *point, const InferenceXRow *row) {
  return !point->split && row_is(row, "trtllm", "DeepSeek") &&
         (strstr(row->image, "1.2.0rc6.post3") || strncmp(row->measured_at, "2026-01-14", 10) == 0);
}
