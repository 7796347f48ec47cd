/* Slots and queues of requests. Pinned: what a fresh slot holds, that slots are recycled, and
 * random queue operations against an array. Not pinned: which free slot is given out. */
#include "base/rng.h"
#include "sim/core/request.h"
#include "sim/core/transfer.h"
#include "tests/unit/testing.h"

TestSuite(request, .init = setup, .fini = teardown);

static void expect_fresh(const Request *request) {
  cr_assert(request->prefill_began_at == -1 && request->first_token_at == -1 &&
            request->last_token_at == -1 && request->decode_began_at == -1);
  cr_assert(request->prefill_instance == INSTANCE_NONE &&
            request->decode_instance == INSTANCE_NONE && request->transfer == TRANSFER_NONE);
  cr_assert(request->previous == REQUEST_NONE && request->next == REQUEST_NONE);
  cr_assert(request->id == 0 && request->prompt_tokens == 0 && request->generated_tokens == 0 &&
            request->kv_blocks == 0 && request->recomputes == 0 && request->preemptions == 0);
  cr_assert_neq(request->state, REQUEST_FREE);
}

Test(request, slots_are_recycled_and_come_back_fresh) {
  enum { IN_FLIGHT = 20 };
  RequestTable table;
  Rng rng;
  RequestIx live[IN_FLIGHT];
  size_t n_live = 0;
  request_table_init(&table, &arena);
  rng_init(&rng, 1, "request");
  for (uint64_t i = 0; i < 20000; i++) {
    if (n_live == IN_FLIGHT || (n_live > 0 && rng_below(&rng, 2))) {
      const size_t k = (size_t)rng_below(&rng, n_live);
      request_table_release(&table, live[k]);
      cr_assert_eq(table.slots[live[k]].state, REQUEST_FREE);
      live[k] = live[--n_live];
    } else {
      const RequestIx ix = request_table_take(&table);
      expect_fresh(&table.slots[ix]);
      for (size_t k = 0; k < n_live; k++)
        cr_assert_neq(live[k], ix);
      memset(&table.slots[ix], 0x5a, offsetof(Request, state)); // whatever a life leaves behind
      live[n_live++] = ix;
    }
    cr_assert_eq(table.n_live, n_live);
  }
  cr_expect_leq(table.n_slots, (size_t)IN_FLIGHT);
}

/* --- queues */

enum { SLOTS = 16 };

typedef struct Naive {
  RequestIx items[SLOTS];
  int count;
} Naive;

static void naive_insert(Naive *self, int at, RequestIx ix) {
  memmove(&self->items[at + 1], &self->items[at], (size_t)(self->count - at) * sizeof ix);
  self->items[at] = ix;
  self->count++;
}

static bool naive_remove(Naive *self, RequestIx ix) {
  int i = 0;
  while (i < self->count && self->items[i] != ix)
    i++;
  if (i == self->count) return false;
  self->count--;
  memmove(&self->items[i], &self->items[i + 1], (size_t)(self->count - i) * sizeof ix);
  return true;
}

static void expect_equal(const RequestQueue *queue, const Request *slots, const Naive *naive) {
  cr_assert_eq(queue->count, naive->count);
  RequestIx previous = REQUEST_NONE, ix = queue->first;
  for (int i = 0; i < naive->count; i++, previous = ix, ix = slots[ix].next) {
    cr_assert_eq(ix, naive->items[i]);
    cr_assert_eq(slots[ix].previous, previous);
  }
  cr_assert_eq(ix, REQUEST_NONE);
  cr_assert_eq(queue->last, previous);
}

Test(request, queues_agree_with_an_array_under_random_operations) {
  Request slots[SLOTS] = {0};
  RequestQueue queue = REQUEST_QUEUE_EMPTY;
  Naive naive = {0};
  Rng rng;
  rng_init(&rng, 2, "request");
  for (int i = 0; i < 5000; i++) {
    const RequestIx ix = (RequestIx)rng_below(&rng, SLOTS);
    if (naive_remove(&naive, ix)) {
      request_queue_remove(&queue, slots, ix);
      cr_assert(slots[ix].next == REQUEST_NONE && slots[ix].previous == REQUEST_NONE);
    } else if (naive.count > 0 && rng_below(&rng, 2)) {
      const int at = (int)rng_below(&rng, (uint64_t)naive.count);
      request_queue_insert(&queue, slots, ix, naive.items[at]);
      naive_insert(&naive, at, ix);
    } else if (rng_below(&rng, 3)) {
      request_queue_push(&queue, slots, ix);
      naive_insert(&naive, naive.count, ix);
    } else {
      request_queue_insert(&queue, slots, ix, queue.first);
      naive_insert(&naive, 0, ix);
    }
    expect_equal(&queue, slots, &naive);
  }
}
