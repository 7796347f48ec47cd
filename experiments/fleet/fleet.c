/* See fleet.h. */
#include "experiments/fleet/fleet.h"
#include "experiments/base/writer.h"
#include "perfmodel/power.h"
#include <math.h>
#include <string.h>

/* What a machine file leaves out is 0. */
static double known(double fact) {
  return fact > 0 ? fact : NAN;
}

/* What a limit on its GPUs takes from the power of a whole machine. */
static double saved_kw(const PoolConfig *pool) {
  const PowerModel *power = pool->spec.perfmodel ? pool->spec.perfmodel->power : NULL;
  if (!power) return 0;
  return (double)pool->hardware.num_gpus * (power->limit - power->cap) / 1000;
}

Lot lot_of_pool(const PoolConfig *pool) {
  const Hardware *type = &pool->hardware;
  const int64_t gpus = parallelism_gpus(config_degrees(pool));
  const double lanes = (double)pool->spec.count / pool_machines(&pool->spec);
  const bool whole = type->sold == SOLD_WHOLE;
  return (Lot){.type = type,
               .count = pool_machines(&pool->spec),
               .searched = -1,
               .saved_kw = saved_kw(pool),
               .each = {.instances = 1,
                        .gpus = (double)gpus,
                        .machines = hardware_machines_of(type, config_degrees(pool)),
                        .cost_per_hour = known(lanes * pool->spec.cost_per_hour),
                        .power_kw = known(lanes * pool->spec.provisioned_power / 1000)},
               .whole_cost = whole,
               .whole_power = whole};
}

Lot *lots_of_config(const Config *config, int *ret_n, Arena *arena) {
  Lot *lots = ARENA_ARRAY(arena, Lot, config->sim.n_pools);
  *ret_n = 0;
  for (uint32_t i = 0; i < config->sim.n_pools; i++)
    if (!sim_is_second_shape(&config->sim, i)) lots[(*ret_n)++] = lot_of_pool(&config->pools[i]);
  return lots;
}

static double count_of(const Lot *lot, const int64_t *counts) {
  return lot->searched >= 0 ? (double)(counts[lot->searched] + lot->spares) : lot->count;
}

/* Machines that are full but for a rounding error count as full. */
static double whole_machines(double machines) {
  return ceil(machines - 1e-9 * fmax(1, machines));
}

static bool same_type(const Lot *a, const Lot *b) {
  return strcmp(a->type->name, b->type->name) == 0;
}

/* Whether no lot before is of the same type. */
static bool is_first(const Lot *lots, int i) {
  for (int k = 0; k < i; k++)
    if (same_type(&lots[k], &lots[i])) return false;
  return true;
}

/* Of the lots of one type, from the first one on: their machines, and what those take whole. */
static Takes takes_of_type(const Lot *lots, int n, const int64_t *counts) {
  double shares = 0, paid = 0, powered = 0; // machines of which something is taken whole
  double saved = INFINITY;                  // by the weakest limit on any of them
  for (int i = 0; i < n; i++) {
    if (!same_type(&lots[i], lots)) continue;
    const double share = count_of(&lots[i], counts) * lots[i].each.machines;
    shares += share;
    if (lots[i].whole_cost) paid += share;
    if (lots[i].whole_power) powered += share;
    if (lots[i].whole_power) saved = fmin(saved, lots[i].saved_kw);
  }
  const double cost = known(lots->type->cost_per_hour);
  const double all_kw = known(lots->type->provisioned_power / 1000);
  const double power_kw = powered > 0 ? known(all_kw - saved) : all_kw;
  return (Takes){.machines = whole_machines(shares),
                 .cost_per_hour = paid > 0 ? whole_machines(paid) * cost : 0,
                 .power_kw = powered > 0 ? whole_machines(powered) * power_kw : 0};
}

Takes lots_take(const Lot *lots, int n, const int64_t *counts) {
  Takes sum = {0};
  for (int i = 0; i < n; i++) {
    const Lot *lot = &lots[i];
    const double count = count_of(lot, counts);
    sum.instances += count;
    sum.gpus += count * lot->each.gpus;
    if (!lot->whole_cost) sum.cost_per_hour += count * lot->each.cost_per_hour;
    if (!lot->whole_power) sum.power_kw += count * lot->each.power_kw;
    if (!is_first(lots, i)) continue;
    const Takes type = takes_of_type(lot, n - i, counts);
    sum.machines += type.machines;
    sum.cost_per_hour += type.cost_per_hour;
    sum.power_kw += type.power_kw;
  }
  return sum;
}

double takes_cost_per_million(const Takes *self, double unpaid, double tokens_per_s) {
  const double paid = self->cost_per_hour * (1 - unpaid);
  return tokens_per_s > 0 ? paid / (3600 * tokens_per_s) * 1e6 : NAN;
}

void hardware_print_price(const Hardware *type, FILE *out) {
  const char *const said[] = {type->price_source, type->price_date};
  const char *before = " (";
  fprintf(out, "%.4g $/h a GPU", type->gpu_cost_per_hour);
  for (int i = 0; i < 2; i++) {
    if (!said[i]) continue;
    fputs(before, out);
    write_cell(said[i], 0, out);
    before = ", ";
  }
  fputs(said[0] || said[1] ? ")" : "", out);
}

void lots_print_machines(const Lot *lots, int n, const char *between, FILE *out) {
  for (int i = 0; i < n; i++) {
    if (!is_first(lots, i)) continue;
    double shares = 0;
    for (int k = i; k < n; k++)
      if (same_type(&lots[k], &lots[i])) shares += lots[k].count * lots[k].each.machines;
    const bool whole = lots[i].type->sold == SOLD_WHOLE;
    fprintf(out, "%s%.4g ", i ? between : "", whole ? whole_machines(shares) : shares);
    write_cell(lots[i].type->name, 0, out);
    fputs(whole ? " sold whole" : "", out);
    if (lots[i].type->gpu_cost_per_hour == 0) continue;
    fputs(", ", out);
    hardware_print_price(lots[i].type, out);
  }
}

void lots_print_prices(const Lot *lots, int n, FILE *out) {
  const char *before = "";
  for (int i = 0; i < n; i++) {
    const Hardware *type = lots[i].type;
    if (!is_first(lots, i) || type->gpu_cost_per_hour == 0) continue;
    fputs(before, out);
    write_cell(type->name, 0, out);
    putc(' ', out);
    hardware_print_price(type, out);
    before = ", ";
  }
}
