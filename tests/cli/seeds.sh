#!/bin/sh
# Seeds that change nothing: one that another overrides is an error where it stands, and runs with
# equal outcomes are one observation to all that makes intervals over seeds.
. "$TANDEM_SOURCE_DIR/tests/cli_testing.sh"
examples=$source_dir/experiments/examples
config >fixed.yaml # fixed arrivals, constant lengths, jsq: nothing is drawn
sed -e 's/process: fixed/process: poisson/' fixed.yaml >free.yaml
sed -e 's/^  requests: 40/&\n  seed: 1/' free.yaml >own.yaml

# holds VALUE DB SQL
holds() {
  expect 0 "$tandem" query "$2" --format csv --sql "$3"
  [ "$(sed -n '$p' out)" = "$1" ] || fail "'$3' is '$(sed -n '$p' out)', not '$1'"
}

# replicated DB N DIFFERENT : what the query says of each figure of its first runs.
replicated() {
  expect 0 "$tandem" query "$1" replicates --set figure=ttft_s --format json
  grep -q "\"n\": $2, \"different\": $3, " out || fail "not $2 runs, of which $3 are different"
}

# --- No example fixes the seed of its workload: an axis of seeds is one of draws.

grep -l '^  seed:' "$examples"/*.yaml && fail 'an example has a seed of its own'
for name in chat quickstart tenants; do
  expect 0 "$tandem" sweep "$examples/$name.yaml" --output "$name.db" --set sweep.seed=1..3 \
    --set workload.requests=200
  replicated "$name.db" 3 3
  grep '"n": 3,' out | grep -q '"+-": null' && fail 'no interval'
done
expect 0 "$tandem" plan --model qwen3-32b --gpu h100 --isl 2000 --osl 300 --rate 30 \
  --slo 'ttft.p99<2s' --seeds 1 --study study.yaml
grep -q '^  seed:' study.yaml && fail 'a study of plan has a seed of its own'

# --- A seed that the workload's own overrides is an error, with the way out.

hint="hint: remove the key 'workload.seed', or vary it instead of 'seed'"
wrong="error: 'seed' changes nothing: arrivals and lengths are drawn from 'workload.seed'"
rejects 3 "$tandem" sweep own.yaml --output no.db --set sweep.seed=1..3
says "--set:1:7: $wrong"
says "$hint"
{
  cat own.yaml
  echo 'sweep:'
  echo '  pools.all.count: [1, 2]'
  echo '  seed: [1, 2, 3]'
} >axis.yaml
rejects 3 "$tandem" sweep axis.yaml --output no.db
says "axis.yaml:14:3: $wrong"
sed -i 's/^  seed: \[1, 2, 3\]/  draw: {a: {seed: 1}, b: {seed: 2}}/' axis.yaml
rejects 3 "$tandem" sweep axis.yaml --dry-run
says "axis.yaml:14:14: $wrong"
rejects 3 "$tandem" run own.yaml --set seed=2
says "--set:1:1: $wrong"
rejects 3 "$tandem" run own.yaml --set workload.requests=9 --set seed=2
rejects 3 "$tandem" provision own.yaml --set \
  'provision={objective: machines, designs: {a: {seed: 4, pools.all.count: 1..2}}}'
says "$wrong"
rejects 3 "$tandem" sweep free.yaml --dry-run --set sweep.seed=1..2 --set sweep.workload.seed=1..2
says "--set:1:7: error: axis 'seed' changes nothing, because"
for key in seed workload.seed; do
  rejects 3 "$tandem" provision free.yaml --set \
    "provision={objective: machines, seeds: 3, designs: {a: {$key: 4, pools.all.count: 1..2}}}"
  says "error: design 'a' sets '$key', so all 3 seeds would give the same run"
done

# What sets or draws both goes on, and so does what a router or failures draw.
differs "$(digest_of own.yaml --seed 2)" "$(digest_of own.yaml)" --seed
expect 0 "$tandem" run own.yaml --set seed=2 --set workload.seed=3
expect 0 "$tandem" sweep own.yaml --dry-run --set 'sweep.draw={seed: [1, 2], workload.seed: [1, 2]}'
expect 0 "$tandem" sweep own.yaml --dry-run --set sweep.workload.seed=1..3
expect 0 "$tandem" sweep own.yaml --dry-run --set sweep.tie_seed=1..3
expect 0 "$tandem" sweep own.yaml --dry-run --set sweep.seed=1..3 --set policies.router=random
expect 0 "$tandem" sweep own.yaml --dry-run --set sweep.seed=1..3 --set policies.predictor=buckets
expect 0 "$tandem" sweep own.yaml --dry-run --set sweep.seed=1..3 \
  --set 'pools.all.faults={gpu: {mtbf: 5 h, mttr: 1 min}}'
expect 0 "$tandem" provision free.yaml --format json --set \
  'provision={objective: machines, seeds: 3, designs: {a: {pools.all.count: 1..2}}}'
prints '"different": 3'

# --- Equal outcomes are one observation.

expect 0 "$tandem" sweep fixed.yaml --output fixed.db --set sweep.seed=1..3 \
  --set 'sweep.policies.router=[prefix_affinity, round_robin, random]'
replicated fixed.db 3 1
grep -q '"n": 3, "different": 3, ' out || fail 'the random router draws'
[ "$(grep -c '"+-": null' out)" -ge 2 ] || fail 'an interval of one observation'
expect 0 "$tandem" compare fixed.db router=prefix_affinity router=round_robin
prints '2 of 3 runs repeat the outcomes of another; equal outcomes count as one observation:'
prints 'the runs draw nothing at random, so seeds change nothing'
grep -Eq ' (real|real alone|not told apart)$' out && fail 'one observation tells nothing apart'
expect 0 "$tandem" compare fixed.db router=prefix_affinity router=round_robin --format json
prints '"n": 3, "different": 1, "verdict": "no interval"'
expect 0 "$tandem" compare fixed.db router=prefix_affinity router=random --format csv
grep '^figure,ttft_s.mean,' out | grep -q ',3,3,' || fail 'three pairs are different'
expect 0 "$tandem" report fixed.db -o page.html
grep -q '3 seeds gave equal outcomes and count as one observation: seeds change nothing' \
  page.html || fail 'the page has seeds that change nothing'

# A database from before: 'workload.seed' is the same on all seeds.
for seed in 1 2 3; do
  for router in prefix_affinity round_robin; do
    expect 0 "$tandem" run own.yaml --output old.db --set seed=$seed --set workload.seed=1 \
      --set policies.router=$router
  done
done
expect 0 "$tandem" compare old.db router=prefix_affinity router=round_robin
prints "'workload.seed' is the same in all of them; other seeds change nothing"
replicated old.db 3 1

# The seeds of the workload alone are seeds, too, and seven runs of which three are different have
# the interval of those three.
expect 0 "$tandem" sweep free.yaml --output three.db --set sweep.workload.seed=1..3
replicated three.db 3 3
once=$(grep -o '"mean": [^u]*' out)
expect 0 "$tandem" sweep free.yaml --output three.db --set sweep.tie_seed=1..2 \
  --set sweep.workload.seed=1..3
replicated three.db 9 3
[ "$(grep -o '"mean": [^u]*' out)" = "$once" ] || fail 'repeated runs narrow the interval'
holds 1 three.db "SELECT half_width(1, 'a') IS NULL"
holds 1 three.db "SELECT abs(half_width(x, y) - 63.531) < 0.001 FROM (SELECT 1 AS x, 'a' AS y
  UNION ALL SELECT 11, 'b' UNION ALL SELECT 1, 'a' UNION ALL SELECT 11, 'b')"

# --- Studies whose seeds change nothing.

expect 0 "$tandem" provision fixed.yaml --output study.db --set \
  'provision={objective: machines, seeds: 3, designs: {a: {pools.all.count: 1..2}}}'
prints 'seeds change nothing: the outcomes are equal on all of them'
grep -q '+-' out && fail 'an interval of one observation'
holds 1 study.db 'SELECT half_width IS NULL FROM design'
expect 0 "$tandem" provision fixed.yaml --output study.db --format json --set \
  'provision={objective: machines, seeds: 3, designs: {a: {pools.all.count: 1..2}}}'
prints '"different": 1'
grep -q '"reused": 0,' out && fail 'nothing was reused'
expect 0 "$tandem" report study.db -o page.html
grep -q 'outcomes are equal on 3 of 3 seeds and count as one observation' page.html ||
  fail 'the page has seeds that change nothing'

finish
