#!/bin/sh
# `tandem provision` of work that is all there at once: every choice is a run, the answer is the
# best of them, threads and the database change nothing, and what cannot be had is named. Figures
# follow from runs by hand; the degrees themselves are held against arithmetic in tests/unit.
. "$TANDEM_SOURCE_DIR/tests/cli_testing.sh"

# study LINE... : a study on stdout; each LINE is one of its block.
study() {
  cat <<'END'
model: codellama-34b
workload:
  lengths: arxiv-summarization
  arrivals: {process: at_once}
  requests: 60
  seed: 4
pools:
  all: {role: mixed, machine: a10-x8}
policies:
  batcher: {name: mixed, max_num_batched_tokens: 4096}
perfmodel: roofline
slo: none
provision:
  objective: throughput
END
  for line in "$@"; do printf '  %s\n' "$line"; done
}
# The same GPUs in two shapes, as Seesaw has them.
shapes='shapes: {pools: {p: {role: prefill, machine: a10-x8}, d: {role: decode, machine: a10-x8}},
      groups: {g: {prefill: p, decode: d}}, policies.pool: seesaw,
      policies.batcher: {name: continuous, max_num_batched_tokens: 4096},
      parallelism: {gpus: 8, pools: [p, d]}}'
whole='whole: {parallelism: {gpus: 8}, policies.batcher.max_num_batched_tokens: [512, 4096]}'
study 'designs:' "  $whole" "  $shapes" >a.yaml

# The table: the best of each design, the rankings, and why others are none.
expect 0 "$tandem" provision a.yaml
[ ! -s err ] || fail 'something on stderr'
for text in 'the highest throughput of requests that are all present at the start; 1 seed' \
  'whole: 14 of 20 choices' 'shapes: 25 of 30 choices' 'best         shapes' \
  'rank requests/s  tokens/s  of best  parallelism  max_num_batched_tokens' \
  "DP8          4096                    model 'codellama-34b' does not fit with" \
  'simulations  39 of 50 choices'; do
  prints "$text"
done
grep -q ' $' out && fail 'a line ends in blanks'
expect 0 "$tandem" provision a.yaml --dry-run
prints 'whole: 14 of 20 choices'
prints 'parallelism=TP4PP2 policies.batcher.max_num_batched_tokens=512'
prints 'parallelism=TP2DP4/PP2DP4: model'
prints 'parallelism=PP8/TP8'

# Threads change no byte of it, nor does the database, which keeps runs and answers.
for jobs in 1 2 7; do
  expect 0 "$tandem" provision a.yaml --format json --jobs $jobs --set provision.seeds=2
  mv out $jobs.json
  cmp -s 1.json $jobs.json || fail "$jobs threads give another answer than one"
done
expect 0 "$tandem" provision a.yaml --format csv
mv out plain.csv
for _ in 1 2; do
  expect 0 "$tandem" provision a.yaml --format csv --output runs.db
  cmp -s out plain.csv || fail 'the database changes an answer'
done
expect 0 "$tandem" provision a.yaml --output runs.db
prints 'simulations  39 of 50 choices, 39 from the database'
expect 0 "$tandem" query runs.db --format csv --sql "SELECT (SELECT count(*) FROM run),
  (SELECT count(*) FROM study), (SELECT count(*) FROM choice), (SELECT count(*) FROM choice JOIN run
  USING (config_digest) WHERE why_not IS NULL), (SELECT count(*) FROM answer JOIN choice ON
  answer.choice = label AND answer.rate_rps = throughput_rps)"
grep -q '^39,1,50,39,2$' out || fail 'not the rows of one study'
expect 0 "$tandem" query runs.db choices --format csv
sed -n 2p out | grep -q '^1,shapes,4,parallelism=' || fail 'not the best of shapes first'
expect 0 "$tandem" query runs.db answers
prints 'parallelism='

# The best is what a run by hand gives.
best=$(grep '^whole,4,1,' plain.csv)
label=$(echo "$best" | cut -d, -f4)
sed '/^provision:/,$d' a.yaml >run.yaml
degree() { # LETTERS LABEL : its degree in a label such as parallelism=TP4PP2
  found=$(echo "$2" | sed -n "s/^[^ ]*$1\([0-9]*\).*/\1/p")
  echo "${found:-1}"
}
expect 0 "$tandem" run run.yaml --format csv \
  --set "pools.all.tensor_parallel_size=$(degree TP "$label")" \
  --set "pools.all.pipeline_parallel_size=$(degree PP "$label")" \
  --set "pools.all.data_parallel_size=$(degree DP "$label")" --set "${label##* }"
rate=$(echo "$best" | cut -d, -f5)
grep -q "^run,throughput_rps,value,$rate," out || fail "no throughput of $rate requests/s"

if python3 -c '' 2>/dev/null; then
  python3 -c '
import json
study = json.load(open("1.json"))
assert study["objective"] == "throughput" and study["unit"] == "requests/s"
for design, n, fit in zip(study["designs"], (20, 30), (14, 25)):
    for answer in design["answers"]:
        of_seed = [c for c in design["choices"] if c["seed"] == answer["seed"]]
        ranked = sorted((c for c in of_seed if c["rank"]), key=lambda c: c["rank"])
        assert len(of_seed) == n and [c["rank"] for c in ranked] == list(range(1, fit + 1))
        rates = [c["throughput_rps"] for c in ranked]
        assert rates == sorted(rates, reverse=True) and rates[0] == answer["rate_rps"]
        assert ranked[0]["choice"] == answer["choice"]
        assert ranked[0]["output_tokens_per_s"] == answer["output_tokens_per_s"]
        assert all((c["why_not"] is None) == bool(c["rank"]) for c in of_seed)
        assert all(" ".join(f"{k}={v}" for k, v in c["values"].items()) == c["choice"]
                   for c in of_seed)
    values = [a["rate_rps"] for a in design["answers"]]
    assert design["low"] == min(values) and design["high"] == max(values)
    assert [a["seed"] for a in design["answers"]] == [4, 5] and values[0] != values[1]
' 2>err || fail 'the JSON is not as it should be'
fi

# Ranges and lists of any key are gone through, within a budget and limits.
study 'constraint: {machines: 2}' \
  'designs: {many: {pools.all.tensor_parallel_size: 8, pools.all.count: 1..3}}' >b.yaml
expect 0 "$tandem" provision b.yaml --format csv
grep -q '^many,4,1,pools.all.count=2,' out || fail 'not two machines'
grep -q '^many,4,,pools.all.count=3,.*"it takes 3 machines, the budget is 2 machines"' out ||
  fail 'no reason for three machines'
expect 3 "$tandem" provision b.yaml --set 'slo={ttft.p50: 1 ms}'
says "design 'many' meets the limits with no cluster: pools.all.count=1: 'ttft.p50', limit 0.001 s"
expect 1 "$tandem" provision b.yaml --set 'slo={ttft.p50: 1 ms}' --require-slo

# bad MESSAGE LINE... : a study with this block is refused with this message, and nothing printed.
bad() {
  message=$1
  shift
  study "$@" >bad.yaml
  rejects 3 "$tandem" provision bad.yaml
  says "$message"
}
bad "none of the 3 choices of design 'a' is possible" 'designs: {a: {parallelism: {gpus: 7}}}'
says 'bad.yaml:15:30: error: pipeline_parallel_size 7 does not divide the 48 layers'
says 'tensor_parallel_size 7 does not divide the heads'
says "does not fit with tensor_parallel_size 1: its 67.49 GB of weights"
bad "exceeds the 8 GPUs of machine 'a10-x8'" 'designs: {a: {parallelism: {gpus: 16}}}'
bad "there is no pool 'al'" 'designs: {a: {parallelism: {gpus: 8, pools: [al]}}}'
says 'bad.yaml:15:48: error: there is no pool'
bad "missing key 'gpus'" 'designs: {a: {parallelism: {pools: [all]}}}'
bad "'gpus'" 'designs: {a: {parallelism: {gpus: many}}}'
bad "'pools.all.machine' has no values" 'designs: {a: {pools.all.machine: []}}'
bad "lists '512' twice" 'designs: {a: {policies.batcher.max_num_batched_tokens: [512, 512]}}'
bad "both move 'pools.all.data_parallel_size'" \
  'designs: {a: {parallelism: {gpus: 8}, pools.all.data_parallel_size: [1, 2]}}'
bad "unknown key 'polices'" 'designs: {a: {polices.batcher: [mixed, continuous]}}'
bad "has its own arrivals, but" \
  'designs: {a: {pools.all.tensor_parallel_size: 8, workload.arrivals: {rate: 3 /s}}}'
bad "'tolerance' cannot be used with arrivals at once" 'tolerance: 2 /s' \
  'designs: {a: {parallelism: {gpus: 8}}}'
bad "'rates' cannot be used with arrivals at once" 'rates: {to: 2 /s}' \
  'designs: {a: {parallelism: {gpus: 8}}}'
bad "the power of machine 'a10-x8' in design 'a' is not known" 'constraint: {power: 2 kW}' \
  'designs: {a: {parallelism: {gpus: 8}}}'
bad "designs 'a' and 'b' are the same" \
  'designs: {a: {parallelism: {gpus: 8}}, b: {parallelism: {gpus: 8}}}'
group='pools: {p: {role: prefill, machine: a10-x8},
      d: {role: decode, machine: a10-x8, tensor_parallel_size: 4, data_parallel_size: 2}},
      groups: {g: {prefill: p, decode: d}}, policies.pool: seesaw, policies.batcher: continuous'
bad 'data_parallel_size is 1 in prefill and 2 in decode, but must be the same' \
  "designs: {a: {$group, parallelism: {gpus: 4, pools: [p]}}}"
bad "design 'a' must be a map of keys to values" 'designs: {a: 3}'
# Of arrivals that are not at once nothing is gone through.
rejects 3 "$tandem" provision a.yaml --set workload.arrivals.process=poisson \
  --set workload.arrivals.rate='3 /s' --set 'slo={ttft.p50: 9 s}'
says "'parallelism' needs the objective 'throughput' and arrivals at once"
rejects 3 "$tandem" provision a.yaml --set provision.objective=cost
says "'parallelism' needs the objective 'throughput' and arrivals at once"
finish
