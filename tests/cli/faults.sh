#!/bin/sh
# Machines that fail: a run says what broke, each iteration on its own gives the same digest, a
# schedule does what it says, and what is wrong is said where it stands.
. "$TANDEM_SOURCE_DIR/tests/cli_testing.sh"

cat >fails.yaml <<'END'
model: llama2-70b
workload:
  lengths: {prompt: {constant: 500}, output: {constant: 20}}
  arrivals: {process: poisson, rate: 4 /s}
  duration: 30 min
pools:
  all: {role: mixed, machine: dgx-h100, count: 3, faults: {gpu: {mtbf: 4 h, mttr: 2 min}}}
faults: {detection: 5 s, retry: {limit: 5, backoff: 100 ms}}
END
with() { "$tandem" run fails.yaml "$@"; }

# same_stepped COMMAND FIGURE... : each iteration on its own gives the same of these.
same_stepped() {
  command=$1
  shift
  expect 0 "$command" --format json
  cp out first.json
  expect 0 "$command" --format json --step
  for figure in digest completed "$@"; do
    [ "$(grep -m1 "\"$figure\"" out)" = "$(grep -m1 "\"$figure\"" first.json)" ] ||
      fail "--step changes $figure of $command"
  done
}

# Drawn: the same twice and step by step, nobody is left, and it is told.
same_stepped with losses lost_tokens
expect 0 with
prints ' 0 unfinished'
grep -q '^failures     [1-9][0-9]*, instances down ' out || fail 'it does not say what broke'

# Scheduled: one of the three is away from 10 min on for 3 of 30 min, start and all.
expect 0 with --set 'pools.all.faults={schedule: [{at: 10 min, for: 3 min, machine: 1}]}' \
  --event-log events.csv
prints 'failures     1, instances down 3.3'
grep -q '^600.000000000000,failure,,1,' events.csv || fail 'it fails at another time'
grep -q '^605.000000000000,detection,,1,' events.csv || fail 'it is detected at another time'
grep -q '^780.000000000000,repair,,1,' events.csv || fail 'it is repaired at another time'

# Maintained, and slow: nobody is lost.
expect 0 with --set 'pools.all.faults={schedule: [{at: 10 min, for: 3 min, machine: 1, kind: drain},
  {at: 5 min, for: 4 min, machine: 0, kind: slow, factor: 2}]}'
prints '; 0 requests lost'

# Links: the KV of those that are prefilled in that minute waits.
expect 0 "$tandem" run "$TANDEM_SOURCE_DIR/experiments/examples/splitwise-small.yaml" \
  --set 'pools.prefill.faults={schedule: [{at: 10 s, for: 5 s, machine: 0, kind: link}]}' \
  --event-log events.csv
grep -q '^10.000000000000,link,,0,0,0$' events.csv || fail 'no link is down'
grep -q '^15.000000000000,link,,0,1000000,0$' events.csv || fail 'no link is back'

# Prompts in a checkpoint store are not computed again, and what they were is the same.
checkpointed() { with --set 'faults.checkpoint={bandwidth: 100 GB/s}' "$@"; }
same_stepped checkpointed restored_tokens checkpoint_bytes
grep -q '"restored_tokens": [1-9]' out || fail 'no prompt came out of the store'

# Copies of those who wait, while one of three machines is five times as slow.
slow='pools.all.faults={schedule: [{at: 1 s, for: 29 min, machine: 1, kind: slow, factor: 5}]}'
hedged() { with --set "$slow" --set 'faults.hedge={after: 200 ms, share: 1}' "$@"; }
same_stepped hedged hedges hedged_tokens
grep -q '"hedges_won": [1-9]' out || fail 'no copy was first'

# A group fails as one, whichever of its pools says so; its store by itself.
grouped() { "$tandem" run "$TANDEM_SOURCE_DIR/experiments/examples/seesaw.yaml" \
  --set workload.requests=200 --set timeline=null "$@"; }
lose() { pool=$1 what=$2; shift 2; grouped --set "pools.$pool.faults={$what}" "$@"; }
down='schedule: [{at: 60 s, for: 60 s, machine: 0'
expect 0 lose prefill "$down}]"
prints ' 0 unfinished'
digest=$(grep -o 'digest  *[^ ]*' out)
expect 0 lose decode "$down}]"
[ "$(grep -o 'digest  *[^ ]*' out)" = "$digest" ] || fail 'the pool that says it makes a difference'
expect 0 lose prefill "$down, kind: store}]" --event-log events.csv
prints ' 0 unfinished'
grep -q '^60.000000000000,store,,0,1,0$' events.csv || fail 'no store is down'
expect 0 lose prefill "$down, kind: slow, factor: 2}]" --event-log events.csv
[ "$(grep -c '^60.000000000000,slow,' events.csv)" -eq 5 ] || fail 'one of its shapes is not slow'
rejects 3 lose prefill "$down, kind: drain}]"
says "maintenance cannot be used with pool 'prefill', which is in a group" \
  'they support fail, slow and store'
rejects 3 lose decode 'link: {mtbf: 1 h}'
says "links cannot be used with pool 'decode', which is in a group"
rejects 3 grouped --set 'pools.prefill.faults={gpu: {}}' --set 'pools.decode.faults={gpu: {}}'
says "pools 'prefill' and 'decode' share their GPUs" "such as 'prefill'"

# Why one that was lost is late.
expect 0 with --set 'pools.all.faults={schedule: [{at: 10 min, for: 3 min, machine: 1}]}' \
  --set 'policies={router: round_robin}' --requests --output runs.db
expect 0 "$tandem" query runs.db --format csv \
  --sql 'SELECT request FROM request WHERE losses > 0 ORDER BY outage_s DESC LIMIT 1'
request=$(sed -n 2p out)
expect 0 "$tandem" why runs.db "$request"
prints 'of attempts lost with instances, the last with all 1, which failed at 10.0 min'

# By the hour: both are good unless all machines are away for most of one.
expect 0 with --set 'pools.all.faults=null' --set 'faults=null' --set 'workload.duration=2 h' \
  --set 'slo={goodput: {share: 99%, ttft: 1 s, hours: 99.9%}}'
grep -Eq '^goodput.hours +100% +99.9% .* met' out || fail 'an hour is missed without a fault'
expect 0 with --set 'pools.all.count=1' --set 'workload.duration=2 h' \
  --set 'pools.all.faults={schedule: [{at: 70 min, for: 3 min, machine: 0}]}' \
  --set 'slo={goodput: {share: 99%, ttft: 1 s, hours: 99.9%}}'
grep -Eq '^goodput.hours +50% +99.9% .* MISSED' out || fail 'the hour of a fault is not missed'

# A fault without repair of all there is: requests wait for good.
expect 0 with --set 'pools.all.count=1' \
  --set 'pools.all.faults={schedule: [{at: 10 min, machine: 0}]}'
grep -q ' [1-9][0-9,]* unfinished' out || fail 'somebody is served by nobody'

# A spare takes the place of one that failed at the next look of the scaler, and its start later.
spare='pools.all={machine: dgx-h100, count: 2, spares: 1, start_up: {boot: 2 min},
  faults: {schedule: [{at: 10 min, for: 8 min, machine: 0}]}}'
expect 0 with --set "$spare" --event-log spare.csv
grep -q '^615.000000000000,start,,2,' spare.csv || fail 'the spare starts at another time'
grep -q '^735.000000000000,up,,2,' spare.csv || fail 'the spare is up at another time'
grep -q '^1080.000000000000,off,,0,' spare.csv || fail 'the one that is back does not go'
cp out spare.txt
expect 0 with --set "$spare" --step
[ "$(grep -o 'digest  *[^ ]*' out)" = "$(grep -o 'digest  *[^ ]*' spare.txt)" ] ||
  fail '--step changes the digest with a spare'

# What is needed so that one may be away, or has a spare: what is needed anyway, and one more.
study() {
  "$tandem" provision fails.yaml --no-range --set 'slo={tpot.p90: 45 ms}' \
    --set 'workload={lengths: {prompt: {constant: 500}, output: {constant: 20}},
      arrivals: {process: poisson, rate: 40 /s}, duration: 60 s}' \
    --set 'pools.all.faults={schedule: [{at: 2 h, machine: 0}]}' \
    --set 'provision={objective: cost, designs: {all: {pools.all.count: 2..20}}}' "$@"
}
needs() { sed -n 's/^all *\([0-9]*\) mixed .*/\1/p' out; }
expect 0 study
least=$(needs)
prints "no failures  'all' would do with $least instances"
expect 0 study --set provision.n_plus=1
[ "$(needs)" -eq $((least + 1)) ] || fail "N+1 of $least is $(needs)"
prints "no failures  'all' would do with $least instances"
expect 0 study --spares 2 --format json
prints "\"instances\": $((least + 2))"
rejects 3 study --set pools.all.spares=1
says "design 'all' searches pool 'all', which has 'spares'" '--spares'
rejects 3 study --set provision.n_plus=2
says "n_plus 2 leaves no instance of 'pools.all.count: 2'" 'begin the range at 3'

# wrong SETTING TEXT... : refused, with each text.
wrong() {
  rejects 3 with --set "$1"
  shift
  for text; do says "$text"; done
}
wrong 'pools.all.faults.gpu.mtbf=null' "fails.yaml:7:77: error: 'mttr' needs 'mtbf'" \
  'such as mtbf: 50700 h'
wrong 'pools.all.faults={machine: {}}' "a source of failures needs 'mtbf'"
wrong 'pools.all.faults={schedule: [{at: 1 h, machine: 3}]}' "pool 'all' has no instance 3" \
  'its instances are 0 to 2'
wrong 'pools.all.faults={schedule: [{machine: 0}]}' "missing key 'at'"
wrong 'faults.hedge={}' "missing key 'after'"
wrong 'faults.hedge={after: 1 s, share: 2}' "'share' must be from 0"
rejects 3 with --set 'faults.hedge={after: 1 s}' --set policies.router=splitwise_sim_mixed_pool
says "'hedge' cannot be used with router 'splitwise_sim_mixed_pool'" 'these routers support it'
wrong 'faults.checkpoint={}' "missing key 'bandwidth'"
wrong 'faults.checkpoint={bandwidth: 0 GB/s}' "'bandwidth' must be from 1 B/s"
wrong 'faults={checkpoint: {bandwidth: 1 GB/s}, retry: {resume: true}}' 'exclude each other' \
  'tokens after the first are made again'
wrong 'pools.all.faults={schedule: []}' "'schedule' must be a list"
wrong 'pools.all.faults={schedule: [{at: 1 h, machine: 0, kind: slow}]}' "needs 'factor'"
wrong 'pools.all.faults={schedule: [{at: 1 h, machine: 0, factor: 2}]}' "needs 'kind: slow'"
wrong 'pools.all.faults={store: {mtbf: 1 h}}' "pool 'all' is in no group and has no store"
wrong 'pools.all.faults={link: {mttr: 1 h}}' "'mttr' needs 'mtbf'"
wrong 'pools.all.faults={}' "'faults' of pool 'all' names nothing that fails" 'such as gpu: {}'
wrong 'pools.all.faults.gpu.mttr=-1 s' "'mttr' must be from 1 ms"
wrong 'pools.all.faults.gpu.shape=2' "'shape' applies to weibull and lognormal, not to exponential"
wrong 'pools.all.faults.gpu.distribution=weibull' "a weibull distribution needs 'shape'"
wrong 'pools.all.faults.gpu.distribution=normal' "unknown distribution 'normal'"
wrong 'faults.detection=-1 s' "'detection' must be from 0 s"
wrong 'faults.retry.limit=-1' "'limit' must be from 0"
rejects 3 with --set "$spare" --set policies.scaler=target
says "'spares' of pool 'all' cannot be used with another scaler"
rejects 3 with --set "$spare" --set 'pools.all.scaling={max: 4}'
says "'scaling' and 'spares' of pool 'all' exclude each other"
rejects 3 with --set policies.scaler=target --set 'pools.all.scaling={min: 5, max: 4}'
says "'min', 5 instances, is above 'max', 4"
wrong 'pools.all.faults=null' \
  "'faults' applies to pools and domains with faults, and none has any" \
  'pools.all.faults: {gpu: {}}'

finish
