#!/bin/sh
# The same inputs give the same digest on any compiler, with and without coalescing: what pinned
# runs gave when outcomes were last changed on purpose (experiments/outcomes.def). A run that
# differs here differs somewhere. So do the rules of the program, one by one. With --update, as
# 'ninja -C build outcomes' calls it, the new digests take the place of the old ones, once for each.
. "$TANDEM_SOURCE_DIR/tests/cli_testing.sh"
def=$source_dir/experiments/outcomes.def

# run EXAMPLE OPTION... : the first requests of an example, with the options in $way.
run() {
  config=$source_dir/experiments/examples/$1.yaml
  shift
  # shellcheck disable=SC2086 # no word when empty
  expect 0 "$tandem" run "$config" --set workload.requests=3000 "$@" $way --format json
}

# The outcomes of random clusters as the digest of a run.
run_swarm() {
  expect 0 "$TANDEM_SWARM" --pinned --clusters 1000
  sed -n 's/^ *outcomes \(.*\)/  "digest": "\1",/p' out >digest
  mv digest out
}

# run_named NAME : a run of outcomes.def; an example, if it is not one of these.
run_named() {
  case $1 in
  swarm) run_swarm ;;
  seesaw | chat) run "$1" --set workload.requests=300 ;;
  quickstart) run "$1" --set workload.requests=200 ;;
  continuous)
    run splitwise-small --set policies.batcher=continuous --set policies.transfer=serialized
    ;;
  sarathi) run splitwise-small --set policies.batcher=sarathi --set policies.transfer=chunked ;;
  tetriinfer)
    run splitwise-small --set policies.batcher=tetriinfer --set policies.predictor=buckets \
      --set policies.dispatcher=power_of_two --set policies.pool=tetriinfer_flip \
      --set workload.arrivals.rate='2 /s'
    ;;
  pipeline)
    run splitwise-small --set pools.prefill.pipeline_parallel_size=2 \
      --set pools.prefill.tensor_parallel_size=4
    ;;
  sessions)
    run splitwise-small --set workload.closed_loop='{clients: 40}' \
      --set workload.sessions='{turns: {exponential: {mean: 4}}, think_time: {constant: 2 s}}'
    ;;
  recompute | swap | pie)
    run roofline-gh200 --set "policies.kvtier=$1" --set workload.arrivals.rate='20 /s' \
      --set pools.serve.kv_cache_memory_bytes='2 GB'
    ;;
  flexgen) run roofline-gh200 --set policies.kvtier=flexgen --set policies.batcher=request_level ;;
  *) run "$1" ;;
  esac
}

# pinned MACRO : "DIGEST NAME" of each line of the table.
pinned() { sed -n "s/^$1(0x\(.*\), \(.*\))\$/\1 \2/p" "$def"; }

# The rules as the program has them.
expect 0 "$TANDEM_SWARM" --rules
cp out rules
[ "$(wc -l <rules)" -gt 40 ] || fail 'hardly any rule'

# update : the table anew. Where a run moves and no rule that the table has, its rules do not show
# what changed, and REST says so.
update() {
  sed -n 's/^RULE(0x\(.*\), \(.*\))$/\1 \2/p' rules | sort >now
  pinned RULE | sort -u >then
  cut -d ' ' -f 2 now | sort >names.now
  cut -d ' ' -f 2 then | sort -u >names.then
  comm -12 names.now names.then | while read -r name; do
    [ "$(grep " $name\$" now)" = "$(grep " $name\$" then)" ] || echo "$name"
  done >moved
  pinned OUTCOME | sort -u -k 2 >runs
  while read -r digest name; do
    run_named "$name"
    new=$(sed -n 's/^  "digest": "\(.*\)",$/\1/p' out)
    echo "OUTCOME(0x$new, $name)" >"outcomes.$name"
    [ "$new" = "$digest" ] || [ -s moved ] || : >hidden
  done <runs
  rest=$(sed -n 's/^REST(\(.*\))$/\1/p' "$def")
  [ ! -e hidden ] || rest=$((rest + 1))
  {
    sed '/^REST(/,$d' "$def"
    echo "REST($rest)"
    cat rules
    pinned OUTCOME | awk '!seen[$2]++ { print "outcomes." $2 }' | xargs cat
  } >new.def
  [ -e failed ] || cp new.def "$def"
}

way=
if [ "${1-}" = --update ]; then
  update
  finish
fi

# Each rule shows in its clusters, but for those that decide nothing.
grep '^RULE' "$def" >there
diff there rules | sed -n 's/^[<>].*, \(.*\))$/\1/p' | sort -u >differ
[ ! -s differ ] || fail "rules differ: $(tr '\n' ' ' <differ)"
core=$(sed -n 's/^RULE(\(.*\), core)$/\1/p' rules)
silent=$(grep "($core, " rules | sed 's/.*, \(.*\))/\1/' | tr '\n' ' ')
nothing='core router.round_robin predictor.none dispatcher.router pool.fixed transfer.serialized '
[ "$silent" = "${nothing}kvtier.recompute " ] || fail "nothing is seen of the rules: $silent"

pinned OUTCOME >pinned
[ "$(wc -l <pinned)" -gt 10 ] || fail 'hardly any run is pinned'
while read -r digest name; do
  for way in '' --step --audit; do
    [ "$name$way" != swarm--step ] && [ "$name$way" != swarm--audit ] || continue # it goes all ways
    run_named "$name"
    prints "\"digest\": \"$digest\""
  done
done <pinned
[ ! -e failed ] || echo "if outcomes are to change: ninja -C build outcomes" >&2

finish
