/* The scenarios, each with its derivation. All use one performance model of round numbers, made in
 * golden.c: an iteration lasts 10 ms, and 1 ms for each new token (of prefill or decode), and 1 ms
 * for each context token of its decodes. So a prefill of P tokens alone lasts 10 + P, n decodes
 * with C context tokens 10 + n + C, both together 10 + P + n + C. The first decode iteration of a
 * request has its prompt and one token as context. Below, times are in ms. */
#include "tests/golden/golden.h"

const Scenario golden_scenarios[] = {
    /* Request 0 prefills 0–14 and then decodes alone, 16 + 17 + 18 + 19 if nothing came: tokens at
     * 30, 47, 65, 84. Request 1 comes at 40, in the second iteration, so the run is cut at its end,
     * 47. The next iteration has 2 tokens of prefill and one decode with context 7: 10 + 2 + 1 + 7
     * = 20, to 67. Then both decode, contexts 8 and 3: 10 + 2 + 11 = 23, to 90, and both finish. */
    {
        .name = "an arrival cuts a run at the next boundary",
        .pools = {POOL(ROLE_MIXED, 1, 100, 16, 1000)},
        .n_pools = 1,
        .policies = {[POLICY_ROUTER] = {"round_robin", 0},
                     [POLICY_POOL] = {"fixed", 0},
                     [POLICY_BATCHER] = {"mixed", 0},
                     [POLICY_TRANSFER] = {"serialized", 0},
                     [POLICY_KVTIER] = {"recompute", 0}},
        .rows = {{.at = 0, .prompt_tokens = 4, .output_tokens = 5},
                 {.at = 40 * MS, .prompt_tokens = 2, .output_tokens = 2}},
        .n_rows = 2,
        .expected = "0,arrival,0,,4,5\n"
                    "0,placement,0,0,0,0\n"
                    "0,prefill_begin,0,0,4,0\n"
                    "0.014,first_token,0,0,0,0\n"
                    "0.014,decode_begin,0,0,0,0\n"
                    "0.04,arrival,1,,2,2\n"
                    "0.04,placement,1,0,0,0\n"
                    "0.047,prefill_begin,1,0,2,0\n"
                    "0.067,first_token,1,0,0,0\n"
                    "0.067,decode_begin,1,0,0,0\n"
                    "0.09,last_token,0,0,0,0\n"
                    "0.09,last_token,1,0,0,0\n",
    },
    /* Prefills end at 10 + 10 = 20 on machine 0 and 10 + 14 = 24 on machine 1. KV moves at 1 ms per
     * token. From 20 to 24 that of request 0 has machine 2's NIC alone: 4 of its 10 tokens move.
     * Then each has half: the other 6 take 12, to 36, and 1 of latency, to 37. By 36 request 1 has
     * moved 6 of 14; the other 8 go at the full rate, to 44, and 45 with latency. Request 0 decodes
     * 37–59 (10 + 1 + 11) and finishes; request 1 decodes 59–85 (10 + 1 + 15). */
    {
        .name = "two serialized transfers share the receiver's link",
        .pools = {POOL(ROLE_PREFILL, 2, 100, 16, 1000), POOL(ROLE_DECODE, 1, 100, 16, 1000)},
        .n_pools = 2,
        .policies = {[POLICY_ROUTER] = {"round_robin", 0},
                     [POLICY_POOL] = {"fixed", 0},
                     [POLICY_BATCHER] = {"continuous", 0},
                     [POLICY_TRANSFER] = {"serialized", 0},
                     [POLICY_KVTIER] = {"recompute", 0}},
        .network_latency = MS,
        .rows = {{.at = 0, .prompt_tokens = 10, .output_tokens = 2},
                 {.at = 0, .prompt_tokens = 14, .output_tokens = 2}},
        .n_rows = 2,
        .expected = "0,arrival,0,,10,2\n"
                    "0,placement,0,0,2,0\n"
                    "0,arrival,1,,14,2\n"
                    "0,placement,1,1,2,0\n"
                    "0,prefill_begin,0,0,10,0\n"
                    "0,prefill_begin,1,1,14,0\n"
                    "0.02,first_token,0,0,0,0\n"
                    "0.02,transfer_begin,0,0,2,10\n"
                    "0.024,first_token,1,1,0,0\n"
                    "0.024,transfer_begin,1,1,2,14\n"
                    "0.037,transfer_end,0,0,2,10\n"
                    "0.037,decode_begin,0,2,0,0\n"
                    "0.045,transfer_end,1,1,2,14\n"
                    "0.059,last_token,0,2,0,0\n"
                    "0.059,decode_begin,1,2,0,0\n"
                    "0.085,last_token,1,2,0,0\n",
    },
    /* Two layers: half of the KV goes while prefill runs, half after it. Request 0 prefills 0–20,
     * and its first 5 tokens' worth, at 4 ms each, are across exactly then; the last layer takes 20
     * more, to 40, and the tail 1 + 2 (latency and the visible constant), to 43. Request 1 comes at
     * 100 and prefills 100–140; by then 10 of the first 15 are across, so 5 + 15 remain: 80, to
     * 220, and 223 with the tail. Decodes: 43–65 (10 + 1 + 11) and 223–265 (10 + 1 + 31). */
    {
        .name = "layer-wise transfers, the link fast enough and not",
        .pools = {POOL(ROLE_PREFILL, 1, 100, 16, 250), POOL(ROLE_DECODE, 1, 100, 16, 250)},
        .n_pools = 2,
        .policies = {[POLICY_ROUTER] = {"jsq", 0},
                     [POLICY_POOL] = {"fixed", 0},
                     [POLICY_BATCHER] = {"continuous", 0},
                     [POLICY_TRANSFER] = {"layerwise", 0},
                     [POLICY_KVTIER] = {"recompute", 0}},
        .network_latency = MS,
        .rows = {{.at = 0, .prompt_tokens = 10, .output_tokens = 2},
                 {.at = 100 * MS, .prompt_tokens = 30, .output_tokens = 2}},
        .n_rows = 2,
        .expected = "0,arrival,0,,10,2\n"
                    "0,placement,0,0,1,0\n"
                    "0,prefill_begin,0,0,10,0\n"
                    "0,transfer_begin,0,0,1,10\n"
                    "0.02,first_token,0,0,0,0\n"
                    "0.043,transfer_end,0,0,1,10\n"
                    "0.043,decode_begin,0,1,0,0\n"
                    "0.065,last_token,0,1,0,0\n"
                    "0.1,arrival,1,,30,2\n"
                    "0.1,placement,1,0,1,0\n"
                    "0.1,prefill_begin,1,0,30,0\n"
                    "0.1,transfer_begin,1,0,1,30\n"
                    "0.14,first_token,1,0,0,0\n"
                    "0.223,transfer_end,1,0,1,30\n"
                    "0.223,decode_begin,1,1,0,0\n"
                    "0.265,last_token,1,1,0,0\n",
    },
    /* 18 blocks of one token. Both arrive in one tick and are prefilled together, 0–20; each then
     * holds 5 blocks. Decode iterations with C = 12, 14, 16, 18 last 24, 26, 28, 30 and end at 44,
     * 70, 98, 128; each takes two blocks, so at 128 all 18 are held and nobody can grow: request 1,
     * the last to arrive, gives its 9 up, having made 5 tokens. It needs 10 to prefill its 10
     * tokens again, which are free only when request 0, with C = 10, 11, 12, has made its last
     * three in 21 + 22 + 23, at 194. Request 1 prefills 194–214 and makes its last two in 22 + 23,
     * to 259. */
    {
        .name = "a full machine evicts, and prefills again",
        .pools = {POOL(ROLE_MIXED, 1, 18, 1, 1000)},
        .n_pools = 1,
        .policies = {[POLICY_ROUTER] = {"random", 0},
                     [POLICY_POOL] = {"fixed", 0},
                     [POLICY_BATCHER] = {"continuous", 0},
                     [POLICY_TRANSFER] = {"serialized", 0},
                     [POLICY_KVTIER] = {"recompute", 0}},
        .rows = {{.at = 0, .prompt_tokens = 5, .output_tokens = 8},
                 {.at = 0, .prompt_tokens = 5, .output_tokens = 8}},
        .n_rows = 2,
        .expected = "0,arrival,0,,5,8\n"
                    "0,placement,0,0,0,0\n"
                    "0,arrival,1,,5,8\n"
                    "0,placement,1,0,0,0\n"
                    "0,prefill_begin,0,0,5,0\n"
                    "0,prefill_begin,1,0,5,0\n"
                    "0.02,first_token,0,0,0,0\n"
                    "0.02,first_token,1,0,0,0\n"
                    "0.02,decode_begin,0,0,0,0\n"
                    "0.02,decode_begin,1,0,0,0\n"
                    "0.128,recompute,1,0,5,0\n"
                    "0.194,last_token,0,0,0,0\n"
                    "0.259,last_token,1,0,0,0\n",
    },
    /* The same with swapping: at 128 the 9 tokens of request 1 go to CPU memory in 9, and request
     * 0 makes its last three in 9 + 21 + 22 + 23, at 203. Request 1 would have needed 10 blocks
     * before. Now it is back in 4.5 and makes its last three in 4.5 + 21 + 22 + 23, to 273.5. */
    {
        .name = "a full machine swaps, and waits for the copies",
        .pools = {POOL(ROLE_MIXED, 1, 18, 1, 1000)},
        .n_pools = 1,
        .policies = {[POLICY_ROUTER] = {"random", 0},
                     [POLICY_POOL] = {"fixed", 0},
                     [POLICY_BATCHER] = {"continuous", 0},
                     [POLICY_TRANSFER] = {"serialized", 0},
                     [POLICY_KVTIER] = {"swap", 0}},
        .rows = {{.at = 0, .prompt_tokens = 5, .output_tokens = 8},
                 {.at = 0, .prompt_tokens = 5, .output_tokens = 8}},
        .n_rows = 2,
        .expected = "0,arrival,0,,5,8\n"
                    "0,placement,0,0,0,0\n"
                    "0,arrival,1,,5,8\n"
                    "0,placement,1,0,0,0\n"
                    "0,prefill_begin,0,0,5,0\n"
                    "0,prefill_begin,1,0,5,0\n"
                    "0.02,first_token,0,0,0,0\n"
                    "0.02,first_token,1,0,0,0\n"
                    "0.02,decode_begin,0,0,0,0\n"
                    "0.02,decode_begin,1,0,0,0\n"
                    "0.128,swap_out,1,0,5,9\n"
                    "0.203,last_token,0,0,0,0\n"
                    "0.203,swap_in,1,0,5,9\n"
                    "0.2735,last_token,1,0,0,0\n",
    },
    /* The prefill queue limit is 10 tokens. Request 0 goes to machines 0 and 1 and, having one
     * token to make, ends with its prefill, 0–18. At 1 machine 0 has 8 pending tokens, and 8 more
     * are too many; no machine is mixed; machine 1 has one pending token (the decode), and 8 more
     * are within the limit, so it turns to mixed and takes both phases of request 1: prefill 1–19,
     * then, with no prefill left, back to its own pool, and decode 19–39 (10 + 1 + 9). */
    {
        .name = "a decode machine is claimed for a prefill and returns",
        .pools = {POOL(ROLE_PREFILL, 1, 100, 16, 1000), POOL(ROLE_DECODE, 1, 100, 16, 1000)},
        .n_pools = 2,
        .policies = {[POLICY_ROUTER] = {"splitwise", "{prefill_queue_limit: 10}"},
                     [POLICY_POOL] = {"splitwise_mixed", 0},
                     [POLICY_BATCHER] = {"splitwise", 0},
                     [POLICY_TRANSFER] = {"splitwise", 0},
                     [POLICY_KVTIER] = {"recompute", 0}},
        .rows = {{.at = 0, .prompt_tokens = 8, .output_tokens = 1},
                 {.at = 1 * MS, .prompt_tokens = 8, .output_tokens = 2}},
        .n_rows = 2,
        .expected = "0,arrival,0,,8,1\n"
                    "0,placement,0,0,1,0\n"
                    "0,prefill_begin,0,0,8,0\n"
                    "0.001,arrival,1,,8,2\n"
                    "0.001,role,,1,1,2\n"
                    "0.001,placement,1,1,1,0\n"
                    "0.001,prefill_begin,1,1,8,0\n"
                    "0.018,first_token,0,0,0,0\n"
                    "0.018,last_token,0,1,0,0\n"
                    "0.019,first_token,1,1,0,0\n"
                    "0.019,role,,1,2,1\n"
                    "0.019,decode_begin,1,1,0,0\n"
                    "0.039,last_token,1,1,0,0\n",
    },
};

const int golden_n_scenarios = sizeof golden_scenarios / sizeof *golden_scenarios;
