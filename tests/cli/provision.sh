#!/bin/sh
# What `tandem provision` answers for a small study, in three formats and from the database; that
# threads change nothing of it; and what it refuses. Figures are checked where they follow from the
# study alone; the search itself is held against brute force in tests/unit.
. "$TANDEM_SOURCE_DIR/tests/cli_testing.sh"

# study OBJECTIVE LINE... : a study on stdout; each LINE is one of its block.
study() {
  cat <<'END'
model: llama2-70b
max_model_len: none
workload:
  lengths: azure-conv-2023
  arrivals: {process: poisson, rate: 8 /s}
  duration: 20 s
  seed: 3
pools:
  prefill: {role: prefill, machine: dgx-h100, count: 1}
  decode: {role: decode, machine: dgx-h100, count: 1}
slo: splitwise
prices: {dgx-h100: {cost_per_hour: 38 $/h, price_date: 2023-11, price_source: Splitwise Table I}}
provision:
END
  for line in "$@"; do printf '  %s\n' "$line"; done
}
split='designs: {split: {pools.prefill.count: 1..5, pools.decode.count: 1..5}}'
study 'objective: machines' 'seeds: 2' 'designs:' \
  '  split: {pools.prefill.count: 1..5, pools.decode.count: 1..5}' \
  '  whole: {pools: {all: {machine: dgx-h100}}, pools.all.count: 1..6}' >a.yaml

# The table, with its evidence.
expect 0 "$tandem" provision a.yaml
[ ! -s err ] || fail 'something on stderr'
for text in 'the fewest machines at 8 requests/s; 2 seeds' 'split' 'whole' 'binds' 'margin' \
  '(95%); its answer meets the limits on' 'one step further, slowdown.' 'best ' \
  'of 62 in the full grid'; do
  prints "$text"
done

# How sure it is: what times may be off by, in the table and for programs; a roofline says that it
# does not know, and nobody has to wait for it.
for text in '^split: .* (2 seeds, times up to [0-9.]*% shorter or longer)' \
  '^limit  *value  *limit  margin  times [0-9.]*% off  of ' \
  '^times        measured, held-out error up to [0-9.]*%$' \
  '; [0-9]* more for the ranges$'; do
  grep -q "$text" out || fail "no line '$text'"
done
expect 0 "$tandem" provision a.yaml --format csv
mv out ranged.csv
awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
  !($at["low_model"] <= $6 && $6 <= $at["high_model"] && $at["perfmodel_error"] > 0) { exit 1 }' \
  ranged.csv || fail 'an answer is not in its range'
expect 0 "$tandem" provision a.yaml --format csv --no-range
cut -d, -f1-15 out >plain
cut -d, -f1-15 ranged.csv | cmp -s - plain || fail 'a range changes an answer'
grep -q ',,$' out || fail 'a range that was not asked for'
expect 0 "$tandem" provision a.yaml --no-range
grep -q 'for the ranges' out && fail 'ranges that were not asked for'
expect 0 "$tandem" provision a.yaml --set perfmodel=roofline
prints 'times        from a roofline, not measured, with unknown error: split, whole'
grep -q 'either way' out && fail 'a range of a roofline'
expect 0 "$tandem" provision a.yaml --dry-run
prints 'split: pools.prefill.count=1..5 pools.decode.count=1..5'

# Threads change no byte of it, nor does ending no run early change an answer.
for jobs in 1 2 7; do
  expect 0 "$tandem" provision a.yaml --format json --jobs $jobs
  mv out $jobs.json
  cmp -s 1.json $jobs.json || fail "$jobs threads give another answer than one"
done
expect 0 "$tandem" provision a.yaml --format csv
mv out early.csv
expect 0 "$tandem" provision a.yaml --format csv --full-runs
cmp -s out early.csv || fail 'ending runs early changes an answer'
[ "$(wc -l <out)" -eq 5 ] || fail 'not a line for each design and seed'
grep -q '^design,seed,prefill,decode,mixed,instances,gpus,machines,cost_per_hour,' out ||
  fail 'another header'
if python3 -c '' 2>/dev/null; then
  python3 -c '
import json
study = json.load(open("1.json"))
assert study["objective"] == "machines" and study["unit"] == "machines"
split, whole = study["designs"]
assert (split["design"], whole["design"]) == ("split", "whole")
assert split["grid"] == 50 and whole["grid"] == 12
for design in study["designs"]:
    answers = design["answers"]
    assert [a["seed"] for a in answers] == [3, 4]
    values = [a["machines"] for a in answers]
    assert design["low"] == min(values) and design["high"] == max(values)
    assert design["simulations"] < 0.6 * design["grid"] and design["stopped"] > 0
    for a in answers:
        assert a["instances"] == a["machines"] == a["prefill"] + a["decode"] + a["mixed"]
        assert a["gpus"] == 8 * a["machines"]
        million = a["cost_per_hour"] / 3600 / a["output_tokens_per_s"] * 1e6
        assert abs(a["cost_per_million_output_tokens"] / million - 1) < 1e-6
        assert a["cost_per_million_tokens"] < million / 3
        assert a["cost_per_hour"] == 38 * a["machines"] and a["rate_rps"] == 8
        assert len(a["slo"]) == 9 and all(s["value"] < s["limit"] for s in a["slo"])
        assert abs(a["margin"] - min(s["margin"] for s in a["slo"])) < 1e-9
best = min(study["designs"], key=lambda d: d["answers"][0]["machines"])
assert study["best"] == best["design"]
' 2>err || fail 'the JSON is not as it should be'
fi

# The answer is what runs say: it meets the limits, with a machine less it does not.
expect 0 "$tandem" provision a.yaml --format csv
IFS=, read -r _ _ prefill decode _ <<END
$(grep '^split,3,' out)
END
sed '/^provision:/,$d' a.yaml >run.yaml
expect 0 "$tandem" run run.yaml --require-slo --set "pools.prefill.count=$prefill" \
  --set "pools.decode.count=$decode"
[ "$decode" -le 1 ] || expect 1 "$tandem" run run.yaml --require-slo \
  --set "pools.prefill.count=$prefill" --set "pools.decode.count=$((decode - 1))"

# Runs and answers are kept; what is there is not simulated again.
expect 0 "$tandem" provision a.yaml --format csv --output runs.db --jobs 2
cmp -s out early.csv || fail 'the database changes an answer'
expect 0 "$tandem" provision a.yaml --format json --output runs.db
python3 -c '
import json
for design in json.load(open("out"))["designs"]:
    assert design["reused"] == design["simulations"], design
' 2>err || fail 'simulated what is in the database'
expect 0 "$tandem" provision a.yaml --format csv --output runs.db
cmp -s out early.csv || fail 'answers from the database differ'
expect 0 "$tandem" query runs.db answers --format csv
[ "$(grep -c '^1,machines,' out)" -eq 4 ] || fail 'not one study with four answers'

# Designs are compared by their answers' runs, whatever counts those have.
expect 0 "$tandem" compare runs.db split whole --figure ttft.p99
prints '2 pairs with equal seed'
grep -q '^pools.all.count .*-  ' out || fail 'whole designs have no pool that split ones lack'
rejects 3 "$tandem" compare runs.db splitt whole
says "did you mean 'split'?"

# Of limits with equal margins the same one binds, whatever order the database has them in.
study 'objective: machines' "$split" |
  sed -e 's/lengths: .*/lengths: {prompt: {constant: 500}, output: {constant: 20}}/' \
    -e 's/poisson, rate: 8/fixed, rate: 1/' -e 's/^slo: .*/slo: {ttft.p90: 5 s, ttft.p50: 5 s}/' \
    >tie.yaml
for time in first again; do
  expect 0 "$tandem" provision tie.yaml --output tie.db
  sed '/^simulations/d' out >tie-$time
done
grep -q '^split .* ttft.p90 ' tie-first || fail 'not the first limit binds'
cmp -s tie-first tie-again || fail 'the database changes which limit binds'

# Halves of machines that are sold whole: an answer has as many as fit on those that are paid for.
study 'objective: cost' "$split" | sed 's/machine: dgx-h100/&, tensor_parallel_size: 4/' >half.yaml
expect 0 "$tandem" provision half.yaml --format csv --output half.db
IFS=, read -r _ _ prefill decode _ instances gpus machines cost _ <<END
$(grep '^split,3,' out)
END
[ "$instances" -eq $((prefill + decode)) ] && [ "$gpus" -eq $((4 * instances)) ] &&
  [ "$machines" -eq $(((instances + 1) / 2)) ] && [ "$cost" -eq $((38 * machines)) ] ||
  fail "$instances instances on $gpus GPUs of $machines machines cost $cost"
expect 0 "$tandem" provision half.yaml --format csv --set sold=gpu --set provision.objective=gpus
grep -q "^split,3,.*,$((19 * instances))," out || fail "not paid for by the GPU"
expect 0 "$tandem" provision half.yaml
prints 'prices       dgx-h100 4.75 $/h a GPU (Splitwise Table I, 2023-11)'
expect 0 "$tandem" query half.db answers --format csv
grep -q ",$instances,$gpus,$machines,$cost\.0," out || fail 'the query has another answer'
expect 0 "$tandem" query half.db --format csv \
  --sql 'SELECT count(*) FROM answer JOIN run USING (config_digest)'
grep -qx 1 out || fail 'the answer does not name its run'
expect 0 "$tandem" query half.db
prints "$prefill prefill dgx-h100 TP4 + $decode decode dgx-h100 TP4"

# Killed at any moment, it goes on where it stopped.
for after in 0.02 0.05 0.1; do
  "$tandem" provision a.yaml --output killed.db >/dev/null 2>&1 &
  sleep $after
  kill -9 $! 2>/dev/null
  wait $! 2>/dev/null
done
expect 0 "$tandem" provision a.yaml --format csv --output killed.db
cmp -s out early.csv || fail 'a kill changes an answer'
for table in run answer; do
  expect 0 "$tandem" query runs.db --sql "SELECT count(*) AS n FROM $table" --format csv
  mv out rows
  expect 0 "$tandem" query killed.db --sql "SELECT count(*) AS n FROM $table" --format csv
  cmp -s out rows || fail "a kill changes the rows of $table"
done

# A budget leaves as many machines as it pays for, at the prices of the study.
study 'objective: throughput' 'constraint: {power: 440 kW}' 'tolerance: 1 /s' \
  'prices: {dgx-h100: {power: 44 kW}, dgx-a100: {power: 24.8 kW}}' 'designs:' \
  '  ha: {pools.prefill.count: 6, pools.decode.machine: dgx-a100, pools.decode.count: 1..99}' \
  '  hh: {pools.prefill.count: 1..9, pools.decode.count: 1..9}' >b.yaml
expect 0 "$tandem" provision b.yaml --format csv
grep -q '^ha,3,6,7,0,13,' out || fail '6 + 7 machines are not what 440 kW leave'
grep -Eq '^hh,3,([1-9]),([1-9]),0,10,80,10,380,[0-9.]+,[0-9.]+,440,' out || fail 'not ten machines'
expect 0 "$tandem" provision b.yaml --format csv --set 'provision.rates={from: 1 /s, to: 2 /s}'
grep -Eq ',2,[0-9.]+,slowdown' out || fail 'the highest rate is not 2'

# Limits of one's own.
expect 0 "$tandem" provision a.yaml --format json --set provision.seeds=1 \
  --set 'slo={ttft.p99: 5 s, goodput: {share: 90%, ttft: 2 s, tbt: 100 ms}}'
prints '"name": "goodput"'
prints '"name": "ttft.p99", "unit": "s"'

# What cannot be met is said with the limit and the counts, as bad input or as a missed SLO.
expect 3 "$tandem" provision a.yaml --set 'slo={ttft.p50: 1 ms}'
says "design 'split' meets the limits with no cluster: 'ttft.p50', limit 0.001 s, is missed with"
says 'pools.prefill.count=5 pools.decode.count=5'
prints 'none'
expect 1 "$tandem" provision a.yaml --set 'slo={ttft.p50: 1 ms}' --require-slo
expect 3 "$tandem" provision b.yaml --set 'provision.constraint={power: 50 kW}'
says "no instance counts fit within 50 kW"

# bad MESSAGE LINE... : a study with this block is refused with this message, and nothing printed.
bad() {
  message=$1
  shift
  study "$@" >bad.yaml
  rejects 3 "$tandem" provision bad.yaml
  says "$message"
}
bad "missing key 'designs'" 'objective: machines'
bad "missing key 'objective'" "$split"
bad "unknown objective 'cheap'" 'objective: cheap' "$split"
bad "unknown key 'budget'" 'objective: cost' 'budget: 3' "$split"
bad "did you mean 'count'?" 'objective: cost' 'designs: {a: {pools.prefill.cout: 3}}'
bad "'pools.prefill.tensor_parallel_size' cannot be searched" 'objective: cost' \
  'designs: {a: {pools.prefill.tensor_parallel_size: 1..8}}'
bad "must be a range of instances such as '1..40', not '9..2'" 'objective: cost' \
  'designs: {a: {pools.prefill.count: 9..2}}'
bad "searches more than 2 counts" 'objective: cost' \
  'designs: {a: {pools.a.count: 1..2, pools.b.count: 1..2, pools.c.count: 1..2}}'
bad "designs 'a' and 'b' are the same" 'objective: cost' \
  'designs: {a: {pools.prefill.count: 1..2}, b: {pools.prefill.count: 1..2}}'
bad "designs 'a' and 'b' have clusters in common" 'objective: cost' \
  'designs: {a: {sold: gpu, pools.prefill.count: 1..5}, b: {pools.prefill.count: 5..9, sold: gpu}}'
bad "duplicate key 'a'" 'objective: cost' \
  'designs: {a: {pools.prefill.count: 1..2}, a: {pools.prefill.count: 1..3}}'
bad "the objective is unbounded: nothing limits the number of instances in design 'split'" \
  'objective: throughput' "$split"
bad "'machines' is a budget for the objective 'throughput', not for 'cost'" 'objective: cost' \
  'constraint: {machines: 3}' "$split"
bad "'rate' cannot be used with the objective 'throughput'" 'objective: throughput' \
  'constraint: {rate: 3 /s}' "$split"
bad "'constraint' has 2 budgets" 'objective: throughput' 'constraint: {power: 3 kW, machines: 2}' \
  "$split"
bad "'dgx-a100' is neither a pool nor a machine type of any design" 'objective: cost' \
  'prices: {dgx-a100: {cost: 2 $/h}}' "$split"
bad "there is no multiple of 'tolerance'" 'objective: throughput' 'constraint: {machines: 4}' \
  'tolerance: 5 /s' 'rates: {from: 6 /s, to: 9 /s}' "$split"
bad "'designs' must be a map" 'objective: cost' 'designs: []'
# The keys of a design are paths, also where --set makes it.
expect 0 "$tandem" provision a.yaml --dry-run --set provision.designs.split.pools.decode.count=3 \
  --set provision.designs.new.pools.prefill.count=7..9
prints 'split: pools.prefill.count=1..5'
prints 'new: pools.prefill.count=7..9'
rejects 3 "$tandem" provision a.yaml --set slo=none
says 'the objective is unbounded'
rejects 3 "$tandem" provision run.yaml
says "it has no key 'provision'"
expect 0 "$tandem" run a.yaml
says "note: the answer of the study is design 'whole' with pools.all.count="
prints 'ttft'
printf 'TIMESTAMP,ContextTokens,GeneratedTokens\n%s\n%s\n' '2023-11-16 18:15:46.6805900,374,44' \
  '2023-11-16 18:15:50.9951690,x,109' >bad.csv
rejects 3 "$tandem" provision a.yaml --set 'workload={trace: bad.csv}'
says 'bad.csv:3:'
rejects 2 "$tandem" provision
rejects 2 "$tandem" provision a.yaml --jobs 0
rejects 3 "$tandem" provision a.yaml --set model=opt-13b --set perfmodel=roofline \
  --set provision.objective=cost \
  --set 'provision.designs.gh={pools.decode.machine: gh200-144gb, pools.decode.count: 1..2}'
says "the cost of machine 'gh200-144gb' in design 'gh' is not known"
says "set it in 'prices'"
finish
