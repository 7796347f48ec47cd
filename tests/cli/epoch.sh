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
says 'note: 2 of 2 runs are stale: a program with other outcomes made them'
expect 0 "$other" sweep s.yaml --output s.db
prints '3 points: 3 were there, 0 simulated'
expect 0 "$tandem" sweep s.yaml --output s.db
prints '3 points: 2 were there, 1 simulated'
holds 6 s.db 'SELECT count(DISTINCT config_digest) FROM run'
holds 3 s.db 'SELECT count(*) FROM run WHERE epoch = outcome_epoch()'
holds 2 s.db 'SELECT count(DISTINCT epoch) FROM run'
holds 3 s.db 'SELECT count(DISTINCT digest) FROM sweep'
for query in summary points sweeps pools slo; do
  expect 0 "$tandem" query s.db $query --format csv
  head -n 1 out | grep -Eq '(^|,)stale(,|$)' || fail "'$query' does not tell stale rows apart"
  says 'note: 3 of 6 runs are stale: a program with other outcomes made them'
done
expect 0 "$tandem" query s.db sweeps --format csv
[ "$(grep -c ',1$' out)" -eq 1 ] || fail 'not one of three sweeps is stale'

# Each row says which program made it.
expect 0 "$tandem" --version
version=$(cat out)
expect 0 "$tandem" query s.db --format csv --sql "SELECT DISTINCT 'tandem ' || version ||
  ', commit ' || \"commit\" || ', outcome epoch ' || epoch AS program FROM run
  WHERE epoch = outcome_epoch()"
[ "$(sed -n '$p' out | tr -d '"')" = "$version" ] || fail "not of '$version'"

# --- Nor are the runs of a study.

sed -e 's/^sweep: .*/provision: {objective: machines, designs: {a: {pools.all.count: 1..3}}}/' \
  s.yaml >study.yaml
expect 0 "$tandem" provision study.yaml --output study.db --format json
expect 0 "$tandem" provision study.yaml --output study.db --format json
grep -q '"reused": 0' out && fail 'the same program simulates anew'
expect 0 "$other" provision study.yaml --output study.db --format json
grep -q '"reused": 0' out || fail 'the other program took its runs'
says 'runs are stale: a program with other outcomes made them'
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
says 'stale: a program with other outcomes made them'
holds 3 joined.db "SELECT count(*) FROM run JOIN point ON run_id = run.id JOIN sweep ON
  sweep.id = sweep_id WHERE run.epoch = sweep.epoch AND sweep.epoch <> outcome_epoch()"
holds 0 joined.db "SELECT count(*) FROM run JOIN point ON run_id = run.id JOIN sweep ON
  sweep.id = sweep_id WHERE run.epoch <> sweep.epoch"
expect 0 "$tandem" sweep s.yaml --output 1.db --shard 1/2
expect 0 "$other" sweep s.yaml --output 2.db --shard 2/2
rejects 3 "$tandem" merge shards.db 1.db 2.db
says "error: sweep 's.yaml' of outcome epoch 0000000000000001 lacks shard 1/2"
grep -q "sweep 's.yaml' of outcome epoch .* lacks shard 2/2" err || fail 'shard 2 is not missed'
expect 0 "$tandem" merge shards.db 1.db 2.db --partial
holds 2 shards.db 'SELECT count(*) FROM sweep'
expect 0 "$other" sweep s.yaml --output 2.db --shard 1/2
rejects 3 "$tandem" merge shards.db 1.db 2.db
expect 0 "$other" merge others.db 2.db
[ ! -s err ] || fail 'to the program that made them they are stale'

# --- The epoch is what the pinned runs give: the command that pins them mends any table of them.

def=experiments/outcomes.def
mkdir -p tree/experiments
ln -s "$source_dir/tests" tree/tests
ln -s "$source_dir/experiments/examples" tree/experiments/examples
sed -e 's/^OUTCOME(0x\(.\)\(.*\), quickstart)/OUTCOME(0x\2\1, quickstart)/' -e '/seesaw/p' \
  "$source_dir/$def" >tree/$def
cmp -s "$source_dir/$def" tree/$def && fail 'nothing to mend'
last='digests.sh'
TANDEM_SOURCE_DIR=$PWD/tree sh tree/tests/cli/digests.sh >out 2>err && fail 'wrong digests pass'
says 'ninja -C build outcomes'
TANDEM_SOURCE_DIR=$PWD/tree sh tree/tests/cli/digests.sh --update >out 2>err || fail 'no update'
cmp -s "$source_dir/$def" tree/$def || fail 'the table is not as it was'

finish
