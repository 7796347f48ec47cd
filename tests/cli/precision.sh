#!/bin/sh
# Runs that are as long as their figures need, and that leave out the start which they find.
. "$TANDEM_SOURCE_DIR/tests/cli_testing.sh"

config | sed 's/process: fixed/process: poisson/; s/  requests: 40/  duration: auto/
              s/{constant: 20}/{exponential: {mean: 100}}/
              s/slo: .*/slo: {ttft.p90: 2 s, e2e.p90: 60 s}/' >auto.yaml

# Counts from lines of the table, without their commas.
requests() { sed -n 's/^requests  *\([0-9,]*\) completed.*/\1/p' out | tr -d ,; }
left_out() { sed -n 's/^warm-up  *the first \([0-9,]*\) requests.*/\1/p' out | tr -d ,; }

expect 0 "$tandem" run auto.yaml
grep -Eq '^length .*within \+-5.0%; (ttft.p90|e2e.p90) is \+-[0-4]\.' out || fail 'not reached'
digest=$(grep ^digest out | cut -c 1-29)
coarse=$(requests)

# It is the run that it says it is, and the same step by step.
start=$(left_out)
expect 0 "$tandem" run auto.yaml --set workload.duration=null \
  --set "workload.requests=$((coarse + ${start:-0}))" --set "warm.requests=${start:-0}"
[ "$(grep ^digest out | cut -c 1-29)" = "$digest" ] || fail 'another run'
expect 0 "$tandem" run auto.yaml --step --requests --output runs.db
[ "$(grep ^digest out | cut -c 1-29)" = "$digest" ] || fail 'another run step by step'
expect 0 "$tandem" query runs.db --format csv --sql 'SELECT count(*) FROM request'
prints "$coarse"

# Finer is longer; the option is the two keys.
expect 0 "$tandem" run auto.yaml --precision 2%
fine=$(requests)
[ "$fine" -gt $((2 * coarse)) ] || fail "$fine requests for 2%, $coarse for 5%"
expect 0 "$tandem" run auto.yaml --set workload.duration=null --set workload.requests=40 \
  --precision 2%
[ "$(requests)" -eq "$fine" ] || fail 'the option is not the keys'

# Where it ends otherwise.
expect 0 "$tandem" run auto.yaml --set workload.requests=500 --set precision=0.5%
prints 'length       NOT within +-0.5% after the limit of 500 requests: '
expect 0 "$tandem" run auto.yaml --set 'workload.arrivals.rate=400 /s'
prints 'SATURATED'
prints 'length       ended after '
awk 'BEGIN {
  print "arrival,prompt,output"
  for (i = 0; i < 60; i++) print i * 0.5 "," 500 "," 20
}' >trace.csv
trace="{trace: trace.csv, columns: {arrival: arrival, prompt: prompt, output: output}}"
expect 0 "$tandem" run auto.yaml --set "workload=$trace" --precision 1%
prints 'the whole workload of 60 requests'

# A start is left out of a run of a given length, too.
config | sed 's/requests: 40/requests: 4000/; s/process: fixed, rate: 4/process: poisson, rate: 12/
              s/{constant: 20}/{constant: 400}/' >filling.yaml
expect 0 "$tandem" run filling.yaml --set warm=auto
start=$(left_out)
[ "${start:-0}" -gt 0 ] || fail 'no start was left out'
[ "$(requests)" -eq $((4000 - start)) ] || fail 'it is counted'
expect 0 "$tandem" run filling.yaml --set warm.requests=auto
[ "$(left_out)" = "$start" ] || fail 'another start'

# What it cannot be.
rejects 3 "$tandem" run filling.yaml --set precision=5%
says "error: 'precision' applies to runs that choose their length"
says 'hint: set workload: {duration: auto}'
rejects 3 "$tandem" run auto.yaml --set precision=0%
says "'precision' must be from 0.001 to 0.5"
rejects 3 "$tandem" run auto.yaml --set 'workload.arrivals={process: at_once}'
says "'auto' waits for a steady state, which arrivals at once do not have"
rejects 3 "$tandem" run auto.yaml --set 'warm={requests: auto, duration: 5 s}'
says "'duration' cannot be used with 'requests: auto'"

# In sweeps and studies.
cat auto.yaml - >sweep.yaml <<'END'
sweep: {workload.arrivals.rate: [2 /s, 4 /s]}
END
expect 0 "$tandem" sweep sweep.yaml --output sweep.db
expect 0 "$tandem" query sweep.db --format csv --sql \
  "SELECT count(*) FROM metric WHERE name = 'tpot_s' AND statistic = 'p99_half_width'"
prints 2
finish
