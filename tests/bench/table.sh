#!/bin/sh
# Is what must be fast fast? Prints one table and judges nothing.
#
#     table.sh [BEFORE [SOURCE_DIR]]   'before': of another build, of the tree SOURCE_DIR
#
# Each figure is the median of ROUNDS runs (5); those before and now take turns. Seconds and
# nanoseconds are of CPU on this machine, a ratio is of two costs on it. The ratio to a bare flow
# and the last lines need the programs TANDEM_BARE_FLOW and TANDEM_BENCH_SCALE, rows of Mooncake's
# real trace TANDEM_DATA_DIR; without theirs they are left out.
set -eu
tandem=${TANDEM_BINARY:?}
source_dir=${TANDEM_SOURCE_DIR:?}
before=${1-}
before_dir=${2-$source_dir}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
. "$source_dir/tests/bench/counting.sh"
ROUNDS=${ROUNDS-5}
row() { printf '%-34s %10s %10s %7s  %-6s %s\n' "$@"; }

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
    awk '{ print 1e6 * $1 / $2 }'
}

# --- figures, each one number of $tandem

trace=${TANDEM_DATA_DIR-}/traces/mooncake_conversation_trace.jsonl
mooncake() { # CONFIG
  "$tandem" run "$source_dir/$1" --set pools.serve.count=5 --set "workload.trace=$trace" \
    --format json 2>/dev/null | cpu_of
}
week() { us_of week | awk '{ print 44.1 * $1 }'; }
plan() {
  ("$tandem" plan --model qwen3-32b --gpu h100 --isl 2000 --osl 300 --rate 30 \
    --slo 'ttft.p99<2s,tpot.p99<50ms' >/dev/null 2>&1; times) |
    awk 'NR == 2 { gsub("[ms]", " "); print $1 * 60 + $2 + $3 * 60 + $4 }'
}
flow() {
  bare=$("$TANDEM_BARE_FLOW" "$source_dir/traces/lengths/azure-conv-2023.csv" 500000 50 |
    awk '/^requests_per_cpu_s/ { print $2 }')
  echo "$(us_of plain) $bare" | awk '{ print $1 * $2 / 1e6 }'
}
token() { # CASE
  of "$1"
  simulate "$config" "$requests" "$settings" 2>/dev/null | awk -F'[:,]' '
    /"(cpu_s|duration_s|output_tokens_per_s)"/ { gsub("[ \"]", "", $1); v[$1] = $2 }
    END { print 1e9 * v["cpu_s"] / (v["duration_s"] * v["output_tokens_per_s"]) }'
}
ratio() { # CASE BASE
  echo "$(us_of "$1") $(us_of "$2")" | awk '{ print $1 / $2 }'
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
line 'plan of the README' s 0.5 $ROUNDS plan
[ -z "${TANDEM_BARE_FLOW-}" ] || line 'plain against a bare flow' ratio 2 $ROUNDS flow
for name in plain sarathi vllm sglang splitwise-sim; do
  line "$name" ns/tok 5 $ROUNDS token "$name"
done
for name in 'vllm cached' 'sglang cached'; do
  line "$name" ns/tok 8 $ROUNDS token "$name"
done
line 'cache, nothing shared' ratio 1.5 $ROUNDS ratio 'vllm cached' vllm
line 'cache, conversations' ratio 4 $ROUNDS ratio 'chats cached' chats
if command -v valgrind >/dev/null 2>&1; then line 'plain request' instr '' 1 counted plain; fi
if [ -n "${TANDEM_BENCH_SCALE-}" ]; then
  echo
  # aims: 2 times the cost at most, beside that of jsq on the same conversations
  "$TANDEM_BENCH_SCALE" 'router dynamo_kv' 'router llm_d' prefixes
fi
