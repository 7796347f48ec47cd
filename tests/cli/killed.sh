#!/bin/sh
# Fifty times kill -9, at any moment of a sweep over the first minutes of a week of traffic: each
# leaves a database that can be read, the next sweep goes on from it, and in the end nothing is lost
# or doubled. An uninterrupted sweep says the same to the letter.
. "$TANDEM_SOURCE_DIR/tests/cli_testing.sh"
points=250

set -- sweep "$source_dir/experiments/examples/azure-week.yaml" --jobs 2 \
  --set workload.requests=2000 --set sweep.workload.seed=1..$points

# count WHAT : of killed.db, once there is something in it.
count() {
  expect 0 "$tandem" query killed.db --format csv --sql "SELECT count($1) FROM run"
  sed -n '$p' out
}

began=$(date +%s%N)
expect 0 "$tandem" "$@" --output whole.db
took=$(($(date +%s%N) - began))

# Each after a sixtieth of what the whole takes, more or less, so that they are over before it is.
wait_s() { awk -v ns="$took" -v k="$1" 'BEGIN { print ns / 6e10 * (0.6 + k % 9 / 10) }'; }

kills=0 had=0 grown=0
while [ "$kills" -lt 50 ]; do
  "$tandem" "$@" --output killed.db >/dev/null 2>&1 &
  sleep "$(wait_s $kills)"
  kill -9 $! 2>/dev/null || break
  wait $! 2>/dev/null
  kills=$((kills + 1))
  [ -e killed.db ] || continue
  has=$(count '*')
  [ "$has" -ge "$had" ] || fail "kill $kills: $has runs, there were $had"
  [ "$has" -eq "$had" ] || grown=$((grown + 1))
  had=$has
done
last='a sweep that is killed'
[ "$kills" -eq 50 ] && [ "$had" -lt $points ] || fail "was over after $kills kills"
[ "$grown" -ge 3 ] || fail "got on between $grown kills only"

expect 0 "$tandem" "$@" --output killed.db
prints "$points points: $had were there, $((points - had)) simulated, 0 failed"
[ "$(count '*')" -eq $points ] || fail "$(count '*') runs of $points points"
[ "$(count 'DISTINCT config_digest')" -eq $points ] || fail 'a point is there twice'
same killed.db whole.db

finish
