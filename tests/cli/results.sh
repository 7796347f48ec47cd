#!/bin/sh
# The database of results: what a run leaves in it, and that it leaves all of it or nothing. The
# figures themselves are pinned by tests/unit/test_results.c.
. "$TANDEM_SOURCE_DIR/tests/cli_testing.sh"
config >a.yaml

# ask SQL : the one value of a query of runs.db.
ask() {
  expect 0 "$tandem" query runs.db --format csv --sql "$1"
  sed -n '$p' out
}

# holds VALUE SQL
holds() {
  value=$(ask "$2")
  [ "$value" = "$1" ] || fail "'$2' is '$value', not '$1'"
}

# Two runs, one with its requests.
expect 0 "$tandem" run a.yaml --output runs.db --format json
digest=$(sed -n 's/^  "digest": "\([0-9a-f]*\)",$/\1/p' out)
expect 0 "$tandem" run a.yaml --output runs.db --requests --set pools.all.count=1 --seed 9
holds 2 'SELECT count(*) FROM run'
holds "$digest" 'SELECT digest FROM run WHERE id = 1'
holds 2 'SELECT count(DISTINCT config_digest) FROM run'
holds 9 'SELECT seed FROM run WHERE id = 2'
holds 1 "SELECT value FROM param WHERE run_id = 2 AND key = 'pools.all.count'"
holds 500 "SELECT value FROM param WHERE run_id = 1 AND key = 'workload.lengths.prompt.constant'"
holds 3 'SELECT count(*) FROM machine'
holds 18 'SELECT count(*) FROM slo'
holds 0 'SELECT count(*) FROM request WHERE run_id = 1'
holds 40 'SELECT count(*) FROM request WHERE run_id = 2 AND last_token_s > first_token_s'
holds 40 "SELECT sum(count) FROM histogram WHERE run_id = 1 AND name = 'e2e_s'"
holds 1 "SELECT abs(max(last_token_s - arrived_s) - (SELECT value FROM metric
  WHERE run_id = 2 AND name = 'e2e_s' AND statistic = 'max')) < 1e-9 FROM request"
[ ! -e runs.db-wal ] || fail 'the log of the database was not folded into it'

# The same configuration has the same digest, however it is written; other data has another.
sed 's/^slo: splitwise/slo:   splitwise # nine limits/' a.yaml >b.yaml
expect 0 "$tandem" run b.yaml --output runs.db
holds 1 'SELECT count(DISTINCT config_digest) FROM run WHERE id IN (1, 3)'

# Every figure that a run tells is in the list of figures, and in each format.
expect 0 "$tandem" list figures
sed -n 's/^  \([a-z0-9_]*\) .*/\1/p' out | sort -u >listed
expect 0 "$tandem" run a.yaml --format json
mv out told.json
expect 0 "$tandem" run a.yaml --format csv
sed -n '/^slo,/d; /,digest,/d; 1d; s/^[^,]*,\([a-z0-9_]*\),.*/\1/p' out | sort -u >told
[ "$(wc -l <told)" -gt 60 ] || fail 'hardly any figure is told'
[ -z "$(comm -13 listed told)" ] || fail "not listed: $(comm -13 listed told | tr '\n' ' ')"
while read -r name; do
  grep -q "\"$name\": " told.json || fail "no '$name' in JSON"
  holds 1 "SELECT count(*) > 0 FROM metric WHERE run_id = 1 AND name = '$name'"
done <told

# Queries by name and by hand, in each format.
expect 0 "$tandem" query runs.db summary
prints 'throughput_rps'
[ "$(wc -l <out)" -eq 4 ] || fail 'not a header and a row per run'
for name in pools slo; do expect 0 "$tandem" query runs.db $name; done
expect 0 "$tandem" query runs.db --format json --sql "SELECT 1 AS a, 'x\"y' AS b, NULL AS c"
prints '{"a": 1, "b": "x\"y", "c": null}'
expect 0 "$tandem" query runs.db --format csv --sql "SELECT 1.5 AS a, 'x,y' AS b, NULL AS c"
prints '1.5,"x,y",'
rejects 3 "$tandem" query runs.db sumary
says "did you mean 'summary'?"
rejects 3 "$tandem" query runs.db --sql 'SELECT missing'
says 'no such column: missing'
rejects 3 "$tandem" query runs.db --sql 'SELECT * FROM requests'
says "did you mean 'request'?"
rejects 3 "$tandem" query runs.db --sql 'SELECT count(*) FROM metric WHERE statistc = 1'
says "did you mean 'statistic'?"
rejects 3 "$tandem" query runs.db request
says "this is a table: --sql 'SELECT * FROM request'"
expect 0 "$tandem" query runs.db --list
for path in "$source_dir"/experiments/queries/*.sql; do
  name=$(basename "$path" .sql)
  grep -q "^$name  *[[:alpha:]]" out || fail "'$name' is not listed"
  "$tandem" query --help | grep -q "^  $name  *[[:alpha:]]" || fail "'$name' is not in the help"
done
expect 0 "$tandem" query runs.db tables
prints 'utilization'

# Parameters.
expect 0 "$tandem" query runs.db summary --set run=2 --format csv
[ "$(wc -l <out)" -eq 2 ] || fail 'not one run'
expect 0 "$tandem" query runs.db --format csv --set low=0.5 --set word=x \
  --sql 'SELECT :low + 1, :word'
[ "$(tail -1 out)" = 1.5,x ] || fail 'parameters are other values'
rejects 3 "$tandem" query runs.db summary --set rn=2
says "the query has no parameter 'rn'"
says "'run'"

# Axes are columns, and replicates one row of a figure: 1, 2, 6 make 3 +- t(2) sqrt(7 / 3).
expect 0 "$tandem" sweep a.yaml --output axes.db \
  --set 'sweep={policies.router: [jsq, random], seed: 1..3}'
expect 0 "$tandem" query axes.db points --format csv
head -1 out | grep -q '^sweep,point,policies.router,seed,' || fail 'axes are no columns'
grep -q '^1,4,random,2,' out || fail 'a point is elsewhere'
expect 0 "$tandem" query axes.db summary --format csv
head -1 out | grep -q '^run,config,policies.router,seed,' || fail 'axes are no columns'
expect 0 "$tandem" query axes.db replicates --set figure=ttft_s --format csv
[ "$(grep -Ec ',3,(1|3),ttft_s,p99,' out)" -eq 2 ] || fail 'not two groups of three'
expect 0 "$tandem" query axes.db --format csv --sql \
  "SELECT printf('%.3f', half_width(x)) FROM (SELECT 1 AS x UNION SELECT 2 UNION SELECT 6)"
[ "$(tail -1 out)" = 6.572 ] || fail "the half-width is $(tail -1 out)"
rejects 3 "$tandem" query runs.db --sql 'DELETE FROM run'
rejects 3 "$tandem" query runs.db --sql 'SELECT 1; SELECT 2'
holds 3 'SELECT count(*) FROM run'

# A file that is something else is left as it is.
echo 'this is text, and long enough not to be taken for an empty database file' >text.db
cp text.db before
rejects 3 "$tandem" run a.yaml --output text.db
says 'text.db: error:'
rejects 3 "$tandem" query text.db summary
cmp -s text.db before || fail 'text.db was changed'
rejects 4 "$tandem" query absent.db summary
says 'absent.db: error:'
[ ! -e absent.db ] || fail 'query made a file'
rejects 4 "$tandem" run a.yaml --output absent/runs.db
says "absent/runs.db: error: cannot open 'absent/runs.db'"
rejects 4 "$tandem" run a.yaml --output .
if command -v python3 >/dev/null 2>&1; then
  sql() { python3 -c 'import sqlite3, sys
db = sqlite3.connect(sys.argv[1]); db.executescript(sys.argv[2]); db.close()' "$@"; }
  cp runs.db old.db
  sql old.db 'PRAGMA user_version = 99'
  for command in 'run a.yaml --output' query; do
    # shellcheck disable=SC2086 # words
    rejects 3 "$tandem" $command old.db
    says "old.db: error: 'old.db' has schema version 99, but this program has version 11"
  done
  sql other.db 'CREATE TABLE a (b); PRAGMA user_version = 1'
  rejects 3 "$tandem" run a.yaml --output other.db
  says 'is a database of another program'
fi

# A disk that fills up in the middle, here a limit on the size of files, leaves no part of the run.
limited() (
  trap '' XFSZ
  ulimit -f 2000 # of 512 bytes
  exec "$@"
)
cp runs.db small.db
rejects 4 limited "$tandem" run a.yaml --requests --output small.db \
  --set workload.arrivals.rate='50 /s' --set workload.requests=20000
says "small.db: error: cannot write 'small.db'"
mv small.db runs.db
holds 3 'SELECT count(*) FROM run'
holds 40 'SELECT count(*) FROM request'

# Nor does a run that was killed.
"$tandem" run a.yaml --requests --output runs.db --set workload.requests=100000000 >out 2>err &
pid=$!
sleep 1
kill -9 "$pid" || fail 'the run that was to be killed had ended'
wait "$pid" 2>/dev/null
holds 3 'SELECT count(*) FROM run'
holds 40 'SELECT count(*) FROM request'
expect 0 "$tandem" run a.yaml --output runs.db --requests
holds 4 'SELECT count(*) FROM run'
holds 80 'SELECT count(*) FROM request'

# Programs that start together share a new file.
for seed in 1 2 3 4 5 6; do
  "$tandem" run a.yaml --output many.db --seed $seed >/dev/null 2>"err$seed" &
done
wait
cat err? >err
[ ! -s err ] || fail 'runs at the same time disturb each other'
rm runs.db*
for file in many.db*; do mv "$file" "runs${file#many}"; done # with its log, if one is left
holds 6 'SELECT count(DISTINCT seed) FROM run'

finish
