#!/bin/sh
# Fifty times kill -9, at any moment of a sweep over the first minutes of a week of traffic: each
# leaves a database that can be read, the next sweep goes on from it, and in the end nothing is lost
# or doubled. An uninterrupted sweep says the same to the letter.
. "$TANDEM_SOURCE_DIR/tests/cli_testing.sh"
points=400

set -- sweep "$source_dir/experiments/examples/azure-week.yaml" --jobs 2 \
  --set workload.requests=4000 --set sweep.workload.seed=1..$points

# count WHAT : of killed.db; 0 until it is one of results.
count() {
  "$tandem" query killed.db --format csv --sql "SELECT count($1) FROM run" >out 2>err || echo 0 >out
  sed -n '$p' out
}

expect 0 "$tandem" "$@" --output whole.db

# Each when none, one or two runs more are there, and a little later, whatever is then in progress.
kills=0 had=0 grown=0
while [ "$kills" -lt 50 ]; do
  "$tandem" "$@" --output killed.db >/dev/null 2>&1 &
  while kill -0 $! 2>/dev/null && [ "$(count '*')" -lt $((had + kills % 3)) ]; do :; done
  sleep "0.00$((kills % 7))"
  kill -9 $! 2>/dev/null || break
  wait $! 2>/dev/null
  kills=$((kills + 1))
  has=$(count '*')
  [ "$has" -ge "$had" ] || fail "kill $kills: $has runs, there were $had"
  [ "$has" -eq "$had" ] || grown=$((grown + 1))
  had=$has
done
last='a sweep that is killed'
[ "$kills" -eq 50 ] && [ "$had" -lt $points ] || fail "was over after $kills kills"
[ "$grown" -ge 30 ] || fail "got on between $grown kills only"

expect 0 "$tandem" "$@" --output killed.db
prints "$points points: $had were there, $((points - had)) simulated, 0 failed"
[ "$(count '*')" -eq $points ] || fail "$(count '*') runs of $points points"
[ "$(count 'DISTINCT config_digest')" -eq $points ] || fail 'a point is there twice'
same killed.db whole.db

finish
