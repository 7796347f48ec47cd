/* What pools take: machines of a type are shared, whole ones are paid for where they are sold
 * whole, and what is not known is not counted as nothing. */
#include "experiments/fleet/fleet.h"
#include "experiments/report/report.h"
#include "tests/unit/testing.h"
#include <math.h>

static const Hardware whole = {.name = "dgx",
                               .num_gpus = 8,
                               .sold = SOLD_WHOLE,
                               .cost_per_hour = 40,
                               .gpu_cost_per_hour = 5,
                               .provisioned_power = 8000,
                               .price_source = "a list",
                               .price_date = "2026-03"};
static const Hardware rented = {
    .name = "cloud", .num_gpus = 4, .cost_per_hour = 12, .gpu_cost_per_hour = 3};

/* Instances of `gpus` GPUs of a type, on several machines each. */
static Lot lot_on(const Hardware *type, int64_t gpus, int64_t nnodes, int64_t count) {
  PoolConfig pool = {.hardware = *type,
                     .spec = {.count = (uint32_t)count},
                     .nnodes = nnodes,
                     .tensor_parallel_size = gpus,
                     .pipeline_parallel_size = 1,
                     .data_parallel_size = 1};
  const double share = (double)gpus / (double)type->num_gpus;
  pool.spec.cost_per_hour = share * type->cost_per_hour;
  pool.spec.provisioned_power = share * type->provisioned_power;
  Lot lot = lot_of_pool(&pool);
  lot.type = type;
  return lot;
}

static Lot lot_of(const Hardware *type, int64_t gpus, int64_t count) {
  return lot_on(type, gpus, 1, count);
}

TestSuite(fleet, .init = setup_folder, .fini = teardown_folder);

Test(fleet, machines_of_a_type_are_shared_and_paid_for_as_they_are_sold) {
  const struct {
    Lot lots[2];
    double instances, gpus, machines, cost;
  } cases[] = {
      {{lot_of(&whole, 4, 1), lot_of(&whole, 4, 2)}, 3, 12, 2, 80},
      {{lot_of(&whole, 4, 1), lot_of(&whole, 4, 1)}, 2, 8, 1, 40},
      {{lot_of(&whole, 8, 2), lot_of(&whole, 1, 1)}, 3, 17, 3, 120},
      {{lot_of(&whole, 3, 3), lot_of(&whole, 1, 0)}, 3, 9, 2, 80}, // two to a machine
      {{lot_of(&whole, 5, 2), lot_of(&whole, 1, 0)}, 2, 10, 2, 80},
      {{lot_of(&rented, 1, 3), lot_of(&whole, 2, 1)}, 4, 5, 2, 3 * 3 + 40},
      {{lot_of(&rented, 2, 5), lot_of(&rented, 1, 1)}, 6, 11, 3, 33},
      {{lot_on(&whole, 72, 9, 2), lot_of(&whole, 4, 1)}, 3, 148, 19, 19 * 40},
      {{lot_on(&whole, 8, 2, 3), lot_of(&whole, 1, 0)}, 3, 24, 3, 120}, // halves of two machines
      {{lot_on(&rented, 8, 2, 1), lot_of(&rented, 1, 1)}, 2, 9, 3, 27},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const Takes takes = lots_take(cases[i].lots, 2, NULL);
    cr_expect_eq(takes.instances, cases[i].instances, "case %zu", i);
    cr_expect_eq(takes.gpus, cases[i].gpus, "case %zu", i);
    cr_expect_eq(takes.machines, cases[i].machines, "case %zu: %g", i, takes.machines);
    cr_expect_float_eq(takes.cost_per_hour, cases[i].cost, 1e-9, "case %zu: %g", i,
                       takes.cost_per_hour);
  }
  cr_expect(isnan(lots_take(cases[5].lots, 2, NULL).power_kw), "that of the rented is unknown");
  cr_expect_float_eq(lots_take(cases[0].lots, 2, NULL).power_kw, 16, 1e-9);
}

/* A price for an instance is not one for a machine, and what is searched counts as it is given. */
Test(fleet, instances_with_a_price_of_their_own_are_paid_each) {
  Lot lots[2] = {lot_of(&whole, 4, 1), lot_of(&whole, 4, 1)};
  lots[0].searched = 0;
  lots[1].each.cost_per_hour = 7;
  lots[1].whole_cost = false;
  const int64_t counts[] = {3};
  const Takes takes = lots_take(lots, 2, counts);
  cr_expect_float_eq(takes.cost_per_hour, 2 * 40 + 7, 1e-9);
  cr_expect_eq(takes.machines, 2);
  cr_expect_float_eq(takes.power_kw, 16, 1e-9, "of all four instances");
}

Test(fleet, more_never_takes_less) {
  for (int64_t gpus = 1; gpus <= 8; gpus++)
    for (int64_t other = 1; other <= 8; other++) {
      Lot lots[2] = {lot_of(&whole, gpus, 1), lot_of(&whole, other, 1)};
      lots[0].searched = 0;
      lots[1].searched = 1;
      Takes before = {0};
      for (int64_t n = 0; n < 40; n++) {
        const Takes takes = lots_take(lots, 2, (int64_t[]){n / 2, n - n / 2});
        cr_assert(takes.cost_per_hour >= before.cost_per_hour && takes.machines >= before.machines);
        cr_assert_geq(takes.machines * 8, takes.gpus);
        before = takes;
      }
    }
}

Test(fleet, what_is_bought_is_told_in_a_line) {
  const Lot lots[] = {lot_of(&whole, 4, 3), lot_of(&rented, 1, 6), lot_of(&whole, 4, 1)};
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  lots_print_machines(lots, 3, ", ", out);
  putc('\n', out);
  lots_print_prices(lots, 3, out);
  fclose(out);
  cr_expect_str_eq(text, "2 dgx sold whole, 5 $/h a GPU (a list, 2026-03), 1.5 cloud, 3 $/h a GPU\n"
                         "dgx 5 $/h a GPU (a list, 2026-03), cloud 3 $/h a GPU");
  free(text);
}

/* The figures of a run, of pools that share a DGX, and of its GPUs alone. */
Test(fleet, a_run_pays_for_what_it_takes) {
  static const char text[] = "model: llama2-70b\n"
                             "workload: {lengths: azure-conv-2023, requests: 20, seed: 1,"
                             " arrivals: {process: poisson, rate: 4 /s}}\n"
                             "prices: {dgx-h100: 38 $/h}\npools:\n"
                             "  a: {role: prefill, machine: dgx-h100, tensor_parallel_size: 4}\n"
                             "  b: {role: decode, machine: dgx-h100, count: 2,"
                             " tensor_parallel_size: 4}\n";
  write_file(path, text);
  for (int by_gpu = 0; by_gpu < 2; by_gpu++) {
    const char *const assignments[] = {by_gpu ? "sold=gpu" : NULL, NULL};
    const ConfigChanges changes = {.assignments = assignments, .seed = -1, .tie_seed = -1};
    Config config;
    SimResult result;
    Report report;
    cr_assert_eq(config_load(&config, path, &changes, &arena, &diag), 0);
    cr_assert_eq(config_open_trace(&config, &arena, &diag), 0);
    cr_assert_eq(sim_run(&config.sim, &result, &arena, &diag), 0);
    trace_close(config.sim.trace);
    report_init(&report, &config, &result, 0, 0, &arena);
    const RunFigures *run = &report.run;
    cr_expect(run->instances == 3 && run->gpus == 12 && run->machines == 2);
    cr_expect(report.pools[0].figures.machines == 1 && report.pools[1].figures.gpus == 8);
    cr_expect_float_eq(run->cost_per_hour, by_gpu ? 57 : 76, 1e-9);
    cr_expect_float_eq(run->provisioned_power_kw, by_gpu ? 15.3 : 20.4, 1e-9);
    cr_expect_float_eq(run->cost_usd, run->cost_per_hour * run->duration_s / 3600, 1e-9);
    // A million tokens take so many hours at the throughput.
    const double hours = 1e6 / run->output_tokens_per_s / 3600;
    cr_expect_float_eq(run->cost_per_million_output_tokens, hours * run->cost_per_hour, 1e-9);
    cr_expect_float_eq(run->cost_per_million_tokens * (run->prompt_tokens + run->output_tokens),
                       run->cost_per_million_output_tokens * run->output_tokens, 1e-6);
    cr_expect_float_eq(run->cost_per_million_output_tokens_at_max,
                       run->cost_per_million_output_tokens, 1e-9);
    cr_expect_float_eq(run->output_tokens_per_s_per_gpu, run->output_tokens_per_s / 12, 1e-9);
  }
}
