/* The key `domains`: machines that fail together, since they share a rack, a power feed, a switch
 * or a release of a driver.
 *
 * Machines as they are bought are numbered pool by pool, in the order of the file; instances that
 * share a machine, or that lie on several, are placed with it. `pack` fills one domain after the
 * other; `spread` deals machines out in turn over all domains, those of one instance together.
 * Domains of a kind with `of` are so many of the smaller ones, one after another. A group of pools
 * that share their GPUs has the machines of its prefill pool. */
#include "experiments/config/faults.h"
#include "perfmodel/time_scale.h"
#include <math.h>
#include <string.h>

enum { PLACEMENT_PACK, PLACEMENT_SPREAD };
static const char *const placement_choices[] = {"pack", "spread", NULL};

typedef struct DomainKeys {
  int64_t size, count, down, uplink, rails;
  const char *of;
  int placement, kind;
  double factor, oversubscription;
  const Node *faults, *schedule, *release;
} DomainKeys;

#define KEY(field, type_, ...) OPTION_OF(DomainKeys, field, OPTION_##type_, __VA_ARGS__)

const OptionSpec config_domain_options[] = {
    KEY(size, INT, .required = true, .min = 1, .max = 1e6,
        .help = "Number of machines in each domain, or of the smaller domains that of names."),
    KEY(of, STRING, .help = "Kind of smaller domains, listed before, that these consist of.",
        .absent = "machines"),
    KEY(count, INT, .min = 1, .max = 1e6, .help = "Number of domains that there are.",
        .absent = "as many as the machines fill"),
    KEY(placement, CHOICE, .fallback = "pack", .choices = placement_choices,
        .help = "Placement of the machines, pool by pool: fill one domain after the other (pack), "
                "or deal them out over all domains (spread)."),
    KEY(faults, NODE,
        .help = "Failures of each domain, with the keys of pools.NAME.faults.gpu. They take all "
                "instances that have a machine in it.",
        .absent = "no failures"),
    KEY(kind, CHOICE, .fallback = "fail", .choices = fault_kind_choices,
        .help = "Kind of these failures: as in pools.NAME.faults.schedule, but for store."),
    KEY(factor, REAL, .min = 1, .max = SLOWDOWN_MAX,
        .help = "Factor on the iteration times (slow) or on the transfer times (link).",
        .absent = "required for slow; else the link is down"),
    KEY(schedule, NODE, .help = "List of outages at given times.", .absent = "none"),
    KEY(release, NODE, .help = "Rolling release, such as that of a driver.", .absent = "none"),
    KEY(down, INT, .min = 0, .max = 1e6,
        .help = "Number of a domain, from 0, that is down during the whole run, which the router "
                "knows.",
        .absent = "none"),
    KEY(uplink, BANDWIDTH, .min = 1, .max = 1e18,
        .help = "Bandwidth, in each direction, of the link between each domain and all outside of "
                "it, which KV transfers share.",
        .absent = "by oversubscription; without either, no limit"),
    KEY(oversubscription, REAL, .min = 0.001, .max = 1e6,
        .help = "The same as a ratio: the bandwidth of all NICs in the domain over that of its "
                "uplink.",
        .absent = "by uplink"),
    KEY(rails, INT, .fallback = "1", .min = 1, .max = 1024,
        .help = "Number of switches in each domain, each with its part of the machine's GPUs in "
                "order, and of the uplink. What goes from one to another takes the uplinks."),
    {0}};

typedef struct DomainOutage {
  Tick at, length;
  int64_t domain;
  int kind;
  double factor;
} DomainOutage;

#define OUTAGE(name, field, type_, ...)                                                            \
  OPTION_AT(DomainOutage, name, field, OPTION_##type_, __VA_ARGS__)

const OptionSpec config_domain_outage_options[] = {
    OUTAGE("at", at, TICKS, .required = true, .min = 1e-6, .max = FAULTS_FOR_EVER,
           .help = "Time at which the outage begins."),
    OUTAGE("for", length, TICKS, .min = 1e-6, .max = FAULTS_FOR_EVER,
           .help = "Duration of the outage.", .absent = "until the end of the run"),
    OUTAGE("domain", domain, INT, .required = true, .min = 0, .max = 1e6,
           .help = "Number of the domain, from 0."),
    OUTAGE("kind", kind, CHOICE, .fallback = "fail", .choices = fault_kind_choices,
           .help = "Kind of outage: as in pools.NAME.faults.schedule, but for store."),
    OUTAGE("factor", factor, REAL, .min = 1, .max = SLOWDOWN_MAX,
           .help = "Factor on the iteration times (slow) or on the transfer times (link).",
           .absent = "required for slow; else the link is down"),
    {0}};

typedef struct ReleaseKeys {
  Tick at, length, every, rollback;
  int64_t at_once;
  double canary;
  bool fails;
} ReleaseKeys;

#define RELEASE(name, field, type_, ...)                                                           \
  OPTION_AT(ReleaseKeys, name, field, OPTION_##type_, __VA_ARGS__)

const OptionSpec config_release_options[] = {
    RELEASE("at", at, TICKS, .required = true, .min = 1e-6, .max = FAULTS_FOR_EVER,
            .help = "Time at which the first domains drain."),
    RELEASE("for", length, TICKS, .required = true, .min = 1e-6, .max = FAULTS_FOR_EVER,
            .help = "Time from the drain of a domain until its instances start again."),
    RELEASE("at_once", at_once, INT, .fallback = "1", .min = 1, .max = 1e6,
            .help = "Number of domains that are released together; all of them at most."),
    RELEASE("every", every, TICKS, .min = 1e-6, .max = FAULTS_FOR_EVER,
            .help = "Time from one such set of domains to the next.",
            .absent = "for, and the start of the slowest instances of a set"),
    RELEASE("canary", canary, REAL, .min = 1e-6, .max = 1,
            .help = "Share of the domains that are released first, rounded up to whole domains.",
            .absent = "at_once domains"),
    RELEASE("fails", fails, BOOL, .fallback = "false",
            .help = "The release is faulty: the domains that are released first fail as they come "
                    "back, and no other is released."),
    RELEASE("rollback", rollback, TICKS, .min = 1e-6, .max = FAULTS_FOR_EVER,
            .help = "Time for which they are then down.", .absent = "none; needed by fails"),
    {0}};

const DomainLevel *config_find_level(const Config *self, const char *name) {
  for (uint32_t i = 0; i < self->n_levels; i++)
    if (strcmp(self->levels[i].name, name) == 0) return &self->levels[i];
  return NULL;
}

/* --- where machines lie */

static bool has_machines(const Config *self, uint32_t pool) {
  return !sim_is_second_shape(&self->sim, pool);
}

static uint32_t blocks_of_pool(const PoolConfig *pool) {
  const MachineShare share = faults_share(pool);
  return (pool->spec.count + share.instances - 1) / share.instances;
}

static uint32_t count_machines(const Config *self) {
  uint32_t n = 0;
  for (uint32_t p = 0; p < self->sim.n_pools; p++)
    if (has_machines(self, p))
      n += blocks_of_pool(&self->pools[p]) * faults_share(&self->pools[p]).machines;
  return n;
}

/* Room in domains that machines are dealt out to. */
typedef struct Dealer {
  uint32_t *used; // [n] machines
  uint32_t n, size;
  uint32_t next;
} Dealer;

/* The next in turn that has room for so many; n: none has. */
static uint32_t deal(Dealer *self, uint32_t machines) {
  for (uint32_t i = 0; i < self->n; i++) {
    const uint32_t d = (self->next + i) % self->n;
    if (self->used[d] + machines > self->size) continue;
    self->used[d] += machines;
    self->next = (d + 1) % self->n;
    return d;
  }
  return self->n;
}

/* The machines of an instance lie together where there is room, else one by one. */
static void spread(const Config *self, DomainLevel *level, uint32_t size, Arena *arena) {
  Dealer dealer = {ARENA_ARRAY(arena, uint32_t, level->n), level->n, size, 0};
  uint32_t *machine = level->of_machine;
  for (uint32_t p = 0; p < self->sim.n_pools; p++) {
    if (!has_machines(self, p)) continue;
    const uint32_t machines = faults_share(&self->pools[p]).machines;
    for (uint32_t b = blocks_of_pool(&self->pools[p]); b > 0; b--) {
      const uint32_t together = deal(&dealer, machines);
      for (uint32_t k = 0; k < machines; k++)
        *machine++ = together < level->n ? together : deal(&dealer, 1);
    }
  }
}

static void add_part(Domain *self, FaultPart part, bool same_pool, Arena *arena) {
  FaultPart *last = self->n_parts > 0 ? &self->parts[self->n_parts - 1] : NULL;
  if (last && same_pool && part.first <= last->first + last->n_instances) {
    last->n_instances = part.first + part.n_instances - last->first;
    return;
  }
  ARENA_RESERVE(arena, self->parts, self->capacity, self->n_parts + 1);
  self->parts[self->n_parts++] = part;
}

/* The instances of the machines in each domain; of groups those of their prefill pools. */
static void fill_domains(const Config *self, DomainLevel *level, Arena *arena) {
  level->domains = ARENA_ARRAY(arena, Domain, level->n);
  const uint32_t *machine = level->of_machine;
  for (uint32_t p = 0, first = 0; p < self->sim.n_pools; first += self->sim.pools[p++].count) {
    if (!has_machines(self, p)) continue;
    const MachineShare share = faults_share(&self->pools[p]);
    for (uint32_t i = 0, count = self->sim.pools[p].count; i < count; i += share.instances) {
      const uint32_t n = count - i < share.instances ? count - i : share.instances;
      for (uint32_t k = 0; k < share.machines; k++) {
        Domain *domain = &level->domains[*machine++];
        const bool same_pool =
            domain->n_parts > 0 && domain->parts[domain->n_parts - 1].first >= first;
        add_part(domain, (FaultPart){first + i, n}, same_pool, arena);
      }
    }
  }
}

static int place(FaultBinder *binder, DomainLevel *level, const DomainKeys *keys,
                 const Node *node) {
  Config *self = binder->config;
  const DomainLevel *inner = keys->of ? config_find_level(self, keys->of) : NULL;
  if (keys->of && !inner) {
    diag_error(binder->diag, config_place(node, "of"), "'of' names '%s', which is no domain before",
               keys->of);
    return diag_hint(binder->diag, "list the smaller domains first: {rack: …, power: {of: rack}}");
  }
  if (inner && node_find(node, "placement"))
    return diag_error(binder->diag, config_place(node, "placement"),
                      "'placement' applies to domains of machines, not to those with 'of'");
  const uint32_t n_inner = inner ? inner->n : self->n_machines, size = (uint32_t)keys->size;
  level->n = keys->count > 0 ? (uint32_t)keys->count : (n_inner + size - 1) / size;
  if ((uint64_t)level->n * size < n_inner)
    return diag_error(binder->diag, config_place(node, "count"),
                      "%u domains of %u %s have no room for %u", level->n, size,
                      inner ? "domains" : "machines", n_inner);
  level->of_machine = ARENA_ARRAY(binder->arena, uint32_t, self->n_machines);
  for (uint32_t m = 0; m < self->n_machines; m++)
    level->of_machine[m] = (inner ? inner->of_machine[m] : m) / size;
  if (!inner && keys->placement == PLACEMENT_SPREAD) spread(self, level, size, binder->arena);
  fill_domains(self, level, binder->arena);
  return 0;
}

/* --- what fails */

/* Of groups, domains can fail, and that is all. */
static int check_kind(const FaultBinder *self, Place at, int kind) {
  if (kind == FAULT_STORE)
    return diag_error(self->diag, at, "'kind: store' applies to the groups of a pool");
  if (kind == FAULT_FAIL || self->config->sim.n_groups == 0) return 0;
  return diag_error(self->diag, at, "domains with groups can only fail, as with 'kind: fail'");
}

/* A source over a domain; nothing where no machine lies in it. */
static int add_domain(FaultBinder *self, const Node *node, const Domain *domain,
                      FaultSource source) {
  if (domain->n_parts == 0) return 0;
  source.first = domain->parts[0].first;
  source.n_instances = domain->parts[0].n_instances;
  source.others = &domain->parts[1];
  source.n_others = domain->n_parts - 1;
  return faults_add(self, node, &source);
}

static int bind_faults(FaultBinder *self, const DomainLevel *level, const DomainKeys *keys,
                       const Node *node) {
  LifetimeKeys times;
  if (check_kind(self, config_place(node, "kind"), keys->kind) ||
      faults_check_factor(node, keys->kind, keys->factor, self->diag) ||
      faults_bind_lifetime(&times, keys->faults, 0, self->diag))
    return -1;
  for (uint32_t p = 0; p < self->config->sim.n_pools && keys->kind == FAULT_FAIL; p++)
    if (faults_check_up(self, &self->config->sim.pools[p], keys->faults, times.mtbf)) return -1;
  const FaultSource source = {.kind = (FaultKind)keys->kind,
                              .factor = keys->factor,
                              .up = {(LifetimeKind)times.distribution, times.mtbf, times.shape},
                              .down = {(LifetimeKind)times.repair, times.mttr, times.repair_shape}};
  int status = 0;
  for (uint32_t d = 0; d < level->n && !status; d++)
    status = add_domain(self, keys->faults, &level->domains[d], source);
  return status;
}

static int check_number(const FaultBinder *self, const DomainLevel *level, Place at,
                        int64_t number) {
  if (number < level->n) return 0;
  diag_error(self->diag, at, "there is no %s %lld", level->name, (long long)number);
  return diag_hint(self->diag, "they are numbered from 0 to %u", level->n - 1);
}

static int bind_outage(FaultBinder *self, const DomainLevel *level, const Node *node) {
  DomainOutage keys = {0};
  if (option_bind(config_domain_outage_options, node, NULL, node->at, &keys, self->diag) ||
      check_number(self, level, config_place(node, "domain"), keys.domain) ||
      check_kind(self, config_place(node, "kind"), keys.kind) ||
      faults_check_factor(node, keys.kind, keys.factor, self->diag))
    return -1;
  return add_domain(self, node, &level->domains[keys.domain],
                    (FaultSource){.kind = (FaultKind)keys.kind,
                                  .factor = keys.factor,
                                  .spans = faults_span(keys.at, keys.length, self->arena),
                                  .n_spans = 1});
}

static int bind_schedule(FaultBinder *self, const DomainLevel *level, const Node *node) {
  if (node->kind != NODE_LIST || node->n_children == 0)
    return diag_error(self->diag, node->at,
                      "'schedule' must be a list of outages, such as "
                      "[{at: 2 h, for: 30 min, domain: 0}]");
  int status = 0;
  for (const Node *child = node->first; child; child = child->next)
    status |= bind_outage(self, level, child);
  return status;
}

/* --- releases */

static const PoolSpec *pool_of(const SimConfig *sim, uint32_t instance, uint32_t *ret_pool) {
  uint32_t p = 0;
  for (uint32_t first = sim->pools[0].count; instance >= first; first += sim->pools[p].count)
    p++;
  *ret_pool = p;
  return &sim->pools[p];
}

/* How long the instances of domains take that start together: those of a pool share its store. */
static Tick start_ticks(const FaultBinder *self, const DomainLevel *level, uint32_t from,
                        uint32_t until) {
  const SimConfig *sim = &self->config->sim;
  Tick *free_at = ARENA_ARRAY(self->arena, Tick, sim->n_pools), longest = 0;
  for (uint32_t d = from; d < until; d++)
    for (uint32_t i = 0; i < level->domains[d].n_parts; i++) {
      const FaultPart part = level->domains[d].parts[i];
      uint32_t p;
      const PoolSpec *pool = pool_of(sim, part.first, &p);
      const int64_t replicas = pool_replicas(pool, part.n_instances);
      const Tick end = start_up_end(&pool->start_up, replicas * pool->weight_bytes,
                                    replicas * pool->nic_bandwidth, 0, &free_at[p]);
      if (end > longest) longest = end;
    }
  return longest;
}

/* Of domains that are released together at `at`; of a faulty release they fail with its end. */
static int release(FaultBinder *self, const DomainLevel *level, const ReleaseKeys *keys,
                   const Node *node, Tick at, uint32_t from, uint32_t until) {
  int status = 0;
  for (uint32_t d = from; d < until; d++) {
    const Domain *domain = &level->domains[d];
    status |= add_domain(self, node, domain,
                         (FaultSource){.kind = FAULT_DRAIN,
                                       .spans = faults_span(at, keys->length, self->arena),
                                       .n_spans = 1});
    if (keys->fails && keys->length < TICK_MAX - at)
      status |= add_domain(
          self, node, domain,
          (FaultSource){.kind = FAULT_FAIL,
                        .spans = faults_span(at + keys->length, keys->rollback, self->arena),
                        .n_spans = 1});
  }
  return status;
}

static int bind_release(FaultBinder *self, const DomainLevel *level, const Node *node) {
  ReleaseKeys keys = {0};
  if (option_bind(config_release_options, node, NULL, node->at, &keys, self->diag) ||
      check_kind(self, node->key_at, FAULT_DRAIN))
    return -1;
  if (keys.fails != (keys.rollback > 0))
    return diag_error(self->diag, node->key_at,
                      keys.fails ? "'fails' needs 'rollback'" : "'rollback' needs 'fails: true'");
  const uint32_t together = (uint32_t)keys.at_once;
  const double canaries = ceil(keys.canary * level->n - 1e-9);
  uint32_t until = keys.canary > 0 ? (uint32_t)canaries : together;
  int status = 0;
  Tick at = keys.at;
  for (uint32_t from = 0; from < level->n && !status; from = until, until += together) {
    if (until > level->n) until = level->n;
    status = release(self, level, &keys, node, at, from, until);
    const Tick starts = start_ticks(self, level, from, until);
    const Tick every = keys.every > 0 ? keys.every : keys.length + starts;
    if (keys.fails || every >= TICK_MAX - at) break;
    at += every;
  }
  return status;
}

/* --- all of it */

static int bind_down(FaultBinder *self, const DomainLevel *level, const DomainKeys *keys,
                     const Node *node) {
  const Place at = config_place(node, "down");
  if (check_number(self, level, at, keys->down) || check_kind(self, at, FAULT_DRAIN)) return -1;
  return add_domain(
      self, node, &level->domains[keys->down],
      (FaultSource){.kind = FAULT_DRAIN, .spans = faults_span(0, 0, self->arena), .n_spans = 1});
}

static int bind_uplink(const FaultBinder *self, DomainLevel *level, const DomainKeys *keys,
                       const Node *node) {
  level->uplink = keys->uplink;
  level->oversubscription = keys->oversubscription;
  level->rails = (uint32_t)keys->rails;
  level->has_uplinks = keys->uplink > 0 || keys->oversubscription > 0;
  if (keys->uplink > 0 && keys->oversubscription > 0)
    return diag_error(self->diag, config_place(node, "oversubscription"),
                      "'uplink' and 'oversubscription' exclude each other");
  if (node_find(node, "rails") && !level->has_uplinks)
    return diag_error(self->diag, config_place(node, "rails"),
                      "'rails' needs 'uplink' or 'oversubscription'");
  return 0;
}

static int bind_level(FaultBinder *self, const Node *node) {
  DomainKeys keys = {.down = -1};
  if (option_bind(config_domain_options, node, NULL, node->at, &keys, self->diag)) return -1;
  DomainLevel *level = &self->config->levels[self->config->n_levels];
  *level = (DomainLevel){.name = node->key};
  if (!keys.faults && (node_find(node, "kind") || node_find(node, "factor")))
    return diag_error(self->diag, config_place(node, node_find(node, "kind") ? "kind" : "factor"),
                      "'kind' and 'factor' are those of 'faults', which '%s' has not", node->key);
  if (place(self, level, &keys, node) || bind_uplink(self, level, &keys, node)) return -1;
  self->config->n_levels++;
  int status = 0;
  if (keys.faults) status |= bind_faults(self, level, &keys, node);
  if (keys.schedule) status |= bind_schedule(self, level, keys.schedule);
  if (keys.release) status |= bind_release(self, level, keys.release);
  if (keys.down >= 0) status |= bind_down(self, level, &keys, node);
  return status;
}

int faults_bind_domains(FaultBinder *self, const Node *node) {
  if (node->kind != NODE_MAP || node->n_children == 0) {
    diag_error(self->diag, node->at, "'domains' must be a map of kinds of failure domains");
    return diag_hint(self->diag,
                     "for example {rack: {size: 4, faults: {mtbf: 2000 h, mttr: 4 h}}}");
  }
  self->config->levels = ARENA_ARRAY(self->arena, DomainLevel, node->n_children);
  self->config->n_machines = count_machines(self->config);
  int status = 0;
  for (const Node *child = node->first; child; child = child->next)
    status |= bind_level(self, child);
  return status ? status : faults_bind_uplinks(self, node);
}

/* --- the worst ones */

/* What the loss of a domain takes: of each pool the instances that serve, and its spares. */
static void count_losses(const Config *self, const Domain *domain, uint32_t *losses) {
  for (uint32_t i = 0; i < domain->n_parts; i++) {
    const FaultPart part = domain->parts[i];
    uint32_t p;
    const PoolSpec *pool = pool_of(&self->sim, part.first, &p);
    uint32_t first = 0;
    for (uint32_t k = 0; k < p; k++)
      first += self->sim.pools[k].count;
    const uint32_t wanted =
        pool->scaling.max > 0 ? pool->scaling.start * pool_lanes(pool) : pool->count;
    const uint32_t at = part.first - first, end = at + part.n_instances;
    const uint32_t serving = at >= wanted ? 0 : (end < wanted ? end : wanted) - at;
    losses[2 * p] += serving;
    losses[2 * p + 1] += part.n_instances;
  }
}

/* Whether one loses no less than another of anything; of equals the first does. */
static bool covers(const uint32_t *losses, const uint32_t *other, uint32_t n, bool first) {
  bool more = first;
  for (uint32_t i = 0; i < n; i++) {
    if (losses[i] < other[i]) return false;
    more |= losses[i] > other[i];
  }
  return more;
}

uint32_t *config_worst_domains(const Config *self, const DomainLevel *level, uint32_t *ret_n,
                               Arena *arena) {
  const uint32_t width = 2 * self->sim.n_pools;
  uint32_t *losses = ARENA_ARRAY(arena, uint32_t, (size_t)width * level->n);
  uint32_t *worst = ARENA_ARRAY(arena, uint32_t, level->n), n = 0;
  for (uint32_t d = 0; d < level->n; d++)
    count_losses(self, &level->domains[d], &losses[d * width]);
  for (uint32_t d = 0; d < level->n; d++) {
    bool covered = level->domains[d].n_parts == 0;
    for (uint32_t k = 0; k < level->n && !covered; k++)
      covered = k != d && covers(&losses[k * width], &losses[d * width], width, k < d);
    if (!covered) worst[n++] = d;
  }
  *ret_n = n;
  return worst;
}
