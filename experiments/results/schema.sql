-- The results of runs: one SQLite file, any number of runs, each written in one transaction.
--
-- Times are in seconds, energy in kWh. Identifiers of machines and requests count from 0 in the
-- order of the pools and of the trace. application_id says that a file is one of these,
-- user_version which form it has; a program reads and writes only its own.

PRAGMA application_id = 1415671396; -- 'Tand'
PRAGMA user_version = 10;

CREATE TABLE run (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,           -- path of the configuration as it was given
  config TEXT NOT NULL,         -- the configuration after --set, canonical YAML
  -- of all that decides the outcome: config, seeds, version, epoch, data
  config_digest TEXT NOT NULL,
  digest TEXT,                  -- of the outcomes; NULL: failed
  version TEXT NOT NULL,        -- of the program
  "commit" TEXT NOT NULL,       -- that it was built from; -dirty: files were changed; or unknown
  -- Digests of the rules that it used (experiments/base/epoch.h). Where one is another in the
  -- program that looks at the row, it is stale: it is not taken for that program's own. Runs of a
  -- real engine (import) have 'measured' and never are; they have no pools or machines, and what is
  -- known of them as config.
  epoch TEXT NOT NULL,
  seed INTEGER NOT NULL,
  tie_seed INTEGER NOT NULL,
  -- stalled: requests never finished; stopped: ended early, on purpose; failed: see reason
  status TEXT NOT NULL CHECK (status IN ('done', 'stalled', 'stopped', 'failed')),
  reason TEXT,                  -- why it failed; of such a run there are only params
  created_at TEXT NOT NULL,     -- UTC
  wall_s REAL NOT NULL,
  cpu_s REAL NOT NULL,
  events INTEGER NOT NULL,
  iterations INTEGER NOT NULL,
  CHECK ((status = 'failed') = (reason IS NOT NULL))
);
CREATE INDEX run_by_config ON run (config_digest);

-- The configuration, one row per leaf: pools.prefill.count = 25.
CREATE TABLE param (
  run_id INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
  key TEXT NOT NULL,
  value TEXT NOT NULL,
  PRIMARY KEY (run_id, key)
) WITHOUT ROWID;

CREATE TABLE pool (
  run_id INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
  pool INTEGER NOT NULL,
  name TEXT NOT NULL,
  role TEXT NOT NULL,
  machine TEXT NOT NULL,
  count INTEGER NOT NULL,
  tensor_parallel_size INTEGER NOT NULL,
  perfmodel TEXT NOT NULL, -- where its iteration times come from: SET/MODEL_GPU_tpN and so on
  block_size INTEGER NOT NULL,
  kv_blocks INTEGER NOT NULL, -- of one machine
  cpu_kv_blocks INTEGER NOT NULL, -- of its CPU memory, which only a tier that swaps uses
  utilization REAL NOT NULL,
  energy_kwh REAL, -- NULL: the machine's power is unknown
  PRIMARY KEY (run_id, pool)
) WITHOUT ROWID;

-- What each machine did. The program makes the comment a column for each figure of machines, named
-- as in 'tandem list figures': those with a unit REAL, counts INTEGER.
CREATE TABLE machine (
  run_id INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
  machine INTEGER NOT NULL,
  pool INTEGER NOT NULL,
  /* figures of machines */
  PRIMARY KEY (run_id, machine)
) WITHOUT ROWID;

-- Only of runs with a timeline: what each replica of a group of GPUs does from at_s until its next
-- row, and what lies in both tiers of its KV memory.
CREATE TABLE timeline (
  run_id INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
  row INTEGER NOT NULL, -- from 0, in order of time
  "group" TEXT NOT NULL,
  replica INTEGER NOT NULL,
  at_s REAL NOT NULL,
  shape TEXT NOT NULL,           -- prefill or decode; during reshard the coming one
  activity TEXT NOT NULL,        -- prefill, decode, reshard, drain or stall
  gpu_blocks INTEGER NOT NULL,   -- of KV, held on its GPUs
  store_blocks INTEGER NOT NULL, -- of KV, held or booked in its CPU memory
  prompts INTEGER NOT NULL,      -- that wait for prefill or are in one
  decoding INTEGER NOT NULL,     -- sequences assigned to its GPUs
  PRIMARY KEY (run_id, row)
) WITHOUT ROWID;

-- Only of runs with slo.goodput.share: each hour of simulated time, from 0.
CREATE TABLE hour (
  run_id INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
  hour INTEGER NOT NULL,
  requests INTEGER NOT NULL, -- that arrived in it
  good INTEGER NOT NULL,     -- of those, completed within all limits of slo.goodput
  instances_on REAL NOT NULL,   -- in the mean: on or starting, failed ones too
  instances_down REAL NOT NULL, -- of those: failed, in maintenance or starting after that
  PRIMARY KEY (run_id, hour)
) WITHOUT ROWID;

-- Every figure of the report. scope is 'run', 'pool.NAME', 'component.NAME' (of a mix),
-- 'group.NAME' or 'extrapolated' (shares
-- outside the measured range); statistic is 'value' or one of mean, p50, p90, p95, p99, max.
CREATE TABLE metric (
  run_id INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
  scope TEXT NOT NULL,
  name TEXT NOT NULL,
  statistic TEXT NOT NULL,
  value REAL, -- NULL: there was nothing to measure
  unit TEXT NOT NULL,
  PRIMARY KEY (run_id, scope, name, statistic)
) WITHOUT ROWID;

-- How often a latency had a value, as a JSON object from bucket to count; see the view histogram.
CREATE TABLE buckets (
  run_id INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
  name TEXT NOT NULL,
  counts TEXT NOT NULL,
  PRIMARY KEY (run_id, name)
) WITHOUT ROWID;

-- Values from low to below high, in the unit of the metric of the same name. Bucket b is eight of
-- those of base/histogram.h: 8 << octave picoseconds from (b - 256 octave) << octave on, where
-- octave is b / 256 - 1, at least 0.
CREATE VIEW histogram AS
SELECT
  run_id, name,
  (bucket - (octave << 8) << octave) / 1e12 AS low,
  (bucket + 8 - (octave << 8) << octave) / 1e12 AS high,
  count
FROM (
  SELECT
    run_id, name, bucket, count, max(0, (bucket >> 8) - 1) AS octave
  FROM (
    SELECT run_id, name, CAST(key AS INTEGER) AS bucket, value AS count
    FROM buckets, json_each(counts)
  )
);

-- The objectives. name is the key of the limit below `slo`: slowdown.ttft.p99, ttft.p99, goodput.
CREATE TABLE slo (
  run_id INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
  name TEXT NOT NULL,
  value REAL, -- NULL: infinite, or not measured
  "limit" REAL NOT NULL,
  unit TEXT NOT NULL, -- of both: s, or nothing for slowdowns and shares
  margin REAL, -- share of the limit that is left, negative when it is missed; NULL: as of value
  met INTEGER NOT NULL,
  unmeasured TEXT, -- why nothing of it was measured, so that it is not met; NULL: it was
  PRIMARY KEY (run_id, name)
) WITHOUT ROWID;

-- Only of runs with --requests; the comment is as in machine. A time is NULL when it was never
-- reached.
CREATE TABLE request (
  run_id INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
  rejected INTEGER NOT NULL,
  /* figures of requests */
  PRIMARY KEY (run_id, request)
) WITHOUT ROWID;

-- Sweeps: which runs are the points of which. A run that was there before a sweep wanted it, of
-- another sweep or of none, is a point of both. Points count from 0, the last axis moves fastest.
CREATE TABLE sweep (
  id INTEGER PRIMARY KEY,
  digest TEXT NOT NULL UNIQUE, -- of version, epoch and config
  name TEXT NOT NULL,          -- path of the file as it was given
  config TEXT NOT NULL,        -- all of it after --set, canonical YAML
  version TEXT NOT NULL,
  epoch TEXT NOT NULL,         -- as in run
  points INTEGER NOT NULL,     -- of all shards together
  created_at TEXT NOT NULL
);

-- The shards that this database was asked to hold, 1 of 1 when the sweep was not split.
CREATE TABLE shard (
  sweep_id INTEGER NOT NULL REFERENCES sweep (id) ON DELETE CASCADE,
  shard INTEGER NOT NULL, -- has the points whose number is shard - 1 modulo shards
  shards INTEGER NOT NULL,
  PRIMARY KEY (sweep_id, shards, shard)
) WITHOUT ROWID;

CREATE TABLE axis (
  sweep_id INTEGER NOT NULL REFERENCES sweep (id) ON DELETE CASCADE,
  axis INTEGER NOT NULL,
  name TEXT NOT NULL, -- the key, or the name over designs or over keys that move together
  PRIMARY KEY (sweep_id, axis)
) WITHOUT ROWID;

CREATE TABLE point (
  sweep_id INTEGER NOT NULL REFERENCES sweep (id) ON DELETE CASCADE,
  point INTEGER NOT NULL,
  run_id INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
  PRIMARY KEY (sweep_id, point)
) WITHOUT ROWID;
CREATE INDEX point_by_run ON point (run_id);

-- Where a point is on each axis.
CREATE TABLE point_value (
  sweep_id INTEGER NOT NULL,
  point INTEGER NOT NULL,
  axis INTEGER NOT NULL,
  value TEXT NOT NULL, -- as written; of keys that move together "1, 8"; of designs the name
  PRIMARY KEY (sweep_id, point, axis),
  FOREIGN KEY (sweep_id, point) REFERENCES point ON DELETE CASCADE
) WITHOUT ROWID;

-- Provisioning studies and their answers. Their runs are rows of `run`; those that were ended
-- early, a limit being lost, have status 'stopped' and that limit alone in `slo`.
CREATE TABLE study (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,      -- path of the file as it was given
  config TEXT NOT NULL,    -- all of it after --set, canonical YAML
  version TEXT NOT NULL,
  epoch TEXT NOT NULL,     -- as in run
  objective TEXT NOT NULL, -- throughput, cost, power, machines, instances or gpus
  seeds INTEGER NOT NULL,
  created_at TEXT NOT NULL
);

CREATE TABLE design (
  study_id INTEGER NOT NULL REFERENCES study (id) ON DELETE CASCADE,
  name TEXT NOT NULL,
  low REAL, high REAL, -- of the objective over the seeds; NULL: no seed has an answer
  mean REAL,
  half_width REAL,     -- of the 95% t-interval of the mean; NULL: fewer than two answers
  low_model REAL,      -- the same range with iteration times off by their models' error, too;
  high_model REAL,     -- NULL: not asked for, or that is not known
  holds INTEGER NOT NULL,    -- seeds whose requests the first seed's answer holds
  monotone INTEGER NOT NULL, -- 0: a larger cluster or lower rate failed where another held
  simulations INTEGER NOT NULL,
  grid REAL NOT NULL,  -- simulations of all counts and rates
  why_not TEXT,        -- NULL: there is an answer
  PRIMARY KEY (study_id, name)
) WITHOUT ROWID;

-- The best of each design on each seed; all NULL when nothing meets the limits.
CREATE TABLE answer (
  study_id INTEGER NOT NULL REFERENCES study (id) ON DELETE CASCADE,
  design TEXT NOT NULL,
  seed INTEGER NOT NULL,
  rate_rps REAL,
  prefill_instances INTEGER,
  decode_instances INTEGER,
  mixed_instances INTEGER,
  instances INTEGER, -- of all roles
  gpus INTEGER,
  machines INTEGER,   -- whole ones, that the instances fill
  cost_per_hour REAL, -- NULL too when it is not known
  power_kw REAL,
  binds TEXT,  -- the limit with the least margin
  margin REAL, -- its, as a share of the limit
  choice TEXT, -- of an offline study: its label; rate_rps is then its throughput
  output_tokens_per_s REAL,
  cost_per_million_output_tokens REAL, -- at that throughput
  cost_per_million_tokens REAL,        -- the same, prompts counted too
  config_digest TEXT, -- of its run
  PRIMARY KEY (study_id, design, seed)
) WITHOUT ROWID;

-- Of offline studies, whose designs are choices: what each of them gave.
CREATE TABLE choice (
  study_id INTEGER NOT NULL REFERENCES study (id) ON DELETE CASCADE,
  design TEXT NOT NULL,
  seed INTEGER NOT NULL,
  choice INTEGER NOT NULL, -- from 0, the last of a design's lists moves fastest
  label TEXT NOT NULL,     -- parallelism=TP4 policies.batcher.max_num_batched_tokens=512
  throughput_rps REAL,     -- NULL: it was not simulated
  output_tokens_per_s REAL,
  why_not TEXT,            -- why it cannot be the answer, NULL: it can
  config_digest TEXT,      -- of its run
  PRIMARY KEY (study_id, design, seed, choice)
) WITHOUT ROWID;
