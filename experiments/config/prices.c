/* Machine types, and the keys `prices` and `sold`: what they cost, and whether by the GPU, in the
 * place of what their files say. */
#include "base/output.h"
#include "experiments/config/config.h"
#include "perfmodel/datafile.h"

static const OptionSpec price_spec = {
    .key = "price", .type = OPTION_MONEY, .max = 1e6}; // as cost_per_hour of a machine type

static int check_price(const Config *self, const Node *price, Arena *arena, Diag *diag) {
  double cost = 0;
  Hardware any = {.num_gpus = 1};
  if (price->kind == NODE_MAP ? hardware_bind_price(&any, price, diag)
                              : option_bind_one(&price_spec, price, &cost, diag))
    return -1;
  if (datafile_find(self->perfmodel_root, "machines", price->key, arena)) return 0;
  diag_error(diag, price->key_at, "unknown machine '%s'", price->key);
  return diag_hint_choices(diag, price->key,
                           datafile_names(self->perfmodel_root, "machines", arena),
                           "tandem list machines");
}

int config_bind_prices(Config *self, const Node *node, Arena *arena, Diag *diag) {
  if (node->kind == NODE_SCALAR)
    node = yaml_load(path_resolve(node->text, self->directory, arena), arena, diag);
  if (!node) return -1;
  if (node->kind != NODE_MAP)
    return diag_error(diag, node->at,
                      "'prices' must be a map of machine types to prices, or the "
                      "path of a file with one");
  int status = 0;
  for (const Node *price = node->first; price; price = price->next)
    status |= check_price(self, price, arena, diag);
  self->prices = status ? NULL : node;
  return status;
}

static void set_price(const Config *self, Hardware *hardware, Diag *diag) {
  if (self->sold >= 0) hardware->sold = self->sold;
  const Node *price = node_find(self->prices, hardware->name);
  if (!price) return;
  if (price->kind == NODE_MAP) {
    hardware_bind_price(hardware, price, diag);
    return;
  }
  option_bind_one(&price_spec, price, &hardware->cost_per_hour, diag);
  hardware->gpu_cost_per_hour = hardware->cost_per_hour / (double)hardware->num_gpus;
  hardware->price_date = NULL;
  hardware->price_source = "'prices' of the configuration";
}

static const void *load_hardware(const void *context, Arena *arena, Diag *diag) {
  const ConfigFact *fact = context;
  Hardware *hardware = ARENA_NEW(arena, Hardware);
  return hardware_load(hardware, fact->name, fact->config->perfmodel_root, fact->at, arena, diag)
             ? NULL
             : hardware;
}

int config_load_hardware(Config *self, Hardware *hardware, const char *written, Place at,
                         Arena *arena, Diag *diag) {
  const ConfigFact fact = {self, config_data_name(self, written, arena), at};
  const char *key = arena_printf(arena, "machine %s", fact.name);
  const Hardware *loaded = cache_get(self->cache, key, load_hardware, &fact, diag);
  if (!loaded) return -1;
  *hardware = *loaded;
  set_price(self, hardware, diag);
  return 0;
}
