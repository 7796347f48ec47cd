/* Attention and FFNs on GPUs of their own. Pinned: the closed form against four stations that serve
 * micro-batches in turn, event by event; the paper's form where its conditions hold; that the
 * compiled model is the closed form; the ratio of GPUs at which a batch is fastest against the one
 * at which both sides take equally long, in closed form; memory, GPUs and price of a pool; errors.
 */
#include "base/cache.h"
#include "experiments/config/config.h"
#include "perfmodel/attention_ffn.h"
#include "tests/unit/machine_testing.h"
#include <math.h>
#include <string.h>

TestSuite(attention_ffn, .init = setup_folder, .fini = teardown_folder);

/* ---- The pipeline ---- */

enum { STATIONS = 4 };

/* When the last of m micro-batches has gone through all layers: of those that wait for a station
 * the one that came first is next. */
static double by_events(const PingPong *layer, int layers, int m) {
  const double takes[STATIONS] = {layer->attention, layer->send, layer->ffn, layer->send};
  double free_at[STATIONS] = {0}, came_at[16] = {0};
  int visits[16] = {0};
  double last = 0;
  for (int left = m * layers * STATIONS; left > 0; left--) {
    int next = -1;
    double begins = INFINITY;
    for (int i = 0; i < m; i++) { // who can begin first, and of those who came first
      if (visits[i] == layers * STATIONS) continue;
      const double at = fmax(came_at[i], free_at[visits[i] % STATIONS]);
      if (at > begins || (at == begins && came_at[i] >= came_at[next])) continue;
      begins = at;
      next = i;
    }
    const int station = visits[next]++ % STATIONS;
    free_at[station] = came_at[next] = begins + takes[station];
    last = fmax(last, came_at[next]);
  }
  return last;
}

Test(attention_ffn, the_closed_form_is_what_four_stations_do) {
  Rng rng;
  rng_init(&rng, 3, "stations");
  for (int i = 0; i < 2000; i++) {
    const PingPong layer = {.attention = 1 + (double)rng_below(&rng, 200),
                            .ffn = 1 + (double)rng_below(&rng, 200),
                            .send = (double)rng_below(&rng, i % 2 ? 20 : 150)};
    const int layers = 1 + (int)rng_below(&rng, 12), m = 1 + (int)rng_below(&rng, 7);
    const double want = by_events(&layer, layers, m), got = pingpong_seconds(&layer, layers, m);
    cr_assert_eq(got, want, "T_a %g, T_e %g, T_c %g, %d layers, %d micro-batches: %g, not %g",
                 layer.attention, layer.ffn, layer.send, layers, m, got, want);
  }
}

/* MegaScale-Infer: T_a = T_e = T_f, T_c < T_f, m >= 2·(1 + T_c / T_f). */
Test(attention_ffn, a_full_pipeline_is_the_papers) {
  for (int m = 3; m <= 4; m++) {
    const double f = 10, c = m == 3 ? 5 : 9;
    cr_assert(m >= 2 * (1 + c / f));
    const PingPong layer = {f, f, c};
    for (int layers = 1; layers <= 80; layers += 13)
      cr_expect_eq(pingpong_seconds(&layer, layers, m), f + f + 2 * c + f * (m * layers - 1));
  }
  const PingPong layer = {3, 4, 1}; // one alone waits for each stage
  cr_expect_eq(pingpong_seconds(&layer, 10, 1), 10 * (3 + 4 + 2 * 1));
}

/* ---- Rooflines of both sides ---- */

static AttentionFfn sides(const char *llm_name, const char *machine_name, Parallelism degrees) {
  const Llm llm = model(llm_name);
  const Hardware hardware = machine(machine_name);
  AttentionFfn self;
  attention_ffn_init(&self, &llm, &hardware, degrees, &preset_ideal, &arena);
  return self;
}

/* Both sides are what the whole is, but for links: on one GPU each there are none. */
Test(attention_ffn, sides_add_up_to_a_layer) {
  static const char *const models[] = {"llama3.1-8b", "qwen3-30b-a3b", "deepseek-v3.2"};
  for (size_t i = 0; i < COUNT(models); i++) {
    const Llm llm = model(models[i]);
    const Hardware hardware = machine("dgx-h200");
    Roofline whole;
    roofline_init(&whole, &llm, &hardware, (Parallelism){1, 1, 1, 1, 1}, &preset_ideal, &arena);
    const AttentionFfn apart =
        sides(models[i], "dgx-h200", (Parallelism){1, 1, 1, 1, 1, .ffn = 1, .micro_batches = 1});
    const RooflineTerm *a = &apart.attention.linear, *f = &apart.ffn.linear, *w = &whole.linear;
    cr_expect(fabs(a->memory_fixed + f->memory_fixed - w->memory_fixed) < 1e-9 * w->memory_fixed);
    cr_expect(fabs(a->memory_slope + f->memory_slope - w->memory_slope) < 1e-9 * w->memory_slope);
    cr_expect(fabs(a->compute_slope + f->compute_slope - w->compute_slope) <
              1e-9 * w->compute_slope);
    cr_expect(fabs(a->slope + f->slope - w->slope) < 1e-9 * w->slope);
    cr_expect_eq(roofline_experts_seconds(&apart.ffn.experts, 77),
                 roofline_experts_seconds(&whole.experts, 77));
    cr_expect_eq(roofline_decode_seconds(&apart.attention, 64, 90000),
                 roofline_decode_seconds(&whole, 64, 90000));
    cr_expect_eq(roofline_decode_seconds(&apart.ffn, 64, 90000), 0);
  }
}

Test(attention_ffn, the_compiled_model_is_the_closed_form) {
  static const char *const models[] = {"llama3.1-70b", "qwen3-235b-a22b", "gpt-oss-120b",
                                       "deepseek-v3.2"};
  enum { SEQS = 512 };
  for (size_t i = 0; i < COUNT(models); i++)
    for (int64_t m = 1; m <= 4; m++) {
      const AttentionFfn self =
          sides(models[i], "gb200-nvl72",
                (Parallelism){1, 1, 1, 4, 1, .nodes = 1, .ffn = 8, .micro_batches = m});
      PerfModel compiled;
      attention_ffn_compile(&self, &compiled, SEQS, &arena);
      for (int64_t n = 4; n <= SEQS; n *= 2) {
        Tick before = 0;
        for (int64_t context = 0; context < 3000000; context = context * 5 / 4 + 777) {
          const double want = attention_ffn_seconds(&self, (double)n, (double)n, (double)context) +
                              roofline_term_seconds(&self.attention.head, (double)n);
          const Tick got = perfmodel_decode_step(&compiled, n, context);
          cr_assert(fabs(tick_seconds(got) - want) < 1e-5 * want,
                    "%s, %lld micro-batches, %lld decodes of %lld tokens: %.9g s, not %.9g s",
                    models[i], (long long)m, (long long)n, (long long)context, tick_seconds(got),
                    want);
          cr_assert_geq(got, before);
          before = got;
        }
      }
    }
}

/* Of G GPUs, so many with attention that a step is fastest. KV is read, and experts compute, so
 * that a layer of a micro-batch takes α/a on a GPUs with attention, φ/f on f with FFNs; with a full
 * pipeline the best is a/f = α/φ. Both numbers are written out here from the facts. */
Test(attention_ffn, the_fastest_ratio_is_that_of_equal_times) {
  enum { GPUS = 24, SEQS = 1 << 17 };
  const Llm llm = model("mixtral-8x7b");
  Hardware hardware = machine("gb200-nvl72");
  hardware.all_reduce_latency = 0;
  hardware.nvlink_bandwidth *= 1000; // the links take no time
  for (int64_t context = 500; context <= 4000; context *= 2) {
    const double heads = (double)(llm.num_key_value_heads * llm.head_dim);
    const double bytes = 2 * 2 * heads * (double)context; // keys and values in 16 bits
    const double attention = bytes / hardware_memory_rate(&hardware);
    const double parameters = 3.0 * (double)(llm.hidden_size * llm.moe_intermediate_size);
    const double ffn = 2 * 2 * parameters / hardware_compute_rate(&hardware); // two experts
    const double qkvo = 2.0 * (double)llm.hidden_size *
                        (2 * heads + 2.0 * (double)(llm.num_attention_heads * llm.head_dim)) /
                        hardware_compute_rate(&hardware);
    int64_t best = 0;
    double least = INFINITY;
    for (int64_t f = 1; f <= llm.num_experts; f++) {
      // an FFN side of f GPUs for the same work: all times by the share of the GPUs that are there
      AttentionFfn self;
      const Parallelism degrees = {1, 1, 1, f * 2, 1, .nodes = 1, .ffn = f, .micro_batches = 4};
      attention_ffn_init(&self, &llm, &hardware, degrees, &preset_ideal, &arena);
      const PingPong layer = attention_ffn_layer(&self, SEQS, SEQS, (double)SEQS * (double)context);
      // what is one of GPUs is their number times as long on one
      const double alpha = layer.attention * (double)(2 * f), want = SEQS * (attention + qkvo);
      cr_expect(fabs(alpha / want - 1) < 0.1, "attention %g of %g", alpha, want);
      const double phi = layer.ffn * (double)f / (1 + 0.18 * log2((double)f));
      cr_expect(fabs(phi / (SEQS * ffn) - 1) < 0.1, "FFN %g of %g", phi, SEQS * ffn);
    }
    const double share = (attention + qkvo) / (attention + qkvo + ffn);
    for (int64_t a = 1; a < GPUS; a++) {
      AttentionFfn self;
      const Parallelism degrees = {1, 1, 1, a, 1, .nodes = 1, .ffn = 1, .micro_batches = 4};
      attention_ffn_init(&self, &llm, &hardware, degrees, &preset_ideal, &arena);
      // one GPU does a share of what GPUS − a would: as if it had as few of the sequences
      PingPong layer =
          attention_ffn_layer(&self, SEQS / 4.0, SEQS / 4.0, SEQS / 4.0 * (double)context);
      layer.ffn /= (double)(GPUS - a);
      layer.send = 0;
      const double seconds = pingpong_seconds(&layer, (double)llm.num_hidden_layers, 4);
      if (seconds >= least) continue;
      least = seconds;
      best = a;
    }
    cr_expect(fabs((double)best - GPUS * share) <= 1, "%lld GPUs with attention, not %.2f",
              (long long)best, GPUS * share);
  }
}

/* ---- Configurations ---- */

static const char base[] = "model: qwen3-235b-a22b\n"
                           "perfmodel: roofline\n"
                           "workload:\n"
                           "  lengths: azure-conv-2023\n"
                           "  arrivals: {process: poisson, rate: 4 /s}\n"
                           "  requests: 20\n"
                           "pools:\n"
                           "  p: {role: prefill, machine: dgx-h200, tensor_parallel_size: 4}\n"
                           "  d: {role: decode, machine: dgx-h200, nnodes: 2, count: 3,\n"
                           "      attention_data_parallel_size: 4, tensor_parallel_size: 2,\n"
                           "      attention_ffn: {ffn_gpus: 8}}\n";

static int load(Config *config, const char *a, const char *b) {
  const char *const assignments[] = {a, b, NULL};
  const ConfigChanges changes = {.assignments = assignments, .seed = -1, .tie_seed = -1};
  diag.n_entries = 0;
  write_file(path, base);
  return config_load(config, path, &changes, &arena, &diag);
}

Test(attention_ffn, kv_is_beside_attention_and_experts_are_not) {
  Config config, whole;
  cr_assert_eq(load(&config, NULL, NULL), 0);
  const PoolConfig *pool = &config.pools[1];
  const Llm *llm = &config.models[0];
  const Hardware *hardware = &pool->hardware;
  const double ffn =
      (double)llm_part_parameters(llm, LLM_EXPERTS) * llm_part_bytes(llm, LLM_EXPERTS);
  const double left = 0.9 * 8 * (double)hardware->gpu_memory_bytes -
                      4 * ((double)llm->weight_bytes - ffn) - 8 * 1073741824.0;
  const double block = (double)pool->spec.kv_block_bytes;
  cr_expect(fabs((double)pool->spec.kv_blocks - left / block) <= 4);
  cr_expect_eq(pool->spec.attention_ranks, 4);
  cr_expect_eq(pool->spec.ranks, 1, "one scheduler");
  cr_expect_eq(parallelism_gpus(config_degrees(pool)), 16);
  cr_expect(fabs(pool->spec.cost_per_hour - 2 * hardware->cost_per_hour) < 1e-9);
  cr_expect_eq(pool->spec.nic_bandwidth, hardware->nic_bandwidth, "KV comes to eight of them");
  cr_expect_not_null(strstr(pool->spec.perfmodel->name, "_ffn8"));
  cr_assert_eq(load(&whole, "pools.d.attention_ffn.micro_batches=1", NULL), 0);
  cr_expect_neq(whole.sim.pools[1].perfmodel->digest, pool->spec.perfmodel->digest);
}

static void refuses(const char *a, const char *b, const char *message) {
  Config config;
  cr_assert_eq(load(&config, a, b), -1, "%s", message);
  cr_assert_gt(diag.n_entries, 0);
  cr_expect_not_null(strstr(diag.entries[0].message, message), "%s", diag.entries[0].message);
}

Test(attention_ffn, what_it_cannot_be_is_refused) {
  refuses("perfmodel=fitted", NULL, "no iteration times were measured with 'attention_ffn'");
  refuses("pools.d={role: decode, machine: dgx-h200, tensor_parallel_size: 4, "
          "attention_ffn: {ffn_gpus: 4}}",
          "pools.d.gpu_memory_utilization=0.5", "the FFNs of model 'qwen3-235b-a22b' take");
  refuses("pools.d.attention_ffn.ffn_gpus=200", "pools.d.nnodes=26",
          "200 ffn_gpus are more than the 128 experts");
  refuses("pools.d.attention_ffn.ffn_gpus=16", NULL, "exceeds the 2 x 8 GPUs");
  refuses("pools.d.expert_parallel_size=8", NULL, "omit expert_parallel_size");
  refuses("pools.p.attention_ffn={ffn_gpus: 2}", NULL, "applies to pools that decode");
  refuses("pools.d.attention_ffn={micro_batches: 2}", NULL, "'ffn_gpus'");
}
