#!/bin/sh
# What `tandem run` prints, and what its options change. Figures are checked where they follow from
# the configuration alone.
. "$TANDEM_SOURCE_DIR/tests/cli_testing.sh"
config >a.yaml

# same A B TEXT : two digests are.
same() { [ -n "$1" ] && [ "$1" = "$2" ] || fail "$3 gives '$2', not '$1'"; }

# JSON has every key, in one object; stderr stays empty when nobody looks.
expect 0 "$tandem" run a.yaml --format json
[ ! -s err ] || fail 'something on stderr'
for key in version config requests completed rejected unfinished duration_s ttft_s tbt_s tpot_s \
  e2e_s queue_s throughput_rps output_tokens_per_s pools utilization energy_kwh cost_usd \
  provisioned_power_kw slo value limit unit margin met preemptions evictions swaps stall_s \
  swapped_in_bytes swapped_out_bytes transfers \
  transferred_bytes \
  role_changes flips flip_s predicted_right busy_s prefill_tokens padding_tokens decode_tokens \
  iterations extrapolated iterations_share time_share far_iterations_share events \
  digest cpu_s wall_s mean p50 p90 p95 p99 max; do
  prints "\"$key\": "
done
prints '"requests": 40,'
prints '"completed": 40,'
prints '"provisioned_power_kw": 20.4,'
[ "$(grep -c '"limit"' out)" -eq 9 ] || fail 'not nine objectives'
if python3 -c '' 2>/dev/null; then
  python3 -c '
import json, sys
run = json.load(open("out"))
assert len(run["digest"]) == 16 and len(run["pools"]) == 1
for name in "ttft_s", "tbt_s", "tpot_s", "e2e_s":
    v = run[name]
    assert 0 < v["p50"] <= v["p90"] <= v["p95"] <= v["p99"] <= v["max"], name
assert run["ttft_s"]["max"] <= run["e2e_s"]["max"]
assert 0 < run["pools"][0]["utilization"] <= 1
assert run["iterations"] == run["pools"][0]["iterations"]
' 2>err || fail 'the JSON is not as it should be'
fi

# The table is for people: everything at a glance.
expect 0 "$tandem" run a.yaml
for text in '40 completed' 'ttft' 'slowdown.ttft.p99' 'all   mixed    dgx-h100' 'digest'; do
  prints "$text"
done
[ "$(wc -l <out)" -le 40 ] || fail 'more than 40 lines'
expect 0 "$tandem" run a.yaml --format=csv
prints 'scope,name,statistic,value,unit'
prints 'run,requests,value,40,'
prints 'run,ttft_s,p99,'
prints 'pool.all,utilization,value,'

# The same run gives the same digest, however it is simulated.
digest=$(digest_of a.yaml)
same "$digest" "$(digest_of a.yaml)" 'the same run'
same "$digest" "$(digest_of a.yaml --step)" --step
same "$digest" "$(digest_of a.yaml --audit)" --audit
same "$digest" "$(digest_of a.yaml --set pools.all.count=2)" 'the same count'
differs "$digest" "$(digest_of a.yaml --set pools.all.count=1)" --set
differs "$digest" "$(digest_of a.yaml --set workload.arrivals.process=poisson)" --set

# 65 blocks hold two prompts and 12 tokens of each, and once the 13th is made one must give way. 32
# blocks of 16 tokens are 168 MB; eight links of 64 GB/s move them, and what half_size stands for,
# in 341 us, 20 times out and in.
sed 's/fixed, rate: 4 .s/at_once/; s/count: 2/num_gpu_blocks_override: 65/' a.yaml >full.yaml
expect 0 "$tandem" run full.yaml
prints ' 1 preemptions, 1 of them recomputed, '
! grep -q swapping out || fail 'swapping without a tier that swaps'
expect 0 "$tandem" run full.yaml --set policies.kvtier=swap
prints ' 20 preemptions, 0 of them recomputed, '
prints 'swapping     20 swaps to CPU memory (7 GB there and back), 13.6 ms stalled'
digest=$(digest_of full.yaml --set policies.kvtier=swap)
same "$digest" "$(digest_of full.yaml --set policies.kvtier=swap --step --audit)" --step
differs "$digest" "$(digest_of full.yaml)" 'another tier'
expect 0 "$tandem" run full.yaml --set policies.kvtier=swap --event-log log.csv --output swap.db \
  --requests
for way in out in; do
  [ "$(grep -c ",swap_$way,[0-9]*,0,13,32$" log.csv)" -eq 20 ] || fail "not 20 swaps $way"
done
expect 0 "$tandem" query swap.db --format csv \
  --sql "SELECT name, value > 0 FROM metric
  WHERE scope = 'run' AND name IN ('swaps', 'swapped_out_bytes', 'stall_s')"
[ "$(grep -c ',1$' out)" -eq 3 ] || fail 'no swaps in the database'
expect 0 "$tandem" query swap.db --format csv --sql 'SELECT sum(swaps), max(swaps) FROM request'
prints 20,1

# Seeds: --seed stands in for those of the file.
sed 's/process: fixed/process: poisson/; s/^  requests: 40/&\n  seed: 7/' a.yaml >b.yaml
digest=$(digest_of b.yaml)
differs "$digest" "$(digest_of b.yaml --seed 8)" --seed
same "$digest" "$(digest_of b.yaml --seed 7)" '--seed 7'
same "$(digest_of b.yaml --seed 8)" "$(digest_of b.yaml --set seed=8 --set workload.seed=8)" --set

# The event log has a line per outcome; a place that cannot be written is exit code 4.
expect 0 "$tandem" run a.yaml --event-log log.csv
[ "$(grep -c last_token log.csv)" -eq 40 ] || fail 'not 40 last tokens in the event log'
rejects 4 "$tandem" run a.yaml --event-log absent/log.csv
says "absent/log.csv: error: cannot write 'absent/log.csv'"
if [ -w /dev/full ]; then
  rejects 4 "$tandem" run a.yaml --event-log /dev/full --output full.db
  says "cannot write '/dev/full'"
  expect 0 "$tandem" query full.db --sql 'SELECT count(*) AS n FROM run' --format csv
  prints 0
fi

# Objectives and the measured range count only when asked.
sed 's/process: fixed, rate: 4 .s/process: at_once/' a.yaml >slow.yaml
expect 0 "$tandem" run slow.yaml --set workload.requests=300
prints MISSED
expect 1 "$tandem" run slow.yaml --set workload.requests=300 --require-slo
prints MISSED
expect 0 "$tandem" run a.yaml --set workload.requests=1 --require-slo

# Limits of one's own: in seconds, on slowdowns, and on the share of requests that keep them all.
good='{share: 100%, ttft: 90 ms, tbt: 40 ms}'
expect 0 "$tandem" run a.yaml --require-slo \
  --set "slo={ttft.p99: 90 ms, e2e.mean: 1 s, slowdown: {tbt.p50: 1}, goodput: $good}"
prints '(own: 4 of 4 met)'
expect 1 "$tandem" run a.yaml --require-slo --set 'slo={name: splitwise}' --set 'slo.ttft.max=80 ms'
prints '(splitwise and own: 9 of 10 met)'
grep -Eq '^ttft.max +8[0-9.]+ ms +80.0 ms +-[0-9]+%  MISSED' out || fail 'no row for ttft.max'
expect 1 "$tandem" run a.yaml --require-slo --format json \
  --set 'slo={goodput: {share: 95%, ttft: 60 ms}}'
prints '{"name": "goodput", "value": 0.'
prints '"limit": 0.95, "unit": "", "margin": -0.'
expect 0 "$tandem" run a.yaml --set 'slo={tbt.p90: 60 ms}' --format csv
prints 'slo,tbt.p90,limit,0.06,s'
expect 0 "$tandem" run a.yaml --set 'slo={machine: dgx-h100}'
prints '(splitwise: 9 of 9 met)'
sed 's/constant: 500/constant: 60000/; 1s/^/max_model_len: none\n/' slow.yaml >long.yaml
expect 0 "$tandem" run long.yaml
prints 'outside the measured range'
grep -Eq '^times +measured \(.*\), held-out error [0-9.]+%$' out || fail 'no error'
rejects 3 "$tandem" run long.yaml --strict --output long.db
says 'long.yaml: error:'
says 'outside the measured range'
expect 0 "$tandem" query long.db --sql 'SELECT count(*) AS n FROM run' --format csv
prints 0

# A configuration is found from anywhere, and so is what it names beside itself.
mkdir -p sub
config | sed 's,lengths:.*,lengths: mine.csv,' >sub/c.yaml
printf 'q,prompt,output\n0,10,1\n100,20,5\n' >sub/mine.csv
expect 0 "$tandem" run sub/c.yaml
prints '40 completed'

# Simulated time is 64 bits of picoseconds.
config >endless.yaml
for way in '' --step; do
  # shellcheck disable=SC2086 # no word when empty
  rejects 3 "$tandem" run endless.yaml $way --set 'workload.lengths.output={constant: 10000000}' \
    --set 'workload.arrivals.rate=0.000001 /s' --set workload.requests=10 \
    --set max_model_len=none --set pools.all.num_gpu_blocks_override=1000000000000
  says 'the run is longer than 106 days of simulated time, the limit of the simulator'
done

rejects 3 "$tandem" run endless.yaml --set 'network={bandwidth: 1 B/s}' --set policies.router=jsq \
  --set 'pools={a: {role: prefill, machine: dgx-h100}, b: {role: decode, machine: dgx-h100}}'
says 'the run is longer than 106 days of simulated time, the limit of the simulator'

# What the model's context or the KV memory cannot take is rejected, and the summary says why.
config | sed 's/{constant: 500}/{uniform: [3000, 5000]}/' >context.yaml
expect 0 "$tandem" run context.yaml --output context.db
grep -q '^requests .* [1-9][0-9]* completed, [1-9][0-9]* rejected' out || fail 'none or all'
prints 'whose prompt leaves no room in the context of 4096 tokens (max_model_len)'
expect 0 "$tandem" query context.db --format csv --sql "SELECT sum(value) FILTER (WHERE
  name = 'rejected') = sum(value) FILTER (WHERE name = 'rejected_context') AS same,
  sum(value) FILTER (WHERE name = 'rejected_kv_memory') AS others FROM metric WHERE scope = 'run'"
prints '1,0'
expect 0 "$tandem" run context.yaml --set max_model_len=none
prints '40 completed, 0 rejected'
expect 0 "$tandem" run a.yaml --set max_model_len=510 --format json
prints '"cut_outputs": 40'
prints '"output_tokens_per_s": '
expect 0 "$tandem" run a.yaml --set max_model_len=510
prints 'cut          40 outputs, where the context of 510 tokens ends (max_model_len)'
expect 0 "$tandem" run context.yaml --set model=bloom-176b # ALiBi: positions have no end
prints '40 completed, 0 rejected'
rejects 3 "$tandem" run a.yaml --set max_model_len=500 --output none.db
says 'a.yaml: error: no request can be served: 40 whose prompt leaves no room in the context of 500'
expect 0 "$tandem" query none.db --sql 'SELECT count(*) AS n FROM run' --format csv
prints 0
rejects 3 "$tandem" run a.yaml --set pools.all.num_gpu_blocks_override=20
says "no request can be served: 40 that need more KV memory than 320 tokens on an instance of 'all'"
rejects 3 "$tandem" run a.yaml --set max_model_len=long
says "'max_model_len' must be a whole number"
rejects 3 "$tandem" run a.yaml --set 'workload.lengths.prompt={constant: 2147483647}'
says "'constant' must be from 1 to 10000000"

rejects 3 "$tandem" run a.yaml --set model=opt-13b --set perfmodel=roofline --check \
  --set pools.all.count=1000000 --set pools.all.data_parallel_size=8 \
  --set pools.all.tensor_parallel_size=1 \
  --set pools.more='{machine: dgx-h100, count: 1000000}' \
  --set pools.most='{machine: dgx-h100, count: 1000000, data_parallel_size: 2}'
says "the pools up to 'most' have 11000000 instances"

# Clients that give up are counted, and the table of requests says when they left.
expect 0 "$tandem" run a.yaml --set 'workload.patience={e2e: 1 ms}' --requests --output gone.db
prints '0 completed, 0 rejected'
prints 'cancelled    40 whose clients gave up, 0 of them without a first token in time'
expect 0 "$tandem" query gone.db --format csv --sql 'SELECT count(cancelled_s), count(last_token_s),
  max(generated_tokens) < 500 FROM request'
prints '40,0,1'

# More requests than memory: the run ends, and the sweep goes on without it.
rejects 4 "$tandem" run a.yaml --memory '20 MB' --set 'workload.arrivals.rate=1e9 /s' \
  --set workload.requests=1e12
says 'error: the run needs more memory than its limit of 20 MB: '
says 'for the whole workload'
rejects 2 "$tandem" run a.yaml --memory 20
says "'--memory' must be a size such as '80 GiB', not '20'"
{
  cat a.yaml
  echo 'sweep: {workload.requests: [40, 1000000000000]}'
} >crowd.yaml
expect 0 "$tandem" sweep crowd.yaml --set 'workload.arrivals.rate=1e9 /s' --jobs 1 \
  --memory '20 MB' --output crowd.db
prints '1 simulated, 1 failed'
expect 0 "$tandem" query crowd.db --format csv --sql 'SELECT reason FROM run'
prints 'the run needs more memory than its limit of 20 MB'

# Ten thousand pools take some kilobytes each.
{
  config | sed '/^  all:/,$d'
  for i in $(seq 3000); do echo "  p$i: {role: mixed, machine: dgx-h100}"; done
} >pools.yaml
expect 0 "$tandem" run pools.yaml --memory '40 MB'
prints '40 completed'

# With times moved by the error of their model: the same run again, each figure of it as the model's
# times multiplied give it; what it is itself, and what is stored, stay.
figure() { # LINE-BEGINNING FILE : the value of a figure in CSV
  grep "^$1," "$2" | cut -d, -f4
}
expect 0 "$tandem" run a.yaml --format csv
mv out plain.csv
expect 0 "$tandem" run a.yaml --format csv --range --output range.db
mv out range.csv
grep -Ev '^run,(cpu_s|wall_s),' plain.csv >plain
grep -Ev '^(shorter|longer)[.]|^run,(cpu_s|wall_s),' range.csv >of_range
cmp -s plain of_range || fail 'a range changes the run'
error=$(figure extrapolated,perfmodel_error,value plain.csv)
for move in shorter:-1 longer:1; do
  scale=$(awk "BEGIN { printf \"%.17g\", 1 + ${move#*:} * $error }")
  expect 0 "$tandem" run a.yaml --format csv --set "perfmodel={time_scale: $scale}"
  for of in run,ttft_s,p99 run,e2e_s,mean slo,slowdown.e2e.p50,margin; do
    [ "$(figure "$of" out)" = "$(figure "${move%:*}.$of" range.csv)" ] || fail "not $of of $move"
  done
done
expect 0 "$tandem" query range.db --format csv --sql "SELECT count(*), count(DISTINCT statistic),
  (SELECT count(*) FROM run) FROM metric WHERE scope LIKE 'longer%'"
prints '0,0,1'

# For people: the range of each latency, and limits that it decides and does not.
is=$(figure run,ttft_s,p99 range.csv)
longer=$(figure longer.run,ttft_s,p99 range.csv)
between=$(awk "BEGIN { printf \"%.9f\", ($is + $longer) / 2 }")
expect 0 "$tandem" run a.yaml --range --set "slo={ttft.p99: $between s, ttft.p50: 9 s}"
for text in '^range        with times up to [0-9.]*% shorter and longer: ' '^  shorter ' \
  '^  longer ' '^ttft.p50 .*%  met; [0-9]*% to [0-9]*%$' \
  '^ttft.p99 .*%  met; -[0-9]*% to [0-9]*%: undecided$'; do
  grep -q "$text" out || fail "no line '$text'"
done
expect 0 "$tandem" run a.yaml --range --set perfmodel=roofline
prints 'range        none: the error of the iteration times is unknown'
grep -q '^  longer' out && fail 'a range of a roofline'
expect 0 "$tandem" run a.yaml --range --format json
if python3 -c '' 2>/dev/null; then
  python3 -c '
import json
run = json.load(open("out"))
low, high = (run["moved"][m]["ttft_s"]["p99"] for m in ("shorter", "longer"))
assert low < run["ttft_s"]["p99"] < high
assert [s["name"] for s in run["moved"]["longer"]["slo"]] == [s["name"] for s in run["slo"]]
' 2>err || fail 'the JSON is not as it should be'
fi
rejects 2 "$tandem" run a.yaml --range --format vllm

# A limit within what chance leaves of a figure is not decided, one twice as far is.
quickstart="$source_dir/experiments/examples/quickstart.yaml"
expect 0 "$tandem" run "$quickstart" --set slo=null --format csv
at=$(figure run,ttft_s,p99 out) half=$(figure run,ttft_s,p99_half_width out)
limit() { awk "BEGIN { printf \"%.9f s\", $at - $1 * $half }"; }
expect 0 "$tandem" run "$quickstart" --set "slo={ttft.p99: $(limit 0.9), ttft.p90: 9 s}"
grep -q '^ttft.p99 .*MISSED, undecided by chance$' out || fail 'decided by chance'
grep -q '^ttft.p90 .*met$' out || fail 'a far limit is undecided'
expect 0 "$tandem" run "$quickstart" --set "slo={ttft.p99: $(limit 1.1)}"
grep -q '^ttft.p99 .*MISSED$' out || fail 'undecided beyond chance'

finish
