/* Machines and KV capacities. Pinned: the facts that other parts compute with, the ratios of
 * Splitwise's cost and power, the capacity formula and the message when a model does not fit. */
#include "perfmodel/datafile.h"
#include "perfmodel/hardware.h"
#include "tests/unit/machine_testing.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(hardware, .init = setup_folder, .fini = teardown_folder);

Test(hardware, machines_state_the_facts_of_the_paper) {
  const struct {
    const char *name, *gpu;
    int64_t nic_bandwidth;
    Tick kv_transfer_overhead;
  } cases[] = {
      {"dgx-a100", "a100-80gb", 200000000000, 8 * TICKS_PER_SECOND / 1000},
      {"dgx-h100", "h100-80gb", 400000000000, 5 * TICKS_PER_SECOND / 1000},
      {"dgx-h100-capped", "h100-80gb-pcap", 400000000000, 5 * TICKS_PER_SECOND / 1000},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Hardware hardware = machine(cases[i].name);
    cr_assert_str_eq(hardware.name, cases[i].name);
    cr_assert_str_eq(hardware.gpu, cases[i].gpu);
    cr_assert_eq(hardware.num_gpus, 8);
    cr_assert_eq(hardware.gpu_memory_bytes, INT64_C(80) << 30);
    cr_assert_eq(hardware.nic_bandwidth, cases[i].nic_bandwidth);
    cr_assert_eq(hardware.kv_transfer_overhead, cases[i].kv_transfer_overhead);
    cr_assert(hardware.idle_power < hardware.decode_power);
    cr_assert(hardware.decode_power <= hardware.prefill_power);
    cr_assert(hardware.prefill_power <= 1.001 * hardware.provisioned_power);
  }
}

/* Splitwise's iso-power designs (claims of the paper and its plots.ipynb): machines that the power
 * of 40 DGX H100 feeds beside `h100` of them. */
/* Pie §2.4 measured the superchip; elsewhere one figure is of both directions. */
Test(hardware, the_link_to_the_host_has_two_directions) {
  const Hardware superchip = machine("gh200-96gb"), dgx = machine("dgx-h100");
  cr_expect_eq(superchip.host_to_gpu_bandwidth, INT64_C(419000000000));
  cr_expect_eq(superchip.gpu_to_host_bandwidth, INT64_C(371000000000));
  cr_expect_eq(dgx.host_to_gpu_bandwidth, dgx.pcie_bandwidth);
  cr_expect_eq(dgx.gpu_to_host_bandwidth, dgx.pcie_bandwidth);
}

Test(hardware, provisioned_power_gives_the_iso_power_designs_of_splitwise) {
  const struct {
    const char *name;
    int h100, others;
  } cases[] = {{"dgx-a100", 0, 70},
               {"dgx-a100", 35, 8},
               {"dgx-a100", 25, 26},
               {"dgx-h100-capped", 35, 7},
               {"dgx-h100-capped", 25, 21}};
  double budget = machine("dgx-h100").provisioned_power;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    double power = machine(cases[i].name).provisioned_power;
    cr_assert_eq((int)(budget * (40 - cases[i].h100) / power), cases[i].others, "case %zu", i);
  }
}

Test(hardware, kv_capacity_follows_the_formula) {
  const struct {
    const char *model;
    int64_t tp;
    KvOptions options;
    int64_t block_bytes, blocks;
  } cases[] = {
      // floor((0.9·8·80 GiB − 352,494,485,504) / (16·4,014,080))
      {"bloom-176b", 8, {16, 0.9, 0, 0, 0, 0, 0, false, NULL}, 64225280, 4141},
      // the released simulator's: everything that the weights leave, in single tokens
      {"bloom-176b-splitwise-sim", 8, {1, 1.0, 0, 0, 0, 0, 0, false, NULL}, 4014080, 89234},
      {"llama2-70b-splitwise-sim", 8, {1, 1.0, 0, 0, 0, 0, 0, false, NULL}, 2621440, 210645},
      // floor((0.9·2·80 GiB − 137,953,296,384 − 2·2 GiB) / (16·327,680))
      {"llama2-70b", 2, {16, 0.9, INT64_C(2) << 30, 0, 0, 0, 0, false, NULL}, 5242880, 2359},
      // floor(0.9·(2·80 GiB − 137,953,296,384 − 2·2 GiB) / (16·327,680))
      {"llama2-70b", 2, {16, 0.9, INT64_C(2) << 30, 0, 0, 0, 0, true, NULL}, 5242880, 5072},
      {"llama2-70b", 2, {16, 0.9, 0, 1000, 0, 0, 0, false, NULL}, 5242880, 1000},
      // floor(2·3 GB / (16·327,680)), whatever the utilization
      {"llama2-70b", 2, {16, 0.5, 0, 0, 3000000000, 0, 0, false, NULL}, 5242880, 1144},
      {"llama2-70b", 2, {16, 0.9, 0, 0, 3000000000, 0, 0, false, NULL}, 5242880, 1144},
  };
  Hardware hardware = machine("dgx-a100");
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Llm llm = model(cases[i].model);
    KvCapacity capacity;
    cr_assert_eq(kv_capacity(&llm, &hardware, (Parallelism){cases[i].tp, 1, 1, 1, 1},
                             &cases[i].options, place_of_file("test"), &capacity, &diag),
                 0, "case %zu", i);
    cr_assert_eq(capacity.block_bytes, cases[i].block_bytes, "case %zu", i);
    cr_assert_eq(capacity.blocks, cases[i].blocks, "case %zu: %lld", i, (long long)capacity.blocks);
  }
}

Test(hardware, kv_heads_are_copied_when_there_are_fewer_than_gpus) {
  Hardware hardware = machine("dgx-h100");
  Llm llm = model("llama3-8b");
  llm.num_key_value_heads = 2;
  llm.kv_bytes_per_token = 32768;
  const KvOptions options = {.block_size = 16, .gpu_memory_utilization = 0.9};
  KvCapacity two, eight;
  cr_assert_eq(kv_capacity(&llm, &hardware, (Parallelism){.tensor = 2, .pipeline = 1, .data = 1},
                           &options, place_of_file("t"), &two, &diag),
               0);
  cr_assert_eq(kv_capacity(&llm, &hardware, (Parallelism){.tensor = 8, .pipeline = 1, .data = 1},
                           &options, place_of_file("t"), &eight, &diag),
               0);
  cr_assert_eq(two.block_bytes, 16 * 32768);
  cr_assert_eq(eight.block_bytes, 4 * 16 * 32768);
}

/* OPT-66B, 131.4 GB of weights, on one GPU of 80 GB: it fits with half of them elsewhere, which is
 * where its KV goes, and what is said outright has that beside it as far as it fits. */
Test(hardware, weights_that_are_elsewhere_leave_their_memory) {
  const Hardware hardware = machine("dgx-a100");
  const Llm llm = model("opt-66b");
  const Parallelism one = {1, 1, 1, 1, 1};
  KvOptions options = {.block_size = 16, .gpu_memory_utilization = 0.9};
  KvCapacity capacity;
  cr_expect_eq(kv_capacity(&llm, &hardware, one, &options, place_of_file("t"), &capacity, &diag),
               -1);
  options.weights_on_cpu = 0.5;
  cr_assert_eq(kv_capacity(&llm, &hardware, one, &options, place_of_file("t"), &capacity, &diag),
               0);
  const int64_t usable = (int64_t)(0.9 * (double)hardware.gpu_memory_bytes);
  const int64_t elsewhere = llm.weight_bytes / 2;
  cr_expect_eq(capacity.blocks, (usable - (llm.weight_bytes - elsewhere)) / capacity.block_bytes);
  options.weights_on_cpu = 1;
  options.num_gpu_blocks_override = 10;
  cr_assert_eq(kv_capacity(&llm, &hardware, one, &options, place_of_file("t"), &capacity, &diag),
               0);
  cr_expect_eq(capacity.blocks, usable / capacity.block_bytes);
  const Llm small = model("opt-13b");
  cr_assert_eq(kv_capacity(&small, &hardware, one, &options, place_of_file("t"), &capacity, &diag),
               0);
  cr_expect_eq(capacity.blocks, 10 + small.weight_bytes / capacity.block_bytes);
}

/* Stages and groups lie on machines that they fill evenly. */
Test(hardware, an_instance_lies_on_several_machines_evenly) {
  const struct {
    Parallelism degrees;
    const char *message, *hint; // NULL: it is good
  } cases[] = {
      {{8, 2, 1, 1, 1, 2}, NULL, NULL},
      {{16, 1, 1, 1, 1, 2}, NULL, NULL},
      {{4, 2, 1, 1, 1, 2}, NULL, NULL},
      {{4, 2, 2, 1, 1, 2}, NULL, NULL},
      {{8, 2, 1, 1, 1, 1}, "exceeds the 8 GPUs", "'nnodes: 2' places each instance on 2 machines"},
      {{8, 4, 1, 1, 1, 2}, "exceeds the 2 x 8 GPUs", "'nnodes: 4'"},
      {{8, 2, 1, 1, 1, 4}, NULL, NULL},
      {{4, 3, 1, 1, 1, 2}, "do not fill 2 machines evenly", NULL},
      {{8, 1, 1, 1, 1, 3}, "do not fill 3 machines evenly", NULL},
  };
  const Llm llm = model("llama2-70b");
  Hardware hardware = machine("dgx-a100");
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    diag_done(&diag);
    diag_init(&diag);
    Llm any = llm;
    any.num_hidden_layers = any.num_attention_layers = 24; // that stages divide
    const int status =
        hardware_check_split(&any, &hardware, cases[i].degrees, place_of_file("a"), &diag);
    cr_assert_eq(status == 0, cases[i].message == NULL, "case %zu", i);
    if (status == 0) continue;
    const DiagEntry *entry = &diag.entries[0];
    cr_expect_not_null(strstr(entry->message, cases[i].message), "%s", entry->message);
    cr_expect_eq(cases[i].hint == NULL, entry->hint == NULL, "case %zu", i);
    if (entry->hint && cases[i].hint)
      cr_expect_not_null(strstr(entry->hint, cases[i].hint), "%s", entry->hint);
  }
  hardware.nic_bandwidth = 0;
  cr_expect_eq(hardware_check_split(&llm, &hardware, cases[0].degrees, place_of_file("a"), &diag),
               -1);
  cr_expect_not_null(strstr(diag.entries[diag.n_entries - 1].message, "has no nic_bandwidth"));
}

/* Of 4 GPUs with links of 100 bytes/s, and NICs of 40 in all, of which four fifths are reached. */
Test(hardware, links_between_machines_are_their_nics) {
  const Hardware hardware = {
      .num_gpus = 4, .nvlink_bandwidth = 100, .nvlink_efficiency = 1, .nic_bandwidth = 40};
  cr_expect_float_eq(hardware_ring_rate(&hardware, 1), 100, 1e-9);
  cr_expect_float_eq(hardware_ring_rate(&hardware, 2), 32, 1e-9);
  cr_expect_float_eq(hardware_exchange_rate(&hardware, 1), 100, 1e-9);
  cr_expect_float_eq(hardware_exchange_rate(&hardware, 2), 1 / (0.5 / 100 + 0.5 / 8), 1e-9);
  cr_expect_float_eq(hardware_stage_rate(&hardware, (Parallelism){2, 2, 1, 1, 1, 1}), 100, 1e-9);
  cr_expect_float_eq(hardware_stage_rate(&hardware, (Parallelism){4, 2, 1, 1, 1, 2}), 8, 1e-9);
  // of three links between four stages on two machines one is between these
  cr_expect_float_eq(hardware_stage_rate(&hardware, (Parallelism){2, 4, 1, 1, 1, 2}),
                     3 / (2 / 100. + 1 / 8.), 1e-9);
  cr_expect_float_eq(hardware_machines_of(&hardware, (Parallelism){3, 1, 1, 1, 1, 1}), 1, 1e-9);
  cr_expect_float_eq(hardware_machines_of(&hardware, (Parallelism){2, 1, 1, 1, 1, 1}), 0.5, 1e-9);
  cr_expect_float_eq(hardware_machines_of(&hardware, (Parallelism){2, 2, 1, 1, 1, 2}), 1, 1e-9);
  cr_expect_float_eq(hardware_machines_of(&hardware, (Parallelism){4, 3, 1, 1, 1, 3}), 3, 1e-9);
}

Test(hardware, a_model_that_does_not_fit_says_which_tensor_parallel_size_would) {
  const struct {
    const char *model;
    int64_t tp;
    double utilization;
    int64_t kv_bytes;
    const char *message, *hint;
  } cases[] = {
      {"bloom-176b", 4, 0.9, 0, "does not fit with tensor_parallel_size 4", "size 8 fits"},
      {"llama2-70b", 1, 0.9, 0, "does not fit with tensor_parallel_size 1", "size 2 fits"},
      {"bloom-176b", 8, 0.4, 0, "does not fit", "size 8, pipeline_parallel_size 2 and nnodes 2"},
      {"bloom-176b", 8, 0.02, 0, "does not fit", "does not fit on all 8 GPUs"},
      {"llama2-70b", 16, 0.9, 0, "exceeds the 8 GPUs", "'nnodes: 2'"},
      {"llama2-70b", 3, 0.9, 0, "does not divide the heads", NULL},
      {"llama2-70b", 2, 0.9, 1000000, "1 MB is less than one block of 2621 kB", NULL},
      {"llama2-70b", 2, 0.9, 20000000000, "20 GB exceeds the", NULL},
  };
  Hardware hardware = machine("dgx-a100");
  Place at = {.path = "a.yaml", .line = 7, .column = 3, .width = 1};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Llm llm = model(cases[i].model);
    KvOptions options = {.block_size = 16,
                         .gpu_memory_utilization = cases[i].utilization,
                         .kv_cache_memory_bytes = cases[i].kv_bytes};
    KvCapacity capacity;
    diag_done(&diag);
    diag_init(&diag);
    cr_assert_eq(kv_capacity(&llm, &hardware, (Parallelism){cases[i].tp, 1, 1, 1, 1}, &options, at,
                             &capacity, &diag),
                 -1);
    const DiagEntry *entry = &diag.entries[0];
    cr_assert_eq(entry->at.line, 7);
    cr_assert_not_null(strstr(entry->message, cases[i].message), "%s", entry->message);
    cr_assert_eq(cases[i].hint == NULL, entry->hint == NULL, "case %zu", i);
    if (entry->hint) cr_assert_not_null(strstr(entry->hint, cases[i].hint), "%s", entry->hint);
  }
}

/* gpt-oss-120b on one H100: windows of 256 sequences, 4,718,592 bytes each, are set aside; of so
 * many sequences that nothing is left the layers with a window are counted as the others. */
Test(hardware, windows_are_set_aside_for_as_many_sequences_as_there_may_be) {
  const Hardware hardware = machine("dgx-h100");
  const Llm llm = model("gpt-oss-120b");
  const Parallelism one = {1, 1, 1, 1, 1};
  KvOptions options = {.block_size = 16, .gpu_memory_utilization = 0.9, .max_num_seqs = 256};
  KvCapacity few, many;
  cr_assert_eq(kv_capacity(&llm, &hardware, one, &options, place_of_file("t"), &few, &diag), 0);
  options.max_num_seqs = 100000;
  cr_assert_eq(kv_capacity(&llm, &hardware, one, &options, place_of_file("t"), &many, &diag), 0);
  const int64_t left = (int64_t)(0.9 * (double)hardware.gpu_memory_bytes) - llm.weight_bytes;
  cr_expect_eq(few.block_bytes, 16 * 36864);
  cr_expect_eq(few.blocks, (left - 256 * INT64_C(4718592)) / few.block_bytes);
  cr_expect_eq(many.block_bytes, 16 * 73728);
  cr_expect_eq(many.blocks, left / many.block_bytes);
}

/* Qwen3.5-27B on four H100: states of 256 sequences, 48 layers of 48·128·128 numbers of 4 bytes and
 * 3·10,240 of 2, are set aside; of so many sequences that little is left, 0.9/1.9 of the memory. */
Test(hardware, states_are_set_aside_for_as_many_sequences_as_there_may_be) {
  const Hardware hardware = machine("dgx-h100");
  const Llm llm = model("qwen3.5-27b");
  const Parallelism four = {4, 1, 1, 1, 1};
  KvOptions options = {.block_size = 16, .gpu_memory_utilization = 0.9, .max_num_seqs = 256};
  KvCapacity few, many;
  cr_assert_eq(kv_capacity(&llm, &hardware, four, &options, place_of_file("t"), &few, &diag), 0);
  options.max_num_seqs = 100000;
  cr_assert_eq(kv_capacity(&llm, &hardware, four, &options, place_of_file("t"), &many, &diag), 0);
  const int64_t state = 48 * (INT64_C(48) * 128 * 128 * 4 + 3 * 10240 * 2);
  const int64_t left = (int64_t)(0.9 * 4 * (double)hardware.gpu_memory_bytes) - llm.weight_bytes;
  cr_expect_eq(llm.state_bytes_per_sequence, state);
  cr_expect_eq(few.block_bytes, 16 * 16 * 4 * 2 * 256 * 2); // 16 layers, 4 KV heads of 256
  cr_expect_eq(few.blocks, (left - 256 * state) / few.block_bytes);
  cr_expect_eq(many.blocks, (left - (int64_t)(0.9 / 1.9 * (double)left)) / many.block_bytes);
}

/* Latent KV is whole on each GPU of a group; groups have weights of their own but for the experts.
 * */
Test(hardware, attention_groups_have_their_own_weights_and_kv) {
  const Hardware hardware = machine("dgx-h200");
  const Llm llm = model("deepseek-v3");
  const KvOptions options = {.block_size = 16, .gpu_memory_utilization = 0.9};
  KvCapacity split, groups;
  cr_assert_eq(kv_capacity(&llm, &hardware, (Parallelism){8, 1, 1, 1, 8}, &options,
                           place_of_file("t"), &split, &diag),
               0);
  cr_assert_eq(kv_capacity(&llm, &hardware, (Parallelism){1, 1, 1, 8, 8}, &options,
                           place_of_file("t"), &groups, &diag),
               0);
  cr_expect_eq(groups.block_bytes, 16 * llm.kv_bytes_per_token);
  cr_expect_eq(split.block_bytes, 8 * groups.block_bytes);
  const double experts =
      (double)llm_part_parameters(&llm, LLM_EXPERTS) * dtype_bytes(DTYPE_FP8_BLOCK);
  const double lost = 7 * ((double)llm.weight_bytes - experts);
  const double room = (double)(split.blocks * split.block_bytes) - lost;
  cr_expect_float_eq((double)(groups.blocks * groups.block_bytes), room, 1e8);
}

Test(hardware, experts_and_formats_that_do_not_fit_the_gpus_are_located) {
  const struct {
    const char *model, *machine;
    Parallelism degrees;
    const char *message, *hint;
  } cases[] = {
      {"gpt-oss-20b", "dgx-h100", {8, 1, 1, 1, 3}, "does not divide the 8 GPUs", NULL},
      {"llama3-8b", "dgx-h100", {2, 1, 1, 1, 2}, "has no experts", NULL},
      {"deepseek-r1", "dgx-a100", {8, 1, 1, 1, 1}, "fp8_block, which GPU 'a100-80gb'", "int4"},
      {"mixtral-8x7b", "dgx-h100", {2, 1, 1, 8, 1}, "attention_data_parallel_size 8", NULL},
  };
  const Place at = {.path = "a.yaml", .line = 7, .column = 3, .width = 1};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const Llm llm = model(cases[i].model);
    const Hardware hardware = machine(cases[i].machine);
    diag_done(&diag);
    diag_init(&diag);
    cr_assert_eq(hardware_check_split(&llm, &hardware, cases[i].degrees, at, &diag), -1);
    cr_expect_eq(diag.entries[0].at.line, 7);
    cr_expect_not_null(strstr(diag.entries[0].message, cases[i].message), "%s",
                       diag.entries[0].message);
    if (cases[i].hint) cr_expect_not_null(strstr(diag.entries[0].hint, cases[i].hint));
  }
  Llm llm = model("mixtral-8x7b");
  llm.num_experts = 12;
  const Hardware hardware = machine("dgx-h100");
  cr_expect_eq(hardware_check_split(&llm, &hardware, (Parallelism){8, 1, 1, 1, 8}, at, &diag), 0);
  cr_expect_eq(hardware_experts_held(&llm, 8), 2, "8 parts of 12 experts, the largest has 2");
  llm.num_experts = 4;
  cr_expect_eq(hardware_check_split(&llm, &hardware, (Parallelism){8, 1, 1, 1, 8}, at, &diag), -1);
  const Llm weights_alone = model("gpt-oss-120b");
  const Hardware old = machine("dgx-a100");
  diag_done(&diag);
  diag_init(&diag);
  cr_expect_eq(hardware_check_split(&weights_alone, &old, (Parallelism){2, 1, 1, 1, 1}, at, &diag),
               0);
}

Test(hardware, bad_machine_files_are_reported_where_they_are_wrong) {
  write_file(path, "gpu: h100-80gb\nnum_gpus: 8\nnvlinks: 4\nnic_bandwidth: 80 GiB\n");
  Hardware hardware;
  cr_assert_eq(hardware_load(&hardware, path, data_dir, place_of_file("t"), &arena, &diag), -1);
  bool unknown = false, unit = false, missing = false;
  for (int i = 0; i < diag.n_entries; i++) {
    const DiagEntry *entry = &diag.entries[i];
    unknown |= entry->at.line == 3 && strstr(entry->message, "nvlinks");
    unit |= entry->at.line == 4 && strstr(entry->message, "nic_bandwidth");
    missing |= strstr(entry->message, "hbm_bandwidth") != NULL;
    cr_assert_null(strstr(entry->message, "cost_per_hour"), "what may be unknown is not demanded");
  }
  cr_assert(unknown && unit && missing);
}

/* A machine file with these lines on its price. */
static const char *file_with(const char *lines) {
  return arena_printf(&arena,
                      "gpu: h100-80gb\nsm: 90\nnum_gpus: 4\ngpu_memory_bytes: 80 GiB\n"
                      "dense_bf16_flops: 1e15\nhbm_bandwidth: 3 TB/s\nnvlink_bandwidth: 0 GB/s\n"
                      "pcie_bandwidth: 64 GB/s\ncpu_memory_bytes: 1 TB\nnic_bandwidth: 50 GB/s\n%s",
                      lines);
}

Test(hardware, a_price_is_of_the_machine_or_of_a_gpu) {
  const Hardware h100 = machine("dgx-h100"), h200 = machine("dgx-h200"), l40s = machine("l40s-x8");
  cr_expect_float_eq(h100.cost_per_hour, 8 * 3.99, 1e-12);
  cr_expect_float_eq(h200.cost_per_hour, 8 * 4.59, 1e-12);
  cr_expect_str_eq(h200.price_date, "2026-10-07");
  cr_expect_str_eq(h100.price_source, "Lambda on demand");
  cr_expect(h100.sold == SOLD_WHOLE && l40s.sold == SOLD_BY_GPU);
  static const struct {
    const char *lines, *message; // NULL: it is in order
    int line;
  } cases[] = {
      {"gpu_cost_per_hour: 2 $/h\nprice_date: 2026-12\n", NULL, 0},
      {"gpu_cost_per_hour: 2 $/h\nprice_date: 2026\n", NULL, 0},
      {"gpu_cost_per_hour: 2 $/h\nprice_date: 2026-13\n", "must be a date such as", 12},
      {"gpu_cost_per_hour: 2 $/h\nprice_date: March 2026\n", "must be a date such as", 12},
      {"gpu_cost_per_hour: 2 $/h\nprice_date: 2026-1-1\n", "must be a date such as", 12},
      {"cost_per_hour: 2 $/h\ngpu_cost_per_hour: 2 $/h\n", "exclude each other", 12},
      {"price_source: a friend\n", "'price_source' needs a price beside it", 11},
      {"sold: half\n", "half", 11},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    diag_done(&diag);
    diag_init(&diag);
    write_file(path, file_with(cases[i].lines));
    Hardware hardware;
    const int status = hardware_load(&hardware, path, data_dir, place_of_file("t"), &arena, &diag);
    cr_assert_eq(status, cases[i].message ? -1 : 0, "case %zu", i);
    if (!cases[i].message) {
      cr_expect_eq(hardware.cost_per_hour, 8);
      continue;
    }
    cr_assert_eq(diag.n_entries, 1, "case %zu: %d", i, diag.n_entries);
    cr_expect_eq(diag.entries[0].at.line, cases[i].line, "case %zu", i);
    cr_expect_not_null(strstr(diag.entries[0].message, cases[i].message), "case %zu", i);
  }
}

/* Prices that are shipped are of 2026, and say when and whose they are. */
Test(hardware, shipped_prices_have_a_date_of_2026_and_a_source) {
  int n_priced = 0;
  for (const char *const *name = datafile_names(data_dir, "machines", &arena); *name; name++) {
    const Hardware type = machine(*name);
    if (type.cost_per_hour == 0) continue;
    n_priced++;
    cr_assert(type.price_date && type.price_source, "%s", *name);
    cr_expect_eq(strncmp(type.price_date, "2026-", 5), 0, "%s", *name);
  }
  cr_expect_geq(n_priced, 18);
}

Test(hardware, what_a_file_leaves_out_is_unknown_or_a_default_share) {
  const Hardware l4 = machine("l4-x8"), h200 = machine("dgx-h200");
  cr_assert_eq(machine("gb300-nvl72").cost_per_hour, 0);
  cr_assert_eq(l4.decode_power, 0);
  cr_assert_eq(l4.all_reduce_latency, 0);
  cr_assert_float_eq(hardware_compute_rate(&l4), 0.8 * 121e12, 1);
  cr_assert_float_eq(hardware_memory_rate(&l4), 0.8 * 300e9, 1);
  cr_assert_float_eq(hardware_link_rate(&l4), 0.6 * 16 * 1073741824.0, 1, "PCIe");
  cr_assert_float_eq(hardware_compute_rate(&h200), 0.82 * 989e12, 1);
  cr_assert_float_eq(hardware_memory_rate(&h200), 0.73 * 4800e9, 1);
  cr_assert_float_eq(hardware_link_rate(&h200), 0.69 * 450e9, 1, "NVLink");
  cr_assert_eq(h200.all_reduce_latency, 5300000);
}
