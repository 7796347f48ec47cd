#!/bin/sh
# Two programs and one database: results of a program with other outcomes are stale. Nothing takes
# them for its own, and queries, figures and merges tell them apart. $TANDEM_OTHER is such a
# program.
. "$TANDEM_SOURCE_DIR/tests/cli_testing.sh"
other=${TANDEM_OTHER:?}

# holds VALUE DB SQL
holds() {
  expect 0 "$tandem" query "$2" --format csv --sql "$3"
  [ "$(sed -n '$p' out)" = "$1" ] || fail "'$3' is '$(sed -n '$p' out)', not '$1'"
}

{
  config
  echo 'sweep: {pools.all.count: 1..3}'
} >s.yaml

# --- A sweep that one program has begun is not finished by the other.

expect 0 "$tandem" sweep s.yaml --output s.db --set sweep.pools.all.count=1..2
expect 0 "$other" sweep s.yaml --output s.db --dry-run
prints '3 points: 0 are there, 3 to simulate'
expect 0 "$other" sweep s.yaml --output s.db
prints '3 points: 0 were there, 3 simulated'
says 'note: 2 of 2 runs are stale: another version of the program, with other outcomes, made them'
expect 0 "$other" sweep s.yaml --output s.db
prints '3 points: 3 were there, 0 simulated'
expect 0 "$tandem" sweep s.yaml --output s.db
prints '3 points: 2 were there, 1 simulated'
holds 6 s.db 'SELECT count(DISTINCT config_digest) FROM run'
holds 3 s.db 'SELECT count(*) FROM run WHERE NOT is_stale(epoch)'
holds 2 s.db 'SELECT count(DISTINCT epoch) FROM run'
holds 3 s.db 'SELECT count(DISTINCT digest) FROM sweep'
for query in summary points sweeps pools slo; do
  expect 0 "$tandem" query s.db $query --format csv
  head -n 1 out | grep -Eq '(^|,)stale(,|$)' || fail "'$query' does not tell stale rows apart"
  says 'note: 3 of 6 runs are stale: another version of the program, with other outcomes, made them'
done
expect 0 "$tandem" query s.db sweeps --format csv
[ "$(grep -c ',1$' out)" -eq 1 ] || fail 'not one of three sweeps is stale'

# Each row says which program made it.
expect 0 "$tandem" --version
version=$(cat out)
expect 0 "$tandem" query s.db --format csv --sql "SELECT DISTINCT 'tandem ' || version ||
  ', commit ' || \"commit\" AS program FROM run"
[ "$(sed -n '$p' out | tr -d '"')" = "${version%, outcome epoch *}" ] || fail "not of '$version'"
"$other" --version >out
[ "$(cat out)" != "$version" ] || fail 'the other program has the same outcomes'

# --- Nor are the runs of a study.

sed -e 's/^sweep: .*/provision: {objective: machines, designs: {a: {pools.all.count: 1..3}}}/' \
  s.yaml >study.yaml
expect 0 "$tandem" provision study.yaml --output study.db --format json
expect 0 "$tandem" provision study.yaml --output study.db --format json
grep -q '"reused": 0' out && fail 'the same program simulates anew'
expect 0 "$other" provision study.yaml --output study.db --format json
grep -q '"reused": 0' out || fail 'the other program took its runs'
says 'runs are stale: another version of the program, with other outcomes, made them'
expect 0 "$tandem" query study.db answers --format csv
sed -n '$p' out | grep -q ',1$' || fail 'its answers are not stale'

# --- Figures are of one epoch, the newest run's.

sed -e 's/^  all: .*/  prefill: {role: prefill, machine: dgx-h100}/' s.yaml |
  sed -e '/^  prefill: /a\  decode: {role: decode, machine: dgx-h100}' \
    -e 's/^sweep: .*/sweep: {pools.prefill.count: 1..3}/' >map.yaml
expect 0 "$tandem" sweep map.yaml --output map.db
expect 0 "$other" sweep map.yaml --output map.db --set sweep.pools.prefill.count=1..2
sql=$(sed 's/;$//' "$source_dir/plots/design-space.sql")
expect 0 "$tandem" query map.db --format csv --sql "$sql"
[ "$(wc -l <out)" -eq 3 ] || fail 'not the two clusters of the newest run'

# --- Merged, they stay apart.

expect 0 "$tandem" merge joined.db s.db study.db
says 'stale: another version of the program, with other outcomes, made them'
holds 3 joined.db "SELECT count(*) FROM run JOIN point ON run_id = run.id JOIN sweep ON
  sweep.id = sweep_id WHERE epochs_agree(run.epoch, sweep.epoch) AND is_stale(sweep.epoch)"
holds 0 joined.db "SELECT count(*) FROM run JOIN point ON run_id = run.id JOIN sweep ON
  sweep.id = sweep_id WHERE NOT epochs_agree(run.epoch, sweep.epoch)"
expect 0 "$tandem" sweep s.yaml --output 1.db --shard 1/2
expect 0 "$other" sweep s.yaml --output 2.db --shard 2/2
rejects 3 "$tandem" merge shards.db 1.db 2.db
grep -q "sweep 's.yaml' of outcome epoch .* lacks shard 1/2" err || fail 'shard 1 is not missed'
grep -q "sweep 's.yaml' of outcome epoch .* lacks shard 2/2" err || fail 'shard 2 is not missed'
expect 0 "$tandem" merge shards.db 1.db 2.db --partial
holds 2 shards.db 'SELECT count(*) FROM sweep'
expect 0 "$other" sweep s.yaml --output 2.db --shard 1/2
rejects 3 "$tandem" merge shards.db 1.db 2.db
expect 0 "$other" merge others.db 2.db
[ ! -s err ] || fail 'to the program that made them they are stale'

# --- What a run does not use does not make it stale: another rule of one policy or feature does so
# to exactly those that use it, and a policy that was not there before to none.

config | sed 's/process: fixed/process: poisson/' >plain.yaml
{
  sed 's/^  all: .*/  prefill: {role: prefill, machine: dgx-h100}/' plain.yaml |
    sed '/^  prefill: /a\  decode: {role: decode, machine: dgx-h100}'
} >split.yaml
expect 0 "$tandem" run plain.yaml --output rules.db
expect 0 "$tandem" run plain.yaml --output rules.db --set policies.router=random
expect 0 "$tandem" run plain.yaml --output rules.db --set policies.kvtier=swap
expect 0 "$tandem" run plain.yaml --output rules.db --set pools.all.batcher=sarathi
expect 0 "$tandem" run plain.yaml --output rules.db \
  --set 'pools.all.faults={gpu: {mtbf: 5 h, mttr: 1 min}}'
expect 0 "$tandem" run split.yaml --output rules.db
# stale RULE RUN... : these runs are, to a program with another rule of that name.
stale() {
  TANDEM_OTHER_RULE=$1
  shift
  export TANDEM_OTHER_RULE
  expect 0 "$other" query rules.db --format csv \
    --sql "SELECT coalesce(group_concat(id, ' '), '') FROM run WHERE is_stale(epoch)"
  [ "$(tail -n 1 out | tr -d '"')" = "$*" ] ||
    fail "other rules of $TANDEM_OTHER_RULE: stale are $(tail -n 1 out), not $*"
  unset TANDEM_OTHER_RULE
}
stale core 1 2 3 4 5 6
stale rest 1 2 3 4 5 6
stale router.jsq 1 3 4 5 6
stale router.random 2
stale router.power_of_two
stale kvtier.swap 3
stale kvtier.recompute 1 2 4 5 6
stale batcher.sarathi 4
stale batcher.vllm
stale faults 5
stale adapters
stale transfer.splitwise 6
stale transfer.serialized
stale scaler.target
for rule in router.random router.token_jsq batcher.tetriinfer; do
  TANDEM_OTHER_RULE=none TANDEM_LACKS=$rule expect 0 "$other" run plain.yaml --output rules.db
done
holds 4 rules.db 'SELECT count(*) FROM run WHERE config_digest =
  (SELECT config_digest FROM run WHERE id = 1) AND NOT is_stale(epoch)'
TANDEM_OTHER_RULE=router.random expect 0 "$other" why rules.db 1 3
TANDEM_OTHER_RULE=router.random rejects 3 "$other" why rules.db 2 3
says 'another version of the program, with other outcomes, made the run'

# A sweep over policies takes the runs whose rules are as they were.
expect 0 "$tandem" sweep plain.yaml --output p.db --set 'sweep.policies.router=[jsq, random]'
TANDEM_OTHER_RULE=router.random expect 0 "$other" sweep plain.yaml --output p.db \
  --set 'sweep.policies.router=[jsq, random]'
prints '2 points: 1 were there, 1 simulated'
TANDEM_OTHER_RULE=batcher.vllm expect 0 "$other" sweep plain.yaml --output p.db \
  --set 'sweep.policies.router=[jsq, random]'
prints '2 points: 2 were there, 0 simulated'

# --- The command that pins runs mends any table of them, and says where no rule shows a change.

def=experiments/outcomes.def
mkdir -p tree/experiments
ln -s "$source_dir/tests" tree/tests
ln -s "$source_dir/experiments/examples" tree/experiments/examples
sed '/^OUTCOME/{/quickstart\|seesaw/!d}' "$source_dir/$def" >table # of a few runs
sed -e 's/^OUTCOME(0x\(.\)\(.*\), quickstart)/OUTCOME(0x\2\1, quickstart)/' -e '/seesaw/p' \
  table >tree/$def
cmp -s table tree/$def && fail 'nothing to mend'
last='digests.sh'
TANDEM_SOURCE_DIR=$PWD/tree sh tree/tests/cli/digests.sh >out 2>err && fail 'wrong digests pass'
says 'ninja -C build outcomes'
TANDEM_SOURCE_DIR=$PWD/tree sh tree/tests/cli/digests.sh --update >out 2>err || fail 'no update'
rest=$(sed -n 's/^REST(\(.*\))/\1/p' table)
sed "s/^REST(.*/REST($((rest + 1)))/" table | cmp -s - tree/$def ||
  fail 'the table is not as it was, but for what no rule shows'
sed -e 's/^RULE(0x\(.\)\(.*\), faults)/RULE(0x\2\1, faults)/' -e '/^RULE(.*router.jsq)/d' \
  -e 's/^OUTCOME(0x\(.\)\(.*\), seesaw)/OUTCOME(0x\2\1, seesaw)/' table >tree/$def
TANDEM_SOURCE_DIR=$PWD/tree sh tree/tests/cli/digests.sh --update >out 2>err || fail 'no update'
cmp -s table tree/$def || fail 'the table is not as it was'

finish
