#!/bin/sh
# Limits on one component of a mix, wherever limits are: reports, databases, studies, comparisons.
. "$TANDEM_SOURCE_DIR/tests/cli_testing.sh"
study=$source_dir/experiments/examples/chat-and-summaries.yaml
sed '/^provision:/,$d; s/duration: .*/duration: 20 s/' "$study" >run.yaml

# --- a run: its table, CSV, JSON and database say the same

expect 0 "$tandem" run run.yaml --format csv --output run.db
value=$(figure slo chat:tpot.p95 value)
[ "$value" = "$(figure component.chat tpot_s p95)" ] || fail "$value is not the figure"
[ "$(figure slo summaries:e2e.p90 met)" = 1 ] || fail 'summaries are late'
[ -z "$(figure slo ttft.p99 value)" ] || fail 'a limit on all requests'
expect 0 "$tandem" run run.yaml --format json
prints '"name": "chat:ttft.p99"'
expect 0 "$tandem" run run.yaml
prints 'chat:tpot.p95  '
prints 'own: 3 of 3 met'
expect 0 "$tandem" query run.db --format csv \
  --sql "SELECT value FROM slo WHERE name = 'chat:tpot.p95'"
[ "$(tail -n 1 out | cut -c 1-9)" = "$(echo "$value" | cut -c 1-9)" ] || fail "not $value"
expect 0 "$tandem" query run.db slo
prints summaries:e2e.p90
expect 0 "$tandem" report run.db -o report.md
grep -q 'chat:tpot.p95' report.md || fail 'not in the report'
expect 1 "$tandem" run run.yaml --require-slo --set 'slo.components.chat={ttft.p99: 1 ms}'
prints MISSED

# A limit that can be set by its path; goodput of a component is shown beside it.
expect 0 "$tandem" run run.yaml \
  --set slo.components.chat.goodput='{share: 50%, ttft: 200 ms, tpot: 50 ms}'
prints 'chat:goodput'
prints '    good'

# The digest of a configuration is that of what it asks for.
expect 0 "$tandem" run run.yaml --set 'slo={ttft.p99: 1 s}' --output plain.db --format csv
grep '^run,digest' out >plain
expect 0 "$tandem" run run.yaml --format csv
grep '^run,digest' out | cmp - plain >cmp || fail 'limits change outcomes'

# --- a study keeps both; what is stored is found again

expect 0 "$tandem" provision "$study" --output study.db --format json
prints '"name": "chat:tpot.p95"'
grep -v simulations out >first
expect 0 "$tandem" provision "$study" --output study.db --format json
grep -v simulations out >again
expect 0 "$tandem" query study.db answers --format csv
prints chat:tpot.p95
cmp -s first again || fail 'other answers from the database'

# --- comparisons

expect 0 "$tandem" run run.yaml --set pools.serve.count=4 --output run.db
expect 0 "$tandem" compare run.db pools.serve.count=3 pools.serve.count=4 --figure slo.chat:tpot.p95
prints chat:tpot.p95

# --- plan: the mix of a file as the load, and its paths

mkdir -p files/traces
cp "$source_dir/traces/sample/mooncake_sample.jsonl" files/traces/one.jsonl
cat >files/mix.yaml <<'END'
classes: {fast: {priority: 0}, slow: {priority: 1}}
workload:
  mix:
    - {name: chat, class: fast, lengths: azure-conv-2024, arrivals: {rate: 9 /s}}
    - {name: jobs, class: slow, lengths: azure-code-2024, arrivals: {rate: 1 /s}}
END
ask="--model llama3.1-8b --gpu h100 --tp 1 --split no --seeds 1"
# shellcheck disable=SC2086 # options are several words
plan() { expect "$1" "$tandem" plan $ask --workload "$2" --slo "$3" --format "${4:-table}"; }
plan 0 files/mix.yaml 'chat:ttft.p90<1s, slow:e2e.p90<=60s,tpot.p90<50ms'
prints '10 requests/s, the mix of files/mix.yaml'
prints 'chat:ttft.p90 '
prints 'slow:e2e.p90 '
prints 'tpot.p90 '
# shellcheck disable=SC2086
expect 0 "$tandem" plan $ask --workload files/mix.yaml --dry-run --slo 'jobs:e2e.p90<60s'
prints '  requests: 4000' # of which a tenth are jobs, and a tenth of these beyond the limit
prints 'slo: {components: {jobs: {e2e.p90: 60s}}}'
prints 'classes: {fast: {priority: 0}, slow: {priority: 1}}'
# shellcheck disable=SC2086
expect 0 "$tandem" plan $ask --workload files/mix.yaml --dry-run --slo 'slow:e2e.p90<60s'
prints '  requests: 4000'
sed -i 's/lengths: azure-code-2024, arrivals: {rate: 1 .s}/trace: traces\/one.jsonl/' files/mix.yaml
# shellcheck disable=SC2086
expect 0 "$tandem" plan $ask --workload files/mix.yaml --dry-run --slo 'jobs:e2e.p90<60s'
prints 'trace: files/traces/one.jsonl'
plan 3 files/mix.yaml 'chta:ttft.p90<1s'
says 'the workload has chat, jobs, fast, slow'
plan 3 "$source_dir/experiments/examples/quickstart.yaml" 'ttft.p90<1s'
says 'has no mix of workloads'
# shellcheck disable=SC2086
rejects 2 "$tandem" plan $ask --workload files/mix.yaml --slo 'ttft.p90<1s' --rate 3
says "'--workload' is the whole load"

# --- tune: its own limits, and goodput by them

expect 0 "$tandem" tune run.yaml --objective goodput --seeds 2 --budget 8 --knobs max_num_seqs \
  --slo 'chat:ttft.p99<100ms,chat:tpot.p90<20ms,summaries:e2e.p90<3s'
prints 'good requests/s'
rejects 3 "$tandem" tune run.yaml --slo 'chta:ttft.p99<1s'
says "there is no component or class 'chta'"
says 'the workload has chat, summaries'

finish
