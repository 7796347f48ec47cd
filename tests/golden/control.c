/* Scenarios of the control plane: broadcasts, dispatchers, flips. See scenarios.c for the model and
 * its units; times are in ms. */
#include "tests/golden/golden.h"

#define POLICIES(router_, dispatcher_, pool_, options_)                                            \
  {                                                                                                \
    [POLICY_ROUTER] = {router_, 0}, [POLICY_PREDICTOR] = {"oracle", 0},                            \
    [POLICY_DISPATCHER] = {dispatcher_, 0}, [POLICY_POOL] = {pool_, options_},                     \
    [POLICY_BATCHER] = {"continuous", 0}, [POLICY_TRANSFER] = {"serialized", 0},                   \
    [POLICY_KVTIER] = {"recompute", 0},                                                            \
  }

const Scenario golden_control_scenarios[] = {
    /* Broadcasts every 10, flips after 20 of idleness. Instance 0 prefills 0–40 for machine 1, so
     * at 20 machine 2 has been idle long enough while every prefill machine has work: it flips, and
     * prefills from 26. At 40 the KV begins to move, 30 tokens, to 70. At 50 machine 2 has been
     * idle in its new role for 24, and the one decode machine has work: it flips back, to 56. At 60
     * machine 0 has been idle for 20 too, but is the last. At 80 machine 2 has once more been idle
     * for 24, but no prefill machine has work. Decode: 70–112 (10 + 1 + 31). */
    {
        .name = "an idle machine flips, and back",
        .pools = {POOL(ROLE_PREFILL, 1, 100, 16, 1000), POOL(ROLE_DECODE, 2, 100, 16, 1000)},
        .n_pools = 2,
        .policies = POLICIES("token_jsq", "router", "tetriinfer_flip", "{idle_for: 20 ms}"),
        .monitor_interval = 10 * MS,
        .rows = {{.at = 0, .prompt_tokens = 30, .output_tokens = 2}},
        .n_rows = 1,
        .expected = "0,arrival,0,,30,2\n"
                    "0,placement,0,0,1,0\n"
                    "0,prefill_begin,0,0,30,0\n"
                    "0.02,flip,,2,1,0\n"
                    "0.026,role,,2,1,0\n"
                    "0.04,first_token,0,0,0,0\n"
                    "0.04,transfer_begin,0,0,1,30\n"
                    "0.05,flip,,2,0,1\n"
                    "0.056,role,,2,0,1\n"
                    "0.07,transfer_end,0,0,1,30\n"
                    "0.07,decode_begin,0,1,0,0\n"
                    "0.112,last_token,0,1,0,0\n",
    },
    /* A machine flips that was busy for less than 0.9 of the last 40. The decode machines take
     * turns: 1, 2, 1, 2. Request 0 prefills 0–14, moves to 18 and decodes from there in 16 + 17 +
     * 18 + 19. Requests 1 and 2 prefill together, 15–37 (10 + 2 + 10); request 1 ends there, the KV
     * of request 2 moves to machine 1, to 47. Request 3 prefills 38–68. At 40 machine 1 was busy
     * for 22 of 40 and every prefill machine has work, so it flips; machine 2, idle all the time,
     * is then the last, and so is machine 0. What machine 1 has it finishes: request 2 arrives at
     * 47 and joins at the iteration's end, 51; both decode to 81 (10 + 2 + 7 + 11), request 0 alone
     * to 100 (10 + 1 + 8), and 6 later it prefills. Request 3 moves 68–88 and decodes to 120 (10 +
     * 1 + 21). At 110 machine 0 has not been busy since 70, and is no longer the last. */
    {
        .name = "a machine that flips finishes what it has",
        .pools = {POOL(ROLE_PREFILL, 1, 100, 16, 1000), POOL(ROLE_DECODE, 2, 100, 16, 1000)},
        .n_pools = 2,
        .policies = POLICIES("round_robin", "router", "tetriinfer_flip",
                             "{when: load, load_below: 0.9, window: 40 ms}"),
        .monitor_interval = 10 * MS,
        .rows = {{.at = 0, .prompt_tokens = 4, .output_tokens = 5},
                 {.at = 15 * MS, .prompt_tokens = 2, .output_tokens = 1},
                 {.at = 15 * MS, .prompt_tokens = 10, .output_tokens = 2},
                 {.at = 38 * MS, .prompt_tokens = 20, .output_tokens = 2}},
        .n_rows = 4,
        .expected = "0,arrival,0,,4,5\n"
                    "0,placement,0,0,1,0\n"
                    "0,prefill_begin,0,0,4,0\n"
                    "0.014,first_token,0,0,0,0\n"
                    "0.014,transfer_begin,0,0,1,4\n"
                    "0.015,arrival,1,,2,1\n"
                    "0.015,placement,1,0,2,0\n"
                    "0.015,arrival,2,,10,2\n"
                    "0.015,placement,2,0,1,0\n"
                    "0.015,prefill_begin,1,0,2,0\n"
                    "0.015,prefill_begin,2,0,10,0\n"
                    "0.018,transfer_end,0,0,1,4\n"
                    "0.018,decode_begin,0,1,0,0\n"
                    "0.037,first_token,1,0,0,0\n"
                    "0.037,last_token,1,2,0,0\n"
                    "0.037,first_token,2,0,0,0\n"
                    "0.037,transfer_begin,2,0,1,10\n"
                    "0.038,arrival,3,,20,2\n"
                    "0.038,placement,3,0,2,0\n"
                    "0.038,prefill_begin,3,0,20,0\n"
                    "0.04,flip,,1,1,0\n"
                    "0.047,transfer_end,2,0,1,10\n"
                    "0.051,decode_begin,2,1,0,0\n"
                    "0.068,first_token,3,0,0,0\n"
                    "0.068,transfer_begin,3,0,2,20\n"
                    "0.081,last_token,2,1,0,0\n"
                    "0.088,transfer_end,3,0,2,20\n"
                    "0.088,decode_begin,3,2,0,0\n"
                    "0.1,last_token,0,1,0,0\n"
                    "0.106,role,,1,1,0\n"
                    "0.11,flip,,0,0,1\n"
                    "0.116,role,,0,0,1\n"
                    "0.12,last_token,3,2,0,0\n",
    },
    /* Instance 1 decodes in 30 blocks, machine 2 in 1000; outputs above 3 tokens are heavy; loads
     * are broadcast at 0 and 200. Request 0 prefills 0–50 and is heavy; only machine 2 has room for
     * its 45 tokens. It moves to 90 and decodes to 304 (52 + 53 + 54 + 55). When request 1, light,
     * is dispatched, at 325, nobody decodes, but at 200 machine 2 had a heavy decode: 1/1 with this
     * one, against 0/1. So it goes to machine 1, to which it moves by 330 and where it decodes 17 +
     * 18, to 365. Request 2, light, prefills 326–342, when machine 1 has a decode and machine 2
     * none; but by the same broadcast it goes to machine 1 as well. It moves to 348 and joins when
     * the iteration in progress and with it request 1 ends; decode 365–383 (10 + 1 + 7). */
    {
        .name = "the better of two by loads that are stale",
        .pools = {POOL(ROLE_PREFILL, 1, 1000, 1, 1000), POOL(ROLE_DECODE, 1, 30, 1, 1000),
                  POOL(ROLE_DECODE, 1, 1000, 1, 1000)},
        .n_pools = 3,
        .policies = POLICIES("token_jsq", "power_of_two", "fixed", 0),
        .monitor_interval = 200 * MS,
        .heavy_above = 3,
        .rows = {{.at = 0, .prompt_tokens = 40, .output_tokens = 5},
                 {.at = 310 * MS, .prompt_tokens = 5, .output_tokens = 3},
                 {.at = 326 * MS, .prompt_tokens = 6, .output_tokens = 2}},
        .n_rows = 3,
        .expected = "0,arrival,0,,40,5\n"
                    "0,placement,0,0,-1,0\n"
                    "0,prefill_begin,0,0,40,0\n"
                    "0.05,dispatch,0,0,2,0\n"
                    "0.05,first_token,0,0,0,0\n"
                    "0.05,transfer_begin,0,0,2,40\n"
                    "0.09,transfer_end,0,0,2,40\n"
                    "0.09,decode_begin,0,2,0,0\n"
                    "0.304,last_token,0,2,0,0\n"
                    "0.31,arrival,1,,5,3\n"
                    "0.31,placement,1,0,-1,0\n"
                    "0.31,prefill_begin,1,0,5,0\n"
                    "0.325,dispatch,1,0,1,0\n"
                    "0.325,first_token,1,0,0,0\n"
                    "0.325,transfer_begin,1,0,1,5\n"
                    "0.326,arrival,2,,6,2\n"
                    "0.326,placement,2,0,-1,0\n"
                    "0.326,prefill_begin,2,0,6,0\n"
                    "0.33,transfer_end,1,0,1,5\n"
                    "0.33,decode_begin,1,1,0,0\n"
                    "0.342,dispatch,2,0,1,0\n"
                    "0.342,first_token,2,0,0,0\n"
                    "0.342,transfer_begin,2,0,1,6\n"
                    "0.348,transfer_end,2,0,1,6\n"
                    "0.365,last_token,1,1,0,0\n"
                    "0.365,decode_begin,2,1,0,0\n"
                    "0.383,last_token,2,1,0,0\n",
    },
};

const int golden_n_control_scenarios =
    sizeof golden_control_scenarios / sizeof *golden_control_scenarios;
