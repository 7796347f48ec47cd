#!/bin/sh
# Where the time of requests went: of stored rows and of a run that is simulated again, one request
# and many, in each format, and what is said when there is nothing to say.
. "$TANDEM_SOURCE_DIR/tests/cli_testing.sh"
config | sed 's/rate: 4/rate: 200/; s/count: 2}/count: 1}/' >a.yaml

expect 0 "$tandem" run a.yaml --output runs.db
expect 0 "$tandem" run a.yaml --output runs.db --requests

# parts FILE : the sum of the parts in CSV, and E2E.
parts() { awk -F, 'NR > 1 { sum += $3 } END { printf "%.6f", sum }' "$1"; }
e2e=$("$tandem" query runs.db --format csv \
  --sql 'SELECT last_token_s - arrived_s FROM request WHERE run_id = 2 AND request = 39' | tail -1)

expect 0 "$tandem" why runs.db 39 --format csv
[ ! -s err ] || fail 'something on stderr'
[ "$(parts out)" = "$(printf '%.6f' "$e2e")" ] || fail "parts make $(parts out), E2E is $e2e"
mv out kept
expect 0 "$tandem" why runs.db 1 39 --format csv
says "note: 'runs.db: run 1' has no parts of requests, so the run was simulated again"
cmp -s kept out || fail 'simulated again, the parts differ'

expect 0 "$tandem" why runs.db 39
prints 'runs.db: run 2, request 39: '
prints 'of waiting for prefill on all'
prints 'late because of '
grep -qE ' on all, behind [0-9]* requests, in a queue .* with a prompt of 500 tokens \(request 0' \
  out || fail 'it is not said who was in line'
expect 0 "$tandem" why runs.db 39 --format json
prints '"because": "late because of '

expect 0 "$tandem" why runs.db --slowest 3 --format csv
[ "$(wc -l <out)" -eq 4 ] || fail 'not three requests'
expect 0 "$tandem" why runs.db --slowest 3 --by tpot
prints 'of the time of these requests is decode'
expect 0 "$tandem" why runs.db
prints 'p99-100'
prints 'the slowest 1% take '
expect 0 "$tandem" why runs.db 2 --percentile p90 --by ttft --format json
prints '{"from_percentile": 90, "to_percentile": 100, "requests": 4, "ttft_s": '

# Who else decoded on its instance.
expect 0 "$tandem" run "$source_dir/experiments/examples/splitwise-small.yaml" --output split.db \
  --requests
expect 0 "$tandem" why split.db 500
grep -qE ' of other decodes in its iterations on decode 1, while [0-9]+ other requests' out ||
  fail 'the other decodes are not counted'

rejects 3 "$tandem" why runs.db 40
says "runs.db: run 2: error: the run has no request '40'"
says 'up to 39'
rejects 3 "$tandem" why runs.db first
rejects 3 "$tandem" why runs.db 9 39
says 'the runs have numbers from 1 to 2'
rejects 3 "$tandem" why a.yaml 39
rejects 2 "$tandem" why runs.db 2 39 --slowest 3
rejects 2 "$tandem" why runs.db --slowest 3 --percentile p99
rejects 2 "$tandem" why runs.db 39 --by ttft
for percentile in p100 p0 median p99x; do
  rejects 2 "$tandem" why runs.db --percentile $percentile
done
finish
