/* The agenda. Pinned: random sets, moves, clears and pops against a list searched from end to end;
 * the order among equal times (insertion, arrivals first by their ordinal), that a tie seed
 * permutes it and nothing else, and what a fresh agenda answers. Not pinned: which permutation a
 * seed gives. */
#include "base/rng.h"
#include "sim/core/agenda.h"
#include "tests/unit/testing.h"

TestSuite(agenda, .init = setup, .fini = teardown);

enum { TARGETS = 24 };

/* What the agenda is held against: a timer per kind and target, all of them looked at. */
typedef struct Timer {
  bool pending;
  Tick at;
  uint64_t seq;
} Timer;

typedef struct Naive {
  Timer timers[EVENT_KINDS][TARGETS];
  uint64_t next_seq;
} Naive;

static bool naive_first(const Naive *self, EventKind *ret_kind, uint32_t *ret_target) {
  const Timer *best = NULL;
  for (int kind = 0; kind < EVENT_KINDS; kind++)
    for (uint32_t target = 0; target < TARGETS; target++) {
      const Timer *timer = &self->timers[kind][target];
      if (!timer->pending) continue;
      if (best && (timer->at > best->at || (timer->at == best->at && timer->seq > best->seq)))
        continue;
      best = timer;
      *ret_kind = (EventKind)kind;
      *ret_target = target;
    }
  return best != NULL;
}

static void expect_pop(Agenda *agenda, Naive *naive) {
  EventKind kind;
  uint32_t target;
  Event event;
  const bool any = naive_first(naive, &kind, &target);
  cr_assert_eq(agenda_pop(agenda, &event), any);
  if (!any) return;
  Timer *timer = &naive->timers[kind][target];
  cr_assert(event.kind == (uint32_t)kind && event.target == target && event.at == timer->at,
            "kind %d target %u at %lld, not kind %u target %u at %lld", kind, target,
            (long long)timer->at, event.kind, event.target, (long long)event.at);
  timer->pending = false;
}

static void expect_first(const Agenda *agenda, const Naive *naive) {
  EventKind kind;
  uint32_t target;
  if (naive_first(naive, &kind, &target))
    cr_assert_eq(agenda_first_at(agenda), naive->timers[kind][target].at);
}

/* One random operation on both; small times, so that ties are common. */
static void operate(Agenda *agenda, Naive *naive, Rng *rng) {
  const EventKind kind = rng_below(rng, 2) ? EVENT_ITERATION : EVENT_TRANSFER;
  const uint32_t target = (uint32_t)rng_below(rng, TARGETS);
  const Tick at = (Tick)rng_below(rng, 6);
  Timer *timer = &naive->timers[kind][target];
  const Event *event = agenda_find(agenda, kind, target);
  cr_assert_eq(event != NULL, timer->pending);
  switch (rng_below(rng, 5)) {
  case 0:
    agenda_clear(agenda, kind, target);
    timer->pending = false;
    break;
  case 1:
    expect_pop(agenda, naive);
    break;
  case 2: // a timer that only moves keeps its place among equals
    if (!event) break;
    agenda_move(agenda, kind, target, at, event->seq);
    timer->at = at;
    break;
  default:
    agenda_set(agenda, kind, target, at);
    *timer = (Timer){true, at, naive->next_seq++};
  }
}

Test(agenda, agrees_with_a_list_under_random_operations) {
  for (uint64_t seed = 1; seed <= 20; seed++) {
    Agenda agenda;
    Naive naive = {0};
    Rng rng;
    rng_init(&rng, seed, "agenda");
    agenda_init(&agenda, 0, &arena);
    agenda_reserve(&agenda, EVENT_ITERATION, TARGETS);
    agenda_reserve(&agenda, EVENT_TRANSFER, TARGETS);
    for (int i = 0; i < 5000; i++) {
      operate(&agenda, &naive, &rng);
      expect_first(&agenda, &naive);
    }
    while (agenda.n_events > 0)
      expect_pop(&agenda, &naive);
    expect_pop(&agenda, &naive);
  }
}

Test(agenda, reserving_more_targets_keeps_what_is_pending) {
  Agenda agenda;
  Event event;
  agenda_init(&agenda, 0, &arena);
  for (uint32_t target = 0; target < 200; target++) {
    agenda_reserve(&agenda, EVENT_TRANSFER, target + 1);
    agenda_set(&agenda, EVENT_TRANSFER, target, 1000 - target);
  }
  for (uint32_t target = 200; target-- > 0;) {
    cr_assert(agenda_pop(&agenda, &event));
    cr_assert_eq(event.target, target);
  }
  cr_assert_not(agenda_pop(&agenda, &event));
}

/* Pops everything; the targets go to `ret_targets`. */
static size_t drain(Agenda *agenda, uint32_t *ret_targets) {
  Event event;
  size_t n = 0;
  while (agenda_pop(agenda, &event))
    ret_targets[n++] = event.target;
  return n;
}

static void fill(Agenda *agenda, uint64_t tie_seed) {
  agenda_init(agenda, tie_seed, &arena);
  agenda_reserve(agenda, EVENT_ITERATION, TARGETS);
  for (uint32_t target = 0; target < TARGETS; target++)
    agenda_set(agenda, EVENT_ITERATION, target, target < TARGETS / 2 ? 1 : 2);
}

Test(agenda, equal_times_come_in_order_of_insertion) {
  Agenda agenda;
  uint32_t targets[TARGETS];
  fill(&agenda, 0);
  agenda_set(&agenda, EVENT_ITERATION, 3, 1); // anew: behind its equals
  cr_assert_eq(drain(&agenda, targets), (size_t)TARGETS);
  for (uint32_t i = 0; i < TARGETS; i++) {
    const uint32_t want = i < 3 || i >= TARGETS / 2 ? i : i == TARGETS / 2 - 1 ? 3 : i + 1;
    cr_expect_eq(targets[i], want);
  }
}

Test(agenda, arrivals_come_before_all_others_at_their_time) {
  Agenda agenda;
  Event event;
  agenda_init(&agenda, 0, &arena);
  agenda_reserve(&agenda, EVENT_ITERATION, 2);
  agenda_reserve(&agenda, EVENT_ARRIVAL, 1);
  agenda_set(&agenda, EVENT_ITERATION, 0, 4);
  agenda_set(&agenda, EVENT_ITERATION, 1, 5);
  agenda_set_arrival(&agenda, 5, 1000000);
  static const EventKind want[] = {EVENT_ITERATION, EVENT_ARRIVAL, EVENT_ITERATION};
  for (size_t i = 0; i < 3; i++) {
    cr_assert(agenda_pop(&agenda, &event));
    cr_expect_eq(event.kind, (uint32_t)want[i]);
  }
}

Test(agenda, a_tie_seed_permutes_equal_times_the_same_way_each_time) {
  uint32_t plain[TARGETS], targets[TARGETS], again[TARGETS];
  Agenda agenda;
  fill(&agenda, 0);
  drain(&agenda, plain);
  int n_different = 0;
  for (uint64_t seed = 1; seed <= 20; seed++) {
    fill(&agenda, seed);
    drain(&agenda, targets);
    fill(&agenda, seed);
    drain(&agenda, again);
    cr_expect_eq(memcmp(targets, again, sizeof targets), 0, "seed %llu", (unsigned long long)seed);
    n_different += memcmp(targets, plain, sizeof targets) != 0;
    bool seen[TARGETS] = {false};
    for (uint32_t i = 0; i < TARGETS; i++) {
      cr_expect_eq(targets[i] < TARGETS / 2, i < TARGETS / 2, "times are kept apart");
      seen[targets[i]] = true;
    }
    for (uint32_t i = 0; i < TARGETS; i++)
      cr_expect(seen[i]);
  }
  cr_expect_geq(n_different, 19);
}

Test(agenda, an_empty_agenda_has_nothing) {
  Agenda agenda;
  Event event;
  agenda_init(&agenda, 0, &arena);
  agenda_reserve(&agenda, EVENT_TRANSFER, 2);
  cr_expect_null(agenda_find(&agenda, EVENT_TRANSFER, 1));
  agenda_clear(&agenda, EVENT_TRANSFER, 1);
  cr_expect_not(agenda_pop(&agenda, &event));
}
