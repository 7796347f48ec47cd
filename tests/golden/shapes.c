/* Scenarios of replicas that are spread over GPUs in stages, and of GPUs that change their shape.
 * The performance model is that of scenarios.c; in a pipeline of two stages a stage takes 10 ms and
 * half of the rest. Times are in ms. */
#include "tests/golden/golden.h"

const Scenario golden_shape_scenarios[] = {
    /* The two lanes send their batches through the same two stages. Request 0 prefills on lane 0,
     * 10 + 10/2 = 15 in a stage: 0–15, 15–30. Request 1 on lane 1 takes 12 and comes behind it:
     * 15–27, and waits in front of the last stage: 30–42. Lane 0 decodes with C = 11, 10 + 12/2 =
     * 16: 30–46, 46–62. Lane 1 with C = 5, 13: the first stage is free at 46, the last at 62:
     * 46–59, 62–75. Lane 0 with C = 12, 16.5: 62–78.5, 78.5–95, and has its third token. Lane 1
     * with C = 6, 13.5: from 75 on it waits for the first stage, 78.5–92, and for the last,
     * 95–108.5. */
    {
        .name = "batches of two lanes do not overtake each other in the stages that they share",
        .pools = {{.name = "pool",
                   .machine = "machine",
                   .role = ROLE_MIXED,
                   .count = 2,
                   .pipeline_stages = 2,
                   .kv_blocks = 100,
                   .block_size = 16,
                   .kv_bytes_per_token = 1000,
                   .num_hidden_layers = 2,
                   .nic_bandwidth = 1000}},
        .n_pools = 1,
        .policies = {[POLICY_ROUTER] = {"round_robin", 0},
                     [POLICY_POOL] = {"fixed", 0},
                     [POLICY_BATCHER] = {"continuous", 0},
                     [POLICY_TRANSFER] = {"serialized", 0},
                     [POLICY_KVTIER] = {"recompute", 0}},
        .rows = {{.at = 0, .prompt_tokens = 10, .output_tokens = 3},
                 {.at = 0, .prompt_tokens = 4, .output_tokens = 3}},
        .n_rows = 2,
        .expected = "0,arrival,0,,10,3\n"
                    "0,placement,0,0,0,0\n"
                    "0,arrival,1,,4,3\n"
                    "0,placement,1,1,1,0\n"
                    "0,prefill_begin,0,0,10,0\n"
                    "0,prefill_begin,1,1,4,0\n"
                    "0.03,first_token,0,0,0,0\n"
                    "0.03,decode_begin,0,0,0,0\n"
                    "0.042,first_token,1,1,0,0\n"
                    "0.042,decode_begin,1,1,0,0\n"
                    "0.095,last_token,0,0,0,0\n"
                    "0.1085,last_token,1,1,0,0\n",
    },
    /* A prompt takes itself of the 22 blocks of the store: requests 0 and 1 take 10 each and are
     * prefilled one after the other, 0–20 and 20–40; request 2 would take 4.
     * The KV of 10 tokens goes out, 20–30 beside the prefill, and 40–50. At 20, when request 1 has
     * begun, the store cannot take the next prompt, so the GPUs leave; when the prefill has ended
     * and all KV is out they turn, 50–80. It comes back at half a ms per token: request 0 80–85,
     * request 1 85–90. Request 0 decodes with C = 11, 85–107, and ends. Request 1 begins there,
     * 107–129; beside the 11 blocks that it then has there is room in the store for the 4 of
     * request 2, so at 107 the GPUs leave. Request 1 has made 2 of its 3 tokens and goes out with
     * the KV of 11: 129–140. They turn, 140–160, and prefill request 2, 10 + 4: 160–174. No prompt
     * is left: its 4 tokens go out, 174–178, they turn, 178–208, and the KV comes in, that of
     * request 1 in 5.5, to 213.5, that of request 2 in 2, to 215.5. Request 1 makes its last token
     * with C = 12, 213.5–236.5, request 2 with C = 5, 236.5–252.5.
     *
     * A copy stands where it is queued, with its tokens and the tick in which it ends.
     *
     * `shape` is followed by the first machine of the shape, the shape (0 prefill, 1 decode) and
     * the state (0 runs, 1 leaves, 2 turns). Where a request decodes is open when it is placed. */
    {
        .name = "a group prefills, decodes, and goes back for a prompt that found no room",
        .pools = {POOL(ROLE_PREFILL, 1, 100, 1, 1), POOL(ROLE_DECODE, 1, 100, 1, 1)},
        .n_pools = 2,
        .groups = {{.pools = {0, 1},
                    .store_blocks = 22,
                    .turn_bytes = {[SHAPE_PREFILL] = 40000, [SHAPE_DECODE] = 60000},
                    .overlaps = true}},
        .n_groups = 1,
        .policies = {[POLICY_ROUTER] = {"jsq", 0},
                     [POLICY_POOL] = {"seesaw", 0},
                     [POLICY_BATCHER] = {"continuous", "{max_num_batched_tokens: 10}"},
                     [POLICY_TRANSFER] = {"serialized", 0},
                     [POLICY_KVTIER] = {"recompute", 0}},
        .rows = {{.at = 0, .prompt_tokens = 10, .output_tokens = 2},
                 {.at = 0, .prompt_tokens = 10, .output_tokens = 3},
                 {.at = 0, .prompt_tokens = 4, .output_tokens = 2}},
        .n_rows = 3,
        .expected = "0,arrival,0,,10,2\n"
                    "0,placement,0,0,-1,0\n"
                    "0,arrival,1,,10,3\n"
                    "0,placement,1,0,-1,0\n"
                    "0,arrival,2,,4,2\n"
                    "0,placement,2,0,-1,0\n"
                    "0,prefill_begin,0,0,10,0\n"
                    "0.02,first_token,0,0,0,0\n"
                    "0.02,copy_out,0,0,10,30000000000\n"
                    "0.02,prefill_begin,1,0,10,0\n"
                    "0.02,shape,,0,0,1\n"
                    "0.04,first_token,1,0,0,0\n"
                    "0.04,copy_out,1,0,10,50000000000\n"
                    "0.05,shape,,1,1,2\n"
                    "0.08,shape,,1,1,0\n"
                    "0.08,copy_in,0,1,10,85000000000\n"
                    "0.08,copy_in,1,1,10,90000000000\n"
                    "0.085,decode_begin,0,1,0,0\n"
                    "0.107,last_token,0,1,0,0\n"
                    "0.107,decode_begin,1,1,0,0\n"
                    "0.107,shape,,1,1,1\n"
                    "0.129,copy_out,1,1,11,140000000000\n"
                    "0.14,shape,,0,0,2\n"
                    "0.16,shape,,0,0,0\n"
                    "0.16,prefill_begin,2,0,4,0\n"
                    "0.174,first_token,2,0,0,0\n"
                    "0.174,copy_out,2,0,4,178000000000\n"
                    "0.174,shape,,0,0,1\n"
                    "0.178,shape,,1,1,2\n"
                    "0.208,shape,,1,1,0\n"
                    "0.208,copy_in,1,1,11,213500000000\n"
                    "0.208,copy_in,2,1,4,215500000000\n"
                    "0.2365,last_token,1,1,0,0\n"
                    "0.2365,decode_begin,2,1,0,0\n"
                    "0.2525,last_token,2,1,0,0\n",
    },
};

const int golden_n_shape_scenarios = sizeof golden_shape_scenarios / sizeof *golden_shape_scenarios;
