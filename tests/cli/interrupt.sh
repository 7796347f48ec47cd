#!/bin/sh
# Ctrl-C: whatever runs long ends at its next event with one line, of what is kept and how to go on,
# and the status of the signal; what is kept is whole.
. "$TANDEM_SOURCE_DIR/tests/cli_testing.sh"
config | sed 's/requests: 40/requests: 30000000/' >long.yaml

# catches PID : whether the process is the program, no longer the shell, and has a handler for
# SIGINT by now.
catches() {
  [ "$(cat "/proc/$1/comm")" = "$(basename "$tandem")" ] &&
    grep -q '^SigCgt:.*[2367abef]$' "/proc/$1/status"
}

# interrupted SIGNAL CODE COMMAND... : the command, sent the signal once it listens, prints nothing
# and ends with the code.
interrupted() {
  signal=$1 want=$2
  shift 2
  last=$*
  "$@" >out 2>err &
  pid=$!
  until catches $pid; do
    kill -0 $pid 2>/dev/null || break
    sleep 0.01
  done
  kill -"$signal" $pid
  code=0
  wait $pid || code=$?
  [ "$code" -eq "$want" ] || fail "exit code $code, not $want"
  [ ! -s out ] || fail 'something on stdout'
  [ "$(wc -l <err)" -eq 1 ] || fail 'not one line on stderr'
}

interrupted INT 130 "$tandem" run long.yaml --output runs.db --requests
says 'tandem run: interrupted, nothing of the run is kept; the same command starts again'
expect 0 "$tandem" query runs.db --format csv --sql \
  'SELECT (SELECT count(*) FROM run) + (SELECT count(*) FROM request) AS n'
[ "$(tail -n 1 out)" = 0 ] || fail 'a part of the run is in the database'
interrupted TERM 143 "$tandem" run long.yaml
interrupted INT 130 "$tandem" validate long.yaml --backend fake --any-device \
  --output runs.db
says 'tandem validate: interrupted, nothing of the runs is kept'

# A study: what has ended is kept, and it goes on from there.
{
  config
  echo 'provision: {objective: machines, designs: {a: {pools.all.count: 1..2}}}'
} >study.yaml
interrupted INT 130 "$tandem" provision study.yaml --set workload.requests=30000000
says "tandem provision: interrupted, nothing was kept; with '--output DB' it could continue"
interrupted INT 130 "$tandem" provision study.yaml --set workload.requests=30000000 \
  --output study.db
says "tandem provision: interrupted, its runs so far are in 'study.db'; the same command continues"
[ ! -e study.db-sweep ] || fail 'the lock was left behind'
sed 's/arrivals: .*/arrivals: {process: at_once}/; s/^slo: .*/slo: none/
  s/{objective.*/{objective: throughput, designs: {a: {pools.all.count: 1}}}/
  s/^  router: .*/&\n  batcher: {name: sarathi, max_num_batched_tokens: 2, max_num_seqs: 1}/' \
  study.yaml >offline.yaml
interrupted INT 130 "$tandem" provision offline.yaml --set workload.requests=500000

# interrupted_at N COMMAND... DB : the command, sent SIGINT when the database has N runs; no more
# and no fewer are kept.
interrupted_at() {
  n=$1
  shift
  last=$*
  for db in "$@"; do :; done
  count() { "$tandem" query "$db" --format csv --sql 'SELECT count(*) FROM run' | tail -n 1; }
  "$@" --jobs 1 >out 2>err &
  pid=$!
  until [ "$(count 2>/dev/null)" = "$n" ]; do sleep 0.05; done
  kill -INT $pid
  code=0
  wait $pid || code=$?
  [ "$code" -eq 130 ] || fail "exit code $code, not 130"
  [ "$(count)" = "$n" ] || fail "$(count) runs in the database, not $n"
  [ ! -e "$db-sweep" ] || fail 'the lock was left behind'
}

# Two that end and two that do not, in this order.
{
  config
  echo 'sweep: {workload.requests: [40, 41, 30000000, 30000001]}'
} >sweep.yaml
interrupted_at 2 "$tandem" sweep sweep.yaml --output sweep.db
says "tandem sweep: interrupted, 2 of 4 points are in 'sweep.db'; the same command continues"
expect 0 "$tandem" sweep sweep.yaml --output sweep.db --dry-run
prints '4 points: 2 are there, 2 to simulate'
lists='[40, 41, 500000, 500001]'
sed "s/{a: .*/{a: {pools.all.count: 1, workload.requests: $lists}}}/" offline.yaml >lists.yaml
interrupted_at 2 "$tandem" provision lists.yaml --output lists.db
says "tandem provision: interrupted, its runs so far are in 'lists.db'; the same command continues"

# A paper's runs.
mkdir paper
cp long.yaml paper/long.yaml
printf '%s\n' 'title: One' 'tandem: {config: long.yaml}' >paper/paper.yaml
printf '%s\n' 'claim: It ends.' 'where: §1' 'runs: {a: {}}' \
  'figures: [{what: all, value: a.completed, paper: 1}]' >paper/A-1.yaml
interrupted INT 130 "$tandem" report claims ./paper
says 'tandem report claims: interrupted, nothing was kept; the same command starts again'

finish
