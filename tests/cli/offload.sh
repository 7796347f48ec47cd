#!/bin/sh
# Tiers of KV under prefix caches from the command line: their figures in reports, the wait for
# loads as a cause, and what a configuration may not say of them. Unit tests have the rules.
. "$TANDEM_SOURCE_DIR/tests/cli_testing.sh"

example=$TANDEM_SOURCE_DIR/experiments/examples/offload.yaml
short() { "$tandem" run "$example" --set 'workload.duration=90 s' "$@"; }

expect 0 short --output tiers.db --requests
prints 'loads, '
prints '% of prompt tokens from CPU memory, '
prints '% of prompt tokens from the remote store, '
expect 0 short --format json
cp out with.json
expect 0 short --set policies.batcher.kv_connector=null --format json
python3 - <<'END' || fail 'figures of tiers do not add up'
import json
tiers, none = json.load(open('with.json')), json.load(open('out'))
assert tiers['cached_share'] > none['cached_share'] + 0.1
assert tiers['ttft_s']['mean'] < none['ttft_s']['mean']
# A block of 16 tokens of Llama 3.1 8B is 2 MiB; a tier is read by whole blocks, and the last token
# of a prompt that is all there is computed again.
loaded = 0
for tier in 'cpu', 'remote':
    blocks, tokens = tiers[f'{tier}_read_bytes'] / 2097152, tiers[f'{tier}_hit_tokens']
    assert blocks == int(blocks) and 0 <= 16 * blocks - tokens <= tiers['kv_loads']
    loaded += tokens
assert 0 < loaded <= tiers['cached_tokens'] + tiers['refound_tokens']
assert tiers['ssd_hit_tokens'] == tiers['ssd_read_bytes'] == none['kv_loads'] == 0
assert 0 < tiers['remote_written_bytes'] and tiers['kv_load_s'] > 0
END
# The wait is a part of the time to the first token that 'why' names.
expect 0 "$tandem" query tiers.db --format csv --sql \
  'SELECT request FROM request ORDER BY kv_load_s DESC LIMIT 1'
slowest=$(tail -n 1 out)
expect 0 "$tandem" why tiers.db "$slowest"
prints 'kv_load  '

# What rows say must go together.
tiers() {
  rejects 3 "$tandem" run "$example" --set \
    "policies.batcher.kv_connector={name: offloading, tiers: [$1]}"
}
tiers '{name: ssd, capacity: 1 GB}, {name: cpu, capacity: 1 GB}'
says "each of cpu, ssd and remote at most once, in this order"
tiers '{name: cpu, capacity: 1 GB, policy: ttl}'
says "'ttl' is needed with policy: ttl"
tiers '{name: cpu, capacity: 1 GB, block_size: 40}'
says "'block_size' of a tier must be a multiple of that of KV blocks"
tiers '{name: cpu, capacity: 1 MB}'
says "has no room for one KV block"
tiers '{name: cpu, capacity: 1 GB, store: on_eviction, block_size: 32}'
says "is that of the tier above"
tiers '{name: cpu, capacity: 1 GB, shared: cluster}'
says "cannot be shared by the cluster"
tiers '{name: disk, capacity: 1 GB}'
says "'disk'"
rejects 3 "$tandem" run "$example" --set policies.batcher.enable_prefix_caching=false --set \
  'policies.batcher.kv_connector.tiers=[{name: cpu, capacity: 1 GB, store: on_eviction}]'
says "needs 'enable_prefix_caching: true'"
rejects 3 "$tandem" run "$example" --set 'policies.batcher.kv_connector={name: offloading}'
says "'cpu_bytes_to_use' or 'tiers' is needed"

# CPU memory under SGLang's radix cache: what is found more, and figures of the link.
hicache=$TANDEM_SOURCE_DIR/experiments/examples/hicache.yaml
sglang() { "$tandem" run "$hicache" --set 'workload.duration=120 s' "$@" --format json; }
expect 0 sglang
cp out written.json
expect 0 sglang --set policies.batcher.kv_connector.tiers.0.store=on_eviction
cp out evicted.json
expect 0 sglang --set policies.batcher.kv_connector=null
python3 - <<'END' || fail 'figures of HiCache do not add up'
import json
none = json.load(open('out'))
for name in 'written', 'evicted':
    tier = json.load(open(name + '.json'))
    # A page is a token of Llama 3.1 8B, 128 KiB; all that is read is found.
    assert tier['cpu_read_bytes'] == 131072 * tier['cpu_hit_tokens'] > 0
    assert tier['cached_share'] > none['cached_share'] + 0.1 and tier['kv_load_s'] > 0
    assert tier['ttft_s']['mean'] < none['ttft_s']['mean'] and tier['cpu_written_bytes'] > 0
assert none['cpu_written_bytes'] == none['kv_loads'] == 0
END
connector() { rejects 3 "$tandem" run "$1" --set "policies.batcher.kv_connector=$2"; }
connector "$hicache" '{name: offloading, cpu_bytes_to_use: 1 GB}'
says "'kv_connector' of batcher 'sglang' has name: hicache"
connector "$example" '{name: hicache}'
says "name: hicache needs batcher 'sglang'"
connector "$hicache" '{name: hicache, hicache_ratio: 2, cpu_bytes_to_use: 1 GB}'
says "has one of 'cpu_bytes_to_use', 'hicache_ratio' and 'tiers'"
connector "$hicache" '{name: hicache, recompute: if_faster}'
says "hicache has neither 'kv_role' nor 'recompute'"
connector "$hicache" '{name: hicache, tiers: [{name: ssd, capacity: 1 GB}]}'
says "'tiers' of hicache has cpu, then ssd or remote or nothing"
connector "$hicache" '{name: hicache, tiers: [{name: cpu, capacity: 1 GB, policy: lfu}]}'
says "evicts the least recently used"
below='{name: ssd, capacity: 1 GB, store: on_eviction}'
connector "$hicache" "{name: hicache, tiers: [{name: cpu, capacity: 1 GB}, $below]}"
says "the tier under cpu of hicache gets what comes to cpu"
tiers '{name: cpu, capacity: 1 GB, store: write_through_selective}'
says "needs name: hicache"

finish
