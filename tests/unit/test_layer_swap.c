/* Swapping layer by layer. Pinned: Pie Fig. 4 event by event (nine layers, two on the CPU, a swap
 * of two layers' time), its two-phase table and slots, waits worked out by hand, the books of slots
 * under random times, and that layers leave the CPU in the order they came. Not pinned: the time
 * the reference takes. */
#include "base/rng.h"
#include "sim/kvtier/layer_swap.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

TestSuite(layer_swap);

enum { LAYER = 1000, LOGGED = 4096 };

typedef struct Log {
  SwapEvent events[LOGGED];
  int n_events;
} Log;

static void record(void *context, SwapEvent event) {
  Log *log = context;
  cr_assert(log->n_events < LOGGED);
  log->events[log->n_events++] = event;
}

static const char *const KINDS[] = {"L", "wait", "+in", "-in", "+out", "-out"};

/* Events in order, layers from 1 as in the paper: "L2@1000 +out1@1000 …", with each layer's start
 * after what is decided at it. */
static const char *text_of(const Log *log, int from) {
  static char text[LOGGED * 16];
  size_t length = 0;
  for (int i = from; i < log->n_events; i++) {
    const SwapEvent *event = &log->events[i];
    length +=
        (size_t)snprintf(text + length, sizeof text - length, "%s%s%d@%lld", i > from ? " " : "",
                         KINDS[event->kind], event->layer + 1, (long long)event->at);
  }
  return text;
}

static const SwapSpec FIGURE_4 = {.layers = 9, .swapped = 2, .in = 2 * LAYER, .out = 2 * LAYER};

static void expect_text(Log *log, const char *expected) {
  const char *text = text_of(log, 0);
  cr_assert_str_eq(text, expected, "\n%s\nnot\n%s", text, expected);
  log->n_events = 0;
}

Test(layer_swap, follows_figure_4_event_by_event) {
  LayerSwap swap;
  Log log = {.n_events = 0};
  SwapCounts counts = {0};
  layer_swap_init(&swap, FIGURE_4);
  swap.observe = record;
  swap.context = &log;
  cr_assert_eq(layer_swap_iterate(&swap, 9 * LAYER, &counts), 9 * LAYER);
  expect_text(&log, "L1@0 "
                    "+out1@1000 L2@1000 "
                    "L3@2000 "
                    "-out1@3000 +in8@3000 +out3@3000 L4@3000 "
                    "L5@4000 "
                    "-in8@5000 -out3@5000 +in9@5000 +out5@5000 L6@5000 "
                    "L7@6000 "
                    "-in9@7000 -out5@7000 +in1@7000 +out7@7000 L8@7000 "
                    "L9@8000");
  cr_assert_eq(layer_swap_iterate(&swap, 9 * LAYER, &counts), 9 * LAYER);
  expect_text(&log, "-in1@9000 -out7@9000 +in3@9000 +out9@9000 L1@9000 "
                    "L2@10000 "
                    "-in3@11000 -out9@11000 +in5@11000 +out2@11000 L3@11000 "
                    "L4@12000 "
                    "-in5@13000 -out2@13000 +in7@13000 +out4@13000 L5@13000 "
                    "L6@14000 "
                    "-in7@15000 -out4@15000 +in9@15000 +out6@15000 L7@15000 "
                    "L8@16000 "
                    "-in9@17000 -out6@17000 +in2@17000 +out8@17000 L9@17000");
  cr_assert_eq(counts.blocked, 0);
  cr_assert_eq(counts.waits, 0);
  cr_assert_eq(counts.swaps_in, 8);
  cr_assert_eq(counts.swaps_out, 9);
  // layer 1 is brought in at layer 8, layer 2 at layer 9: the next token's, and what goes out then
  cr_assert_eq(counts.violations, 4);
}

Test(layer_swap, every_layer_of_figure_4_spends_eight_layer_times_off_the_gpu) {
  LayerSwap swap;
  static Log log;
  SwapCounts counts = {0};
  layer_swap_init(&swap, FIGURE_4);
  swap.observe = record;
  swap.context = &log;
  for (int i = 0; i < 30; i++)
    layer_swap_iterate(&swap, 9 * LAYER, &counts);
  cr_assert_eq(counts.blocked, 0);
  Tick left[9] = {[7] = -1, [8] = -1}; // layers 8 and 9 began on the CPU
  int n_stays = 0;
  for (int i = 0; i < log.n_events; i++) {
    const SwapEvent *event = &log.events[i];
    if (event->kind == SWAP_OUT_BEGIN) left[event->layer] = event->at;
    if (event->kind != SWAP_IN_END || left[event->layer] < 0) continue;
    cr_assert_eq(event->at - left[event->layer], 8 * LAYER, "layer %d", event->layer + 1);
    n_stays++;
  }
  cr_assert_gt(n_stays, 100);
}

/* The state at the start of layer 4: layer 1 is on the CPU, 3 and 8 are in flight. */
Test(layer_swap, a_table_entry_switches_only_when_its_transfer_has_ended) {
  LayerSwap swap;
  SwapCounts counts = {0};
  layer_swap_init(&swap, FIGURE_4);
  const int32_t slot = swap.table[0].gpu_slot;
  static Log log;
  swap.observe = record;
  swap.context = &log;
  layer_swap_iterate(&swap, 9 * LAYER, &counts);
  cr_assert_eq(swap.table[0].place, LAYER_GOES_IN, "layer 1 is due at the next token's start");
  cr_assert_eq(swap.table[6].place, LAYER_GOES_OUT);
  cr_assert(swap.table[0].gpu_slot != LAYER_NONE && swap.table[0].cpu_slot != LAYER_NONE);
  cr_assert(swap.table[6].gpu_slot != LAYER_NONE && swap.table[6].cpu_slot != LAYER_NONE);
  cr_assert_eq(swap.table[7].gpu_slot, slot, "layer 8 went to where layer 1 had been");
  cr_assert_eq(swap.table[7].since, 5 * LAYER);
  cr_assert_eq(swap.n_gpu_free, 0);
  cr_assert_eq(swap.n_cpu_free, 0);
  layer_swap_audit(&swap);
}

/* n = 4, m = 2, a swap of ten layers' time. The steady state has layers 1, 2 and 3 (of 1 … 4) on
 * the CPU, so layer 1 waits for its own swap. As it begins, the swap-in is over and a slot is free,
 * so that layer 2 comes in (Pie §3.3), though the GPU has nothing to give away; layer 3 finds no
 * slot before layer 1 is gone. */
Test(layer_swap, a_layer_waits_until_its_gpu_pointer_is_valid) {
  LayerSwap swap;
  Log log = {.n_events = 0};
  SwapCounts counts = {0};
  layer_swap_init_steady(&swap, (SwapSpec){.layers = 4, .swapped = 2, .in = 10, .out = 10});
  swap.observe = record;
  swap.context = &log;
  cr_assert_eq(layer_swap_iterate(&swap, 4, &counts), 42);
  expect_text(&log, "+in1@0 +out4@0 wait1@0 -in1@10 -out4@10 +in2@10 L1@10 "
                    "+out1@11 wait2@11 -in2@20 L2@20 "
                    "-out1@21 +in3@21 +out2@21 wait3@21 -in3@31 -out2@31 +in4@31 L3@31 "
                    "+out3@32 wait4@32 -in4@41 L4@41");
  cr_assert_eq(counts.blocked, 38);
}

Test(layer_swap, a_swap_in_waits_for_the_slot_that_a_slower_swap_out_leaves) {
  LayerSwap swap;
  Log log = {.n_events = 0};
  SwapCounts counts = {0};
  layer_swap_init_steady(&swap, (SwapSpec){.layers = 4, .swapped = 2, .in = 2, .out = 10});
  swap.observe = record;
  swap.context = &log;
  layer_swap_iterate(&swap, 4, &counts);
  expect_text(&log, "+in1@0 +out4@0 wait1@0 -in1@2 L1@2 "
                    "wait2@3 -out4@10 +in2@10 +out1@10 -in2@12 L2@12 "
                    "wait3@13 -out1@20 +in3@20 +out2@20 -in3@22 L3@22 "
                    "wait4@23 -out2@30 +in4@30 +out3@30 -in4@32 L4@32");
}

Test(layer_swap, without_layers_on_the_cpu_nothing_is_swapped) {
  LayerSwap swap;
  SwapCounts counts = {0};
  layer_swap_init_steady(&swap, (SwapSpec){.layers = 9, .in = 1, .out = 1});
  for (int i = 0; i < 5; i++)
    cr_assert_eq(layer_swap_iterate(&swap, 9 * LAYER, &counts), 9 * LAYER);
  cr_assert_eq(counts.swaps_in + counts.swaps_out + counts.violations, 0);
  layer_swap_audit(&swap);
}

Test(layer_swap, layers_leave_the_cpu_in_the_order_they_came_and_no_slot_is_lost) {
  Rng rng;
  rng_init(&rng, 1, "layer_swap");
  static Log log;
  for (int i = 0; i < 300; i++) {
    LayerSwap swap;
    SwapCounts counts = {0};
    const int32_t n = 3 + (int32_t)rng_below(&rng, 60);
    const SwapSpec spec = {.layers = n,
                           .swapped = 1 + (int32_t)rng_below(&rng, (uint64_t)n - 2),
                           .in = 1 + (Tick)rng_below(&rng, 3000),
                           .out = 1 + (Tick)rng_below(&rng, 3000),
                           .outside = (Tick)rng_below(&rng, 5000)};
    if (i % 2)
      layer_swap_init(&swap, spec);
    else
      layer_swap_init_steady(&swap, spec);
    swap.observe = record;
    swap.context = &log;
    log.n_events = 0;
    for (int k = 0; k < 8; k++) {
      layer_swap_iterate(&swap, spec.outside + 1 + (Tick)rng_below(&rng, 60000), &counts);
      layer_swap_audit(&swap);
    }
    int order[LOGGED], n_out = 0, n_in = 0;
    for (int k = 0; k < log.n_events; k++)
      if (log.events[k].kind == SWAP_OUT_BEGIN) order[n_out++] = log.events[k].layer;
    const int on_cpu = spec.swapped + (i % 2 == 0);
    for (int k = 0; k < log.n_events; k++) {
      if (log.events[k].kind != SWAP_IN_BEGIN) continue;
      if (n_in >= on_cpu) cr_assert_eq(log.events[k].layer, order[n_in - on_cpu]);
      n_in++;
    }
    cr_assert(n_in <= n_out + 1 && n_out <= n_in + 2);
  }
}
