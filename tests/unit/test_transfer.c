/* Transfer policies. Pinned: serialized or layer-wise by prompt length, Splitwise's break-even from
 * the machines' own constants, the link and polling of the splitwise-sim set. How long each way
 * takes is in test_engine. */
#include "sim/transfer/transfer_policy.h"
#include "tests/unit/sim_testing.h"
#include <criterion/criterion.h>

static Arena arena;

static void setup(void) {
  arena_init(&arena);
}
static void teardown(void) {
  arena_done(&arena);
}

TestSuite(transfer, .init = setup, .fini = teardown);

static TransferChoice pick(const char *name, const char *options, int32_t prompt_tokens,
                           const PoolSpec *from, int64_t bandwidth) {
  const TransferPolicy *policy = (const TransferPolicy *)policy_find(POLICY_TRANSFER, name);
  const Request request = {.prompt_tokens = prompt_tokens};
  return policy->pick(policy_state(POLICY_TRANSFER, name, options, &arena), &request, from, from,
                      bandwidth);
}

Test(transfer, by_prompt_length) {
  static const PoolSpec pool = {.kv_bytes_per_token = 1000};
  static const struct {
    const char *name, *options;
    int32_t prompt;
    TransferMode mode;
  } cases[] = {
      {"serialized", NULL, 1, TRANSFER_SERIALIZED},
      {"serialized", NULL, 100000, TRANSFER_SERIALIZED},
      {"layerwise", NULL, 1, TRANSFER_LAYERWISE},
      {"layerwise", "{serialized_below: 512}", 511, TRANSFER_SERIALIZED},
      {"layerwise", "{serialized_below: 512}", 512, TRANSFER_LAYERWISE},
      {"splitwise_sim", NULL, 100000, TRANSFER_SERIALIZED},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    const TransferChoice choice =
        pick(cases[i].name, cases[i].options, cases[i].prompt, &pool, 1000000000);
    cr_expect_eq(choice.mode, cases[i].mode, "%s, %d tokens", cases[i].name, cases[i].prompt);
  }
}

/* Serialized while prompt · bytes / bandwidth is below what stays visible of a layer-wise one. */
Test(transfer, splitwise_breaks_even_where_the_link_takes_as_long_as_the_constant) {
  static const struct {
    const char *what;
    int64_t bytes_per_token, bandwidth;
    Tick overhead;
    int32_t serialized; // the longest prompt that is
  } cases[] = {
      {"BLOOM-176B, 400 GB/s, 5 ms (DGX-H100)", 4014080, 400000000000, 5 * MS, 498},
      {"the same with the paper's 512 tokens", 4014080, 400000000000, 5138022400, 511},
      {"BLOOM-176B, 200 GB/s, 8 ms (DGX-A100)", 4014080, 200000000000, 8 * MS, 398},
      {"Llama2-70B, 400 GB/s, 5 ms", 327680, 400000000000, 5 * MS, 6103},
      {"no constant: layer-wise always", 4014080, 400000000000, 0, 0},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    const PoolSpec from = {.kv_bytes_per_token = cases[i].bytes_per_token,
                           .kv_transfer_overhead = cases[i].overhead};
    for (int more = 0; more < 2; more++) {
      const int32_t prompt = cases[i].serialized + more;
      const TransferChoice choice = pick("splitwise", NULL, prompt, &from, cases[i].bandwidth);
      const TransferMode want = more || prompt == 0 ? TRANSFER_LAYERWISE : TRANSFER_SERIALIZED;
      cr_expect_eq(choice.mode, want, "%s: %d tokens", cases[i].what, prompt);
      cr_expect(choice.private_bandwidth == 0 && choice.retry == 0);
    }
  }
}

Test(transfer, splitwise_sim_has_a_link_for_each_transfer_and_polls) {
  static const PoolSpec pool = {.kv_bytes_per_token = 1000};
  const TransferChoice released = pick("splitwise_sim", NULL, 1, &pool, 7);
  cr_expect_eq(released.private_bandwidth, INT64_C(200) << 30);
  cr_expect_eq(released.retry, TICKS_PER_SECOND);
  const TransferChoice set =
      pick("splitwise_sim", "{bandwidth: 100 Gbps, retry: 250 ms}", 1, &pool, 7);
  cr_expect_eq(set.private_bandwidth, 12500000000);
  cr_expect_eq(set.retry, TICKS_PER_SECOND / 4);
}
