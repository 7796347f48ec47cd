#!/bin/sh
# A run told as vLLM's benchmark client tells it: its block, its JSON, and that read back as a run
# that was measured, with the same figures.
. "$TANDEM_SOURCE_DIR/tests/cli_testing.sh"
config >a.yaml

expect 0 "$tandem" run a.yaml --format vllm
for line in 'Successful requests: *40 *$' 'Failed requests: *0 *$' 'Total input tokens: *20000 *$' \
  '^=* Serving Benchmark Result =*$' '^-*Time to First Token-*$' 'Mean TTFT (ms): *[0-9.]* *$' \
  'P99 ITL (ms): *[0-9.]* *$' '^=\{50\}$'; do
  grep -q "$line" out || fail "no line '$line'"
done

expect 0 "$tandem" run a.yaml --format vllm-json --output runs.db
mv out bench.json
expect 0 "$tandem" import vllm-bench bench.json -o runs.db
prints 'runs.db: run 2'
pairs='metric a JOIN metric b USING (scope, name, statistic, unit)
  WHERE a.run_id = 1 AND b.run_id = 2 AND a.value > 0'
expect 0 "$tandem" query runs.db --format csv \
  --sql "SELECT count(*), max(abs(a.value / b.value - 1)) < 1e-8 FROM $pairs"
[ "$(tail -1 out)" = 27,1 ] || fail "figures differ: $(tail -1 out)"
expect 0 "$tandem" query runs.db --format csv --sql 'SELECT is_stale(epoch) FROM run'
[ "$(tail -2 out | tr -d '\n')" = 00 ] || fail 'a measured run is stale'

# It was measured: nothing can be simulated of it.
expect 3 "$tandem" import vllm-bench a.yaml -o runs.db
says "expected '{'"
expect 2 "$tandem" import vllm-bench bench.json
expect 4 "$tandem" import vllm-bench gone.json -o runs.db
