/* What was meant by the key of a limit that is none: other tools write p99_itl_ms, ttft_p99 or
 * itl.p99. */
#include "experiments/config/slo.h"
#include <string.h>

/* What others call our metrics and statistics: vLLM's, GenAI-Perf's and LLMPerf's words. */
static const struct {
  const char *word, *name;
} metric_words[] = {
    {"itl", "tbt"}, {"ict", "tbt"},  {"e2el", "e2e"},  {"latency", "e2e"},
    {"rl", "e2e"},  {"tft", "ttft"}, {"ttfs", "ttft"}, {"ttst", "second_token"},
};
static const struct {
  const char *word, *name;
} statistic_words[] = {{"median", "p50"}, {"avg", "mean"}, {"average", "mean"}, {"maximum", "max"}};

static const char *metric_called(const char *word) {
  const HistogramSpec *metric = slo_metric_find(word, strlen(word));
  if (metric) return metric->name;
  for (size_t i = 0; i < sizeof metric_words / sizeof *metric_words; i++)
    if (strcmp(metric_words[i].word, word) == 0) return metric_words[i].name;
  return NULL;
}

static const char *statistic_called(const char *word) {
  SloStatistic statistic;
  double quantile;
  if (slo_parse_statistic(word, &statistic, &quantile)) return word;
  for (size_t i = 0; i < sizeof statistic_words / sizeof *statistic_words; i++)
    if (strcmp(statistic_words[i].word, word) == 0) return statistic_words[i].name;
  return NULL;
}

const char *slo_key_meant(const char *key, Arena *arena) {
  static const char between[] = "._- ";
  const char *metric = NULL, *statistic = NULL;
  for (const char *at = key + strspn(key, between); *at; at += strspn(at, between)) {
    const size_t length = strcspn(at, between);
    const char *word = arena_copy(arena, at, length);
    if (!metric) metric = metric_called(word);
    if (!statistic) statistic = statistic_called(word);
    at += length;
  }
  return metric ? arena_printf(arena, "%s.%s", metric, statistic ? statistic : "p99") : NULL;
}
