#!/bin/sh
# KV tiers that move KV, from the configuration to the figures.
. "$TANDEM_SOURCE_DIR/tests/cli_testing.sh"

cat >pie.yaml <<'YAML'
model: opt-30b
workload:
  lengths: sharegpt
  arrivals: {process: poisson, rate: 2 /s}
  requests: 150
  seed: 1
  ignore_eos: true
pools:
  all: {machine: gh200-96gb, num_gpu_blocks_override: 140}
policies:
  batcher: {name: continuous}
  kvtier: {name: pie}
perfmodel: {name: roofline, preset: graph-engine}
YAML

# figure NAME: of the last run, which was printed as CSV, of its only pool.
figure() { sed -n "s/^pool.all,$1,value,\([^,]*\),.*/\1/p" out; }
# holds A OP B, numbers.
holds() { awk "BEGIN { exit !($1 $2 $3) }" </dev/null || fail "not $1 $2 $3"; }
digest() { sed -n 's/^run,digest,value,\([0-9a-f]*\),$/\1/p' out; }

expect 0 "$tandem" list kvtiers
for text in '^pie ' '^flexgen ' '  expansion ' '  violation_ratio ' '  weights_on_cpu '; do
  grep -q "$text" out || fail "no '$text' in the list"
done
expect 0 "$tandem" list options
prints 'pools.NAME.host_link:'

# The memory grows, and is on both sides; however it is simulated.
expect 0 "$tandem" run pie.yaml --format csv --event-log log --output runs.db --requests --audit
adaptive=$(digest)
holds "$(figure expansions)" '>' 0
holds "$(figure max_expansion)" '>' 1.05
holds "$(figure mean_expansion)" '>' 1
holds "$(figure mean_expansion)" '<' "$(figure max_expansion)"
holds "$(figure swapped_in_bytes)" '>' 1e9
holds "$(figure max_cpu_kv_bytes)" '>' 1e8
[ "$(grep -c ',expansion,,0,' log)" = $(($(figure expansions) + $(figure contractions))) ] ||
  fail 'the log has other changes of capacity'
for how in --step '--set policies.kvtier.layers=true'; do
  # shellcheck disable=SC2086 # two words
  expect 0 "$tandem" run pie.yaml --format csv $how
  [ "$(digest)" = "$adaptive" ] || fail "$how gives another digest"
done
expect 0 "$tandem" run pie.yaml
prints 'compute_token'
prints 'all: KV memory x'
if command -v sqlite3 >/dev/null; then
  [ "$(sqlite3 runs.db 'SELECT count(*) FROM request WHERE rejected = 0
     AND (computing_s <= 0 OR computing_s > last_token_s - arrived_s + 1e-9)')" = 0 ] ||
    fail 'a request computed for longer than it was there'
fi

# What a step may wait without it counting decides how far it grows.
expect 0 "$tandem" run pie.yaml --format csv --set 'policies.kvtier.wait_tolerance=0' \
  --set 'pools.all.host_link.to_gpu_bandwidth=60 GB/s'
strict=$(digest)
expect 0 "$tandem" run pie.yaml --format csv --set 'policies.kvtier.wait_tolerance=1' \
  --set 'pools.all.host_link.to_gpu_bandwidth=60 GB/s'
[ "$(digest)" != "$strict" ] || fail 'wait_tolerance changes nothing'

# vLLM swaps over the same link.
expect 0 "$tandem" run pie.yaml --format csv --set policies.kvtier=swap
stall=$(figure stall_s)
holds "$stall" '>' 0
expect 0 "$tandem" run pie.yaml --format csv --set policies.kvtier=swap \
  --set 'pools.all.host_link={background: [{from: 0 s, to: 1000 s, share: 0.9}]}'
holds "$(figure stall_s)" '>' "2 * $stall"

# Fixed expansion, and traffic of others that slows it down.
fixed='{name: pie, expansion: 1.8}'
expect 0 "$tandem" run pie.yaml --format csv --set "policies.kvtier=$fixed"
holds "$(figure max_expansion)" '==' 1.8
holds "$(figure stall_s)" '<' 1
quiet=$(digest)
expect 0 "$tandem" run pie.yaml --format csv --set "policies.kvtier=$fixed" \
  --set 'pools.all.host_link={background: [{from: 20 s, to: 60 s, share: 0.97}]}'
holds "$(figure stall_s)" '>' 1
[ "$(digest)" != "$quiet" ] || fail 'background traffic changes nothing'
expect 0 "$tandem" run pie.yaml --format csv --set "policies.kvtier=$fixed" \
  --set 'pools.all.host_link.to_gpu_bandwidth=10 GB/s'
holds "$(figure stall_s)" '>' 1

# Adaptive expansion gives way while others use the link and comes back after them; steps hardly
# wait.
cat >steady.yaml <<'YAML'
model: opt-30b
workload:
  lengths: sharegpt
  arrivals: {process: poisson, rate: 12 /s}
  requests: 2000
  seed: 1
pools:
  all:
    machine: gh200-96gb
    kv_cache_memory_bytes: 3 GB
    host_link: {efficiency: 0.9, background: [{from: 600 s, to: 1000 s, share: 0.5}]}
policies:
  batcher: {name: continuous}
  kvtier: {name: pie}
perfmodel: {name: roofline, preset: graph-engine}
YAML
# capacity FROM TO: mean blocks in these seconds, by the log.
capacity() {
  awk -F, -v from="$1" -v to="$2" '$2 == "expansion" {
      begin = at > from ? at : from; end = $1 < to ? $1 : to
      if (end > begin) sum += $6 * (end - begin)
      at = $1
    } END { print sum / (to - from) }' log
}
expect 0 "$tandem" run steady.yaml --format csv --event-log log
stall=$(figure stall_s)
holds "$stall" '<' "0.05 * $(sed -n 's/^run,duration_s,value,\([^,]*\),.*/\1/p' out)"
before=$(capacity 400 600)
holds "$(capacity 700 1000)" '<' "0.9 * $before"
holds "$(capacity 1200 1400)" '>' "0.95 * $before"

# FlexGen: nearly all of the time is copying. A pool may have a tier of its own.
expect 0 "$tandem" run pie.yaml --format csv --set pools.all.kvtier=flexgen \
  --set 'policies.batcher={name: request_level, padded: true, padded_prompt_tokens: 1000}'
holds "$(figure stall_s)" '>' 10
holds "$(figure max_cpu_kv_bytes)" '==' 0
expect 0 "$tandem" run pie.yaml --format csv --set policies.batcher=request_level \
  --set pools.all.kvtier=flexgen
weights=$(figure stall_s)
expect 0 "$tandem" run pie.yaml --format csv --set policies.batcher=request_level \
  --set 'pools.all.kvtier={name: flexgen, kv_on_cpu: 0.5}'
holds "$(figure max_cpu_kv_bytes)" '>' 10e9
holds "$(figure stall_s)" '>' "$weights"

# refuses TEXT SETTING...
refuses() {
  wanted=$1
  shift
  for setting in "$@"; do
    set -- "$@" --set "$setting"
    shift
  done
  expect 3 "$tandem" run pie.yaml "$@"
  says "$wanted"
}
refuses "'expansion' must be from 1" policies.kvtier.expansion=0.9
refuses 'swaps more layers than the model allows' policies.kvtier.expansion=40
refuses 'blocks of KV in CPU memory, which holds' policies.kvtier.expansion=3 \
  'pools.all.cpu_memory=1 GB'
refuses 'is less than one block of KV' 'pools.all.cpu_memory=1 MB'
refuses "needs CPU memory, and pool 'all' has none" 'pools.all.cpu_memory=0 B'
refuses 'to_gpu_bandwidth' 'pools.all.host_link.to_gpu_bandwidth=0 GB/s'
refuses 'bytes of weights in CPU memory' policies.kvtier=flexgen 'pools.all.cpu_memory=10 GB'
refuses "'to' must be later than 'from'" 'pools.all.host_link.background=[{from: 2 s, to: 1 s}]'
cat >long.csv <<'CSV'
TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:00:00.0000000,5000,10
CSV
refuses 'no request can be served: 1 that need more KV memory than' max_model_len=none \
  'workload={trace: long.csv}'

finish
