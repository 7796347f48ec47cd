/* The log of outcomes. Pinned: the CSV, that the digest depends on every field of every outcome but
 * not on their order, and not on whether a log is written. Not pinned: its value. */
#include "sim/books/eventlog.h"
#include <criterion/criterion.h>
#include <stdlib.h>

TestSuite(eventlog);

typedef struct Entry {
  Tick at;
  Outcome outcome;
  uint64_t request;
  uint32_t machine;
  int64_t a, b;
} Entry;

#define NO_MACHINE UINT32_MAX

static const Entry entries[] = {
    {0, OUTCOME_ARRIVAL, 0, NO_MACHINE, 1500, 12},
    {1, OUTCOME_PLACEMENT, 0, 3, 4, 0},
    {TICKS_PER_SECOND + 2, OUTCOME_ROLE, LOG_NOBODY, 3, 0, 2},
    {12 * TICKS_PER_SECOND, OUTCOME_LAST_TOKEN, 17, 4, 0, 0},
};
enum { N_ENTRIES = sizeof entries / sizeof *entries };

static void add(EventLog *log, const Entry *entry) {
  eventlog_add(log, entry->at, entry->outcome, entry->request, entry->machine, entry->a, entry->b);
}

static uint64_t digest_of(const Entry *list, size_t n) {
  EventLog log;
  eventlog_init(&log, NULL);
  for (size_t i = 0; i < n; i++)
    add(&log, &list[i]);
  return log.digest;
}

Test(eventlog, a_line_has_the_time_in_seconds_to_the_tick) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  cr_assert_not_null(out);
  EventLog log;
  eventlog_init(&log, out);
  for (size_t i = 0; i < N_ENTRIES; i++)
    add(&log, &entries[i]);
  fclose(out);
  cr_expect_str_eq(text, "time_s,event,request,machine,a,b\n"
                         "0.000000000000,arrival,0,,1500,12\n"
                         "0.000000000001,placement,0,3,4,0\n"
                         "1.000000000002,role,,3,0,2\n"
                         "12.000000000000,last_token,17,4,0,0\n");
  free(text);
  cr_expect_eq(log.digest, digest_of(entries, N_ENTRIES), "the digest is that of no log");
}

Test(eventlog, the_digest_does_not_depend_on_the_order) {
  Entry list[N_ENTRIES];
  for (size_t i = 0; i < N_ENTRIES; i++)
    list[i] = entries[N_ENTRIES - 1 - i];
  cr_expect_eq(digest_of(list, N_ENTRIES), digest_of(entries, N_ENTRIES));
}

Test(eventlog, the_digest_depends_on_every_field_and_every_outcome) {
  const uint64_t whole = digest_of(entries, N_ENTRIES);
  cr_expect_neq(digest_of(entries, N_ENTRIES - 1), whole);
  for (size_t i = 0; i < N_ENTRIES; i++)
    for (int field = 0; field < 6; field++) {
      Entry list[N_ENTRIES];
      for (size_t k = 0; k < N_ENTRIES; k++)
        list[k] = entries[k];
      Entry *entry = &list[i];
      entry->at += field == 0;
      entry->outcome = (Outcome)((entry->outcome + (field == 1)) % OUTCOMES);
      entry->request += field == 2;
      entry->machine += field == 3;
      entry->a += field == 4;
      entry->b += field == 5;
      cr_expect_neq(digest_of(list, N_ENTRIES), whole, "entry %zu, field %d", i, field);
    }
}

Test(eventlog, swapped_figures_and_swapped_requests_are_other_outcomes) {
  const Entry a[] = {{5, OUTCOME_ARRIVAL, 1, NO_MACHINE, 10, 20},
                     {6, OUTCOME_ARRIVAL, 2, NO_MACHINE, 10, 20}};
  const Entry figures[] = {{5, OUTCOME_ARRIVAL, 1, NO_MACHINE, 20, 10},
                           {6, OUTCOME_ARRIVAL, 2, NO_MACHINE, 10, 20}};
  const Entry requests[] = {{5, OUTCOME_ARRIVAL, 2, NO_MACHINE, 10, 20},
                            {6, OUTCOME_ARRIVAL, 1, NO_MACHINE, 10, 20}};
  cr_expect_neq(digest_of(a, 2), digest_of(figures, 2));
  cr_expect_neq(digest_of(a, 2), digest_of(requests, 2));
}
