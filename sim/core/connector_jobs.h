/* Loads and stores of a connector under way, which its scheduler hears of as they end. */
#ifndef SIM_CORE_CONNECTOR_JOBS_H
#define SIM_CORE_CONNECTOR_JOBS_H
#include "sim/core/scheduler.h"
#include "sim/core/state.h"

/* Blocks that nobody holds any more and that are not free yet. */
typedef struct KeptBlocks {
  HeldBlocks held; // where there is a prefix cache
  int64_t n;
  uint32_t step; // number of the step with whose end they are free; of a job: 0
} KeptBlocks;

typedef struct ConnectorJob {
  Tick begun, end;
  LinkDirection direction;
  RequestIx request; // that loads; REQUEST_NONE: a store, or it has left
  TierBlock *blocks; // that are loaded or written
  size_t n_blocks, blocks_capacity;
  KeptBlocks kept;
} ConnectorJob;

struct Connector {
  ConnectorOptions options;
  KvStore *tiers[KV_STORE_KINDS]; // [options.n_tiers] of an offloading one
  KeyMap loading;                 // blocks that are loaded to the GPUs, and by how many
  bool shares;                    // a tier with other instances
  CopyQueue nic;                  // network link of the instance, for KV that moves over it
  ConnectorJob *jobs;
  size_t n_jobs, jobs_capacity;
  KeptBlocks *kept; // with steps that run
  size_t n_kept, kept_capacity;
  uint64_t *keys; // reused
  size_t keys_capacity;
  bool *copied; // likewise
  size_t copied_capacity;
  struct TierRun *found; // of a request; likewise
  size_t n_found, found_capacity;
  int64_t n_loads, n_stores; // jobs begun with the newest decision, stores since the one before
  bool sleeps;               // no step is decided until a job ends (SimConfig.connectors_sleep)
};

/* One that ends then, the newest, without blocks. Valid until the next begins. */
ConnectorJob *connector_job_begin(Simulation *self, Connector *connector, LinkDirection direction,
                                  RequestIx request, Tick end);
void connector_job_add(Simulation *self, ConnectorJob *job, uint64_t key, int32_t tier);
/* When a transfer of so many seconds, which can begin at `from`, and before it an overhead, have
 * passed a queue behind those that are in it; now, if that is past the end of simulated time. */
Tick connector_pass(Simulation *self, CopyQueue *queue, LinkDirection direction, Tick from,
                    Tick overhead, double seconds);
#endif
