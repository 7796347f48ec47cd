/* What the instances of pools take: GPUs, the machines that those fill, money and power.
 *
 * An instance lies on one machine or evenly on several, and instances of all pools share the
 * machines of a type: where k of them fit on one, n fill n/k. Where the type is sold whole, cost
 * and power are those of as many whole machines; else of the GPUs alone. All of it grows with
 * counts, in steps or evenly. */
#ifndef EXPERIMENTS_FLEET_FLEET_H
#define EXPERIMENTS_FLEET_FLEET_H
#include "experiments/config/config.h"

typedef struct Takes {
  double instances, gpus, machines; // whole machines; of one instance its share of one
  double cost_per_hour, power_kw;   // NAN: not known
} Takes;

/* The instances of one pool. */
typedef struct Lot {
  const Hardware *type;
  double count;                 // of them, unless it is searched
  int searched;                 // which of the counts that are searched it is; -1: none
  int64_t spares;               // beside such a count
  Takes each;                   // of one instance, by its GPUs
  bool whole_cost, whole_power; // are of whole machines
  double saved_kw;              // of the power of a whole one, by a limit on its GPUs
} Lot;

/* The lot of a pool that is bound, as many as it has; points to its machine type. */
Lot lot_of_pool(const PoolConfig *pool);
/* Of all pools; of two that are shapes of the same GPUs, one. */
Lot *lots_of_config(const Config *config, int *ret_n, Arena *arena);
/* Of lots[n] together. `counts` are those that are searched; NULL: none are. */
Takes lots_take(const Lot *lots, int n, const int64_t *counts);
/* $ of a million tokens at a rate, a share of the cost not being paid; NAN where one of both is not
 * known. */
double takes_cost_per_million(const Takes *self, double unpaid, double tokens_per_s);

/* "2 dgx-h100 sold whole, 4.75 $/h a GPU (…), 1.5 l40s-x8, …", with `between` types. */
void lots_print_machines(const Lot *lots, int n, const char *between, FILE *out);
/* "4.75 $/h a GPU (Splitwise Table I, 2023-11)", of a type whose price is known. */
void hardware_print_price(const Hardware *type, FILE *out);
/* "dgx-h100 4.75 $/h a GPU (…), …", of all types whose prices are known. */
void lots_print_prices(const Lot *lots, int n, FILE *out);
#endif
