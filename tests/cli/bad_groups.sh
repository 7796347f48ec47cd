#!/bin/sh
# What is wrong with GPUs that change their shape, and with degrees of parallelism, is said where it
# stands and with the numbers, with exit code 3.
. "$TANDEM_SOURCE_DIR/tests/cli_testing.sh"

cat >good.yaml <<'END'
model: codellama-34b
workload:
  {lengths: {prompt: {uniform: [300, 900]}, output: {constant: 20}}, requests: 20,
   arrivals: {process: at_once}}
pools:
  front: {role: prefill, machine: a10-x8, tensor_parallel_size: 1, pipeline_parallel_size: 8}
  back: {role: decode, machine: a10-x8, tensor_parallel_size: 8}
groups:
  gpus: {prefill: front, decode: back, cpu_memory: 40 GiB}
policies: {pool: seesaw, batcher: continuous}
perfmodel: {name: roofline}
END

# broken SED-SCRIPT TEXT... : the configuration, edited, is refused with each text on stderr.
broken() {
  sed "$1" good.yaml >bad.yaml
  shift
  rejects 3 "$tandem" run bad.yaml --check
  for text; do says "$text"; done
}

expect 0 "$tandem" run good.yaml --check
expect 0 "$tandem" run good.yaml --set groups.gpus.cpu_memory='160 GiB'
prints 'gpus'
! grep -q 'its store holds' out || fail 'a store that is large enough'
expect 0 "$tandem" run good.yaml --set groups.gpus.cpu_memory='5 GiB'
prints 'gpus: its store holds 0.0'

# Degrees that do not divide the model, or the machine.
broken 's/cpu_memory: 40 GiB/pinned_memory: 1 GiB/' \
  "'pinned_memory' needs 'shared_memory_bandwidth'"
broken 's/tensor_parallel_size: 8/tensor_parallel_size: 6/' \
  'bad.yaml:7:63: error: tensor_parallel_size 6 does not divide the heads' \
  '64 attention heads, 8 key-value'
broken 's/pipeline_parallel_size: 8/pipeline_parallel_size: 5/' \
  'pipeline_parallel_size 5 does not divide the 48 layers'
broken 's/tensor_parallel_size: 8/tensor_parallel_size: 16/' \
  "tensor_parallel_size 16 exceeds the 8 GPUs of machine 'a10-x8'"
broken 's/pipeline_parallel_size: 8/pipeline_parallel_size: 8, data_parallel_size: 2/' \
  'tensor_parallel_size 1 x pipeline_parallel_size 8 x data_parallel_size 2 exceeds the 8 GPUs'
broken 's/codellama-34b/bloom-176b/; s/size: 1, pipeline_parallel_size: 8/size: 4, '\
'pipeline_parallel_size: 2/' \
  "bad.yaml:6:65: error: model 'bloom-176b' does not fit with tensor_parallel_size 4 and pipeline" \
  "bad.yaml:7:63: error: model 'bloom-176b' does not fit with tensor_parallel_size 8: its 352.5 GB"

broken 's/pipeline_parallel_size: 8/pipeline_parallel_size: 8, num_gpu_blocks_override: 7/' \
  'bad.yaml:6:92: error: 7 blocks of KV memory are not enough for the 8 batches in the pipeline'

# Shapes that are not the same GPUs.
broken 's/pipeline_parallel_size: 8/pipeline_parallel_size: 4, data_parallel_size: 2/' \
  'bad.yaml:9:9: error: data_parallel_size is 2 in prefill and 1 in decode'
broken 's/pipeline_parallel_size: 8/pipeline_parallel_size: 4/' \
  'the same GPUs, not 4 in prefill and 8 in decode'
broken 's/back: {role: decode, machine: a10-x8/back: {role: decode, machine: a100-40gb-x8/' \
  "the pools of a group must be on one machine type, not on 'a10-x8' and 'a100-40gb-x8'"
broken '7s/}/, count: 2}/' "must have one 'count', not 1 and 2"
broken 's/prefill: front/prefill: back/' "bad.yaml:9:19: error: pool 'back' has the role 'decode'"
broken 's/prefill: front/prefill: side/' "there is no pool 'side'"
broken '9s/$/\n  more: {prefill: front, decode: back}/' "pool 'front' is in two groups" \
  "pool 'back' is in two groups"
broken '7s/$/\n  side: {role: mixed, machine: a10-x8, tensor_parallel_size: 8}/' \
  "pool 'side' is in no group"

# The store: 600 tokens of 192 KiB are more than 100 MB.
broken 's/40 GiB/50 MB/' "bad.yaml:9:52: error: a store of 50 MB holds 240 tokens of KV, but each" \
  'request has at least 300' 'hint: a token takes 196608 bytes, a block has 16 tokens'
broken 's/40 GiB/1 B/' 'holds 0 tokens'
broken 's/40 GiB/641 GiB/' \
  "bad.yaml:9:52: error: the stores of the group, 1 x 641 GiB, exceed the 640 GiB"
expect 0 "$tandem" run good.yaml --check --set groups.gpus.cpu_memory='60 MB'

# The link to it.
sed 's,^pcie_bandwidth.*,pcie_bandwidth: 10 B/s,' "$source_dir/perfmodel/machines/a10-x8.yaml" \
  >slow.yaml
broken 's/machine: a10-x8/machine: slow.yaml/' 'at most a day is supported'

# Policies and blocks that go together.
broken 's/pool: seesaw/pool: fixed/' "pool policy 'fixed' does not change the shape of groups" \
  "hint: choose 'seesaw': policies: {pool: seesaw}"
broken '/^groups/d; /^  gpus/d' "pool policy 'seesaw' needs 'groups'"
broken '/^groups/d; /^  gpus/d; s/pool: seesaw, //; 5s/^/timeline: {interval: 1 s}\n/' \
  "'timeline' applies to groups, and the configuration has none"
broken '5s/^/timeline: {interval: 0 s}\n/' "'interval' must be from 1 ms"
broken 's/batcher: continuous/batcher: splitwise_sim/' \
  'and the batcher has its own order'

# The link to the host: copies out of a shape and into it follow what its pool says of it, be it the
# same of both or not; and so do those of an indirect path.
digest=$(digest_of good.yaml)
config >indirect.yaml
sed -i 's/role: mixed/role: prefill/; s/^pools:/&\n  more: {role: decode, machine: dgx-h100}/' \
  indirect.yaml
echo 'network: {path: indirect}' >>indirect.yaml
indirect=$(digest_of indirect.yaml)
for key in 'efficiency: 0.5' 'half_size: 900 MB' 'to_gpu_bandwidth: 1 GB/s' \
  'background: [{from: 0 s, to: 9000 s, direction: both, share: 0.5}]'; do
  both=$(digest_of good.yaml --set "pools.front.host_link={$key}" \
    --set "pools.back.host_link={$key}")
  differs "$digest" "$both" "${key%%:*}"
  one=$(digest_of good.yaml --set "pools.back.host_link={$key}")
  differs "$digest" "$one" "${key%%:*} of one shape"
  differs "$indirect" "$(digest_of indirect.yaml --set "pools.more.host_link={$key}")" \
    "${key%%:*} on an indirect path"
done

# A prompt that no store can take is counted.
cat >trace.csv <<'END'
TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.68,200,4
2023-11-16 18:15:47.68,900,4
END
expect 0 "$tandem" run good.yaml --set workload='{trace: trace.csv}' \
  --set groups.gpus.cpu_memory='60 MB'
prints '1 completed, 1 rejected'
prints 'rejected     1 whose prompt the CPU store of a group cannot hold (304 tokens)'
finish
