#!/bin/sh
# Databases that are only read: queries change nothing, whatever they say, and need no right to
# write; and names under which results would be lost are refused.
. "$TANDEM_SOURCE_DIR/tests/cli_testing.sh"
config >a.yaml
expect 0 "$tandem" run a.yaml --output runs.db

# --- A query asks, and does nothing else.

cp runs.db before.db
for sql in 'PRAGMA journal_mode = DELETE' 'PRAGMA journal_mode' "VACUUM INTO 'new.db'" VACUUM \
  "ATTACH 'new.db' AS new" 'PRAGMA query_only = OFF' 'PRAGMA user_version = 99' BEGIN ANALYZE \
  'PRAGMA wal_checkpoint' 'CREATE TABLE a (b)' 'CREATE TEMP TABLE a (b)' 'DELETE FROM run' \
  'DROP TABLE run' 'REINDEX' "EXPLAIN UPDATE run SET name = ''" 'PRAGMA writable_schema = ON' \
  "UPDATE run SET name = ''" "INSERT INTO param VALUES (1, 'a', 'b')"; do
  rejects 3 "$tandem" query runs.db --sql "$sql"
  says 'a query must be one statement that reads only: a SELECT, or a PRAGMA that sets nothing'
done
rejects 3 "$tandem" query runs.db --sql "SELECT load_extension('new')"
rejects 3 "$tandem" query runs.db --sql "UPDATE sqlite_master SET sql = ''"
cmp -s runs.db before.db || fail 'a query changed the database'
[ ! -e new.db ] || fail 'a query made a file'
for sql in 'PRAGMA user_version' 'PRAGMA integrity_check' "PRAGMA table_info('run')" \
  "SELECT name FROM pragma_table_info('run')" "SELECT value FROM json_each('[1, 2]')" \
  'EXPLAIN SELECT * FROM metric' \
  'WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3) SELECT i FROM n'; do
  expect 0 "$tandem" query runs.db --sql "$sql"
done

# --- Names that are no files.

mkdir names
for name in '' :memory: 'file:lost.db' 'file::memory:?cache=shared' /dev/null; do
  expect 3 "$tandem" run a.yaml --output "$name"
  says "'$name' is not a file that can hold a database"
  [ ! -s out ] || fail "results were lost in '$name'"
  for command in "merge" query; do
    expect 3 "$tandem" $command "$name" runs.db
    says "'$name' is not a file that can hold a database"
  done
  {
    cat a.yaml
    echo 'sweep: {pools.all.count: 1..2}'
  } >sweep.yaml
  for more in '' --dry-run; do
    # shellcheck disable=SC2086 # no word when empty
    rejects 3 "$tandem" sweep sweep.yaml --output "$name" $more
    says "'$name' is not a file that can hold a database"
  done
  rejects 3 "$tandem" validate a.yaml --backend fake --output "$name"
  rejects 3 "$tandem" provision "$source_dir/experiments/examples/provision.yaml" --output "$name"
done
says 'is not a file that can hold a database'
set -- *memory* *lost* *-sweep
[ "$*" = '*memory* *lost* *-sweep' ] || fail "files were made: $*"
expect 0 "$tandem" run a.yaml --output './file:found.db'
expect 0 "$tandem" query './file:found.db'

# --- Files that may be read and not written, in folders of the same kind. Root may write all.

user=
if [ "$(id -u)" -eq 0 ]; then
  user='setpriv --reuid 65534 --regid 65534 --clear-groups'
  chmod 711 "$work"
  if ! $user "$tandem" --version >/dev/null 2>&1; then
    echo 'nobody else can run the program here: its rights are not tested' >&2
    finish
  fi
fi
mkdir folder file log result
cp runs.db 'folder/50% of #1?.db'
cp runs.db file
if command -v python3 >/dev/null 2>&1; then # a change that only the log has
  cp runs.db log
  python3 -c '
import os, sqlite3
db = sqlite3.connect("log/runs.db")
db.execute("UPDATE run SET name = '\''changed'\''")
db.commit()
os._exit(0)'
fi
chmod 444 file/runs.db log/*
chmod 777 file result
chmod 555 folder log
for db in 'folder/50% of #1?.db' file/runs.db; do
  # shellcheck disable=SC2086 # words
  expect 0 $user "$tandem" query "$db" summary
  # shellcheck disable=SC2086 # words
  expect 3 $user "$tandem" plot rates "$db" -o result/rates.svg
  says 'the figure needs a number that varies between the runs' # it was read
  # shellcheck disable=SC2086 # words
  expect 0 $user "$tandem" merge "result/$(dirname "$db").db" "$db"
  prints '1 runs of 1 databases'
  # shellcheck disable=SC2086 # words
  expect 4 $user "$tandem" run a.yaml --output "$db"
done
[ "$(ls folder file)" = "$(printf '%s\n' file: runs.db '' folder: '50% of #1?.db')" ] ||
  fail "files were left: $(ls folder file)"
if [ -e log/runs.db ]; then
  # shellcheck disable=SC2086 # words
  expect 0 $user "$tandem" query log/runs.db --sql 'SELECT name FROM run'
  prints changed
  chmod 755 log
  rm log/runs.db-shm # without it nobody knows what in the log counts
  chmod 555 log
  # shellcheck disable=SC2086 # words
  rejects 4 $user "$tandem" query log/runs.db
  says 'copy it, with the log beside it, to a folder that you may write to'
fi
chmod 755 folder log

finish
