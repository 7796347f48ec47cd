#!/bin/sh
# Two sets of runs side by side: by number, key, axis, name, and of two databases; what is paired,
# what is said without partners, and what to do when there is no such thing.
. "$TANDEM_SOURCE_DIR/tests/cli_testing.sh"
config | sed 's/fixed, rate: 4/poisson, rate: 40/; s/requests: 40/requests: 200/' >a.yaml
axes='policies.router: [jsq, round_robin], workload.arrivals.rate: [20 /s, 40 /s]'
expect 0 "$tandem" sweep a.yaml --output s.db --set "sweep={$axes, seed: 1..3}"

expect 0 "$tandem" compare s.db router=jsq policies.router=round_robin
prints '6 pairs with equal seed and workload.arrivals.rate (2 values)'
grep -q '^policies.router  *jsq  *round_robin$' out || fail 'the difference is not named'
sed '/^figure /q' out | grep -q '^policies.router' ||
  fail 'it is not named first'
grep -Eq '^ttft_s.p99  *s .* 6  (real|real alone|not told apart)$' out || fail 'no verdict'
grep -Eq '^cached_share .* 6  equal$' out || fail 'what is equal is not said to be'
prints 'one of 20'

# The mean of the pairs' differences, as SQL has it.
expect 0 "$tandem" compare s.db router=jsq router=round_robin --where 'rate=40 /s' \
  --figure ttft.p99 --format csv
told=$(awk -F, '$1 == "figure" { printf "%.6g %d", $6, $10 }' out)
expect 0 "$tandem" query s.db --format csv --sql "
  SELECT avg(b.value - a.value), count(*)
  FROM run ra JOIN metric a ON a.run_id = ra.id JOIN run rb USING (seed) JOIN metric b
    ON b.run_id = rb.id AND (b.scope, b.name, b.statistic) = (a.scope, a.name, a.statistic)
  WHERE a.scope = 'run' AND a.name = 'ttft_s' AND a.statistic = 'p99'
    AND (SELECT value FROM param WHERE run_id = ra.id AND key = 'policies.router') = 'jsq'
    AND (SELECT value FROM param WHERE run_id = rb.id AND key = 'policies.router') = 'round_robin'
    AND (SELECT value FROM param WHERE run_id = ra.id AND key = 'workload.arrivals.rate') = '40 /s'
    AND (SELECT value FROM param WHERE run_id = rb.id AND key = 'workload.arrivals.rate') = '40 /s'"
by_sql=$(tail -1 out | awk -F, '{ printf "%.6g %d", $1, $2 }')
[ "$by_sql" = "$told" ] || fail "told $told, by SQL $by_sql"

expect 0 "$tandem" compare s.db 1 2
prints 'no interval'
prints 'one run each'
expect 0 "$tandem" compare s.db 'rate=20 /s' 'rate=40 /s' --format json --all
prints '{"name": "workload.arrivals.rate", "a": "20 /s", "b": "40 /s"}'
[ "$(grep -c '"verdict"' out)" -gt 60 ] || fail 'hardly any figure'

# Names, and two databases. Other seeds have no partners, but are replicates.
for seed in 1 2 3; do expect 0 "$tandem" run a.yaml --output old.db --seed $seed; done
for seed in 1 2 3; do
  expect 0 "$tandem" run a.yaml --output new.db --seed $seed --set pools.all.count=3
  expect 0 "$tandem" run a.yaml --output far.db --seed 1$seed
done
expect 0 "$tandem" compare old.db new.db
prints '3 pairs with equal seed'
grep -q '^pools.all.count  *2  *3$' out || fail 'the difference is not named'
expect 0 "$tandem" compare old.db far.db
prints 'not paired'
prints 'the configurations are equal except for seeds'
expect 0 "$tandem" compare old.db a.yaml 2
prints 'A: a.yaml, run 2' # the one with a partner

# A measured run has no configuration to pair by.
expect 0 "$tandem" run a.yaml --seed 4 --format vllm-json
mv out bench.json
expect 0 "$tandem" import vllm-bench bench.json -o old.db
expect 0 "$tandem" compare old.db 1 4 --figure ttft
prints 'B: 4, run 4, measured'
grep -q '^ttft_s.p99 ' out || fail 'no figure in common'

rejects 3 "$tandem" compare s.db router=jsqq router=jsq
says "did you mean 'jsq'?"
rejects 3 "$tandem" compare s.db policies.ruter=jsq 1
says "did you mean 'policies.router'?"
rejects 3 "$tandem" compare s.db 1 99
says 'the runs have numbers from 1 to 12'
rejects 3 "$tandem" compare s.db a.yml 1
says "configuration or design 'a.yml'"
rejects 3 "$tandem" compare s.db 1 2 --figure ttft_s.p98
says "did you mean 'ttft_s.p9"
rejects 3 "$tandem" compare s.db seed=1 seed=2
says "'--where policies.router=jsq'"
rejects 2 "$tandem" compare s.db 1 2 --all --figure ttft
rejects 2 "$tandem" compare s.db 1 2 --where router
finish
