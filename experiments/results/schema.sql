-- The database of results: one SQLite file. Each run is written in one transaction.
-- `tandem query DB tables` lists the tables; experiments/guide/databases.md introduces them.
--
-- Times are in seconds, energy in kWh. Instances (column machine) are numbered from 0 in the order
-- of the pools, requests in the order of the trace. application_id identifies such a file, and
-- user_version is the form of its tables: a program reads and writes only its own form.

PRAGMA application_id = 1415671396; -- 'Tand'
PRAGMA user_version = 11;

CREATE TABLE run (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,           -- path of the configuration as given
  config TEXT NOT NULL,         -- the configuration after --set, canonical YAML
  -- covers everything that decides the outcome: config, seeds, version, epoch, data
  config_digest TEXT NOT NULL,
  digest TEXT,                  -- covers the outcomes; NULL: the run failed
  version TEXT NOT NULL,        -- version of the program
  "commit" TEXT NOT NULL,       -- its commit; -dirty: files had been changed; or unknown
  -- One digest for each rule of the simulator that the run used (experiments/base/epoch.h). The run
  -- is stale for a program in which one of these differs, and is then simulated again. Runs of a
  -- real engine (import) have 'measured' and are never stale; they have no pools or machines, and
  -- their config is what is known of them.
  epoch TEXT NOT NULL,
  seed INTEGER NOT NULL,
  tie_seed INTEGER NOT NULL,
  -- stalled: some requests never finished; stopped: ended early on purpose; failed: see reason
  status TEXT NOT NULL CHECK (status IN ('done', 'stalled', 'stopped', 'failed')),
  reason TEXT,                  -- why it failed; a failed run has rows in param alone
  created_at TEXT NOT NULL,     -- UTC
  wall_s REAL NOT NULL,
  cpu_s REAL NOT NULL,
  events INTEGER NOT NULL,
  iterations INTEGER NOT NULL,
  CHECK ((status = 'failed') = (reason IS NOT NULL))
);
CREATE INDEX run_by_config ON run (config_digest);

-- The configuration, one row per value: pools.prefill.count = 25.
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
  perfmodel TEXT NOT NULL, -- source of the iteration times: SET/MODEL_GPU_tpN and so on
  block_size INTEGER NOT NULL,
  kv_blocks INTEGER NOT NULL, -- of one instance
  cpu_kv_blocks INTEGER NOT NULL, -- in its CPU memory; only tiers that swap use them
  utilization REAL NOT NULL,
  energy_kwh REAL, -- NULL: the machine's power is unknown
  PRIMARY KEY (run_id, pool)
) WITHOUT ROWID;

-- What each instance did. The program replaces the comment by one column for each figure of
-- instances, named as in 'tandem list figures': REAL if it has a unit, INTEGER if it is a count.
CREATE TABLE machine (
  run_id INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
  machine INTEGER NOT NULL,
  pool INTEGER NOT NULL,
  /* figures of machines */
  PRIMARY KEY (run_id, machine)
) WITHOUT ROWID;

-- Runs with a timeline only: what each replica of a group of GPUs does from at_s until its next
-- row, and the KV blocks in its GPU and CPU memory.
CREATE TABLE timeline (
  run_id INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
  row INTEGER NOT NULL, -- from 0, in order of time
  "group" TEXT NOT NULL,
  replica INTEGER NOT NULL,
  at_s REAL NOT NULL,
  shape TEXT NOT NULL,           -- prefill or decode; during reshard the next one
  activity TEXT NOT NULL,        -- prefill, decode, reshard, drain or stall
  gpu_blocks INTEGER NOT NULL,   -- KV blocks on its GPUs
  store_blocks INTEGER NOT NULL, -- KV blocks held or reserved in its CPU memory
  prompts INTEGER NOT NULL,      -- prompts that wait for prefill or are in one
  decoding INTEGER NOT NULL,     -- sequences that its GPUs decode
  PRIMARY KEY (run_id, row)
) WITHOUT ROWID;

-- Runs with slo.goodput.share only: one row per hour of simulated time, from 0.
CREATE TABLE hour (
  run_id INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
  hour INTEGER NOT NULL,
  requests INTEGER NOT NULL, -- requests that arrived in it
  good INTEGER NOT NULL,     -- of those, completed within all limits of slo.goodput
  instances_on REAL NOT NULL,   -- mean number on or starting, including failed ones
  instances_down REAL NOT NULL, -- of those, failed, in maintenance or starting afterwards
  PRIMARY KEY (run_id, hour)
) WITHOUT ROWID;

-- Every figure of the report (experiments/guide/figures.md). scope is 'run', 'pool.NAME',
-- 'component.NAME' (of a mix), 'group.NAME' or 'extrapolated' (shares outside the measured range);
-- statistic is 'value', one of mean, p50, p90, p95, p99, max, or one of these with _half_width:
-- half of its 95% interval.
CREATE TABLE metric (
  run_id INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
  scope TEXT NOT NULL,
  name TEXT NOT NULL,
  statistic TEXT NOT NULL,
  value REAL, -- NULL: there was nothing to measure
  unit TEXT NOT NULL,
  PRIMARY KEY (run_id, scope, name, statistic)
) WITHOUT ROWID;

-- Histograms of latencies, as JSON objects from bucket to count. The view histogram decodes them.
CREATE TABLE buckets (
  run_id INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
  name TEXT NOT NULL,
  counts TEXT NOT NULL,
  PRIMARY KEY (run_id, name)
) WITHOUT ROWID;

-- The number of values from low to below high, in the unit of the metric of the same name. Bucket b
-- is eight buckets of base/histogram.h: 8 << octave picoseconds from (b - 256 octave) << octave on,
-- where octave is b / 256 - 1, and at least 0.
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

-- The limits. name is the key of the limit below `slo`: slowdown.ttft.p99, ttft.p99, goodput; the
-- name of a component comes first: chat:ttft.p99.
CREATE TABLE slo (
  run_id INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
  name TEXT NOT NULL,
  value REAL, -- NULL: infinite, or not measured
  "limit" REAL NOT NULL,
  unit TEXT NOT NULL, -- unit of value and limit: s, or empty for slowdowns and shares
  margin REAL, -- share of the limit that is left; negative: missed; NULL: as value
  met INTEGER NOT NULL,
  unmeasured TEXT, -- why the run has no value for it, so that it is not met; NULL: it has
  PRIMARY KEY (run_id, name)
) WITHOUT ROWID;

-- Runs with --requests only. The comment stands for columns as in machine. A time that was never
-- reached is NULL.
CREATE TABLE request (
  run_id INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
  rejected INTEGER NOT NULL,
  /* figures of requests */
  PRIMARY KEY (run_id, request)
) WITHOUT ROWID;

-- Sweeps, and the runs that are their points. A run that was stored before a sweep needed it is
-- used as its point, too. Points are numbered from 0; the last axis moves fastest.
CREATE TABLE sweep (
  id INTEGER PRIMARY KEY,
  digest TEXT NOT NULL UNIQUE, -- covers version, epoch and config
  name TEXT NOT NULL,          -- path of the file as given
  config TEXT NOT NULL,        -- the file after --set, canonical YAML
  version TEXT NOT NULL,
  epoch TEXT NOT NULL,         -- as in run
  points INTEGER NOT NULL,     -- number of points of all shards together
  created_at TEXT NOT NULL
);

-- The shards of a sweep that this database holds; 1 of 1 if the sweep was not split.
CREATE TABLE shard (
  sweep_id INTEGER NOT NULL REFERENCES sweep (id) ON DELETE CASCADE,
  shard INTEGER NOT NULL, -- holds the points whose number is shard - 1 modulo shards
  shards INTEGER NOT NULL,
  PRIMARY KEY (sweep_id, shards, shard)
) WITHOUT ROWID;

CREATE TABLE axis (
  sweep_id INTEGER NOT NULL REFERENCES sweep (id) ON DELETE CASCADE,
  axis INTEGER NOT NULL,
  name TEXT NOT NULL, -- the key, or the name of an axis of designs or of several keys
  PRIMARY KEY (sweep_id, axis)
) WITHOUT ROWID;

CREATE TABLE point (
  sweep_id INTEGER NOT NULL REFERENCES sweep (id) ON DELETE CASCADE,
  point INTEGER NOT NULL,
  run_id INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
  PRIMARY KEY (sweep_id, point)
) WITHOUT ROWID;
CREATE INDEX point_by_run ON point (run_id);

-- The value of a point on each axis.
CREATE TABLE point_value (
  sweep_id INTEGER NOT NULL,
  point INTEGER NOT NULL,
  axis INTEGER NOT NULL,
  value TEXT NOT NULL, -- as written; "1, 8" for several keys; the name of a design
  PRIMARY KEY (sweep_id, point, axis),
  FOREIGN KEY (sweep_id, point) REFERENCES point ON DELETE CASCADE
) WITHOUT ROWID;

-- Provisioning studies and their answers. Their runs are rows of `run`. A run that was ended early
-- because a limit was lost has status 'stopped', and only that limit in `slo`.
CREATE TABLE study (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,      -- path of the file as given
  config TEXT NOT NULL,    -- the file after --set, canonical YAML
  version TEXT NOT NULL,
  epoch TEXT NOT NULL,     -- as in run
  objective TEXT NOT NULL, -- throughput, cost, power, machines, instances or gpus
  seeds INTEGER NOT NULL,
  created_at TEXT NOT NULL
);

CREATE TABLE design (
  study_id INTEGER NOT NULL REFERENCES study (id) ON DELETE CASCADE,
  name TEXT NOT NULL,
  low REAL, high REAL, -- least and largest objective over the seeds; NULL: no answer
  mean REAL,
  half_width REAL,     -- half of the mean's 95% t-interval; NULL: fewer than two answers
  low_model REAL,      -- low and high if iteration times are also off by their models' error;
  high_model REAL,     -- NULL: not asked for, or the error is unknown
  holds INTEGER NOT NULL,    -- number of seeds on which the first seed's answer holds
  monotone INTEGER NOT NULL, -- 0: a larger cluster or lower rate failed where another held
  simulations INTEGER NOT NULL,
  grid REAL NOT NULL,  -- simulations of all counts and rates of the design
  why_not TEXT,        -- NULL: there is an answer
  PRIMARY KEY (study_id, name)
) WITHOUT ROWID;

-- The best of each design on each seed; all NULL if nothing meets the limits.
CREATE TABLE answer (
  study_id INTEGER NOT NULL REFERENCES study (id) ON DELETE CASCADE,
  design TEXT NOT NULL,
  seed INTEGER NOT NULL,
  rate_rps REAL,
  prefill_instances INTEGER,
  decode_instances INTEGER,
  mixed_instances INTEGER,
  instances INTEGER, -- all roles together
  gpus INTEGER,
  machines INTEGER,   -- whole machines that the instances fill
  cost_per_hour REAL, -- NULL also if unknown
  power_kw REAL,
  binds TEXT,  -- the limit with the smallest margin
  margin REAL, -- its margin, as a share of the limit
  choice TEXT, -- offline studies: the choice's label; rate_rps is its throughput
  output_tokens_per_s REAL,
  cost_per_million_output_tokens REAL, -- at that throughput
  cost_per_million_tokens REAL,        -- the same, with prompt tokens
  config_digest TEXT, -- config_digest of its run
  PRIMARY KEY (study_id, design, seed)
) WITHOUT ROWID;

-- The choices of offline studies, and what each of them gave.
CREATE TABLE choice (
  study_id INTEGER NOT NULL REFERENCES study (id) ON DELETE CASCADE,
  design TEXT NOT NULL,
  seed INTEGER NOT NULL,
  choice INTEGER NOT NULL, -- from 0; the last list of a design moves fastest
  label TEXT NOT NULL,     -- parallelism=TP4 policies.batcher.max_num_batched_tokens=512
  throughput_rps REAL,     -- NULL: not simulated
  output_tokens_per_s REAL,
  why_not TEXT,            -- why it cannot be the answer; NULL: it can
  config_digest TEXT,      -- config_digest of its run
  PRIMARY KEY (study_id, design, seed, choice)
) WITHOUT ROWID;

-- What 'tandem plan' found beside the answers of its study. front: its best designs at several
-- shares of the load that was asked; speed is output tokens/s that a user sees (1 / mean TPOT).
CREATE TABLE front (
  study_id INTEGER NOT NULL REFERENCES study (id) ON DELETE CASCADE,
  design TEXT NOT NULL,
  load REAL NOT NULL, -- of what was asked: 1 is that
  rate_rps REAL,
  speed REAL,
  cost_per_million_output_tokens REAL, -- NULL: no price
  gpu_s_per_million_output_tokens REAL,
  j_per_output_token REAL,
  saturated INTEGER NOT NULL, -- more requests came than it served
  met INTEGER NOT NULL,       -- all limits
  best INTEGER NOT NULL,      -- no other is both cheaper and faster
  PRIMARY KEY (study_id, design, load)
) WITHOUT ROWID;

-- Where the time of a request goes, on average, at the load that was asked: the parts of the table
-- request.
CREATE TABLE part (
  study_id INTEGER NOT NULL REFERENCES study (id) ON DELETE CASCADE,
  design TEXT NOT NULL,
  part TEXT NOT NULL,       -- prefill_queue, prefill, decode, ...
  is_late INTEGER NOT NULL, -- 1: after the first token
  seconds REAL NOT NULL,
  PRIMARY KEY (study_id, design, part)
) WITHOUT ROWID;

-- With --curve: the share of the requests that keep all limits, each by itself, and those per
-- second, against the rate. low and high are over seeds and with times off by their error.
CREATE TABLE curve (
  study_id INTEGER NOT NULL REFERENCES study (id) ON DELETE CASCADE,
  design TEXT NOT NULL,
  load REAL NOT NULL,
  rate_rps REAL NOT NULL, -- requests that came per second
  attained REAL, attained_low REAL, attained_high REAL,
  goodput_rps REAL, goodput_rps_low REAL, goodput_rps_high REAL,
  share REAL, -- of the requests that must keep the limits; NULL: none is said
  PRIMARY KEY (study_id, design, load)
) WITHOUT ROWID;
