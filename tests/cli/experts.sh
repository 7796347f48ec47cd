#!/bin/sh
# Loads of experts and EPLB: what the keys mean together, a file of loads, and what is gained.
. "$TANDEM_SOURCE_DIR/tests/cli_testing.sh"
study=$source_dir/experiments/eplb/eplb.yaml
sed '/^sweep:/,$d' "$study" >run.yaml
ask() { "$tandem" run run.yaml --set workload.duration='20 s' "$@"; }

# Strong skew: by EPLB the busiest GPU has less, and prompts are faster; copies take KV memory.
of_run() { figure run "$1" "${2-value}"; }
expect 0 ask --format csv
even=$(of_run expert_imbalance) fast=$(of_run ttft_s mean)
[ "$(of_run rearrangements)" -gt 1 ] || fail 'nothing was rearranged'
expect 0 ask --format csv --set pools.prefill.eplb_config.step_interval=0 \
  --set pools.decode.eplb_config.step_interval=0
awk "BEGIN { exit !($even < 0.8 * $(of_run expert_imbalance) && $fast < $(of_run ttft_s mean)) }" ||
  fail "nothing gained: $even, $fast"
[ "$(of_run rearrangements)" = 0 ] || fail 'experts moved'

# Two batches that overlap, where all ranks have prompts: these are faster.
for overlaps in false true; do
  expect 0 "$tandem" run run.yaml --format csv --set workload.duration='5 s' \
    --set workload.arrivals.rate='300 /s' --set pools.prefill.two_batch_overlap=$overlaps
  [ $overlaps = true ] || slow=$(of_run ttft_s mean)
done
awk "BEGIN { exit !($(of_run ttft_s mean) < 0.9 * $slow) }" || fail 'nothing is hidden'

# Equal loads of a file, and no copies: nobody is busier than others.
awk 'BEGIN { print "layer,expert,tokens"; for (i = 0; i < 256; i++) print "0," i ",7" }' >loads.csv
cat >one.yaml <<'END'
model: deepseek-r1
engine: vllm-0.33
workload:
  lengths: {prompt: {constant: 500}, output: {constant: 20}}
  arrivals: {process: poisson, rate: 10 /s}
  requests: 50
perfmodel: roofline
pools:
  serve:
    {machine: gb200-nvl72, attention_data_parallel_size: 32, tensor_parallel_size: 1,
     expert_parallel_size: 32, expert_load: {file: loads.csv}}
END
expect 0 "$tandem" run one.yaml --format csv
[ "$(of_run expert_imbalance)" = 1 ] || fail "equal loads have $(of_run expert_imbalance)"

refused() { # TEXT ARGUMENT...
  text=$1
  shift
  expect 3 "$tandem" run one.yaml --check "$@"
  says "$text"
}
refused "'eplb_config' needs 'enable_eplb: true'" --set 'pools.serve.eplb_config={use_async: true}'
refused '266 experts in a layer, copies included, cannot lie evenly on 32 GPUs' \
  --set pools.serve.enable_eplb=true --set pools.serve.eplb_config.num_redundant_experts=10
refused '3 groups do not divide the 256 experts' --set pools.serve.enable_eplb=true \
  --set pools.serve.eplb_config.num_expert_groups=3
refused "'expert_load' applies to whole experts on each GPU" \
  --set pools.serve.expert_parallel_size=8
refused 'do not tell by what loads of experts they are' --set perfmodel=vllm
refused "'two_batch_overlap' needs attention ranks" --set pools.serve.two_batch_overlap=true \
  --set pools.serve.attention_data_parallel_size=1 --set pools.serve.tensor_parallel_size=8 \
  --set pools.serve.expert_parallel_size=8
refused "iteration times of pool 'serve' do not tell communication apart" \
  --set pools.serve.two_batch_overlap=true
refused "'file' and 'exponent' exclude each other" --set pools.serve.expert_load.exponent=1
sed 3d loads.csv >fewer.csv
refused 'layer 0 must have a load for each of 256 experts' \
  --set pools.serve.expert_load.file=fewer.csv
sed '$s/.*/58,0,1/' loads.csv >more.csv
refused 'the model has 58 layers of 256 experts' --set pools.serve.expert_load.file=more.csv

# A rank of one instance fails and comes back: the others go on after a pause, and serve all.
cat >shrinks.yaml <<'END'
model: deepseek-r1
engine: sglang-0.5
workload:
  lengths: {prompt: {constant: 1000}, output: {constant: 50}}
  arrivals: {process: poisson, rate: 20 /s}
  duration: 20 s
perfmodel: roofline
faults: {detection: 5 s}
pools:
  serve:
    machine: dgx-h100
    nnodes: 4
    tensor_parallel_size: 1
    attention_data_parallel_size: 32
    expert_parallel_size: 32
    enable_eplb: true
    gpu_memory_utilization: 0.835
    expert_load: {exponent: 0.4}
    eplb_config: {num_redundant_experts: 32}
    faults:
      on_rank_failure: shrink
      schedule: [{at: 5 s, for: 8 s, machine: 0, rank: 3}]
END
expect 0 "$tandem" run shrinks.yaml --event-log events.csv --format csv
shrunk=$(of_run ttft_s p99)
grep -q '^5.000000000000,failure,,3,' events.csv || fail 'rank 3 does not fail'
[ "$(grep -c failure events.csv)" = 1 ] || fail 'others fail with it'
grep -q '^11.000000000000,detection,,3,' events.csv || fail 'the others do not go on after 6 s'
[ "$(of_run rearrangements)" = 2 ] || fail 'experts are not placed twice'
expect 0 "$tandem" run shrinks.yaml --format csv --set pools.serve.faults.on_rank_failure=stop \
  --set 'pools.serve.faults.schedule=[{at: 5 s, for: 10 s, machine: 0}]'
awk "BEGIN { exit !($shrunk < 0.8 * $(of_run ttft_s p99)) }" || fail "stopping is as good: $shrunk"

# As many of 32 as have places for 256 experts: with 9 on each, 29.
expect 0 "$tandem" run shrinks.yaml --set workload.duration='20 d' \
  --set workload.arrivals.rate='0.001 /s' \
  --set 'pools.serve.faults={on_rank_failure: shrink, gpu: {mtbf: 200 h, mttr: 4 h}}'
prints '(closed form 99.657%)'

refuses_shrinking() { # TEXT ARGUMENT...
  text=$1
  shift
  expect 3 "$tandem" run shrinks.yaml --check "$@"
  says "$text"
}
applies="'on_rank_failure: shrink' applies to attention ranks that decide together"
refuses_shrinking "$applies" --set engine=vllm-0.33
refuses_shrinking 'maintenance is not combined with' \
  --set 'pools.serve.faults.schedule=[{at: 5 s, for: 4 s, machine: 0, kind: drain}]'
refuses_shrinking 'has the ranks 0 to 31' \
  --set 'pools.serve.faults.schedule=[{at: 5 s, for: 4 s, machine: 0, rank: 32}]'
refuses_shrinking "'rank' needs 'on_rank_failure: shrink'" \
  --set pools.serve.faults.on_rank_failure=stop

finish
