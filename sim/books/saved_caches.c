/* See saved_caches.h. */
#include "sim/books/saved_caches.h"
#include "base/text.h"
#include <inttypes.h>
#include <string.h>

static const char first_line[] = "tandem caches 2";
enum { ID_DIGITS = 16 };

/* --- reading */

typedef struct Reading {
  LineReader *reader;
  const SimConfig *config;
  SavedCaches *saved;
  Arena *arena;
  Diag *diag;
  bool found; // a machine that both have
} Reading;

/* "machine INDEX BLOCK_SIZE RUNS POOL" */
typedef struct Heading {
  int64_t machine, block_size, n_runs;
  Field pool;
} Heading;

/* As line_reader_next; the salt follows what was read. */
static int next_line(Reading *self, Line *ret_line) {
  const int status = line_reader_next(self->reader, ret_line, self->diag);
  if (status > 0)
    self->saved->salt =
        hash_fold(self->saved->salt, hash_bytes(ret_line->text, (size_t)ret_line->length));
  return status;
}

/* The next of the line up to a blank. */
static Field take_word(const char **at, const char *end) {
  Field word = {.text = *at};
  while (*at < end && **at != ' ')
    ++*at;
  word.length = (int)(*at - word.text);
  if (*at < end) ++*at;
  return word;
}

static bool read_count(Field word, int64_t least, int64_t most, int64_t *ret_count) {
  int64_t count = 0;
  for (int i = 0; i < word.length; i++) {
    if (word.text[i] < '0' || word.text[i] > '9') return false;
    count = 10 * count + (word.text[i] - '0');
    if (count > most) return false;
  }
  *ret_count = count;
  return word.length > 0 && count >= least;
}

static int read_heading(const Line *line, Heading *ret_heading, Diag *diag) {
  const char *at = line->text, *end = line->text + line->length;
  const bool good = field_is(take_word(&at, end), "machine") &&
                    read_count(take_word(&at, end), 0, UINT32_MAX, &ret_heading->machine) &&
                    read_count(take_word(&at, end), 1, INT32_MAX, &ret_heading->block_size) &&
                    read_count(take_word(&at, end), 0, BLOCK_NONE, &ret_heading->n_runs);
  ret_heading->pool = (Field){at, (int)(end - at)};
  if (good) return 0;
  return field_error(line, (Field){line->text, line->length}, "line",
                     "of the form 'machine INDEX BLOCK_SIZE RUNS POOL'", diag);
}

/* One above 0. */
static bool read_id(Field word, uint64_t *ret_id) {
  static const char digits[] = "0123456789abcdef";
  uint64_t id = 0;
  bool good = word.length == ID_DIGITS;
  for (int i = 0; good && i < word.length; i++) {
    const char *digit = memchr(digits, word.text[i], 16);
    good = digit != NULL;
    if (good) id = id << 4 | (uint64_t)(digit - digits);
  }
  *ret_id = id;
  return good && id != 0;
}

static int read_run(const Line *line, SavedRun *ret_run, Diag *diag) {
  const char *at = line->text, *end = line->text + line->length;
  int64_t first = 0, n = 0;
  bool good = read_id(take_word(&at, end), &ret_run->id);
  const Field place = take_word(&at, end);
  good = good && read_count(place, 0, TRACE_TOKENS_MAX, &first) &&
         read_count(take_word(&at, end), 1, TRACE_TOKENS_MAX, &n) && at == end;
  ret_run->first = (int32_t)first;
  ret_run->n = (int32_t)n;
  if (good) return 0;
  return field_error(line, (Field){line->text, line->length}, "run",
                     "of the form 'ID FIRST BLOCKS', an ID being 16 hexadecimal digits", diag);
}

/* The pool of the run that a machine of the file is in, and its first machine; NULL: none. */
static const PoolSpec *pool_of(const Reading *self, const Heading *heading,
                               SavedCache **ret_first) {
  *ret_first = self->saved->instances;
  for (uint32_t p = 0; p < self->config->n_pools; *ret_first += self->config->pools[p++].count)
    if (field_is(heading->pool, self->config->pools[p].name) &&
        sim_keeps_cache(self->config, &self->config->pools[p]))
      return &self->config->pools[p];
  return NULL;
}

/* The runs of a machine, for `cache` unless that is NULL. */
static int read_runs(Reading *self, int64_t n, SavedCache *cache) {
  const Place heading = {.path = self->reader->path, .line = self->reader->line_number};
  for (int64_t i = 0; i < n; i++) {
    Line line;
    SavedRun run;
    const int status = next_line(self, &line);
    if (status == 0)
      return diag_error(self->diag, heading,
                        "the file ends after %lld of the %lld runs of this instance", (long long)i,
                        (long long)n);
    if (status < 0 || read_run(&line, &run, self->diag)) return -1;
    if (!cache) continue;
    ARENA_RESERVE(self->arena, cache->runs, cache->capacity, (size_t)cache->n + 1);
    cache->runs[cache->n++] = run;
  }
  return 0;
}

static int refuse_blocks(const Reading *self, Place at, const PoolSpec *pool, int64_t block_size) {
  const long long here = (long long)pool->block_size, there = (long long)block_size;
  diag_error(self->diag, at,
             "the saved caches have blocks of %lld tokens, those of pool '%s' have %lld", there,
             text_shown(pool->name, self->arena), here);
  diag_hint(self->diag,
            "set 'block_size' of the pool to %lld, or save the caches of a run with %lld", there,
            here);
  return -1;
}

static int read_machine(Reading *self, const Line *line) {
  Heading heading = {0};
  SavedCache *cache = NULL;
  if (read_heading(line, &heading, self->diag)) return -1;
  const Place at = line_place(line, (Field){0});
  const PoolSpec *pool = pool_of(self, &heading, &cache);
  if (pool && pool->block_size != heading.block_size)
    return refuse_blocks(self, at, pool, heading.block_size);
  if (!pool || heading.machine >= pool->count) return read_runs(self, heading.n_runs, NULL);
  cache += heading.machine;
  if (cache->given)
    return diag_error(self->diag, at, "instance %lld of pool '%s' occurs twice",
                      (long long)heading.machine, text_shown(pool->name, self->arena));
  cache->given = self->found = true;
  return read_runs(self, heading.n_runs, cache);
}

static int refuse_all(const Reading *self, Place at) {
  diag_error(self->diag, at, "'%s' has no cache of any instance of this configuration",
             text_shown(self->reader->path, self->arena));
  diag_hint(self->diag, "instances are found by the name of their pool and their number in it");
  return -1;
}

int saved_caches_load(SavedCaches *ret_saved, LineReader *reader, Place at, const SimConfig *config,
                      Arena *arena, Diag *diag) {
  Reading self = {reader, config, ret_saved, arena, diag, false};
  uint32_t n_machines = 0;
  for (uint32_t p = 0; p < config->n_pools; p++)
    n_machines += config->pools[p].count;
  *ret_saved = (SavedCaches){.instances = ARENA_ARRAY(arena, SavedCache, n_machines)};
  Line line;
  int status = next_line(&self, &line);
  if (status < 0) return -1;
  if (status == 0 || !line_is(&line, first_line))
    return diag_error(diag, status ? line_place(&line, (Field){0}) : place_of_file(reader->path),
                      "a file of saved caches must begin with '%s'", first_line);
  while ((status = next_line(&self, &line)) > 0)
    if (read_machine(&self, &line)) return -1;
  if (status < 0) return -1;
  return self.found ? 0 : refuse_all(&self, at);
}

/* --- writing */

static void write_machine(const PoolSpec *pool, uint32_t i, const PrefixCache *cache, FILE *file,
                          Arena *arena) {
  SavedCache saved;
  prefix_cache_save(cache, &saved, arena);
  fprintf(file, "machine %" PRIu32 " %" PRId64 " %" PRId64 " %s\n", i, pool->block_size, saved.n,
          pool->name);
  for (int64_t k = 0; k < saved.n; k++)
    fprintf(file, "%016" PRIx64 " %" PRId32 " %" PRId32 "\n", saved.runs[k].id, saved.runs[k].first,
            saved.runs[k].n);
}

int saved_caches_save(const SimResult *result, FILE *file, Place at, Arena *arena, Diag *diag) {
  fprintf(file, "%s\n", first_line);
  const PrefixCache *const *cache = result->caches;
  for (uint32_t p = 0; p < result->n_pools; p++) {
    const PoolSpec *pool = result->pools[p].pool;
    for (uint32_t i = 0; i < pool->count; i++, cache++) {
      if (!*cache) continue;
      if (!text_is_plain(pool->name))
        return diag_error(diag, at,
                          "the name of pool '%s' holds a control character and cannot be saved",
                          text_shown(pool->name, arena));
      write_machine(pool, i, *cache, file, arena);
    }
  }
  return 0;
}
