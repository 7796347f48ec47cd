/* Operators of calibration: batches against the simulator's counting, work against numbers
 * worked out by hand. Pinned: FLOPs to the last one, bytes of weights and KV. */
#include "calib/model.h"
#include "calib/operators.h"
#include "calib/plan.h"
#include "tests/unit/testing.h"
#include <math.h>

TestSuite(operators, .init = setup, .fini = teardown);

/* Llama2-70B on 8 GPUs: one key-value head each. */
static const CalibModel llama = {.name = "llama2-70b",
                                 .num_hidden_layers = 80,
                                 .hidden_size = 8192,
                                 .num_attention_heads = 64,
                                 .num_key_value_heads = 8,
                                 .head_dim = 128,
                                 .intermediate_size = 28672,
                                 .vocab_size = 32000,
                                 .max_position_embeddings = 4096,
                                 .tensor_parallel_size = 8,
                                 .block_size = 16};

static const CalibSequence sequences[] = {{512, 0}, {100, 50}, {1, 999}, {1, 0}};
static const CalibBatch mixed = {sequences, 2, 2, 4};

static CalibWork work_of(CalibOp op, int64_t size) {
  const CalibPoint point = {.op = op, .size = size};
  return calib_work(&llama, &point);
}

Test(operators, names_are_those_of_profiles) {
  for (int op = 0; op < CALIB_N_OPS; op++)
    cr_expect_str_eq(calib_op_name((CalibOp)op), profile_op_name(calib_profile_op((CalibOp)op)));
  cr_expect_null(calib_op_names[CALIB_N_OPS]);
}

Test(operators, a_batch_counts_as_the_simulator_does) {
  const BatchShape shape = calib_batch_shape(&mixed);
  cr_expect_eq(shape.prefill_tokens, 612);
  cr_expect_eq(shape.prefill_area2, 512 * 512 + 100 * (2 * 50 + 100));
  cr_expect_eq(shape.decode_seqs, 2);
  cr_expect_eq(shape.context_tokens, 1000 + 1); // with the new token
  cr_expect_eq(shape.logit_seqs, 4);
}

Test(operators, every_point_has_the_work_its_row_must_have) {
  const CalibPoint linear = {.op = CALIB_LINEAR, .size = 77}, head = {.op = CALIB_HEAD, .size = 5};
  const CalibPoint attention = {.op = CALIB_DECODE_ATTENTION, .batch = {sequences + 2, 0, 2, 2}};
  cr_expect_eq(calib_point_shape(&linear).prefill_tokens, 77);
  cr_expect_eq(calib_point_shape(&head).logit_seqs, 5);
  cr_expect_eq(calib_point_shape(&attention).context_tokens, 1001);
  cr_expect_eq(calib_point_shape(&attention).logit_seqs, 0);
}

Test(operators, work_is_that_of_the_formulas) {
  /* 214 MB and 8192·1280 + 1024·8192 + 8192·7168 + 3584·8192 parameters a layer (study, 1.2) */
  const double weights = 8192.0 * 1280 + 1024.0 * 8192 + 8192.0 * 7168 + 3584.0 * 8192;
  cr_expect_eq(work_of(CALIB_LINEAR, 3).flops, 2 * 3 * weights * 80);
  cr_expect_eq(work_of(CALIB_LINEAR, 3).bytes, 2 * weights * 80);
  cr_expect_float_eq(2e-6 * weights, 214, 0.5);
  cr_expect_eq(work_of(CALIB_HEAD, 2).flops, 2 * 2 * 8192.0 * 4000);
  cr_expect_eq(work_of(CALIB_GEMM_QKV, 7).flops, 2 * 7 * 8192.0 * 1280);
  cr_expect_eq(work_of(CALIB_GEMM_QKV, 7).bytes, 2 * (8192.0 * 1280 + 7 * 8192 + 7 * 1280));
  cr_expect_eq(work_of(CALIB_COPY_D2D, 4096).bytes, 8192);
  cr_expect_eq(work_of(CALIB_COPY_BOTH, 4096).bytes, 4096); // in each direction
  /* a page: 16 tokens, keys and values, one head of 128, two bytes */
  cr_expect_eq(work_of(CALIB_KV_OUT, 3).bytes, 3 * 16 * 2 * 128 * 2.0);
  for (int op = CALIB_GEMM_QKV; op < CALIB_N_OPS; op++)
    cr_expect_gt(work_of((CalibOp)op, 64).bytes, 0, "%s", calib_op_name((CalibOp)op));
}

Test(operators, causal_attention_is_counted_exactly) {
  const CalibPoint point = {.op = CALIB_PREFILL_ATTENTION, .batch = {sequences, 2, 0, 2}};
  double pairs = 0; // every new token sees all before it, and itself
  for (int i = 0; i < 512; i++)
    pairs += i + 1;
  for (int i = 0; i < 100; i++)
    pairs += 50 + i + 1;
  cr_expect_eq(calib_work(&llama, &point).flops, 4 * 128 * 8 * pairs * 80);
  const CalibPoint decode = {.op = CALIB_DECODE_ATTENTION, .batch = {sequences + 2, 0, 2, 2}};
  cr_expect_eq(calib_work(&llama, &decode).flops, 4 * 128 * 8 * 1001.0 * 80);
  cr_expect_eq(calib_work(&llama, &decode).bytes, 2 * 2 * 128 * 1001.0 * 80);
}

Test(operators, an_iteration_is_the_sum_of_its_terms) {
  const CalibPoint iteration = {.op = CALIB_ITERATION, .batch = mixed};
  const CalibPoint prefill = {.op = CALIB_PREFILL_ATTENTION, .batch = {sequences, 2, 0, 2}};
  const CalibPoint decode = {.op = CALIB_DECODE_ATTENTION, .batch = {sequences + 2, 0, 2, 2}};
  const double flops = work_of(CALIB_LINEAR, 614).flops + calib_work(&llama, &prefill).flops +
                       calib_work(&llama, &decode).flops + work_of(CALIB_HEAD, 4).flops;
  cr_expect_eq(calib_work(&llama, &iteration).flops, flops);
}

/* Qwen3 30B-A3B on two GPUs, one layer: 128 experts of 384 columns, of which a token takes 8. */
Test(operators, experts_take_the_place_of_the_mlp) {
  const CalibModel moe = {.name = "moe",
                          .num_hidden_layers = 1,
                          .hidden_size = 2048,
                          .num_attention_heads = 32,
                          .num_key_value_heads = 4,
                          .head_dim = 128,
                          .intermediate_size = 6144,
                          .vocab_size = 1000,
                          .tensor_parallel_size = 2,
                          .block_size = 16,
                          .num_experts = 128,
                          .num_experts_per_tok = 8,
                          .moe_intermediate_size = 768};
  const CalibPoint linear = {.op = CALIB_LINEAR, .size = 2};
  const CalibPoint up = {.op = CALIB_MOE_GEMM_UP, .size = 2};
  const CalibPoint down = {.op = CALIB_MOE_GEMM_DOWN, .size = 1};
  const double attention = 2048.0 * (16 + 2 * 2) * 128 + 16 * 128 * 2048.0, router = 2048.0 * 128;
  const double expert = 2048.0 * 384 * 3, reached = 8 + 8 * (1 - 8 / 128.0);
  cr_expect_eq(calib_work(&moe, &linear).flops, 2 * 2 * (attention + router + 8 * expert));
  cr_expect_float_eq(calib_work(&moe, &linear).bytes, 2 * (attention + router + reached * expert),
                     1);
  cr_expect_eq(calib_work(&moe, &up).flops, 2 * 2 * 8 * 2048.0 * 768);
  cr_expect_float_eq(calib_work(&moe, &up).bytes,
                     2 * (reached * 2048 * 768 + 2 * 2048 + 2 * 8 * 768.0), 1);
  cr_expect_float_eq(calib_work(&moe, &down).bytes, 2 * (8 * 384 * 2048.0 + 8 * 384 + 8 * 2048.0),
                     1);
  cr_expect(!calib_has_op(&moe, CALIB_GEMM_UP) && calib_has_op(&moe, CALIB_GEMM_O));
  cr_expect(!calib_has_op(&llama, CALIB_MOE_ROUTING) && calib_has_op(&llama, CALIB_GEMM_DOWN));
  cr_expect_eq(calib_rows_of_token(&moe, TENSOR_ACTIVE), 8);
  cr_expect_eq(calib_rows_of_token(&moe, TENSOR_ADDED), 1);
  cr_expect_eq(calib_rows_of_token(&llama, TENSOR_ACTIVE), 1);
}

Test(operators, models_of_experts_are_split_or_refused) {
  const Llm llm = {.name = "m",
                   .num_hidden_layers = 4,
                   .hidden_size = 512,
                   .num_attention_heads = 8,
                   .num_key_value_heads = 2,
                   .head_dim = 64,
                   .intermediate_size = 1021,
                   .vocab_size = 1000,
                   .max_position_embeddings = 2048,
                   .gated_mlp = true,
                   .num_experts = 8,
                   .num_experts_per_tok = 2,
                   .moe_intermediate_size = 252,
                   .sigmoid_router = true};
  const CalibModelOptions options = {.dtype = CALIB_BF16, .tensor_parallel_size = 4};
  const Place at = place_of_file("--model");
  CalibModel model;
  cr_assert_eq(calib_model_init(&model, &llm, &options, at, &arena, &diag), 0);
  cr_expect(model.num_experts == 8 && model.num_experts_per_tok == 2 && calib_ffn(&model) == 63 &&
            model.router == CALIB_SIGMOID);
  Llm others[] = {llm, llm, llm};
  others[0].shared_expert_intermediate_size = 64;
  others[1].num_dense_layers = 1;
  others[2].moe_intermediate_size = 250;
  static const char *const says[] = {"has shared experts", "has 1 layers without experts",
                                     "do not divide the moe_intermediate_size 250"};
  for (size_t i = 0; i < COUNT(others); i++) {
    diag.n_entries = 0;
    cr_expect_eq(calib_model_init(&model, &others[i], &options, at, &arena, &diag), -1);
    expect_entry(&diag, 0, 0, 0, says[i], "experts");
  }
}

Test(operators, models_are_split_or_refused_with_the_numbers) {
  const Llm llm = {.name = "m",
                   .num_hidden_layers = 4,
                   .hidden_size = 512,
                   .num_attention_heads = 8,
                   .num_key_value_heads = 2,
                   .head_dim = 64,
                   .intermediate_size = 1020,
                   .vocab_size = 1000,
                   .max_position_embeddings = 2048,
                   .gated_mlp = true,
                   .norm = LLM_RMS_NORM,
                   .position_embedding_type = LLM_ROPE};
  CalibModel model = {.name = "unset"};
  const Place at = place_of_file("--tp");
  const CalibModelOptions good = {.dtype = CALIB_FP16, .tensor_parallel_size = 4, .layers = 2};
  cr_assert_eq(calib_model_init(&model, &llm, &good, at, &arena, &diag), 0);
  cr_expect_str_eq(model.name, "m-2l");
  cr_expect_eq(model.num_hidden_layers, 2);
  cr_expect_eq(calib_kv_heads(&model), 1); // one of two, on two devices each
  cr_expect(model.activation == CALIB_SWIGLU && model.norm == CALIB_RMS_NORM &&
            model.positions == CALIB_ROPE && model.dtype == CALIB_FP16);
  static const struct {
    CalibModelOptions options;
    const char *says;
  } cases[] = {{{.tensor_parallel_size = 3}, "does not divide the heads of model 'm': 8"},
               {{.tensor_parallel_size = 8}, "does not divide intermediate_size 1020"},
               {{.tensor_parallel_size = 0}, "at least 1"},
               {{.tensor_parallel_size = 1, .layers = 5}, "has 4 layers, not 5"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    diag.n_entries = 0;
    cr_expect_eq(calib_model_init(&model, &llm, &cases[i].options, at, &arena, &diag), -1);
    expect_entry(&diag, 0, 0, 0, cases[i].says, "a split");
  }
  cr_expect_str_eq(model.name, "m-2l", "a failure changed the model");
}

/* Of an engine's iterations alone: each term must be told apart from the others by some of them. */
Test(operators, the_plan_of_an_engine_is_of_iterations_that_vary) {
  const CalibDevice device = {.n_units = 1};
  const PlanOptions options = {.grid = grid_whole, .seed = 1};
  Plan plan;
  bool contexts[33] = {false}, past = false, mixed = false;
  int64_t first[33] = {0};
  plan_init(&plan, &llama, &device, &options, &arena);
  for (size_t i = 0; i < plan.n; i++) {
    const PlanPoint *planned = &plan.points[i];
    const BatchShape *shape = &planned->shape;
    const int64_t n = shape->decode_seqs;
    cr_assert(planned->point.op == CALIB_ITERATION && !planned->waived && n <= 32);
    past |=
        planned->point.batch.n_prefills > 0 && planned->point.batch.sequences[0].past_tokens > 0;
    mixed |= n > 0 && shape->prefill_tokens > 0;
    if (shape->prefill_tokens > 0) continue;
    contexts[n] |= first[n] > 0 && first[n] != shape->context_tokens;
    first[n] = shape->context_tokens;
  }
  cr_expect(past && mixed);
  cr_expect(contexts[1] && contexts[4] && contexts[16] && contexts[32]);
}
