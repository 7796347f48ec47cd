/* Scenarios of chunked and padded prefill and of decodes admitted by prediction, each with its
 * derivation; the performance model is that of scenarios.c. Times are in ms. */
#include "tests/golden/golden.h"

/* One machine of `blocks` blocks of a token that does both phases. */
#define ALONE(blocks) .pools = {POOL(ROLE_MIXED, 1, blocks, 1, 1000)}, .n_pools = 1

#define POLICIES(predictor, batcher, options)                                                      \
  .policies = {[POLICY_ROUTER] = {"round_robin", 0},  [POLICY_PREDICTOR] = predictor,              \
               [POLICY_POOL] = {"fixed", 0},          [POLICY_BATCHER] = {batcher, options},       \
               [POLICY_TRANSFER] = {"serialized", 0}, [POLICY_KVTIER] = {"recompute", 0}}

#define NO_PREDICTION                                                                              \
  { "none", 0 }
#define ORACLE                                                                                     \
  { "oracle", 0 }
#define RANGES_OF_4                                                                                \
  { "buckets", "{granularity: 4, accuracy: 1, mode: free}" }

/* Prompts as in TetriInfer's Fig. 7, to be sliced and merged: 25 tokens, so that the fourth
 * chunk of 8 is padded with 7. Each chunk lasts 10 + 8, whatever is in it. */
#define FOUR_PROMPTS                                                                               \
  .rows = {{.prompt_tokens = 12, .output_tokens = 1},                                              \
           {.prompt_tokens = 4, .output_tokens = 1},                                               \
           {.prompt_tokens = 7, .output_tokens = 1},                                               \
           {.prompt_tokens = 2, .output_tokens = 1}},                                              \
  .n_rows = 4

#define FOUR_ARRIVALS                                                                              \
  "0,arrival,0,,12,1\n"                                                                            \
  "0,placement,0,0,0,0\n"                                                                          \
  "0,arrival,1,,4,1\n"                                                                             \
  "0,placement,1,0,0,0\n"                                                                          \
  "0,arrival,2,,7,1\n"                                                                             \
  "0,placement,2,0,0,0\n"                                                                          \
  "0,arrival,3,,2,1\n"                                                                             \
  "0,placement,3,0,0,0\n"

/* Two prompts of 5, in chunks of 5 that last 15 each, so both are prefilled at 30 and hold 6. The
 * first makes 3 more tokens, the second 8. A decode with context C lasts 11 + C, two 12 + C. */
#define SHORT_AND_LONG                                                                             \
  .rows = {{.prompt_tokens = 5, .output_tokens = 4}, {.prompt_tokens = 5, .output_tokens = 9}},    \
  .n_rows = 2

#define PREFILLED(first, second)                                                                   \
  "0,arrival,0,,5," first "\n"                                                                     \
  "0,placement,0,0,0,0\n"                                                                          \
  "0,arrival,1,,5," second "\n"                                                                    \
  "0,placement,1,0,0,0\n"                                                                          \
  "0,prefill_begin,0,0,5,0\n"                                                                      \
  "0.015,first_token,0,0,0,0\n"                                                                    \
  "0.015,prefill_begin,1,0,5,0\n"                                                                  \
  "0.03,first_token,1,0,0,0\n"                                                                     \
  "0.03,decode_begin,0,0,0,0\n"

const Scenario golden_batching_scenarios[] = {
    /* In order of arrival: 8 of 0 | 4 of 0, 4 of 1 | 7 of 2, 1 of 3 | 1 of 3. */
    {
        .name = "chunks, first come first served",
        ALONE(100),
        POLICIES(NO_PREDICTION, "tetriinfer", "{chunk_size: 8, prefill_policy: fcfs}"),
        FOUR_PROMPTS,
        .expected = FOUR_ARRIVALS "0,prefill_begin,0,0,12,0\n"
                                  "0.018,prefill_begin,1,0,4,0\n"
                                  "0.036,first_token,0,0,0,0\n"
                                  "0.036,last_token,0,0,0,0\n"
                                  "0.036,first_token,1,0,0,0\n"
                                  "0.036,last_token,1,0,0,0\n"
                                  "0.036,prefill_begin,2,0,7,0\n"
                                  "0.036,prefill_begin,3,0,2,0\n"
                                  "0.054,first_token,2,0,0,0\n"
                                  "0.054,last_token,2,0,0,0\n"
                                  "0.072,first_token,3,0,0,0\n"
                                  "0.072,last_token,3,0,0,0\n",
    },
    /* 2 of 3, 4 of 1, 2 of 2 | 5 of 2, 3 of 0 | 8 of 0 | 1 of 0. */
    {
        .name = "chunks, the shortest first",
        ALONE(100),
        POLICIES(NO_PREDICTION, "tetriinfer", "{chunk_size: 8, prefill_policy: sjf}"),
        FOUR_PROMPTS,
        .expected = FOUR_ARRIVALS "0,prefill_begin,3,0,2,0\n"
                                  "0,prefill_begin,1,0,4,0\n"
                                  "0,prefill_begin,2,0,7,0\n"
                                  "0.018,first_token,3,0,0,0\n"
                                  "0.018,last_token,3,0,0,0\n"
                                  "0.018,first_token,1,0,0,0\n"
                                  "0.018,last_token,1,0,0,0\n"
                                  "0.018,prefill_begin,0,0,12,0\n"
                                  "0.036,first_token,2,0,0,0\n"
                                  "0.036,last_token,2,0,0,0\n"
                                  "0.072,first_token,0,0,0,0\n"
                                  "0.072,last_token,0,0,0,0\n",
    },
    /* 8 of 0 | 4 of 0, 4 of 2 | 3 of 2, 4 of 1, 1 of 3 | 1 of 3. */
    {
        .name = "chunks, the longest first",
        ALONE(100),
        POLICIES(NO_PREDICTION, "tetriinfer", "{chunk_size: 8, prefill_policy: ljf}"),
        FOUR_PROMPTS,
        .expected = FOUR_ARRIVALS "0,prefill_begin,0,0,12,0\n"
                                  "0.018,prefill_begin,2,0,7,0\n"
                                  "0.036,first_token,0,0,0,0\n"
                                  "0.036,last_token,0,0,0,0\n"
                                  "0.036,prefill_begin,1,0,4,0\n"
                                  "0.036,prefill_begin,3,0,2,0\n"
                                  "0.054,first_token,2,0,0,0\n"
                                  "0.054,last_token,2,0,0,0\n"
                                  "0.054,first_token,1,0,0,0\n"
                                  "0.054,last_token,1,0,0,0\n"
                                  "0.072,first_token,3,0,0,0\n"
                                  "0.072,last_token,3,0,0,0\n",
    },
    /* Two prompts at most, padded to 10 each: 10 + 20, to 30. Then the third alone, 13, to 43,
     * while the decode of request 0 stands still; it makes its token in 10 + 1 + 5, to 59. */
    {
        .name = "a batch of prompts padded to the longest",
        ALONE(100),
        POLICIES(NO_PREDICTION, "continuous", "{max_num_prefill_seqs: 2, pad_prefills: true}"),
        .rows = {{.prompt_tokens = 4, .output_tokens = 2},
                 {.prompt_tokens = 10, .output_tokens = 1},
                 {.prompt_tokens = 3, .output_tokens = 1}},
        .n_rows = 3,
        .expected = "0,arrival,0,,4,2\n"
                    "0,placement,0,0,0,0\n"
                    "0,arrival,1,,10,1\n"
                    "0,placement,1,0,0,0\n"
                    "0,arrival,2,,3,1\n"
                    "0,placement,2,0,0,0\n"
                    "0,prefill_begin,0,0,4,0\n"
                    "0,prefill_begin,1,0,10,0\n"
                    "0.03,first_token,0,0,0,0\n"
                    "0.03,first_token,1,0,0,0\n"
                    "0.03,last_token,1,0,0,0\n"
                    "0.03,prefill_begin,2,0,3,0\n"
                    "0.043,first_token,2,0,0,0\n"
                    "0.043,last_token,2,0,0,0\n"
                    "0.043,decode_begin,0,0,0,0\n"
                    "0.059,last_token,0,0,0,0\n",
    },
    /* Six tokens an iteration. Request 0 prefills 0–14 and decodes, 10 + 1 + 5, to 30, where its
     * run is cut for request 1, which came at 20. It leaves 5 tokens: 10 + 5 + 1 + 6, to 52;
     * then the other 4: 10 + 4 + 1 + 7, to 74, where request 0 has made its four. Request 1 ends
     * after 10 + 1 + 10, at 95. */
    {
        .name = "chunks of a prompt join the decodes",
        ALONE(100),
        POLICIES(NO_PREDICTION, "sarathi", "{max_num_batched_tokens: 6}"),
        .rows = {{.prompt_tokens = 4, .output_tokens = 4},
                 {.at = 20 * MS, .prompt_tokens = 9, .output_tokens = 2}},
        .n_rows = 2,
        .expected = "0,arrival,0,,4,4\n"
                    "0,placement,0,0,0,0\n"
                    "0,prefill_begin,0,0,4,0\n"
                    "0.014,first_token,0,0,0,0\n"
                    "0.014,decode_begin,0,0,0,0\n"
                    "0.02,arrival,1,,9,2\n"
                    "0.02,placement,1,0,0,0\n"
                    "0.03,prefill_begin,1,0,9,0\n"
                    "0.074,last_token,0,0,0,0\n"
                    "0.074,first_token,1,0,0,0\n"
                    "0.074,decode_begin,1,0,0,0\n"
                    "0.095,last_token,1,0,0,0\n",
    },
    /* 15 blocks, 10 held. Both decode, C = 12 and 14, 24 + 26, to 80, where 14 are held and two are
     * needed: request 1 gives way, having made 3. Request 0 makes its last in 19, to 99. Request 1
     * prefills 8 tokens as 5 and 3, padded, 15 + 15, to 129, where it has made 4, and makes 5 more
     * with C = 9 … 13, 20 + … + 24 = 110, to 239. */
    {
        .name = "greedy admits and evicts",
        ALONE(15),
        POLICIES(ORACLE, "tetriinfer", "{chunk_size: 5, decode_policy: greedy}"),
        SHORT_AND_LONG,
        .expected = PREFILLED("4", "9") "0.03,decode_begin,1,0,0,0\n"
                                        "0.08,recompute,1,0,3,0\n"
                                        "0.099,last_token,0,0,0,0\n"
                                        "0.239,last_token,1,0,0,0\n",
    },
    /* 5 are free, one of which request 0 takes next; request 1 will want 8 and waits until it is
     * alone. Request 0: C = 6, 7, 8, 17 + 18 + 19, to 84. Request 1: C = 6 … 13, 17 + … + 24 = 164,
     * to 248. */
    {
        .name = "reserve-static waits for all that is predicted",
        ALONE(15),
        POLICIES(ORACLE, "tetriinfer", "{chunk_size: 5, decode_policy: reserve_static}"),
        SHORT_AND_LONG,
        .expected = PREFILLED("4", "9") "0.084,last_token,0,0,0,0\n"
                                        "0.084,decode_begin,1,0,0,0\n"
                                        "0.248,last_token,1,0,0,0\n",
    },
    /* Until request 0 finishes, after 3 iterations, both would take 6, and 5 are free. After
     * one, 17, to 47, both would take 2 + 2, and 4 are: request 1 joins. C = 13 and 15, 25 + 27,
     * to 99, where request 0 finishes; request 1 has made 3 and makes 6 more with C = 8 … 13, 19
     * + … + 24 = 129, to 228. */
    {
        .name = "reserve-dynamic waits until the first finish leaves room",
        ALONE(15),
        POLICIES(ORACLE, "tetriinfer", "{chunk_size: 5, decode_policy: reserve_dynamic}"),
        SHORT_AND_LONG,
        .expected = PREFILLED("4", "9") "0.047,decode_begin,1,0,0,0\n"
                                        "0.099,last_token,0,0,0,0\n"
                                        "0.228,last_token,1,0,0,0\n",
    },
    /* Ranges of 4 tokens: of request 0, which makes 7, at least 4 are predicted, so 3 more, by
     * which both take 6 of the 7 free blocks of 17. But after C = 12, 14, 16, 24 + 26 + 28, at
     * 108, it goes on, and one block is left for two: request 1, the last to arrive, gives way,
     * having made 4. Request 0: C = 9, 10, 11, 20 + 21 + 22, to 171. Request 1 prefills 9 tokens
     * as 5 and 4, to 201, and makes 4 more with C = 10 … 13, 21 + … + 24 = 90, to 291. */
    {
        .name = "an over-run of what reserve-dynamic counted on",
        ALONE(17),
        POLICIES(RANGES_OF_4, "tetriinfer", "{chunk_size: 5, decode_policy: reserve_dynamic}"),
        .rows = {{.prompt_tokens = 5, .output_tokens = 7},
                 {.prompt_tokens = 5, .output_tokens = 9}},
        .n_rows = 2,
        .expected = PREFILLED("7", "9") "0.03,decode_begin,1,0,0,0\n"
                                        "0.108,recompute,1,0,4,0\n"
                                        "0.171,last_token,0,0,0,0\n"
                                        "0.291,last_token,1,0,0,0\n",
    },
};

const int golden_n_batching_scenarios =
    sizeof golden_batching_scenarios / sizeof *golden_batching_scenarios;
