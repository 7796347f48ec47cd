#!/bin/sh
# How fast is it? Prints one table and judges nothing.
#
#     bench.sh [NAME]...   all of tests/bench/cases, sweeps and help; or these alone
#
# requests: per second of CPU, median of three runs. ns/token: of CPU, for each token of output.
# instructions: per request, of all but what a run begins with, by callgrind where it is installed.
# ratio: of the cost of a request to that of another row (with callgrind, in instructions). sweep:
# points per second of wall on one CPU and on two, where 'taskset' can bind it. help: milliseconds
# of wall. Seconds of one table can be compared with each other, not across machines.
set -eu
tandem=${TANDEM_BINARY:?}
source_dir=${TANDEM_SOURCE_DIR:?}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
. "$source_dir/tests/bench/counting.sh"
wanted=" $* "
have() { command -v "$1" >/dev/null 2>&1; }
is_wanted() { [ "$wanted" = '  ' ] || case $wanted in *" $1 "*) ;; *) false ;; esac; }
row() { printf '%-16s %12s %-11s %9s %13s %7s   %s\n' "$@"; }
now_ns() { date +%s%N; }

# figures CONFIG REQUESTS SETTINGS: requests per second of CPU and ns per token of output
figures() {
  for round in 1 2 3; do simulate "$@"; echo; done |
    awk -F '[:,]' '/"(requests|cpu_s|duration_s|output_tokens_per_s)"/ { v[$1] = $2 }
      /^}/ { cpu = v["  \"cpu_s\""]; n = v["  \"requests\""]
             tokens = v["  \"duration_s\""] * v["  \"output_tokens_per_s\""]
             print n / cpu, 1e9 * cpu / tokens }' | sort -n | awk 'NR == 2'
}

# cost NAME: of a request of this row, as it was
cost() { awk -F'|' -v name="$1" '$1 == name { print $2 }' "$work/costs"; }

row name figure unit ns/token instructions ratio aim
: >"$work/costs"
while IFS='|' read -r name config requests settings base aim; do
  unset IFS
  is_wanted "$name" || continue
  set -- $(figures "$config" "$requests" "$settings")
  [ $# -eq 2 ] || exit 4
  counted=
  ! have valgrind || counted=$(instructions "$config" $((requests / 20)) "$settings")
  echo "$name|${counted:-$(echo "$1" | awk '{ print 1 / $1 }')}" >>"$work/costs"
  ratio=$(echo "$(cost "$name") $(cost "${base:-none}")" | awk 'NF == 2 { printf "%.2f", $1 / $2 }')
  row "$name" "$(printf %.0f "$1")" 'requests/s' "$(printf %.2f "$2")" "$counted" "$ratio" "$aim"
done <"$work/cases"

# Two minutes of the code mix at 70 requests/s on 80 clusters.
cat >"$work/sweep.yaml" <<'END'
model: bloom-176b
workload: {lengths: azure-code-2023, arrivals: {process: poisson, rate: 70 /s}, duration: 120 s}
pools:
  prefill: {role: prefill, machine: dgx-h100}
  decode: {role: decode, machine: dgx-h100}
policies: {router: splitwise, pool: splitwise_mixed, batcher: splitwise}
slo: splitwise
sweep: {pools.prefill.count: 20..39, pools.decode.count: 3..6}
END

# points_per_second JOBS: the best of three
points_per_second() {
  bind=
  ! have taskset || bind="taskset -c 0-$(($1 - 1))"
  for round in 1 2 3; do
    begin=$(now_ns)
    # shellcheck disable=SC2086 # words of a command
    $bind "$tandem" sweep "$work/sweep.yaml" --output "$work/$1-$round.db" --jobs "$1" \
      >/dev/null 2>&1
    echo "$(now_ns) $begin"
  done | awk '{ s = 80e9 / ($1 - $2); if (s > best) best = s } END { printf "%.1f", best }'
}

if is_wanted sweep; then
  one=$(points_per_second 1)
  two=$(points_per_second 2)
  row 'sweep, 1 CPU' "$one" points/s '' '' '' ''
  ratio=$(echo "$one $two" | awk '{ printf "%.2f", $2 / $1 }')
  row 'sweep, 2 CPUs' "$two" points/s '' '' "$ratio" 1.7
fi

# The least of many, so that what else runs counts less.
if is_wanted help; then
  ms=$(for round in $(seq 30); do
    begin=$(now_ns)
    "$tandem" --help >/dev/null
    echo "$(now_ns) $begin"
  done | awk '{ print ($1 - $2) / 1e6 }' | sort -n | head -1)
  row help "$(printf %.2f "$ms")" 'ms' '' '' '' '2 ms'
fi
