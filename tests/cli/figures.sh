#!/bin/sh
# What figures of a run are of: one window, what was paid, what was measured, who was preempted; and
# that programs get all of them, whatever became of the requests.
. "$TANDEM_SOURCE_DIR/tests/cli_testing.sh"
python3 -c '' 2>/dev/null || exit 77

cat >a.yaml <<'END'
model: llama3.1-8b
engine: vllm-0.33
workload: {lengths: {prompt: {uniform: [100, 900]}, output: {uniform: [1, 200]}},
  arrivals: {rate: 100 /s}, requests: 300, seed: 3}
pools: {serve: {machine: dgx-h100, count: 1, tensor_parallel_size: 1}}
perfmodel: roofline
slo: none
END

# shows CODE PYTHON OPTION... : the JSON of a run with these options is `d`, of which this holds.
shows() {
  code=$1 claim=$2
  shift 2
  expect "$code" "$tandem" run a.yaml --format json "$@"
  python3 -c "import json
d = json.load(open('out'))
limits = {one['name']: one for one in d['slo']}
$claim" 2>why || fail "$(tail -1 why)"
}

# All rates are of the window, wherever that lies.
rates='
t = d["duration_s"]
near = lambda a, b: abs(a - b) <= 1e-6 * abs(b)
assert near(d["counted_from_s"] + t, d["counted_until_s"])
assert near(d["throughput_rps"] * t, d["completed"])
assert near(d["output_tokens_per_s"] * t, d["output_tokens"])
assert near(d["cost_per_million_output_tokens"] * d["output_tokens"], 1e6 * d["cost_usd"])
assert near(d["cost_per_million_output_tokens_at_max"] * d["output_tokens"],
            1e6 * d["cost_per_hour"] * t / 3600)
for pool in d["pools"]:
    assert near(pool["utilization"] * (pool["count"] * t - pool["off_s"]), pool["busy_s"])
assert near(sum(pool["energy_kwh"] for pool in d["pools"]), d["energy_kwh"])
'
cat >late.csv <<'END'
arrived_at,num_prefill_tokens,num_decode_tokens
100000,100,10
100001,100,10
END
sed 's/100000,/0,/; s/100001,/1,/' late.csv >early.csv
shows 0 "$rates"
shows 0 "${rates}assert 1 <= d['counted_from_s'] < 1.1" --set warm.duration=1s
shows 0 "${rates}assert d['requests'] == 200" --set warm.requests=100
shows 0 "${rates}assert d['counted_from_s'] == 0
json.dump(d, open('early.json', 'w'))" --set 'workload={trace: early.csv}'
shows 0 "${rates}assert d['counted_from_s'] == 100000
early = json.load(open('early.json'))
for name, value in early.items():
    if name not in ('digest', 'counted_from_s', 'counted_until_s', 'cpu_s', 'wall_s', 'config'):
        assert d[name] == value or near(d[name], value), name" \
  --set 'workload={trace: late.csv}'
expect 0 "$tandem" run a.yaml --set 'workload={trace: late.csv}'
prints 'window       from 100000 s to 100001.07 s, 1.07 s'

# Under autoscaling the price is of what was paid; of one instance of eight nearly an eighth.
scaled='{machine: dgx-h100, count: 1, tensor_parallel_size: 1, scaling: {min: 1, max: 8}}'
set -- --set "pools.serve=$scaled" --set 'policies.scaler={name: target, concurrency: 1000}'
shows 0 "${rates}share = d['cost_per_million_tokens'] / d['cost_per_million_tokens_at_max']
assert 0.12 < share < 0.13" "$@"
expect 0 "$tandem" run a.yaml "$@"
prints 'had all instances been on throughout'
expect 0 "$tandem" run a.yaml
! grep -q '^at max' out || fail 'a second price where all instances are on'
cat >study.yaml <<'END'
provision: {objective: gpus, designs: {one: {pools.serve.count: 1..2}}}
END
cat a.yaml study.yaml | sed 's/^slo: none/slo: {ttft.p99: 100 s}/' >b.yaml
expect 0 "$tandem" provision b.yaml --format json "$@"
sed -n 's/.*"cost_per_million_output_tokens": \([0-9.]*\).*/\1/p' out >price
expect 0 "$tandem" run b.yaml --format json "$@"
prints "\"cost_per_million_output_tokens\": $(cat price),"

# A limit of whose figure there is no value is neither met nor missed, and not met.
set -- --set 'workload.lengths.output={constant: 1}'
for limit in tpot.p99 tbt.max second_token.mean session.p50 kv_transfer.p99; do
  shows 1 "
assert limits['ttft.p99']['status'] == 'met' and limits['ttft.p99']['met'] is True
limit = limits['$limit']
assert limit['status'] == 'not measured' and not limit['met']
assert limit['value'] is None and limit['margin'] is None" \
    "$@" --require-slo --set "slo={ttft.p99: 9 s, $limit: 9 s}"
done
shows 1 "assert limits['slowdown.ttft.p50']['met']
for name in 'slowdown.tbt.p50', 'goodput':
    assert limits[name]['status'] == 'not measured' and not limits[name]['met']" "$@" \
  --require-slo \
  --set 'slo={slowdown: {ttft.p50: 99, tbt.p50: 99}, goodput: {share: 0.1, tpot: 9 s}}'
expect 0 "$tandem" run a.yaml "$@" --set 'slo={ttft.p99: 9 s, tpot.p99: 9 s}' --output one.db
prints 'own: 1 of 2 met, 1 not measured'
grep -Eq '^tpot.p99 +- +9.00 s +-  NOT MEASURED: no output has two tokens$' out ||
  fail 'a limit that was not measured is not said to be'
expect 0 "$tandem" query one.db slo --format csv
prints 'no output has two tokens'
expect 0 "$tandem" report one.db -o one.html
grep -q 'not measured: no output has two tokens' one.html || fail 'nor in the page'
expect 0 "$tandem" run a.yaml "$@" --set 'slo={tpot.p99: 9 s}' --format csv
prints 'slo,tpot.p99,value,,s'
prints 'slo,tpot.p99,measured,0,'
expect 1 "$tandem" provision b.yaml "$@" --set 'slo={tpot.p99: 9 s}' --require-slo
prints "none: 'tpot.p99', limit 9 s, is not measured with pools.serve.count=2"

# Nothing is shared: what is found is what preempted requests had.
shows 0 "
assert d['preemptions'] == d['recomputes'] + d['restarted_prefills'] > 10, d['preemptions']
assert d['cached_share'] == 0 < d['refound_tokens'] and d['evictions'] > 100" \
  --set pools.serve.num_gpu_blocks_override=400

# What vLLM's client makes of a goodput.
good='slo={goodput: {share: 0.5, ttft: 100 ms}}'
shows 0 'print(d["good"] / d["duration_s"], file=open("good", "w"))' --set "$good"
for format in vllm-json vllm; do
  expect 0 "$tandem" run a.yaml --set "$good" --format $format
  cp out $format.good
  expect 0 "$tandem" run a.yaml --format $format
  cp out $format.none
done
python3 -c '
import json
good, none = json.load(open("vllm-json.good")), json.load(open("vllm-json.none"))
assert abs(good["request_goodput"] - float(open("good").read())) < 1e-6
assert none["request_goodput"] is None
assert all(good[name] is not None for name in good if name != "max_concurrency")
' 2>err || fail 'another goodput'
grep -q '^Request goodput (req/s):  *[1-9]' vllm.good || fail 'no goodput in the block'
! grep -q goodput vllm.none || fail 'a goodput that nobody asked for'

# Who is turned away is told of in all formats for programs, with the same exit status.
for reason in max_model_len=50 pools.serve.num_gpu_blocks_override=2; do
  shows 3 "
assert d['completed'] == 0 and d['rejected'] == d['requests'] == 300 and d['duration_s'] > 0
assert d['cost_per_million_tokens'] is None and d['ttft_s']['p99'] is None
assert limits['ttft.p99']['status'] == 'not measured' and limits['goodput']['status'] == 'missed'" \
    --set "$reason" --set 'slo={ttft.p99: 9 s, goodput: {share: 0.5, ttft: 9 s}}'
  says 'no request can be served: 300'
  expect 3 "$tandem" run a.yaml --set $reason --format csv
  prints 'run,rejected,value,300,'
  expect 3 "$tandem" run a.yaml --set $reason --format vllm-json
  python3 -c 'import json; assert json.load(open("out"))["failed"] == 300' || fail 'no JSON'
  rejects 3 "$tandem" run a.yaml --set $reason
done
shows 3 "assert d['requests'] == 0 and d['duration_s'] == 0" --set warm.requests=300

finish
