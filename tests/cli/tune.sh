#!/bin/sh
# `tandem tune`: the best division of GPUs by a bottleneck's arithmetic, the best of a grid and all
# differences that are printed by a sweep over all of it, the runs that a database keeps, equal
# bytes with one thread and two, the flags of three engines, and what is wrong with a question.
. "$TANDEM_SOURCE_DIR/tests/cli_testing.sh"

# ---- A closed form: p instances prefill and 8 - p decode requests one at a time, all there at the
# start. They serve min(p / prefill, (8 - p) / decode) a second; one request alone says both times.
cat >split.yaml <<'END'
model: llama3.1-8b
workload:
  lengths: {prompt: {constant: 4000}, output: {constant: 60}}
  arrivals: {process: at_once}
  requests: 240
pools:
  p: {role: prefill, machine: dgx-h100, tensor_parallel_size: 1, count: 1}
  d: {role: decode, machine: dgx-h100, tensor_parallel_size: 1, count: 7}
policies:
  router: jsq
  batcher: {name: continuous, max_num_prefill_seqs: 1, max_num_seqs: 1}
perfmodel: roofline
slo: none
END
expect 0 "$tandem" run split.yaml --set workload.requests=1 --format csv
wanted=$(awk -v prefill="$(figure run ttft_s mean)" -v e2e="$(figure run e2e_s mean)" 'BEGIN {
  for (p = 1; p < 8; p++) {
    rate = p / prefill < (8 - p) / (e2e - prefill) ? p / prefill : (8 - p) / (e2e - prefill)
    if (rate > best) { best = rate; at = p "+" 8 - p }
  }
  print at, best }')
expect 0 "$tandem" tune split.yaml --objective throughput --knobs split --seeds 2 --format json
prints "\"best\": \"${wanted% *}\""
prints '"set": {"pools.p.count": "2", "pools.d.count": "6"}'
sed -n 's/.*"together": {.*"to": \([0-9.]*\),.*/\1/p' out >rate
awk -v want="${wanted#* }" '{ exit !($1 > 0.98 * want && $1 < 1.001 * want) }' rate ||
  fail "serves $(cat rate), not nearly ${wanted#* }"
expect 0 "$tandem" tune split.yaml --objective throughput --knobs split --seeds 2
prints 'seeds change nothing: the outcomes are equal on all of them'
prints '    p: {count: 2}'

# ---- A grid of 80 points: the answer is as good as the best of them on the seeds that it was
# measured on, and its figures are those of the sweep.
cat >grid.yaml <<'END'
model: llama3.1-8b
seed: 40
workload:
  lengths: {prompt: {uniform: [200, 3000]}, output: {uniform: [20, 200]}}
  arrivals: {process: poisson, rate: 14 /s}
  requests: 120
  max_model_len: 8192
pools:
  all: {role: mixed, machine: dgx-h100, count: 1, tensor_parallel_size: 1}
policies:
  router: jsq
  batcher: {name: vllm, max_num_batched_tokens: 8192, capacity_scheduler_policy: max_utilization,
    long_prefill_token_threshold: 0}
perfmodel: roofline
slo: none
END
knobs=max_num_batched_tokens,capacity_scheduler_policy,long_prefill_token_threshold
tune() { "$tandem" tune grid.yaml --objective tpot_p99 --seeds 3 --knobs "$knobs" "$@"; }
for jobs in 1 2; do
  expect 0 tune --format json --jobs $jobs
  mv out $jobs.json
  expect 0 tune --jobs $jobs
  mv out $jobs.txt
done
cmp -s 1.json 2.json || fail 'two threads give another answer than one'
cmp -s 1.txt 2.txt || fail 'two threads print another answer than one'
grep -q ' $' 1.txt && fail 'a line ends in blanks'
cat >sweep.yaml <<'END'
sweep:
  seed: [43, 44, 45]
  policies.batcher.max_num_batched_tokens: [256, 512, 1024, 2048, 4096, 8192, 16384, 32768]
  policies.batcher.capacity_scheduler_policy: [max_utilization, guaranteed_no_evict]
  policies.batcher.long_prefill_token_threshold: [0, 512, 1024, 2048, 4096]
END
cat grid.yaml >>sweep.yaml
expect 0 "$tandem" sweep sweep.yaml --output sweep.db
expect 0 "$tandem" query sweep.db --format json --sql "SELECT
  group_concat(axis.name || '=' || point_value.value, ' ') AS place, metric.value
  FROM point JOIN point_value USING (sweep_id, point) JOIN axis USING (sweep_id, axis)
  JOIN metric ON metric.run_id = point.run_id AND metric.name = 'tpot_s'
  AND metric.scope = 'run' AND statistic = 'p99' GROUP BY point"
mv out points.json
python3 - <<'END' || fail 'the sweep says otherwise'
import json, math
axes = ["max_num_batched_tokens", "capacity_scheduler_policy", "long_prefill_token_threshold"]
grid = {}
for row in json.load(open("points.json")):
    place = dict(part.split("=") for part in row["place"].split())
    at = tuple(place["policies.batcher." + axis] for axis in axes)
    grid.setdefault(at, {})[place["seed"]] = row["value"]
assert len(grid) == 80 and all(len(seeds) == 3 for seeds in grid.values())
mean = lambda at: sum(grid[at].values()) / 3
def difference(a, b):  # mean and half of the 95% t-interval, two degrees of freedom
    of = [grid[b][seed] - grid[a][seed] for seed in grid[a]]
    middle = sum(of) / 3
    return middle, 4.30265273 * math.sqrt(sum((x - middle) ** 2 for x in of) / 2 / 3)
near = lambda a, b: abs(a - b) <= 1e-6 * max(abs(a), abs(b), 1e-6)
answer = json.load(open("1.json"))
knobs = {row["knob"]: row for row in answer["knobs"]}
current = tuple(knobs[axis]["current"] for axis in axes)
best = tuple(knobs[axis]["best"] for axis in axes)
together = answer["together"]
assert near(together["from"], mean(current)) and near(together["to"], mean(best)), together
change, half = difference(current, best)
assert near(together["change"], change) and near(together["half_width"], half), together
assert change + half < 0
least = min(grid, key=mean)  # chosen on these very seeds
assert mean(best) <= 1.05 * mean(least), (best, mean(best), least, mean(least))
n_changed = 0
for i, axis in enumerate(axes):
    if current[i] == best[i]:
        continue
    n_changed += 1
    alone = current[:i] + best[i:i + 1] + current[i + 1:]
    without = best[:i] + current[i:i + 1] + best[i + 1:]
    for kind, (a, b) in {"alone": (current, alone), "without": (best, without)}.items():
        change, half = difference(a, b)
        assert near(knobs[axis][kind] * mean(a), change), (axis, kind)
        assert near(knobs[axis][kind + "_half_width"] * mean(a), half), (axis, kind)
    change, half = difference(best, without)
    assert change - half > 0 and knobs[axis]["verdict"] == "better"
assert n_changed > 0 and answer["set"]
END

# Runs are kept: those on seeds of the measurement are those of the sweep, so that none is added,
# and nor is any when all is asked again.
expect 0 tune --format json --output sweep.db
cmp -s out 1.json || fail 'the answer is another one with --output'
count() {
  expect 0 "$tandem" query sweep.db --format csv --sql "SELECT count(*), sum(seed > 42) FROM run"
  sed 1d out
}
kept=$(count)
expr "$kept" : '.*,240$' >/dev/null || fail "'$kept' are kept, not 240 of the sweep"
[ "${kept%,*}" -gt 250 ] || fail "'$kept' are kept, none of the search"
expect 0 tune --output sweep.db
[ "$(count)" = "$kept" ] || fail 'runs are kept twice'

# A budget ends the search, and the answer says so. Without --knobs there are more.
expect 0 tune --budget 12 --format json
prints '"out_of_budget": true'
expect 0 "$tandem" tune grid.yaml --objective tpot_p99 --dry-run
prints 'max_num_batched_tokens        256 512 1024 2048 4096 [8192] 16384 32768'
prints 'router: there is one instance for each request to go to'
expect 0 tune --format csv
prints 'knob,current,best,alone_value,alone,alone_half_width,alone_seeds,without,'

# ---- The largest rate within limits: on its only seed the best values hold the rate that is
# printed, and a step more they do not. The keys are given to a run as the answer prints them.
cat >rate.yaml <<'END'
model: llama3.1-8b
engine: sglang-0.5
workload:
  lengths: {prompt: {constant: 3000}, output: {constant: 40}}
  arrivals: {process: poisson, rate: 8 /s}
  requests: 100
pools:
  all: {role: mixed, machine: dgx-h100, count: 1, tensor_parallel_size: 1}
policies: {router: jsq}
perfmodel: roofline
slo: {ttft.p90: 1 s, tpot.p90: 50 ms}
END
chunks=max_num_batched_tokens,enable_mixed_chunk
rate() { "$tandem" tune rate.yaml --seeds 1 --knobs $chunks "$@"; }
expect 0 rate --format json
prints '"objective": "rate", "unit": "requests/s"'
python3 - >probe <<'END' || fail 'no answer'
import json
answer = json.load(open("out"))
assert answer["set"]["policies.batcher.enable_mixed_chunk"] == "true"
sets = " ".join(f"--set {key}={value}" for key, value in answer["set"].items())
for rate in answer["together"]["to"], answer["together"]["to"] + answer["step"]:
    print(f"run rate.yaml --require-slo {sets} --set workload.arrivals.rate={rate:.9g}/s")
END
code=0
while read -r arguments; do
  # shellcheck disable=SC2086 # words
  expect $code "$tandem" $arguments
  code=1
done <probe
[ "$code" -eq 1 ] || fail 'nothing was probed'
expect 0 rate
for text in 'one seed, so no interval is known' '--enable-mixed-chunk' '--chunked-prefill-size' \
  'enable_mixed_chunk: true' 'in steps of 0.05'; do
  prints "$text"
done
# Limits of --slo go before those of the file; goodput and a trace, whose seeds are all alike.
expect 0 rate --slo 'ttft.p90<2s' --objective goodput --format json
prints '"unit": "good requests/s"'
printf 'at,in,out\n0,900,30\n0.1,3000,30\n0.15,200,30\n0.3,2500,30\n' >trace.csv
sed -e '/^  lengths/d; /^  arrivals/d; /^slo/d' \
  -e 's/requests: 100/trace: trace.csv\n  columns: {arrival: at, prompt: in, output: out}/' \
  rate.yaml >replay.yaml
expect 0 "$tandem" tune replay.yaml --knobs max_num_seqs --dry-run
prints 'objective    e2e_mean, lower is better; 1 seed'
expect 0 "$tandem" tune replay.yaml --knobs max_num_seqs
prints 'the current values'

# TensorRT-LLM says in YAML what has no flag, vLLM has a flag and its negation.
sed 's/sglang-0.5/trtllm-1.3/' rate.yaml >trtllm.yaml
expect 0 "$tandem" tune trtllm.yaml --seeds 1 --knobs capacity_scheduler_policy
prints '  capacity_scheduler_policy: MAX_UTILIZATION'
prints 'watermark: trtllm-1.3 has no such option'
sed 's/sglang-0.5/vllm-0.33/' rate.yaml >vllm.yaml
expect 0 "$tandem" tune vllm.yaml --seeds 1 --knobs max_num_batched_tokens \
  --set policies.batcher.enable_prefix_caching=false --set pools.all.block_size=32
prints '--no-enable-prefix-caching'
prints '--block-size 32'

# ---- What is wrong.
rejects 3 rate --objective speed
says "unknown objective 'speed'"
rejects 3 "$tandem" tune rate.yaml --knobs max_num_seqs,ruter
says "this configuration has no knob 'ruter'"
rejects 3 rate --slo 'ttft.p90=1s'
says "'ttft.p90=1s' is not a limit"
rejects 3 rate --slo 'ttft.p90<1us'
says 'the current values meet the limits at no rate'
rejects 3 "$tandem" tune split.yaml --objective rate
says "the objective 'rate' needs limits"
rejects 3 "$tandem" tune split.yaml --objective rate --slo 'ttft.p90<1s'
says 'the workload has no single rate to search'
rejects 3 "$tandem" tune split.yaml --objective goodput
says "the objective 'goodput' needs limits"
rejects 4 "$tandem" tune missing.yaml
for bad in '--seeds=0' '--budget=0' '--knobs' 'other.yaml'; do
  rejects 2 "$tandem" tune rate.yaml "$bad"
done

finish
