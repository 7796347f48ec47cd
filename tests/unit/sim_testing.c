/* See sim_testing.h. */
#include "tests/unit/sim_testing.h"
#include "sim/policies.h"
#include "tests/time_parts.h"
#include <criterion/criterion.h>
#include <string.h>

const PerfModel *plain_model(Arena *arena) {
  static const PwlKnot linear[] = {{1, 0.001}, {1000, 1}};
  static const PwlKnot attention[] = {{0, 0}, {10000, 0.1}};
  PerfModel *model = ARENA_NEW(arena, PerfModel);
  *model = (PerfModel){.name = "plain", .form = PERF_COMPOSED, .overhead = 10 * MS};
  pwl_init(&model->linear, linear, COUNT(linear), false, arena);
  CurveRow only = {.key = 1};
  pwl_init(&only.curve, attention, COUNT(attention), false, arena);
  const CurveTable table = {.rows = &only, .n_rows = 1, .low = 1, .high = 64};
  perfmodel_compile(model, &table, 256, arena);
  return model;
}

void *policy_state(PolicyKind kind, const char *name, const char *options, Arena *arena) {
  const Policy *policy = policy_find(kind, name);
  cr_assert_not_null(policy, "no %s '%s'", policy_kind_name(kind), name);
  Diag diag;
  diag_init(&diag);
  const Node *node = options ? yaml_parse("options", options, strlen(options), arena, &diag) : NULL;
  void *state = policy_bind(policy, node, place_of_file("options"), arena, &diag);
  cr_assert(state && diag.n_entries == 0, "%s of '%s' are wrong", options, name);
  diag_done(&diag);
  return state;
}

PolicyChoice choose_policy(PolicyKind kind, const char *name, const char *options, Arena *arena) {
  const void *state = policy_state(kind, name, options, arena);
  return (PolicyChoice){policy_find(kind, name), state};
}

/* --- hooks of policies */

static Role role_of(char letter) {
  return letter == 'P' ? ROLE_PREFILL : letter == 'D' ? ROLE_DECODE : ROLE_MIXED;
}

void stage_init(Stage *self, const char *roles, int64_t kv_blocks, int64_t block_size,
                Arena *arena) {
  *self = (Stage){.arena = arena,
                  .pool = {.name = "stage", .kv_blocks = kv_blocks, .block_size = block_size},
                  .plan.arena = arena};
  static const Batcher grows = {.reserves_output = false};
  const uint32_t n_machines = (uint32_t)strlen(roles);
  cr_assert_leq(n_machines, (uint32_t)STAGE_MACHINES);
  for (InstanceIx m = 0; m < n_machines; m++) {
    self->machines[m] = (Instance){.pool = &self->pool,
                                   .ix = m,
                                   .role = role_of(roles[m]),
                                   .home = role_of(roles[m]),
                                   .batcher = &grows,
                                   .prefill_queue = REQUEST_QUEUE_EMPTY,
                                   .decode_queue = REQUEST_QUEUE_EMPTY,
                                   .blocked = REQUEST_QUEUE_EMPTY,
                                   .swapped = REQUEST_QUEUE_EMPTY,
                                   .inbound = REQUEST_QUEUE_EMPTY,
                                   .kv_blocks = kv_blocks,
                                   .least_blocks = kv_blocks,
                                   .wanted_blocks = kv_blocks,
                                   .free_blocks = kv_blocks};
    batch_init(&self->machines[m].batch, block_size, arena);
  }
  request_table_init(&self->requests, arena);
  ClusterColumns columns;
  cluster_columns_init(&columns, n_machines, 1, arena);
  cluster_init(&self->view, &columns, 0, self->machines, n_machines, arena);
}

RequestIx stage_request(Stage *self, int32_t prompt_tokens, int32_t output_tokens) {
  const uint64_t id = self->requests.n_live;
  const RequestIx ix = request_table_take(&self->requests);
  Request *request = &self->requests.slots[ix];
  request->id = id;
  request->arrived_at = (Tick)id;
  request->prompt_tokens = prompt_tokens;
  request->output_tokens = request->max_tokens = output_tokens;
  request->state = REQUEST_WAITS_PREFILL;
  self->view.requests = self->requests.slots;
  return ix;
}

RequestIx stage_prefill(Stage *self, InstanceIx machine, int32_t prompt_tokens) {
  const RequestIx ix = stage_request(self, prompt_tokens, 10);
  Request *slots = self->requests.slots;
  slots[ix].prefill_instance = slots[ix].decode_instance = machine;
  request_queue_push(&self->machines[machine].prefill_queue, slots, ix);
  return ix;
}

RequestIx stage_decode(Stage *self, InstanceIx m, RequestState state, int32_t context,
                       int32_t remaining) {
  const RequestIx ix = stage_request(self, context, 1 + remaining);
  Instance *machine = &self->machines[m];
  Request *slots = self->requests.slots;
  Request *request = &slots[ix];
  request->prefill_instance = request->decode_instance = m;
  request->prefilled_tokens = request->prompt_tokens;
  request->generated_tokens = 1;
  request->state = (uint8_t)state;
  request->kv_blocks = state == REQUEST_SWAPPED ? 0 : (int32_t)blocks_of(machine, context);
  machine->free_blocks -= request->kv_blocks;
  if (state == REQUEST_RUNS)
    batch_push(&machine->batch, slots, ix, context + 1, remaining, self->arena);
  else
    request_queue_push(state == REQUEST_BLOCKED   ? &machine->blocked
                       : state == REQUEST_SWAPPED ? &machine->swapped
                                                  : &machine->decode_queue,
                       slots, ix);
  return ix;
}

InstanceView stage_view(const Stage *self, InstanceIx machine) {
  return (InstanceView){.now = self->view.now,
                        .instance = &self->machines[machine],
                        .requests = self->requests.slots,
                        .made_room = self->made_room};
}

const BatchPlan *stage_plan(Stage *self, const Batcher *batcher, void *state, void *machine_state,
                            InstanceIx machine) {
  BatchPlan *plan = &self->plan;
  plan->n_prefills = plan->n_admits = plan->n_preempts = 0;
  plan->padding = (BatchShape){0};
  plan->pause_decodes = false;
  self->machines[machine].batcher = batcher;
  const InstanceView view = stage_view(self, machine);
  batcher->plan(state, machine_state, &view, plan);
  return plan;
}

/* --- whole runs */

TraceRow row(Tick at, int32_t prompt_tokens, int32_t output_tokens) {
  return (TraceRow){.at = at, .prompt_tokens = prompt_tokens, .output_tokens = output_tokens};
}

static int keep_record(void *context, const RequestRecord *record, const Metrics *so_far,
                       Diag *diag) {
  (void)so_far;
  (void)diag;
  Scene *self = context;
  cr_assert_lt(record->id, (uint64_t)SCENE_REQUESTS);
  self->records[record->id] = *record;
  self->records[record->id].parts = NULL;
  if (!record->parts) return 0;
  self->parts[record->id] = *record->parts;
  cr_expect_null(time_parts_check(record, record->parts));
  return 0;
}

void scene_choose(Scene *self, PolicyKind kind, const char *name, const char *options) {
  self->config.policies[kind] = choose_policy(kind, name, options, self->arena);
}

void scene_init(Scene *self, Arena *arena, Diag *diag) {
  *self = (Scene){.arena = arena, .diag = diag};
  self->pools[0] = (PoolSpec){.name = "all",
                              .machine = "plain",
                              .role = ROLE_MIXED,
                              .count = 1,
                              .perfmodel = plain_model(arena),
                              .kv_blocks = 1000,
                              .block_size = 16,
                              .kv_bytes_per_token = 1000000,
                              .num_hidden_layers = 10,
                              .nic_bandwidth = 1000000000};
  self->config = (SimConfig){.pools = self->pools,
                             .n_pools = 1,
                             .trace = &self->trace.source,
                             .audit = true,
                             .keeps_parts = true,
                             .on_request = keep_record,
                             .on_request_context = self};
  scene_choose(self, POLICY_ROUTER, "jsq", NULL);
  scene_choose(self, POLICY_POOL, "fixed", NULL);
  scene_choose(self, POLICY_BATCHER, "continuous", NULL);
  scene_choose(self, POLICY_TRANSFER, "serialized", NULL);
  scene_choose(self, POLICY_KVTIER, "recompute", NULL);
}

void scene_split(Scene *self, uint32_t n_prefill, uint32_t n_decode) {
  self->pools[1] = self->pools[0];
  self->pools[0].name = "prefill";
  self->pools[0].role = ROLE_PREFILL;
  self->pools[0].count = n_prefill;
  self->pools[1].name = "decode";
  self->pools[1].role = ROLE_DECODE;
  self->pools[1].count = n_decode;
  self->config.n_pools = 2;
}

int scene_run(Scene *self, const TraceRow *rows, size_t n_rows) {
  array_trace_init(&self->trace, rows, n_rows);
  memset(self->records, 0, sizeof self->records);
  return sim_run(&self->config, &self->result, self->arena, self->diag);
}

void scene_run_both(Scene *self, const TraceRow *rows, size_t n_rows) {
  uint64_t digest = 0;
  for (int step = 0; step < 2; step++) {
    self->config.step = step;
    cr_assert_eq(scene_run(self, rows, n_rows), 0, "%s",
                 self->diag->n_entries ? self->diag->entries[0].message : "");
    if (step) cr_assert_eq(self->result.digest, digest, "stepped is not coalesced");
    digest = self->result.digest;
  }
  cr_assert_eq(self->result.unfinished, 0u);
  cr_assert_eq(self->result.metrics.asked.requests, n_rows);
}
