-- The results of runs: one SQLite file, any number of runs, each written in one transaction.
--
-- Times are in seconds, energy in kWh. Identifiers of machines and requests count from 0 in the
-- order of the pools and of the trace. application_id says that a file is one of these,
-- user_version which form it has; a program reads and writes only its own.

PRAGMA application_id = 1415671396; -- 'Tand'
PRAGMA user_version = 1;

CREATE TABLE run (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,           -- path of the configuration as it was given
  config TEXT NOT NULL,         -- the configuration after --set, canonical YAML
  config_digest TEXT NOT NULL,  -- of all that decides the outcome: config, seeds, version, data
  digest TEXT NOT NULL,         -- of the outcomes
  version TEXT NOT NULL,        -- of the program
  seed INTEGER NOT NULL,
  tie_seed INTEGER NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('done', 'stalled')), -- stalled: requests never finished
  created_at TEXT NOT NULL,     -- UTC
  wall_s REAL NOT NULL,
  cpu_s REAL NOT NULL,
  events INTEGER NOT NULL,
  iterations INTEGER NOT NULL
);
CREATE INDEX run_by_config ON run (config_digest);

-- The configuration, one row per leaf: pools.prefill.count = 25.
CREATE TABLE param (
  run_id INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE,
  key TEXT NOT NULL,
  value TEXT NOT NULL,
  PRIMARY KEY (run_id, key)
) WITHOUT ROWID;

CREATE TABLE pool (
  run_id INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE,
  pool INTEGER NOT NULL,
  name TEXT NOT NULL,
  role TEXT NOT NULL,
  machine TEXT NOT NULL,
  count INTEGER NOT NULL,
  tensor_parallel_size INTEGER NOT NULL,
  block_size INTEGER NOT NULL,
  kv_blocks INTEGER NOT NULL, -- of one machine
  utilization REAL NOT NULL,
  energy_kwh REAL, -- NULL: the machine's power is unknown
  PRIMARY KEY (run_id, pool)
) WITHOUT ROWID;

CREATE TABLE machine (
  run_id INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE,
  machine INTEGER NOT NULL,
  pool INTEGER NOT NULL,
  prefill_s REAL NOT NULL, -- in iterations with prefill
  decode_s REAL NOT NULL,  -- in iterations of decodes alone
  prefill_iterations INTEGER NOT NULL,
  decode_iterations INTEGER NOT NULL,
  prefill_tokens INTEGER NOT NULL,
  decode_tokens INTEGER NOT NULL,
  extrapolated_iterations INTEGER NOT NULL,
  PRIMARY KEY (run_id, machine)
) WITHOUT ROWID;

-- Every figure of the report. scope is 'run', 'pool.NAME' or 'extrapolated' (shares outside the
-- measured range); statistic is 'value' or one of mean, p50, p90, p95, p99, max.
CREATE TABLE metric (
  run_id INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE,
  scope TEXT NOT NULL,
  name TEXT NOT NULL,
  statistic TEXT NOT NULL,
  value REAL, -- NULL: there was nothing to measure
  unit TEXT NOT NULL,
  PRIMARY KEY (run_id, scope, name, statistic)
) WITHOUT ROWID;

-- Values from low to below high, in the unit of the metric of the same name.
CREATE TABLE histogram (
  run_id INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE,
  name TEXT NOT NULL,
  low REAL NOT NULL,
  high REAL NOT NULL,
  count INTEGER NOT NULL,
  PRIMARY KEY (run_id, name, low)
) WITHOUT ROWID;

CREATE TABLE slo (
  run_id INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE,
  name TEXT NOT NULL,
  slowdown REAL, -- NULL: infinite
  "limit" REAL NOT NULL,
  met INTEGER NOT NULL,
  PRIMARY KEY (run_id, name)
) WITHOUT ROWID;

-- Only of runs with --requests. A time is NULL when it was never reached.
CREATE TABLE request (
  run_id INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE,
  request INTEGER NOT NULL,
  prompt_tokens INTEGER NOT NULL,
  output_tokens INTEGER NOT NULL,
  prefill_machine INTEGER,
  decode_machine INTEGER,
  arrived_s REAL NOT NULL,
  prefill_began_s REAL,
  first_token_s REAL,
  decode_began_s REAL,
  last_token_s REAL,
  preemptions INTEGER NOT NULL,
  evictions INTEGER NOT NULL,
  rejected INTEGER NOT NULL,
  PRIMARY KEY (run_id, request)
) WITHOUT ROWID;

CREATE VIEW summary AS
SELECT
  run.id AS run,
  run.name AS config,
  max(value) FILTER (WHERE metric.name = 'requests') AS requests,
  max(value) FILTER (WHERE metric.name = 'completed') AS completed,
  max(value) FILTER (WHERE metric.name = 'throughput_rps') AS throughput_rps,
  max(value) FILTER (WHERE metric.name = 'ttft_s' AND statistic = 'p50') AS ttft_p50_s,
  max(value) FILTER (WHERE metric.name = 'ttft_s' AND statistic = 'p99') AS ttft_p99_s,
  max(value) FILTER (WHERE metric.name = 'tbt_s' AND statistic = 'p50') AS tbt_p50_s,
  max(value) FILTER (WHERE metric.name = 'tbt_s' AND statistic = 'p99') AS tbt_p99_s,
  max(value) FILTER (WHERE metric.name = 'e2e_s' AND statistic = 'p50') AS e2e_p50_s,
  max(value) FILTER (WHERE metric.name = 'e2e_s' AND statistic = 'p99') AS e2e_p99_s,
  max(value) FILTER (WHERE metric.name = 'energy_kwh') AS energy_kwh,
  max(value) FILTER (WHERE metric.name = 'cost_usd') AS cost_usd,
  (SELECT sum(met) || '/' || count(*) FROM slo WHERE slo.run_id = run.id) AS slo_met,
  run.status AS status,
  run.digest AS digest
FROM run JOIN metric ON metric.run_id = run.id AND metric.scope = 'run'
GROUP BY run.id;
