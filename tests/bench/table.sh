#!/bin/sh
# Is what must be fast fast? Prints one table and judges nothing.
#
#     table.sh [BEFORE [SOURCE_DIR]]   'before': of another build, of the tree SOURCE_DIR
#
# Each figure is the median of ROUNDS runs (5), of long ones the figure of one; those before and now
# take turns. Seconds and nanoseconds are of CPU on this machine, a ratio is of two costs on it. The
# ratio to a bare flow and those of 10 and 1,000 instances need the programs TANDEM_BARE_FLOW and
# TANDEM_BENCH_SCALE (before: tests/bench_scale beside BEFORE), rows of Mooncake's real trace
# TANDEM_DATA_DIR; without theirs they are left out, as is a figure whose row a build cannot run.
# The claims of all papers take minutes: they are there if TANDEM_BENCH_CLAIMS is 1; those of one
# paper, if it is that.
set -eu
tandem=${TANDEM_BINARY:?}
source_dir=${TANDEM_SOURCE_DIR:?}
before=${1-}
before_dir=${2-$source_dir}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
. "$source_dir/tests/bench/counting.sh"
ROUNDS=${ROUNDS-5}
row() { printf '%-36s %10s %10s %7s  %-6s %s\n' "$@"; }

# of CASE: sets config, requests and settings to those of a row of tests/bench/cases
of() {
  case_row=$(grep "^$1|" "$work/cases")
  config=$(echo "$case_row" | cut -d'|' -f2)
  requests=$(($(echo "$case_row" | cut -d'|' -f3) / 4))
  settings=$(echo "$case_row" | cut -d'|' -f4)
}

cpu_of() { awk -F'[:,]' '/"cpu_s"/ { print $2 }'; }

# us_of CASE: of CPU for a request
us_of() {
  of "$1"
  echo "$(simulate "$config" "$requests" "$settings" 2>/dev/null | cpu_of) $requests" |
    awk 'NF == 2 { print 1e6 * $1 / $2 }'
}

# --- figures, each one number of $tandem

trace=${TANDEM_DATA_DIR-}/traces/mooncake_conversation_trace.jsonl
mooncake() { # CONFIG
  "$tandem" run "$source_dir/$1" --set pools.serve.count=5 --set "workload.trace=$trace" \
    --format json 2>/dev/null | cpu_of
}
week() { us_of week | awk '{ print 44.1 * $1 }'; }
# seconds COMMAND...: of CPU, of all of its threads
seconds() {
  ("$@" >/dev/null 2>&1; times) |
    awk 'NR == 2 { gsub("[ms]", " "); print $1 * 60 + $2 + $3 * 60 + $4 }'
}
plan() {
  seconds "$tandem" plan --model qwen3-32b --gpu h100 --isl 2000 --osl 300 --rate 30 \
    --slo 'ttft.p99<2s,tpot.p99<50ms'
}
plan_trace() {
  seconds "$tandem" plan --model llama3.1-70b --gpu h100 --trace "$trace" \
    --slo 'ttft.p90<5s,tpot.p90<100ms'
}
at_once() {
  of 'at once'
  simulate "$config" $((requests * 4)) "$settings" 2>/dev/null | cpu_of
}
# The most memory that they held is left for claims_mb.
claims() { seconds watched "$tandem" report claims ${TANDEM_BENCH_CLAIMS#1}; }
watched() {
  "$@" &
  while kill -0 $! 2>/dev/null; do
    awk '/^VmHWM/ { print $2 / 1024 }' "/proc/$!/status" >>"$(peaks)" 2>/dev/null || :
    sleep 0.2
  done
  wait $!
}
peaks() { echo "$work/peaks$(echo "$tandem" | tr / _)"; }
claims_mb() { sort -n "$(peaks)" | tail -n 1; }
flow() {
  bare=$("$TANDEM_BARE_FLOW" "$source_dir/traces/lengths/azure-conv-2023.csv" 500000 50 |
    awk '/^requests_per_cpu_s/ { print $2 }')
  echo "$(us_of plain) $bare" | awk 'NF == 2 { print $1 * $2 / 1e6 }'
}
token() { # CASE
  of "$1"
  simulate "$config" "$requests" "$settings" 2>/dev/null | awk -F'[:,]' '
    /"(cpu_s|duration_s|output_tokens_per_s)"/ { gsub("[ \"]", "", $1); v[$1] = $2 }
    END { if ("cpu_s" in v) print 1e9 * v["cpu_s"] / v["duration_s"] / v["output_tokens_per_s"] }'
}
ratio() { # CASE BASE
  echo "$(us_of "$1") $(us_of "$2")" | awk 'NF == 2 { print $1 / $2 }'
}
# bench_scale ARGUMENT...: that of $tandem, if there is one
bench_scale() {
  program=$TANDEM_BENCH_SCALE
  [ "$tandem" != "$before" ] || program=$(dirname "$before")/tests/bench_scale
  [ ! -x "$program" ] || "$program" "$@" 2>/dev/null
}
bytes() { awk '/^beyond_keys/ { print $2 }'; } # of a cached block
bytes_of() { # CASE
  of "$1"
  set -- --bytes "$source_dir/$config" "workload.requests=$requests"
  IFS=';'
  for setting in $settings; do
    set -- "$@" "$setting"
  done
  unset IFS
  bench_scale "$@" | bytes
}
bytes_of_mooncake() {
  bench_scale --bytes "$source_dir/$1" pools.serve.count=5 "workload.trace=$trace" | bytes
}
# times_of ROW: the ratio of 1,000 instances to 10
times_of() {
  bench_scale "$1" |
    awk -v name="$1  " 'index($0, name) == 1 { print $NF }'
}
counted() { # CASE
  of "$1"
  instructions "$config" 5000 "$settings"
}

median() { sort -n | awk '{ v[NR] = $1 } END { if (NR) printf "%.3g", v[int((NR + 1) / 2)] }'; }
# as_before FIGURE...: of the other build
as_before() {
  (
    tandem=$before source_dir=$before_dir
    export TANDEM_SOURCE_DIR="$before_dir"
    "$@"
  )
}

# line NAME UNIT AIM ROUNDS FIGURE...
line() {
  name=$1 unit=$2 aim=$3 rounds=$4
  shift 4
  : >"$work/now"
  : >"$work/then"
  for round in $(seq "$rounds"); do
    [ -z "$before" ] || as_before "$@" >>"$work/then"
    "$@" >>"$work/now"
  done
  then=$(median <"$work/then") now=$(median <"$work/now")
  change=$(echo "$now $then" | awk 'NF == 2 && $2 > 0 { printf "%.2f", $1 / $2 }')
  row "$name" "$then" "$now" "$change" "$unit" "$aim"
}

row what before now 'now/b.' '' aim
if [ -f "$trace" ]; then
  line 'mooncake, Llama 3.1 70B' s 0.5 $ROUNDS mooncake experiments/prefix-caching/eight.yaml
  line 'mooncake, gpt-oss-120b in groups' s 1 $ROUNDS mooncake experiments/examples/mooncake.yaml
fi
line 'week of 44.1 million requests' s 20 $ROUNDS week
line '1 million prompts at once' s 20 1 at_once
line 'plan of the README' s 0.5 $ROUNDS plan
if [ -f "$trace" ]; then
  line 'plan of mooncake, Llama 3.1 70B' s '60, 30 on each of two cores' 1 plan_trace
fi
[ -z "${TANDEM_BARE_FLOW-}" ] || line 'plain against a bare flow' ratio 2 $ROUNDS flow
for name in plain request_level continuous mixed sarathi splitwise tetriinfer vllm sglang \
  splitwise-sim 'splitwise-sim orca'; do
  line "$name" ns/tok 5 $ROUNDS token "$name"
done
for name in 'continuous cached' 'mixed cached' 'sarathi cached' 'vllm cached' 'sglang cached'; do
  line "$name" ns/tok 8 $ROUNDS token "$name"
done
line 'cache, nothing shared' ratio 1.5 $ROUNDS ratio 'vllm cached' vllm
line 'cache, conversations' ratio 4 $ROUNDS ratio 'chats cached' chats
line 'vllm in 2 stages' ratio 2.5 $ROUNDS ratio 'vllm pp2' vllm
line 'vllm in 4 stages' ratio 2.5 $ROUNDS ratio 'vllm pp4' vllm
line 'lanes of 2 stages' ratio 2.5 $ROUNDS ratio pipelines plain
if [ -n "${TANDEM_BENCH_SCALE-}" ]; then
  line 'block, cache of conversations' bytes 12 1 bytes_of 'chats cached'
  line 'block, cache with nothing shared' bytes 12 1 bytes_of 'vllm cached'
  if [ -f "$trace" ]; then
    for config in prefix-caching/eight examples/mooncake; do
      line "block, $config" bytes 12 1 bytes_of_mooncake "experiments/$config.yaml"
    done
  fi
  # beside jsq on the same conversations, which looks at no prompt
  line 'dynamo_kv, 10 to 1,000 instances' ratio 2 1 times_of 'router dynamo_kv'
  line 'llm_d, 10 to 1,000 instances' ratio 2 1 times_of 'router llm_d'
  line 'jsq there, 10 to 1,000 instances' ratio '' 1 times_of 'prefixes, router jsq'
fi
if [ -n "${TANDEM_BENCH_CLAIMS-}" ]; then
  line 'claims of all papers' s '600, 300 on each of two cores' 1 claims
  line 'claims of all papers' MB 500 1 claims_mb
fi
if command -v valgrind >/dev/null 2>&1; then line 'plain request' instr '' 1 counted plain; fi
