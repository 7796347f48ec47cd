#!/bin/sh
# Mistakes that people make: what is said leads on, at the place of the mistake.
. "$TANDEM_SOURCE_DIR/tests/cli_testing.sh"

config >good.yaml
printf 'TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:00:01,100,10\n' >own.csv

# led CODE TEXT HINT ARGUMENT... : says both, and no more than five names.
led() {
  led_code=$1 led_text=$2 led_hint=$3
  shift 3
  rejects "$led_code" "$tandem" "$@"
  says "$led_text"
  says "$led_hint"
  [ "$(grep -c 'error: ' err)" -eq 1 ] || fail 'more than one error'
}

# --- --set: names that are none, at the assignment
led 3 "--set:1:7: error: there is no pool 'alll'" "did you mean 'all'?" \
  run good.yaml --set pools.alll.count=3
led 3 "--set:1:11: error: unknown performance model 'rooflin'" "did you mean 'roofline'?" \
  run good.yaml --set perfmodel=rooflin
led 3 "--set:1:19: error: unknown machine 'h100'" "'dgx-h100'" \
  run good.yaml --set pools.all.machine=h100
says "more: 'tandem list machines'"
led 3 "--set:1:11: error: unknown key 'tp'" "did you mean 'tensor_parallel_size'?" \
  run good.yaml --set pools.all.tp=4
led 3 "--set:1:6: error: unknown limit 'itl.p99'" "did you mean 'tbt.p99'?" \
  run good.yaml --set 'slo={itl.p99: 50 ms}'
led 3 "--set:1:6: error: unknown limit 'ttft_p99'" "did you mean 'ttft.p99'?" \
  run good.yaml --set 'slo={ttft_p99: 1 s}'
led 3 "'duration' must be a time such as '120 s', not '10m'" \
  'the units are s, ps, ns, us, ms, min' \
  run good.yaml --set workload.duration=10m
led 3 "--set:1:10: error: 'rate' goes with 'trace' only" "set 'arrivals.rate'" \
  run good.yaml --set 'workload.rate=3 /s'
rejects 3 "$tandem" run good.yaml --set pools.all.machine=mi300x-x8 --set slo=null
says "error: there are no iteration times of"
says "'perfmodel: roofline' needs no measurements"

# --- keys that are taken out
expect 0 "$tandem" run good.yaml --set slo=null --set policies.router=null --check
led 3 "--set:1:1: error: there is no key 'slow' to remove" "did you mean 'slo'?" \
  run good.yaml --set slow=null
expect 0 "$tandem" run "$source_dir/experiments/examples/provision.yaml" --set provision=null \
  --check

# --- commands
led 2 "unknown list 'foo'" "more: 'tandem list --help'" list foo
led 2 "unknown figure 'foo'" "'load'" plot foo a.db -o a.png
for word in --help -h; do expect 0 "$tandem" run "$word"; done
expect 0 "$tandem" run --help
mv out wanted
expect 0 "$tandem" help run
cmp -s out wanted || fail 'it is not the same help'
expect 0 "$tandem" help report measured
prints 'tandem report measured'
expect 0 "$tandem" help
prints 'usage: tandem COMMAND'
led 2 "unknown command 'rnu'" "did you mean 'run'?" help rnu

# --- files of another kind, or none
led 3 "'own.csv' is not a configuration" 'workload: {trace: own.csv}' run own.csv
led 3 "'own.csv' is not a configuration" "'tandem trace own.csv'" \
  sweep own.csv --dry-run
expect 0 "$tandem" sweep good.yaml --set 'sweep={pools.all.count: [1, 2]}' --output a.db
led 3 "'a.db' is an SQLite database" 'error' plot fit a.db -o a.png
rejects 3 "$tandem" trace a.db
says "a.db: error: 'a.db' is an SQLite database; CSV or JSON lines"
led 4 "cannot open 'no/where/b.db'" "there is no folder 'no'" run good.yaml --output no/where/b.db
led 4 "cannot open 'b.db'" 'there is no such file' query b.db
led 4 "-:11:12: error: cannot open the performance model 'h200.yaml'" \
  "'tandem fit PROFILE -o h200.yaml'" run - --set slo=null <<END
$(sed '$d' good.yaml)
slo: none
perfmodel: h200.yaml
END
expect 0 "$tandem" run - --check <good.yaml
rejects 4 env TANDEM_DATA="$work/none" "$tandem" run good.yaml
says "TANDEM_DATA is set to '$work/none', which does not exist"
rejects 4 env TANDEM_DATA="$work" "$tandem" run good.yaml
says "TANDEM_DATA is set to '$work', which has no 'perfmodel/models'"

# --- facts of a machine that are missing say what they are
grep -v '^sm:' "$source_dir/perfmodel/machines/dgx-h100.yaml" >own.yaml
led 3 "missing key 'sm'" 'Compute capability of the GPU, 90 for 9.0' \
  run good.yaml --set pools.all.machine=own.yaml --set slo=null

# --- measuring without a GPU
alone=$(without_backends cpu)
without_gpu() { "$alone" "$@"; }
expect 0 without_gpu calibrate --dry-run
says 'the CPU is measured instead'
prints "backend 'cpu'"
expect 0 without_gpu calibrate --backend cuda --model llama3-8b --dry-run
says "the plan is for 'dgx-h100'"
prints "dgx-h100, backend 'none'"
expect 0 "$tandem" calibrate --machine dgx-a100 --model llama3-8b --tp 2 --dry-run
prints 'llama3-8b on a100-80gb, tensor_parallel_size 2'
rejects 4 without_gpu calibrate --model llama3-8b -o none.csv
says "'--backend cpu' measures the CPU"
rejects 2 "$tandem" calibrate --machine dgx-a100 --model llama3-8b
says "'--machine' needs '--dry-run'"

# --- traces of one's own
cat >log.csv <<'END'
ts;in;out
1715342401000;200;20
1715342400000;100;10
1715342402000;300;0
END
led 3 'the trace is in no known format' "it has 'ts', 'in', 'out'" trace log.csv
own='workload={trace: log.csv, columns: {arrival: ts, prompt: in, output: out}}'
led 3 "log.csv:3:1: error: times must not decrease" 'sort: true' run good.yaml --set "$own" --set \
  slo=null
expect 0 "$tandem" run good.yaml --set "$own" --set workload.sort=true --set slo=null --format json
prints '"requests": 2'
says 'rows without a prompt or an output are omitted: 1'
sed '2d' log.csv >in_order.csv # the one that is left out comes last
expect 0 "$tandem" run good.yaml --set "$own" --set workload.trace=in_order.csv --set slo=null \
  --set workload.closed_loop='{clients: 1}'
says 'rows without a prompt or an output are omitted: 1'
expect 0 "$tandem" trace - --columns arrival=ts,prompt=in,output=out --sort <log.csv
prints 'ts (arrival), in (prompt), out (output); between semicolons'
prints 'epoch_ms, a number of milliseconds; the first row is at 0, sorted'
rejects 2 "$tandem" trace log.csv --columns arrival=ts,promt=in
says "'--columns' must be arrival=C,prompt=C,output=C,session=C"

finish
