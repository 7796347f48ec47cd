/* Machine types, and the keys `prices`, `cost_per_hour`, `gpu_cost_per_hour` and `sold`: what they
 * cost, and whether by the GPU, in the place of what their files say. */
#include "base/csv.h"
#include "base/output.h"
#include "experiments/config/config.h"
#include "perfmodel/datafile.h"
#include "perfmodel/gpu_facts.h"
#include <string.h>

static const OptionSpec price_spec = {
    .key = "price", .type = OPTION_MONEY, .max = 1e6}; // as cost_per_hour of a machine type

/* ---- A table of prices ---- */

typedef struct PriceRow {
  const char *gpu, *date, *source;
  double usd_per_gpu_hour;
} PriceRow;

/* In double quotes, as YAML reads them. */
static const char *quoted(const char *text, Arena *arena) {
  const char *out = "\"";
  for (; *text; text++)
    out = arena_printf(arena, "%s%s%c", out, strchr("\"\\", *text) ? "\\" : "", *text);
  return arena_printf(arena, "%s\"", out);
}

/* "h100: {gpu_cost_per_hour: 2.1 $/h, …}" */
static const char *row_text(const PriceRow *row, Arena *arena) {
  const char *text = arena_printf(arena, "%s: {gpu_cost_per_hour: %.12g $/h",
                                  quoted(row->gpu, arena), row->usd_per_gpu_hour);
  if (*row->date) text = arena_printf(arena, "%s, price_date: %s", text, quoted(row->date, arena));
  if (*row->source)
    text = arena_printf(arena, "%s, price_source: %s", text, quoted(row->source, arena));
  return arena_printf(arena, "%s}", text);
}

/* The map has each price on the line of its row, where messages place it. */
static Node *read_table(const char *path, Arena *arena, Diag *diag) {
  static const CsvColumn columns[] = {
      CSV_FIELD(PriceRow, gpu, CSV_TEXT, CSV_ANY),
      CSV_FIELD(PriceRow, usd_per_gpu_hour, CSV_REAL, CSV_POSITIVE),
      {"date", CSV_TEXT, offsetof(PriceRow, date), .may_be_empty = true, .may_miss = true},
      {"source", CSV_TEXT, offsetof(PriceRow, source), .may_be_empty = true, .may_miss = true},
      {0}};
  Csv csv;
  PriceRow row = {0};
  const char *text = "";
  int error = 0, line = 1;
  if (csv_open(&csv, path, arena, diag) || csv_header(&csv, columns, true, diag)) return NULL;
  for (int status; (status = csv_next(&csv, &row, diag)) != 0;) {
    for (; line < csv_place(&csv, NULL).line; line++)
      text = arena_printf(arena, "%s\n", text);
    if (status < 0)
      error = -1;
    else
      text = arena_printf(arena, "%s%s", text, row_text(&row, arena));
  }
  return error ? NULL : yaml_parse(path, text, strlen(text), arena, diag);
}

Node *prices_load(const char *path, Arena *arena, Diag *diag) {
  const size_t length = strlen(path);
  const bool is_table = length > 4 && strcmp(path + length - 4, ".csv") == 0;
  return is_table ? read_table(path, arena, diag) : yaml_load(path, arena, diag);
}

/* ---- The key ---- */

static bool is_gpu(const Config *self, const char *word, Arena *arena) {
  bool found = false;
  Diag unknown;
  diag_init(&unknown);
  const char *const *name = datafile_names(self->perfmodel_root, "machines", arena);
  for (; *name && !found; name++) {
    Hardware type;
    found = hardware_load(&type, *name, self->perfmodel_root, place_of_file(NULL), arena,
                          &unknown) == 0 &&
            gpu_is_called(type.gpu, word);
  }
  diag_done(&unknown);
  return found;
}

static int check_price(const Config *self, const Node *price, Arena *arena, Diag *diag) {
  double cost = 0;
  Hardware any = {.num_gpus = 1};
  if (price->kind == NODE_MAP ? hardware_bind_price(&any, price, diag)
                              : option_bind_one(&price_spec, price, &cost, diag))
    return -1;
  if (datafile_find(self->perfmodel_root, "machines", price->key, arena) ||
      is_gpu(self, price->key, arena))
    return 0;
  diag_error(diag, price->key_at, "unknown machine or GPU '%s'", price->key);
  return diag_hint_choices(diag, price->key,
                           datafile_names(self->perfmodel_root, "machines", arena),
                           "tandem list machines");
}

int config_bind_prices(Config *self, const Node *node, Arena *arena, Diag *diag) {
  if (node->kind == NODE_SCALAR)
    node = prices_load(path_resolve(node->text, self->directory, arena), arena, diag);
  if (!node) return -1;
  if (node->kind != NODE_MAP)
    return diag_error(diag, node->at,
                      "'prices' must be a map of machine types or GPUs to prices, or the "
                      "path of a file with one");
  int status = 0;
  for (const Node *price = node->first; price; price = price->next)
    status |= check_price(self, price, arena, diag);
  self->prices = status ? NULL : node;
  return status;
}

/* By the name of the machine type, else the longest name that its GPU is called by. */
static const Node *find_price(const Node *prices, const Hardware *hardware) {
  const Node *best = node_find(prices, hardware->name);
  if (best) return best;
  for (const Node *price = prices ? prices->first : NULL; price; price = price->next)
    if (gpu_is_called(hardware->gpu, price->key) &&
        (!best || strlen(price->key) > strlen(best->key)))
      best = price;
  return best;
}

/* Of a GPU, or of the whole machine. */
static void set_cost(Hardware *hardware, double cost, bool of_gpu, const char *source) {
  const double gpus = (double)hardware->num_gpus;
  hardware->cost_per_hour = of_gpu ? cost * gpus : cost;
  hardware->gpu_cost_per_hour = of_gpu ? cost : cost / gpus;
  hardware->price_date = NULL;
  hardware->price_source = source;
}

int prices_set(const Node *prices, Hardware *hardware, Diag *diag) {
  const Node *price = find_price(prices, hardware);
  double cost = 0;
  if (!price) return 0;
  if (price->kind == NODE_MAP) return hardware_bind_price(hardware, price, diag);
  if (option_bind_one(&price_spec, price, &cost, diag)) return -1;
  set_cost(hardware, cost, strcmp(price->key, hardware->name) != 0,
           "'prices' of the configuration");
  return 0;
}

static void set_price(const Config *self, Hardware *hardware, Diag *diag) {
  if (self->sold >= 0) hardware->sold = self->sold;
  if (self->cost_per_hour > 0)
    set_cost(hardware, self->cost_per_hour, false, "'cost_per_hour' of the configuration");
  if (self->gpu_cost_per_hour > 0)
    set_cost(hardware, self->gpu_cost_per_hour, true, "'gpu_cost_per_hour' of the configuration");
  prices_set(self->prices, hardware, diag);
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
  const Hardware *loaded = cache_get(cache_lasting(self->cache), key, load_hardware, &fact, diag);
  if (!loaded) return -1;
  *hardware = *loaded;
  set_price(self, hardware, diag);
  return 0;
}
