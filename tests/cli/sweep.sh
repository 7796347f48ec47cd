#!/bin/sh
# Sweeps: every point is simulated once whatever happens on the way, shards and merges give what one
# sweep gives, and what cannot be is said. The forms of axes are pinned by tests/unit/test_sweep.c.
. "$TANDEM_SOURCE_DIR/tests/cli_testing.sh"

# ask DB SQL : the one value of a query.
ask() {
  expect 0 "$tandem" query "$1" --format csv --sql "$2"
  sed -n '$p' out
}

# holds VALUE DB SQL
holds() {
  value=$(ask "$2" "$3")
  [ "$value" = "$1" ] || fail "'$3' is '$value', not '$1'"
}

# experiment AXES : a configuration with these axes, on stdout.
experiment() {
  config
  echo "sweep: $1"
}

# --- What a sweep leaves, and that it goes on where it stopped.

experiment '{pools.all.count: 1..3, workload.arrivals.rate: [4 /s, 8 /s]}' >s.yaml
expect 0 "$tandem" sweep s.yaml --output s.db
prints '6 points: 0 were there, 6 simulated, 0 failed'
[ "$(grep -c '^pools.all.count=[123] workload.arrivals.rate=[48] /s .* ms ' out)" -eq 6 ] ||
  fail 'not a line for each point'
grep -q '^times        measured, held-out error up to [0-9.]*%$' out ||
  fail 'nothing on where times come from'
expect 0 "$tandem" query s.db points --format csv
head -1 out | grep -q ',tpot_p99_s,' || fail 'points have no TPOT'
holds 6 s.db 'SELECT count(DISTINCT config_digest) FROM run'
holds '3|8 /s' s.db "SELECT group_concat(value, '|') FROM point_value WHERE point = 5"
holds 3 s.db "SELECT value FROM param JOIN point USING (run_id) WHERE point = 5
  AND key = 'pools.all.count'"
holds 0 s.db "SELECT count(*) FROM param WHERE key LIKE 'sweep%'"
for query in points sweeps failed summary; do expect 0 "$tandem" query s.db $query; done
expect 0 "$tandem" sweep s.yaml --output s.db
prints '6 points: 6 were there, 0 simulated'
holds 1 s.db 'SELECT count(*) FROM sweep'
[ ! -e s.db-sweep ] || fail 'the lock was left behind'
expect 0 "$tandem" sweep s.yaml --output s.db --format json
prints '[{"sweep": 1, "points": 6, "found": 6, "simulated": 0, "failed": 0, '

# The worst of its points, of those too that were there: what was extrapolated, and rooflines.
experiment '{workload.lengths.prompt.constant: [500, 30000],
  perfmodel: [fitted, roofline]}' >t.yaml
for time in first again; do
  expect 0 "$tandem" sweep t.yaml --output t.db --set max_model_len=none
  grep -q '^times  .* held-out error .*; some from a roofline, not measured, with unknown' out ||
    fail "the $time time: nothing on the roofline"
  grep -q '^extrapolated up to .* of the time of workload.lengths.prompt.constant=30000 ' out ||
    fail "the $time time: nothing on what is extrapolated"
done
expect 0 "$tandem" query t.db points --format csv
head -1 out | grep -q ',extrapolated,perfmodel_error,' || fail 'no columns on it'

# A point is what `tandem run` makes of it, and one that is there is not simulated again.
digest=$(ask s.db 'SELECT digest FROM run JOIN point ON run_id = run.id WHERE point = 4')
config >c.yaml
expect 0 "$tandem" run c.yaml --output c.db --set pools.all.count=3
holds "$digest" c.db 'SELECT digest FROM run'
expect 0 "$tandem" sweep s.yaml --output c.db
prints '6 points: 1 were there, 5 simulated'
holds 6 c.db 'SELECT count(*) FROM run'

# Axes that --set makes: the rest of the path is the key of the configuration.
expect 0 "$tandem" sweep c.yaml --dry-run --set sweep.pools.all.count=3..4 \
  --set sweep.workload.seed=1..2 --set 'sweep.x={a: {tie_seed: 1}, b: {tie_seed: 2}}' \
  --set sweep.x.c.tie_seed=3
prints '12 points: '
prints '  1  pools.all.count=3 workload.seed=1 x=b'
rejects 3 "$tandem" sweep c.yaml --dry-run --set sweep.pools.all.cuont=3..4
says "--set:1:7: error: unknown key 'cuont'"

# A wider axis adds what is missing; --dry-run only says so.
wider='sweep.pools.all.count=1..5'
expect 0 "$tandem" sweep s.yaml --output s.db --set "$wider" --dry-run
prints '10 points: 6 are there, 4 to simulate, 0 cannot be'
prints '  6  pools.all.count=4 workload.arrivals.rate=4 /s'
expect 0 "$tandem" sweep s.yaml --dry-run --output none.db
prints '6 points: 0 are there, 6 to simulate'
[ ! -e none.db ] || fail '--dry-run made a database'
holds 6 s.db 'SELECT count(*) FROM run'
expect 0 "$tandem" sweep s.yaml --output s.db --set "$wider"
prints '10 points: 6 were there, 4 simulated'
holds 2 s.db 'SELECT count(*) FROM sweep'
holds 16 s.db 'SELECT count(*) FROM point'

# However many at a time.
for jobs in 1 5; do
  expect 0 "$tandem" sweep s.yaml --output "jobs$jobs.db" --jobs $jobs
done
same jobs1.db jobs5.db

# --- Points that fail are recorded, the rest goes on, and they are tried again.

experiment '{pools.all.count: 0..2, pools.all.machine: [dgx-h100, dgx-a100]}' >f.yaml
expect 0 "$tandem" sweep f.yaml --output f.db
prints '6 points: 0 were there, 4 simulated, 2 failed'
says "2 points failed, see 'tandem query f.db failed'; the first: f.yaml:11:"
holds 2 f.db "SELECT count(*) FROM run WHERE status = 'failed' AND digest IS NULL
  AND reason LIKE 'f.yaml:11:%no instances%'"
cp f.db again.db
expect 0 "$tandem" sweep f.yaml --output again.db
prints '6 points: 4 were there, 0 simulated, 2 failed'
same f.db again.db

# --- Bad input: nothing is made.

# refused TEXT AXES : this is said of these axes.
refused() {
  experiment "$2" >bad.yaml
  rejects 3 "$tandem" sweep bad.yaml --output bad.db
  says "$1"
  [ ! -e bad.db ] || fail 'a database was made'
}
refused "bad.yaml:11:9: error: unknown key 'modell'" '{modell: [a, b]}'
says "did you mean 'model'?"
refused "bad.yaml:11:42: error: unknown key 'cuont'" \
  '{x: {a: {pools.all.count: 1}, b: {pools.all.cuont: 1}}}'
says "did you mean 'count'?"
refused "unknown machine 'dgx-b999'" '{pools.all.machine: [dgx-b999, dgx-b998]}'
refused "axes 'pools.all.count' and 'x' both move 'pools.all'" \
  '{pools.all.count: 1..2, x: {a: {pools.all: {machine: dgx-h100}}, b: {}}}'
refused "designs 'a' and 'b' are the same" \
  '{x: {a: {pools.all.count: 2}, b: {pools.all.count: 2}}}'
rejects 3 "$tandem" sweep c.yaml --output bad.db
says "'c.yaml' has no block 'sweep'"
rejects 3 "$tandem" run s.yaml
says "block 'sweep' needs the command 'tandem sweep'"
rejects 2 "$tandem" sweep s.yaml
for shard in 0/3 4/3 1 1/ /2 1/2x; do
  rejects 2 "$tandem" sweep s.yaml --output bad.db --shard "$shard"
done
for jobs in 0 1025 x; do
  rejects 2 "$tandem" sweep s.yaml --output bad.db --jobs "$jobs"
done
rejects 4 "$tandem" sweep s.yaml --output absent/s.db
rejects 4 "$tandem" sweep absent.yaml --output bad.db

# --- Killed at ten random moments, and until points were stored, the sweep ends with the rows of
# one that was left alone.

experiment '{pools.all.count: 0..40, workload.arrivals.rate: 20..80 step 5 /s}' |
  sed 's/requests: 40/requests: 1500/' >k.yaml
began=$(date +%s%N)
expect 0 "$tandem" sweep k.yaml --output whole.db
whole_ms=$((($(date +%s%N) - began) / 1000000))
prints '533 points: 0 were there, 520 simulated, 13 failed'
kills=0
partly=0
while [ "$kills" -lt 10 ] || [ "${partly:-0}" -eq 0 ]; do
  "$tandem" sweep k.yaml --output killed.db >out 2>err &
  pid=$!
  # Milliseconds; points wait up to 50 until they are stored.
  moment=$(($(od -An -N2 -tu2 /dev/urandom) % (whole_ms / 8 + 150)))
  sleep "$((moment / 1000)).$(printf %03d $((moment % 1000)))"
  if kill -9 $pid 2>/dev/null && ! wait $pid 2>/dev/null && [ ! -s out ]; then
    kills=$((kills + 1))
    [ "$kills" -lt 10 ] || partly=$("$tandem" query killed.db --format csv \
      --sql 'SELECT count(*) FROM run' 2>/dev/null | tail -n 1)
  else # it had ended: the machine is fast, begin anew
    wait $pid 2>/dev/null
    rm -f killed.db*
  fi
done
expect 0 "$tandem" sweep k.yaml --output killed.db
same whole.db killed.db
holds ok killed.db 'PRAGMA integrity_check'
[ ! -e killed.db-sweep ] || fail 'the lock was left behind'

# --- Two sweeps into one database: the second says so, and nothing is lost.

"$tandem" sweep k.yaml --output two.db --set workload.requests=20000 --jobs 1 >first 2>&1 &
pid=$!
while [ ! -e two.db-sweep ]; do sleep 0.01; done
rejects 3 "$tandem" sweep k.yaml --output two.db
says "two.db: error: 'two.db' is in use by another sweep, process $pid"
rejects 3 "$tandem" merge merged.db two.db
says 'is in use by another sweep'
expect 0 "$tandem" run c.yaml --output two.db # but a run finds its turn
kill -9 $pid
wait $pid 2>/dev/null
for i in 1 2 3 4; do
  "$tandem" sweep s.yaml --output race.db >"race$i" 2>&1 &
done
wait
same jobs1.db race.db
[ "$(cat race? | grep -c -e 'in use by another sweep' -e '6 points')" -eq 4 ] ||
  fail "not all of the sweeps that began together ended in order: $(cat race?)"

# --- Shards, and how they are joined.

for shard in 1 2 3; do
  expect 0 "$tandem" sweep f.yaml --output "f$shard.db" --shard $shard/3
done
prints '2 points: 0 were there'
expect 0 "$tandem" merge joined.db f1.db f2.db f3.db f2.db
[ "$(stat -c %a joined.db)" = "$(stat -c %a f1.db)" ] || fail 'joined.db has other permissions'
prints '6 runs of 4 databases'
same joined.db f.db
rejects 3 "$tandem" merge joined.db f1.db f2.db f3.db
says "'joined.db' already exists"
expect 0 "$tandem" sweep f.yaml --output joined.db
prints '6 points: 4 were there, 0 simulated, 2 failed'

rejects 3 "$tandem" merge part.db f1.db f3.db
says "part.db: error: sweep 'f.yaml' lacks shard 2/3"
[ ! -e part.db ] || fail 'an incomplete merge was left behind'
expect 0 "$tandem" merge part.db f3.db f1.db --partial
says "sweep 'f.yaml' lacks shard 2/3"
holds 4 part.db 'SELECT count(*) FROM point'
expect 0 "$tandem" merge whole-again.db part.db f2.db
same whole-again.db f.db

# Studies go along with their runs, once.
study=$source_dir/experiments/examples/provision.yaml
expect 0 "$tandem" provision "$study" --output study.db
expect 0 "$tandem" merge with-study.db f1.db study.db f2.db f3.db study.db
for table in study design answer; do
  holds "$(ask study.db "SELECT count(*) FROM $table")" with-study.db "SELECT count(*) FROM $table"
done
holds "$(($(ask study.db 'SELECT count(*) FROM run') + 6))" with-study.db 'SELECT count(*) FROM run'

# Killed at any moment, a merge leaves nothing behind, neither where its result would be nor beside
# what it reads.
mkdir kill
cp whole.db kill
for ms in 005 010 020 040 060 080 100 150 200; do
  "$tandem" merge kill/out.db kill/whole.db >out 2>err &
  pid=$!
  sleep 0.$ms
  kill -9 $pid 2>/dev/null
  wait $pid 2>/dev/null
  if [ -e kill/out.db ]; then # it had ended
    holds 533 kill/out.db 'SELECT count(*) FROM run'
    rm kill/out.db
  fi
  [ "$(ls kill)" = whole.db ] || fail "a merge that was killed left $(ls kill)"
done
expect 0 "$tandem" merge kill/out.db kill/whole.db
same whole.db kill/out.db
holds ok kill/out.db 'PRAGMA integrity_check'
: >kill/there.db
rejects 3 "$tandem" merge kill/there.db kill/whole.db
says "'kill/there.db' already exists"

# Beside whoever reads a source or writes to it, with a log or without.
cat >beside.py <<'END'
import sqlite3, subprocess, sys
db = sqlite3.connect('open.db', isolation_level=None)
db.execute('PRAGMA journal_mode = ' + sys.argv[2])
db.execute(sys.argv[3])
db.execute('SELECT count(*) FROM run').fetchall()
merge = [sys.argv[1], 'merge', 'beside.db', 'open.db', '--partial']
sys.exit(subprocess.run(merge, timeout=30).returncode)
END
for mode in wal delete; do
  for begin in BEGIN 'BEGIN IMMEDIATE'; do
    cp f1.db open.db
    expect 0 python3 beside.py "$tandem" "$mode" "$begin"
    prints '2 runs of 1 databases'
    rm -f beside.db
  done
done

# spoil SQL : f2.db with a change, as spoilt.db.
spoil() {
  cp f2.db spoilt.db
  python3 -c 'import sqlite3, sys
db = sqlite3.connect("spoilt.db"); db.executescript(sys.argv[1]); db.close()' "$1"
}
# unmergeable TEXT : spoilt.db is refused with these words.
unmergeable() {
  rejects 3 "$tandem" merge spoilt-out.db f1.db f2.db f3.db spoilt.db
  says "$1"
  [ ! -e spoilt-out.db ] || fail 'a refused merge was left behind'
}
if command -v python3 >/dev/null 2>&1; then
  spoil "UPDATE run SET digest = '0123456789abcdef' WHERE status = 'done'"
  unmergeable "'spoilt.db' has another outcome of 'f.yaml', configuration "
  spoil "UPDATE run SET config_digest = '0123456789abcdef' WHERE status = 'done'"
  unmergeable "'spoilt.db' was made with other data files: 'f.yaml', point "
  spoil "UPDATE run SET version = '0.0.1'"
  unmergeable "'spoilt.db' has runs of version '0.0.1', others of version"
  spoil 'PRAGMA user_version = 1'
  unmergeable "'spoilt.db' has schema version 1, but this program has version 11"
  spoil 'DELETE FROM point_value; DELETE FROM point; DELETE FROM run'
  rejects 3 "$tandem" merge spoilt-out.db f1.db spoilt.db f3.db
  says "sweep 'f.yaml' lacks shard 2/3"
fi
rejects 3 "$tandem" merge out.db s.yaml
rejects 4 "$tandem" merge out.db absent.db
rejects 2 "$tandem" merge out.db
set -- out.db*
[ ! -e "$1" ] || fail "merges that failed left $*"

finish
