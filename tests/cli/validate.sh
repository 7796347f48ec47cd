#!/bin/sh
# `tandem validate` with the fake backend, whose noise is known: a model that was calibrated on it
# is off by that noise and no more, in percentiles and iterations; what is stored and refused.
. "$TANDEM_SOURCE_DIR/tests/cli_testing.sh"

cat >tiny.yaml <<'END'
num_hidden_layers: 4
hidden_size: 256
num_attention_heads: 8
num_key_value_heads: 2
intermediate_size: 688
vocab_size: 1024
max_position_embeddings: 16384
gated_mlp: true
END
# A machine with the GPU of the fake.
cat >fake-gpus.yaml <<'END'
gpu: fake-gpu
sm: 80
num_gpus: 8
gpu_memory_bytes: 80 GiB
dense_bf16_flops: 500e12
hbm_bandwidth: 1800 GB/s
nvlink_bandwidth: 300 GB/s
pcie_bandwidth: 25 GB/s
cpu_memory_bytes: 64 GiB
nic_bandwidth: 1 Gbps
gpu_tdp: 400 W
END
cat >a.yaml <<'END'
model: tiny.yaml
workload:
  lengths: {prompt: {uniform: [64, 1500]}, output: {uniform: [2, 40]}}
  arrivals: {process: poisson, rate: 1000 /s}
  requests: 300
  seed: 3
pools:
  all: {machine: fake-gpus.yaml, count: 2, tensor_parallel_size: 1, num_gpu_blocks_override: 4000}
policies: {batcher: mixed}
perfmodel: fake.yaml
END

# The model, from a fake without noise.
export TANDEM_FAKE='noise=0 outliers=0'
expect 0 "$tandem" calibrate --backend fake --model tiny.yaml \
  --only iteration,linear,prefill_attention,decode_attention,head -o fake.csv
expect 0 "$tandem" fit fake.csv -o fake.yaml

# Half of normal noise is within 0.67 of its deviation, and that of a median of three is 0.67 of it.
for noise in 0.01 0.05; do
  export TANDEM_FAKE="noise=$noise outliers=0"
  expect 0 "$tandem" validate a.yaml --backend fake --repeat 2 --format csv
  [ "$(head -n 1 out)" = 'scope,name,statistic,value,unit' ] || fail 'the header has changed'
  between 1000 iterations all n 1e6
  between 100 iterations prefill n 1e6
  between 10 iterations mixed n 1e6
  low=$(awk -v n=$noise 'BEGIN { print 0.38 * n }')
  high=$(awk -v n=$noise 'BEGIN { print 0.45 * n + 0.006 }')
  between "$low" iterations all median "$high"
  between "$low" iterations decode median "$high"
  between -0.01 iterations all total 0.01
  between -0.02 error e2e_s p50 0.02
  between -0.03 error ttft_s p50 0.03
  between "$(awk -v n=$noise 'BEGIN { print 0.5 * n }')" repeat iterations median \
    "$(awk -v n=$noise 'BEGIN { print 0.8 * n }')" # the difference of two is wider by a half
  between "$(awk -v n=$noise 'BEGIN { print 1.4 * n }')" replay iterations median \
    "$(awk -v n=$noise 'BEGIN { print 1.8 * n }')" # the range of three
done

# A device that is slower than its model by a half is seen to be, and one that becomes so meanwhile.
export TANDEM_FAKE='noise=0 outliers=0 step=0.5 after=800'
expect 1 "$tandem" validate a.yaml --backend fake
prints 'verdict      worthless: the same batches took +'
export TANDEM_FAKE='noise=0 outliers=0'
expect 0 "$tandem" validate a.yaml --backend fake
prints 'verdict      met: '
export TANDEM_FAKE='noise=0 outliers=0 step=0.5'
expect 1 "$tandem" validate a.yaml --backend fake
prints 'verdict      not met: '
expect 0 "$tandem" validate a.yaml --backend fake --within 50%
expect 1 "$tandem" validate a.yaml --backend fake --format csv
prints 'verdict,not met,within,0.1,'
between -0.37 iterations all bias -0.28
between -0.37 error tbt_s p50 -0.28

# The same seed gives the same figures, another one does not.
export TANDEM_FAKE='noise=0.02'
expect 0 "$tandem" validate a.yaml --backend fake --format json --seed 5
cp out first
expect 0 "$tandem" validate a.yaml --backend fake --format json --seed 5
cmp -s out first || fail 'not the same twice'
expect 0 "$tandem" validate a.yaml --backend fake --format json --seed 6
cmp -s out first && fail 'the seed changes nothing'
prints '"device": "Fake GPU"'
prints '"worst_batch": "'

# Tables, the database, rooflines, shards.
expect 0 "$tandem" validate a.yaml --backend fake --repeat 2 --output runs.db
prints 'tiny run by '"'fake'"' on Fake GPU, 300 requests'
prints 'ttft p99'
prints 'equal batches differ by'
expect 0 "$tandem" query runs.db --format csv --sql 'SELECT name FROM run ORDER BY id'
prints 'a.yaml (predicted)'
prints 'a.yaml (measured by fake on Fake GPU)'
expect 0 "$tandem" query runs.db --format csv --sql \
  "SELECT count(*) || ' runs, ' || count(DISTINCT config_digest) FROM run"
prints '3 runs, 3'
expect 0 "$tandem" run a.yaml --output runs.db # the prediction is the run
expect 0 "$tandem" query runs.db --format csv --sql \
  "SELECT 'same ' || (a.digest = b.digest AND a.config_digest = b.config_digest)
   FROM run a, run b WHERE a.id = 1 AND b.id = 4"
prints 'same 1'
expect 0 "$tandem" validate a.yaml --backend fake --set perfmodel=roofline \
  --set pools.all.tensor_parallel_size=2 --within 10000%
says 'one shard of 2 was run, without all-reduces'
expect 0 "$tandem" validate --help
prints 'usage: tandem validate CONFIG'

# Another device than the machine's or the model's.
rejects 3 "$tandem" validate a.yaml --backend fake --set pools.all.machine=dgx-h100
says "the times of 'fake.yaml' belong to another setup: GPU fake-gpu for h100-80gb"
insisted='perfmodel={name: fake.yaml, insist: true}'
rejects 3 "$tandem" validate a.yaml --backend fake --set pools.all.machine=dgx-h100 \
  --set "$insisted"
says "the GPU of 'dgx-h100' is 'h100-80gb', but the device of 'fake' is 'Fake GPU', a 'fake-gpu'"
says "'--any-device' runs nevertheless"
expect 0 "$tandem" validate a.yaml --backend fake --set pools.all.machine=dgx-h100 --any-device \
  --set "$insisted"
says "note: iteration times are those of fake.yaml, GPU fake-gpu for h100-80gb"
sed 's/^gpu: .*/gpu: h100-80gb/' fake.yaml >h100.yaml
rejects 3 "$tandem" validate a.yaml --backend fake --set 'perfmodel={name: h100.yaml, insist: true}'
says "the GPU of the model 'tiny_h100-80gb_tp1' is 'h100-80gb'"
sed 's/^gpu: .*/gpu: fake-cpu/; s/Fake GPU/An older processor/' fake.yaml >older.yaml
sed 's/^gpu: .*/gpu: fake-cpu/' fake-gpus.yaml >fake-cpus.yaml
rejects 3 "$tandem" validate a.yaml --backend fake --device 1 --set perfmodel=older.yaml \
  --set pools.all.machine=fake-cpus.yaml
says "is for the processor 'An older processor', but the device of 'fake' is 'Fake processor'"

# What is refused.
rejects 2 "$tandem" validate a.yaml
says "'--backend NAME' or '--against LOG' is missing"
rejects 2 "$tandem" validate a.yaml --backend fake --repeat 0
rejects 3 "$tandem" validate a.yaml --backend fak
says "did you mean 'fake'"
rejects 4 "$tandem" validate absent.yaml --backend fake
rejects 3 "$tandem" validate a.yaml --backend fake --attention cudn
says "did you mean 'cudnn'?"
rejects 3 "$tandem" validate a.yaml --backend fake --dtype int8
rejects 3 "$tandem" validate a.yaml --backend fake \
  --set 'pools.b={machine: fake-gpus.yaml, tensor_parallel_size: 2}' --set perfmodel=roofline
says 'a device runs one shard'
rejects 3 "$tandem" validate a.yaml --backend fake \
  --set 'pools.b={machine: fake-gpus.yaml, tensor_parallel_size: 1, block_size: 32}'
says 'a device has one block size, but'
rejects 3 "$tandem" validate a.yaml --backend fake --set model=llama2-70b --set perfmodel=roofline
says 'tensor_parallel_size'
for batcher in tetriinfer '{name: continuous, pad_prefills: true}' \
  '{name: request_level, padded: true}'; do
  rejects 3 "$tandem" validate a.yaml --backend fake --set "policies.batcher=$batcher" \
    --set 'workload.arrivals={process: at_once}'
  says 'a batch is padded'
done
rejects 4 "$tandem" validate a.yaml --backend fake --device 9
rejects 4 "$tandem" validate a.yaml --backend fake --device 2
says 'compute capability 7.0'
rejects 4 "$tandem" validate a.yaml --backend fake --output nowhere/runs.db
TANDEM_FAKE='fail=900' rejects 4 "$tandem" validate a.yaml --backend fake
says 'running the batch'
TANDEM_FAKE='oom=300' rejects 4 "$tandem" validate a.yaml --backend fake
says 'num_gpu_blocks_override'
TANDEM_FAKE='no-driver' rejects 4 "$tandem" validate a.yaml --backend fake
rejects 4 "$(without_backends)" validate a.yaml --backend cuda
says "there is no 'tandem-calib-cuda'"
rejects 4 "$tandem" validate a.yaml --backend ./none
says './none: error: cannot start the backend'
finish
