/* What a fit writes for profiles made here, against files that it wrote when fits were last changed
 * on purpose (saved/): words are the same, numbers to a millionth, as another compiler or library
 * may round them. With TANDEM_UPDATE_SAVED set the files are written anew; why belongs in the
 * commit. */
#include "base/rng.h"
#include "perfmodel/fit_file.h"
#include "tests/unit/testing.h"
#include <ctype.h>
#include <math.h>

static Rng rng;
static Profile profile;

static void begin(void) {
  setup();
  rng_init(&rng, 3, "saved fits");
  profile_init(&profile, "made.csv", &arena);
}

TestSuite(fit_saved, .init = begin, .fini = teardown, .timeout = 120);

/* --- a GPU: weights first, then products; attention by what is read */

static double term(ProfileOp op, const BatchShape *batch) {
  const double tokens = (double)(batch->prefill_tokens + batch->decode_seqs);
  switch (op) {
  case PROFILE_LINEAR:
    return fmax(0.008 + 2e-6 * tokens, 0.002 + 25e-6 * tokens);
  case PROFILE_PREFILL_ATTENTION:
    return batch->prefill_tokens > 0 ? 3e-4 + 1.3e-9 * (double)batch->prefill_area2 : 0;
  case PROFILE_DECODE_ATTENTION:
    return batch->decode_seqs > 0 ? 5e-4 + 4e-6 * (double)batch->decode_seqs +
                                        20e-9 * fmax(0, (double)batch->context_tokens - 4096)
                                  : 0;
  case PROFILE_HEAD:
    return 2e-4 + 1.5e-6 * (double)batch->logit_seqs;
  default:
    return 0;
  }
}

static void add(ProfileOp op, BatchShape batch) {
  double seconds = op == PROFILE_ITERATION ? 0.0015 : 0;
  for (int i = PROFILE_ITERATION + 1; i < PROFILE_TERMS; i++)
    if (op == PROFILE_ITERATION || (int)op == i) seconds += term((ProfileOp)i, &batch);
  for (int repeat = 0; repeat < 3; repeat++) {
    ProfileRow row = profile_row("m", "g", 1);
    row.op = op;
    row.batch = batch;
    row.configuration = (int64_t)(profile.n_rows / 3);
    row.median_us = 1e6 * seconds * (1 + 0.02 * (rng_uniform(&rng) - 0.5));
    profile_add(&profile, &row);
  }
}

static void add_operators(void) {
  for (int64_t tokens = 16; tokens <= 4096; tokens *= 2) {
    add(PROFILE_LINEAR, (BatchShape){.prefill_tokens = tokens});
    add(PROFILE_PREFILL_ATTENTION,
        (BatchShape){.prefill_tokens = tokens, .prefill_area2 = tokens * (tokens + 2048)});
  }
  for (int64_t n = 1; n <= 64; n *= 4) {
    add(PROFILE_HEAD, (BatchShape){.logit_seqs = n});
    for (int64_t context = 64; context <= 4096; context *= 4)
      add(PROFILE_DECODE_ATTENTION, (BatchShape){.decode_seqs = n, .context_tokens = n * context});
  }
}

static void add_iterations(void) {
  for (int64_t tokens = 64; tokens <= 4096; tokens *= 2)
    for (int64_t past = 0; past <= 2048; past += 2048)
      add(PROFILE_ITERATION, (BatchShape){tokens, tokens * (tokens + 2 * past), 0, 0, 1});
  for (int64_t n = 1; n <= 64; n *= 4)
    for (int64_t context = 64; context <= 4096; context *= 4)
      add(PROFILE_ITERATION, (BatchShape){0, 0, n, n * context, n});
  add(PROFILE_ITERATION, (BatchShape){512, 512 * 512, 8, 8000, 9});
  add(PROFILE_ITERATION, (BatchShape){1024, 1024 * 1024, 32, 32000, 33});
}

/* --- a file against a file */

static const char *read_all(const char *path) {
  FILE *file = fopen(path, "r");
  cr_assert_not_null(file, "%s", path);
  char *text = arena_alloc(&arena, 1 << 18);
  cr_assert_lt(fread(text, 1, 1 << 18, file), 1 << 18);
  fclose(file);
  return text;
}

/* The first place of `got` that differs from `want`; NULL: none. */
static const char *difference(const char *got, const char *want) {
  while (*got && *want) {
    char *got_end, *want_end;
    if (!isdigit((unsigned char)*got) || !isdigit((unsigned char)*want)) {
      if (*got++ != *want++) return got - 1;
      continue;
    }
    const double a = strtod(got, &got_end), b = strtod(want, &want_end);
    if (fabs(a - b) > 1e-6 * fabs(b) + 1e-12) return got;
    got = got_end;
    want = want_end;
  }
  return *got || *want ? got : NULL;
}

static void expect_saved(const FitOptions *options, const char *name) {
  ProfileGroup *groups;
  FitResult *result = ARENA_NEW(&arena, FitResult);
  const char *saved =
      arena_printf(&arena, "%s/tests/unit/saved/%s.yaml", getenv("TANDEM_SOURCE_DIR"), name);
  cr_assert_eq(profile_groups(&profile, &groups, &arena), 1);
  cr_assert_eq(fit_group(result, &profile, &groups[0], options, &arena, &diag), 0);
  if (getenv("TANDEM_UPDATE_SAVED")) cr_assert_eq(fit_save(result, &profile, saved, &diag), 0);
  const char *folder = temp_folder(&arena);
  const char *path = arena_printf(&arena, "%s/m_g_tp1.yaml", folder);
  cr_assert_eq(fit_save(result, &profile, path, &diag), 0);
  const char *differs = difference(read_all(path), read_all(saved));
  cr_expect_null(differs, "%s differs at '%.60s'", name, differs ? differs : "");
  unlink(path);
  rmdir(folder);
}

static const FitOptions IDEAL = {.preset = "ideal", .seed = 1};

Test(fit_saved, of_operators) {
  static const FitOptions made = {.preset = "made", .seed = 2};
  add_operators();
  expect_saved(&made, "operators");
}

Test(fit_saved, of_iterations) {
  add_iterations();
  expect_saved(&IDEAL, "iterations");
}

Test(fit_saved, of_both) {
  profile_set_fact(&profile, "gpu_name", "made, by hand");
  profile_set_fact(&profile, "source", "/somewhere/else.csv");
  add_operators();
  add_iterations();
  expect_saved(&IDEAL, "both");
}
