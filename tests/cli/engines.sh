#!/bin/sh
# Engines: what there is, what `run` says they gave, that sweeps and studies vary them, and what is
# refused where.
. "$TANDEM_SOURCE_DIR/tests/cli_testing.sh"

expect 0 "$tandem" list engines
prints 'max_num_batched_tokens  16384 from 160 GiB of GPU memory, 8192 from 70 GiB but not a100,'
prints 'max_num_batched_tokens  512'
prints 'max_num_batched_tokens  2048, or the model'

config >good.yaml
expect 0 "$tandem" run good.yaml --check
[ "$(grep -c note: err)" -eq 0 ] || fail 'a note where no engine gives anything'
expect 0 "$tandem" run good.yaml --check --set engine=vllm-0.5.4 --set pools.all.block_size=32
says "note: pool 'all', GPUs h100-80gb of 80 GiB: vllm-0.5.4 gives batcher sarathi, max_num_batched"
says 'max_num_batched_tokens 512, max_num_seqs 256, gpu_memory_utilization 0.9'
! grep -q block_size err || fail 'what is written is said to be given'

rejects 3 "$tandem" run good.yaml --set engine=vlm-0.5.4
says "--set:1:8: error: unknown engine 'vlm-0.5.4'"
says "hint: did you mean 'vllm-0.5.4'?"
sed 's/count: 2/engine: vlm-2023/' good.yaml >bad.yaml
rejects 3 "$tandem" run bad.yaml
says "bad.yaml:7:49: error: unknown engine 'vlm-2023'"
# What the engine's batcher refuses is said once, where it stands.
sed 's/router: jsq/batcher: {max_num_seq: 3}/; s/^slo.*/engine: vllm-0.5.4/' good.yaml >bad.yaml
rejects 3 "$tandem" run bad.yaml
says "bad.yaml:9:13: error: unknown key 'max_num_seq'"
[ "$(grep -c error: err)" -eq 1 ] || fail 'more than one error'

# Nothing is swapped by vLLM of 2026: the file says where, whoever has the tier.
sed 's/router: jsq/kvtier: swap/; s/^slo.*/engine: vllm-0.33/' good.yaml >bad.yaml
rejects 3 "$tandem" run bad.yaml
says \
  "bad.yaml:9:11: error: engine 'vllm-0.33' cannot be used with kvtier 'swap'"
says "hint: set 'kvtier: recompute', or choose an engine that swaps: vllm-0.5.4, vllm-2023"
expect 0 "$tandem" run bad.yaml --check --set engine=vllm-0.5.4
expect 0 "$tandem" run good.yaml --set engine=vllm-0.33 --format json
says 'max_num_batched_tokens 8192, max_num_seqs 1024, gpu_memory_utilization 0.92'
expect 0 "$tandem" run good.yaml --check --set engine=vllm-0.33 --set pools.all.machine=dgx-a100
says 'max_num_batched_tokens 2048, max_num_seqs 256, gpu_memory_utilization 0.92'

# Host time by the source of the kernels: added to sums of tables, not to a roofline nor to whole
# iterations, and named where it was fitted on another GPU.
host='--set engine=vllm-0.12 --set perfmodel.engine=vllm --set model=llama3.1-8b --set slo=none'
# shellcheck disable=SC2086 # words
expect 0 "$tandem" run good.yaml --check $host --set pools.all.tensor_parallel_size=1
says 'block_size 16, iteration_time 800 us, sequence_time 30 us, request_time 40 ms'
! grep -q 'host time of' err || fail 'fitted on this GPU'
# shellcheck disable=SC2086 # words
expect 0 "$tandem" run good.yaml --check $host --set pools.all.tensor_parallel_size=1 \
  --set pools.all.machine=dgx-a100
says 'host time of vllm-0.12 fitted on public kernels of h100-80gb'
expect 0 "$tandem" run good.yaml --check --set engine=vllm-0.12 --set perfmodel=roofline
says 'block_size 16, request_time 40 ms'

# Tables of Tandem's own kernels, with what engines add to these.
own='--set perfmodel.engine=tandem --set model=llama3.1-8b --set pools.all.tensor_parallel_size=1
     --set slo=none'
# shellcheck disable=SC2086 # words
expect 0 "$tandem" run good.yaml --check --set engine=vllm-0.12 $own
says 'iteration_time 800 us, layer_time 19 us, request_time 40 ms'
says 'iteration times are those of tandem-2026.11.26/llama3.1-8b_h100-80gb_tp1_bf16'
! grep -q 'host time of' err || fail 'fitted on this GPU, with these kernels'
# shellcheck disable=SC2086 # words
expect 0 "$tandem" run good.yaml --check --set engine=vllm-0.33 $own
says 'host time of vllm-0.24 fitted on tandem kernels of h100-80gb'
# shellcheck disable=SC2086 # words
expect 0 "$tandem" run good.yaml --check --set engine=sglang-0.5 $own
says 'without what sglang-0.5 adds to them: it was not fitted'

# An axis of a sweep, and a design of a study.
{ cat good.yaml; echo 'sweep: {engine: [none, vllm-0.33, vllm-0.5.4, vllm-2023]}'; } >sweep.yaml
expect 0 "$tandem" sweep sweep.yaml --output sweep.db
expect 0 "$tandem" query sweep.db points --format csv
[ "$(grep -c 'vllm-\|none' out)" -eq 4 ] || fail 'four points'
sed '/^slo/d' good.yaml >study.yaml
cat >>study.yaml <<'END'
slo: {e2e.p99: 60 s}
provision:
  objective: machines
  constraint: {rate: 4 /s}
  designs:
    chunked: {engine: vllm-0.5.4, pools.all.count: 1..2}
    whole: {pools.all.engine: vllm-2023, pools.all.count: 1..2}
END
expect 0 "$tandem" provision study.yaml
prints chunked
prints whole
finish
