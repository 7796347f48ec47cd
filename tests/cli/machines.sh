#!/bin/sh
# Instances on several machines: a pipeline over two nodes and experts over nine are run, planned,
# paid for and fail by machines, and what was not measured is named.
. "$TANDEM_SOURCE_DIR/tests/cli_testing.sh"

cat >two.yaml <<'END'
model: llama3.1-405b
engine: vllm-0.33
workload:
  lengths: {prompt: {constant: 2000}, output: {constant: 100}}
  arrivals: {process: poisson, rate: 0.5 /s}
  requests: 40
pools:
  serve:
    {machine: dgx-h100, tensor_parallel_size: 8, pipeline_parallel_size: 2, nnodes: 2, count: 2}
END
expect 0 "$tandem" run two.yaml
prints 'machines     2 instances on 32 GPUs: 4 dgx-h100 sold whole'
says "sends between stages of the links' peaks"

# Equal loads are of experts alone.
expect 3 "$tandem" run two.yaml --set pools.serve.enable_eplb=true
says "'enable_eplb' applies to whole experts over several machines"

# Without nnodes, and where the GPUs do not fill the machines.
expect 3 "$tandem" run two.yaml --set pools.serve.nnodes=1
says "exceeds the 8 GPUs of machine 'dgx-h100'"
says "hint: 'nnodes: 2' places each instance on 2 machines"
expect 3 "$tandem" run two.yaml --set pools.serve.nnodes=3
says 'do not fill 3 machines evenly'
expect 3 "$tandem" run two.yaml --set pools.serve.nnodes=1 \
  --set pools.serve.pipeline_parallel_size=1
says 'hint: tensor_parallel_size 8, pipeline_parallel_size 2 and nnodes 2 fit: 2 machines'

# Instances on two machines fail about twice as often as those on one.
failures() {
  "$tandem" run two.yaml --set workload.requests=2000 --set "pools.serve.nnodes=$1" \
    --set "pools.serve.pipeline_parallel_size=2" --set "pools.serve.tensor_parallel_size=$2" \
    --set 'model={name: llama3.1-405b, quantization: fp8}' --format csv \
    --set 'pools.serve.faults={machine: {mtbf: 400 s, mttr: 1 s, distribution: constant}}' \
    >out 2>err
  figure run failures value
}
on_two=$(failures 2 8) on_one=$(failures 1 4)
[ "$on_two" -gt $((3 * on_one / 2)) ] && [ "$on_one" -gt 3 ] ||
  fail "$on_two failures of instances on two machines, $on_one of those on halves of one"

# A model that fits on no machine is planned on several.
expect 0 "$tandem" plan --model llama3.1-405b --gpu h100 --isl 2000 --osl 300 --rate 1 \
  --slo 'ttft.p90<5s,tpot.p90<200ms'
prints 'the weights do not fit with tp2, tp4, tp8'
prints 'tp8-pp2'
prints '--nnodes 2'

# Experts over machines: loads that are equal take less of a prompt.
wide() {
  expect 0 "$tandem" run "$source_dir/experiments/examples/wide-ep.yaml" --format csv \
    --set workload.duration='10 s' --set "pools.prefill.enable_eplb=$1"
  says 'dispatch of prompts over 4 machines of sglang-0.5.6.post2'
  says 'combine of decodes over 8 machines of sglang-0.5.6.post2'
  ttft=$(figure run ttft_s mean)
  [ -n "$ttft" ] || fail 'no mean TTFT'
}
wide false
skewed=$ttft
wide true
awk "BEGIN { exit !($ttft < 0.9 * $skewed) }" || fail "TTFT $ttft with equal loads, $skewed without"

finish
