/* Profiles of any bytes. Whatever they hold, an error has an entry and none has none; a profile
 * that loads has rows as profile.h promises, reads back from what it is saved as with the same
 * digest, and can be checked, and cleaned until nothing is found. */
#include "perfmodel/check_profile.h"
#include "tests/fuzz/files.h"
#include <assert.h>
#include <math.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char NO_FACTS[] = "/dev/null"; // without machines no roofline is computed

static void check_rows(const Profile *profile) {
  assert(profile->n_rows >= 2);
  for (size_t i = 0; i < profile->n_rows; i++) {
    const ProfileRow *row = &profile->rows[i];
    assert(row->median_us > 0 && isfinite(row->median_us));
    assert(row->tensor_parallel_size >= 1 && row->op < PROFILE_OPS && row->at.line >= 2);
    assert(row->batch.prefill_tokens >= 0 && row->batch.decode_seqs >= 0);
  }
}

static void check_round_trip(const Profile *profile, Arena *arena, Diag *diag) {
  const char *path = fuzz_no_file("profile.csv");
  Profile again;
  assert(profile_save(profile, path, diag) == 0);
  assert(profile_load(&again, path, arena, diag) == 0);
  assert(profile_digest(&again) == profile_digest(profile) && again.n_facts == profile->n_facts);
}

static void check_cleaning(const Profile *profile, Arena *arena) {
  CheckReport report;
  Profile cleaned;
  ProfileGroup *groups = NULL;
  size_t in_groups = 0, n = profile_groups(profile, &groups, arena);
  for (size_t i = 0; i < n; i++)
    in_groups += groups[i].n_rows;
  assert(in_groups == profile->n_rows);
  check_profile(&report, profile, NO_FACTS, arena);
  for (size_t passes = 0; report.n_findings > 0; passes++) {
    assert(passes <= 2 * profile->n_rows);
    check_clean(&report, &cleaned, arena);
    Profile *next = ARENA_NEW(arena, Profile);
    *next = cleaned;
    check_profile(&report, next, NO_FACTS, arena);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  Arena arena;
  Diag diag;
  Profile profile;
  arena_init(&arena);
  diag_init(&diag);
  int status = profile_parse(&profile, "fuzz", (const char *)data, size, &arena, &diag);
  assert((status < 0) == (diag.n_entries > 0));
  if (status == 0) {
    check_rows(&profile);
    check_round_trip(&profile, &arena, &diag);
    check_cleaning(&profile, &arena);
  }
  diag_done(&diag);
  arena_done(&arena);
  return 0;
}
