#!/bin/sh
# What is wrong with a configuration is said where it stands, all of it at once, with exit code 3
# and an empty stdout. The wording of libyaml's own messages is not pinned.
. "$TANDEM_SOURCE_DIR/tests/cli_testing.sh"

# broken SED-SCRIPT TEXT... : the configuration, edited, is refused with each text on stderr.
broken() {
  config | sed "$1" >bad.yaml
  shift
  rejects 3 "$tandem" run bad.yaml
  for text; do says "$text"; done
}

config >good.yaml
expect 0 "$tandem" run good.yaml --check
[ ! -s out ] || fail '--check prints data'

# The form of a message: place, line, caret, hint.
broken 's/router: jsq/router: jsqq/' "bad.yaml:9:11: error: unknown router 'jsqq'" \
  '   9 |     router: jsqq' '     |             ^~~~' "  hint: did you mean 'jsq'?"

# YAML itself.
broken '1s/^/\t/' 'bad.yaml:1:1: error:' 'tab'
broken '10s/$/\nslo: none/' "bad.yaml:11:1: error: duplicate key 'slo'"
broken '10s/.*/slo: *other/' 'bad.yaml:10:6: error:' 'alias'
broken '10s/.*/slo: \&name splitwise/' 'bad.yaml:10:6: error:' 'anchor'
broken '10s/.*/slo: [splitwise/' 'bad.yaml:' 'error:'
: >empty.yaml
rejects 3 "$tandem" run empty.yaml
says "empty.yaml: error: 'empty.yaml' is empty"
rejects 4 "$tandem" run absent.yaml
says "absent.yaml: error: cannot open 'absent.yaml'"

# Keys and values.
broken 's/^slo/slos/' "bad.yaml:10:1: error: unknown key 'slos'" "did you mean 'slo'?"
broken '1d' "error: missing key 'model'"
broken 's/count: 2/cuont: 2/' "bad.yaml:7:41: error: unknown key 'cuont'" "did you mean 'count'?"
broken 's/count: 2/count: two/' "bad.yaml:7:48: error: 'count' must be a whole number"
broken 's/count: 2/count: 2.5/' "error: 'count' must be a whole number"
broken 's/count: 2/count: "2"/' "remove the quotes"
broken 's/count: 2/cpu_memory: 3 TB/' \
  "bad.yaml:7:53: error: a cpu_memory of 3 TB exceeds the 2 TB of machine 'dgx-h100'"
broken 's/count: 2/cpu_memory: 1 kB/' \
  "error: a cpu_memory of 1 kB is less than one block of KV, 5 MiB"
broken 's/count: 2/cpu_memory: 12/' "error: 'cpu_memory' must be"
broken 's/router: jsq/batcher: request_level\n  kvtier: swap/' \
  "the batcher does not support a kvtier that swaps requests out"
broken 's/count: 2/count: 0/' "bad.yaml:7:48: error: pool 'all' has no instances" \
  "hint: 'count' may be 0 with scaling: {min: 0}"
broken 's/count: 2/count: -1/' "error: 'count' must be from 0"
broken 's/count: 2/gpu_memory_utilization: 1.5/' \
  "error: 'gpu_memory_utilization' must be from 0.01 to 1"
broken 's/role: mixed/role: both/' "bad.yaml:7:15: error: unknown role 'both'"
broken 's,4 /s,4 s,' "bad.yaml:4:36: error: 'rate' must be"
broken 's,4 /s,4,' "error: 'rate' must be"
broken 's,4 /s,-4 /s,' "error: 'rate' must be"
broken '9s/$/\nnetwork: {bandwidth: 200 GB}/' "bad.yaml:10:22: error: 'bandwidth' must be"
broken '9s/$/\nnetwork: {latency: -1 us}/' "error: 'latency' must be"
broken '9s/$/\nnetwork: {path: nvlnk}/' "unknown path 'nvlnk'" "did you mean 'nvlink'?"
broken 's/dgx-h100/l4-x8/; 9s/$/\nnetwork: {path: nvlink}/' \
  "bad.yaml:7:31: error: machine 'l4-x8' has no NVLink, which 'path' of the network needs"
broken 's/router: jsq/predictor: {name: buckets, granularity: 150}/' \
  "bad.yaml:9:43: error: no accuracy is known for a 'granularity' of 150: set 'accuracy'" \
  'hint: the accuracies for 100, 200 and 400 tokens are known'
broken 's/router: jsq/predictor: {name: buckets, confusion: [[1, 0], [0.2, 0.7]]}/' \
  "bad.yaml:9:50: error: the shares of a row of 'confusion' must sum to 1, not 0.9"
broken 's/^pools:/pools: []\nother:/' "error: 'pools' must be a map" "unknown key 'other'"

# Names.
broken 's/llama2-70b/llama2-7b/' "bad.yaml:1:8: error: unknown model 'llama2-7b'" \
  "did you mean 'llama2-70b'?"
broken 's/dgx-h100/dgx-h10/' "bad.yaml:7:31: error: unknown machine 'dgx-h10'" 'did you mean'
broken 's/splitwise/splitwize/' "bad.yaml:10:6: error: unknown slo 'splitwize'"
broken 's/router: jsq/batcher: {name: mixd}/' "bad.yaml:9:19: error: unknown batcher 'mixd'"
broken 's/router: jsq/batcher: {name: mixed, max_num_seq: 4}/' \
  "bad.yaml:9:26: error: unknown key 'max_num_seq'" "did you mean 'max_num_seqs'?"
broken 's/router: jsq/batcher: {name: tetriinfer, chunk_size: 0}/' \
  "bad.yaml:9:43: error: 'chunk_size' must be from 1 to 1000000, not '0'"
broken 's/router: jsq/batcher: {name: tetriinfer, chunk: saturated}/' \
  "bad.yaml:9:38: error: unknown chunk 'saturated'" "did you mean 'saturation'?"
broken 's/router: jsq/roter: jsq/' "error: unknown key 'roter'" "did you mean 'router'?"
broken '9s/$/\nperfmodel: fited/' "bad.yaml:10:12: error: unknown performance model 'fited'" \
  "did you mean 'fitted'?"
broken 's/{prompt.*/azure-conv-2032/' "bad.yaml:3:12: error: unknown table of lengths"

# Limits.
broken 's/splitwise/{ttft.p99: 3}/' "bad.yaml:10:17: error: 'ttft.p99' must be a time"
broken 's/splitwise/{ttft.q9: 3 s}/' "bad.yaml:10:7: error: unknown statistic 'q9'"
broken 's/splitwise/{ttft: 3 s}/' "bad.yaml:10:7: error: 'ttft' needs a statistic"
broken 's/splitwise/{tfft.p99: 3 s}/' "bad.yaml:10:7: error: unknown limit 'tfft.p99'" \
  "did you mean 'ttft'?"
broken 's/splitwise/{slowdown: {queue.p99: 3}}/' "bad.yaml:10:18: error: unknown key 'queue.p99'"
broken 's/splitwise/{slowdown: {ttft.p99: 3 s}}/' "'ttft.p99' must be a number"
broken 's/splitwise/{name: splitwise, slowdown: {ttft.p99: 3}}/' \
  "'slowdown.ttft.p99' already has a limit"
broken 's/splitwise/{goodput: {ttft: 1 s}}/' "missing key 'share'"
broken 's/splitwise/{goodput: {share: 95%}}/' "'goodput' needs a limit"
broken 's/splitwise/{goodput: {share: 120%, ttft: 1 s}}/' "'share' must be from 1e-06 to 1"

# The control plane.
broken '9s/$/\nmonitor: {interval: 0 s}/' "bad.yaml:10:21: error: 'interval' must be from"
broken '9s/$/\nmonitor: {interval: 100}/' "bad.yaml:10:21: error: 'interval' must be a time"
broken '9s/$/\nmonitor: {report_delay: 1 s}/' \
  "bad.yaml:10:25: error: 'report_delay' applies to reports, and without an interval there are none"
broken 's/router: jsq/router: random/; 9s/$/\nmonitor: {report_interval: 1 s}/' \
  "bad.yaml:10:28: error: 'report_interval' applies to routers that go by loads"
broken '9s/$/\nmonitor: {heavy_above: -1}/' "bad.yaml:10:24: error: 'heavy_above' must be"
broken 's/router: jsq/dispatcher: power_of_too/' "bad.yaml:9:15: error: unknown dispatcher" \
  "did you mean 'power_of_two'?"
broken 's/router: jsq/router: dynamo_kv/' \
  "error: router 'dynamo_kv' needs prefix caches, and no pool has one"
broken 's/router: jsq/router: taichi/' \
  "bad.yaml:9:11: error: router 'taichi' needs pools of role prefill and of role decode"
broken 's/router: jsq/router: {name: llm_d, interval: 0 s, delay: 1 s}/' \
  "error: 'delay' applies to reports, and without an interval there are none"
broken 's/router: jsq/router: {name: llm_d, delay: 6 s}/' \
  "error: 'delay' must be at most 100 intervals"
broken 's/router: jsq/dispatcher: {name: imbalance, heavy_machines: 0}/' \
  "error: 'heavy_machines' must be from 1"
broken 's/router: jsq/pool: {name: tetriinfer_flip, when: never}/' "error: unknown when 'never'"
broken 's/router: jsq/pool: {name: tetriinfer_flip, flip_time: -6 ms}/' \
  "error: 'flip_time' must be from 0"
prefill='p: {role: prefill, machine: dgx-h100, count: 2}'
decode='d: {role: decode, machine: dgx-h100}'
two_roles="7s/.*/  $prefill\\n  $decode/"
broken "$two_roles; s/router: jsq/pool: {name: tetriinfer_flip, min_decode: 4}/" \
  "bad.yaml:10:45: error: 'min_decode' exceeds the instances that prefill or decode, 3 in all"
broken "$two_roles; s/router: jsq/pool: {name: tetriinfer_flip, min_decode: 4, idle_for: 1}/" \
  "error: 'idle_for' must be a time"
broken 's/router: jsq/router: splitwise_sim_mixed_pool\n  dispatcher: random/' \
  "bad.yaml:10:15: error: router 'splitwise_sim_mixed_pool' and dispatcher 'random'"
config | sed "$two_roles; s/router: jsq/pool: {name: tetriinfer_flip, min_decode: 3}/" >flip.yaml
expect 0 "$tandem" run flip.yaml --check

# Clients that wait.
broken '4d' "bad.yaml:3:3: error: missing key 'arrivals'" "or 'closed_loop', clients that wait"
loop='s/arrivals: .*/closed_loop: '
broken "$loop{clients: 0}/" "bad.yaml:4:26: error: 'clients' must be from 1"
broken "$loop{requests: 9}/" \
  "bad.yaml:4:17: error: 'requests' is also set in the workload: the two exclude each other" \
  "bad.yaml:4:3: error: missing key 'clients'"
broken "$loop{clients: 4}/; 5d" "bad.yaml:4:16: error: the clients never stop"
broken '5s/.*/  closed_loop: {clients: 4, requests: 9, ramp: 1 s}/' \
  "bad.yaml:5:42: error: 'ramp' cannot be used with 'arrivals'"
broken '3,5d; 2s/$/\n  trace: a.csv\n  rate: 4 \/s\n  closed_loop: {clients: 4}/' \
  "bad.yaml:4:3: error: 'rate' cannot be used with 'closed_loop'" \
  'take the rows of the trace in order'

# Conversations.
turns='5s/.*/  duration: 9 s\n  sessions: '
broken '5s/$/\n  think_time: {constant: 5 s}/' \
  "bad.yaml:6:3: error: 'think_time' belongs in 'sessions'" \
  'for example sessions: {turns: {constant: 5}'
broken "$turns{think_time: {constant: 5}}/" "bad.yaml:6:3: error: missing key 'turns'"
broken "$turns{turns: 5, think_time: 2 s}/" \
  "bad.yaml:6:21: error: 'turns' must be a map with one distribution" \
  "bad.yaml:6:36: error: 'think_time' must be a map" 'for example {constant: 5 s}'
broken "$turns{turns: {constant: 0}, think_time: {constant: 5}}/" \
  "bad.yaml:6:32: error: 'constant' must be from 1" \
  "bad.yaml:6:59: error: 'constant' must be a time"
broken "$turns{turns: {constant: 2}, think_time: {lognormal: {mean: 1 s}}}/" \
  "bad.yaml:6:49: error: missing key 'sigma'"
broken "$turns{turns: {constant: 2}, think_time: {exponentail: {mean: 1 s}}}/" \
  "error: unknown distribution 'exponentail'" "did you mean 'exponential'?"
broken '5s/.*/  sessions: {turns: {constant: 2}}/' "bad.yaml:3:3: error: the arrivals never end" \
  "or set 'count' of the sessions"
broken '3,5d; 2s/$/\n  trace: a.csv\n  sessions: {turns: {constant: 2}}/' \
  "bad.yaml:4:3: error: 'sessions' cannot be used with 'trace'"

# Priorities.
two='priorities: {values: [{priority: 0, share: 1}, {priority: 1, share: 2}]}'
broken "5s/$/\\n  $two/" "bad.yaml:6:3: error: the batcher of no pool uses 'priorities'" \
  'set batcher: {name: vllm, policy: priority}'
broken "5s/$/\\n  $two/; s/router: jsq/batcher: vllm/" "the batcher of no pool uses 'priorities'"
config | sed "5s/$/\\n  $two/; s/router: jsq/batcher: {name: vllm, policy: priority}/" >urgent.yaml
expect 0 "$tandem" run urgent.yaml --check
broken '5s/$/\n  priorities: {values: []}/' \
  "bad.yaml:6:24: error: 'values' must be a list of 1 to 64 priorities" 'for example [{priority: 0'
broken '5s/$/\n  priorities: {values: [{priority: 1, share: 0}, {share: 1}]}/' \
  "bad.yaml:6:46: error: 'share' must be from" "bad.yaml:6:50: error: missing key 'priority'"

# What does not go together.
broken 's/role: mixed/role: prefill/' 'bad.yaml:6:1: error: no pool does decode' \
  "set 'role' of a pool to 'decode' or 'mixed'"
broken 's/role: mixed/role: decode/' 'error: no pool does prefill'
broken 's/count: 2/tensor_parallel_size: 1/' \
  "bad.yaml:7:63: error: model 'llama2-70b' does not fit with tensor_parallel_size 1" \
  'hint: tensor_parallel_size 2 fits'
broken 's/count: 2/num_gpu_blocks_override: 31/
        s/router: jsq/batcher: {name: tetriinfer, chunk_size: 500}/' \
  "bad.yaml:9:43: error: a chunk of 500 tokens exceeds the KV memory of pool 'all', 496 tokens"
broken 's/count: 2/num_gpu_blocks_override: 31, batcher: tetriinfer/' \
  "bad.yaml:7:70: error: a chunk of 512 tokens exceeds the KV memory of pool 'all', 496 tokens"
broken 's/count: 2/tensor_parallel_size: 16/' 'exceeds the 8 GPUs'
broken 's/count: 2/tensor_parallel_size: 3/' 'does not divide the heads'
broken 's/count: 2/num_gpu_blocks_override: 9, kv_cache_memory_bytes: 3 GB/' \
  "bad.yaml:7:69: error: 'kv_cache_memory_bytes' and 'num_gpu_blocks_override' exclude each other"
broken 's/count: 2/kv_cache_memory_bytes: 70 GB/' 'kv_cache_memory_bytes 70 GB exceeds the'
broken 's/count: 2/kv_cache_memory_bytes: 1 kB/' 'kv_cache_memory_bytes 1 kB is less than one block'
broken 's/llama2-70b/opt-13b/' "there are no iteration times of opt-13b_h100-80gb_tp8"

# Times that nobody measured: what there is nearest.
broken '9s/$/\nperfmodel: {engine: vlm}/' \
  "bad.yaml:10:21: error: there are no iteration times for an engine 'vlm'" "did you mean 'vllm'?"
broken '9s/$/\nperfmodel: {engine: nim}/' "'sglang', 'trtllm', 'vllm'"
broken '9s/$/\nperfmodel: {engine: vllm-0.24, version: 0.19}/' \
  "bad.yaml:10:21: error: 'vllm-0.24' includes a version: it and 'version' exclude each other"
broken '9s/$/\nperfmodel: {engine: vllm, version: new}/' "10:36: error: 'new' is not a version"
broken '9s/$/\nperfmodel: vllm-0.24.0/' \
  "'vllm-0.24.0' names an engine, not a set of performance models" \
  'hint: write perfmodel: {engine: vllm, version: 0.24.0}'
today='s/llama2-70b/llama3.1-70b/; 9s/$/\nperfmodel: {engine: vllm-0.24}/'
broken "$today; s/llama3.1-70b/{name: llama3.1-70b, quantization: int4}/" \
  'no iteration times of llama3.1-70b_h100-80gb_tp8_int4 for any version of vllm' \
  "no row has 'gemm_dtype' int4_wo" 'the values that were measured: '
broken "$today; s/dgx-h100/mi300x-x8/" 'no iteration times of llama3.1-70b_mi300x-192gb_tp8_bf16' \
  'kernels were measured on a100-80gb, b200-180gb, '

# All problems at once, of all blocks.
broken 's/llama2-70b/llama/; s/rate: 4/rte: 4/; s/count: 2/count: x/; s/jsq/jsqq/; s/splitwise/x/' \
  "unknown model 'llama'" "unknown key 'rte'" "'count' must be" "unknown router" "unknown slo"

# --set is checked like the file, and placed at itself.
rejects 3 "$tandem" run good.yaml --set pools.all.count=none
says "--set:1:17: error: 'count' must be a whole number"
rejects 3 "$tandem" run good.yaml --set pools.all.cont=3
says "--set:1:11: error: unknown key 'cont'"
rejects 3 "$tandem" run good.yaml --set pools
says "--set:1:1: error: 'pools' has no '='"

# Acceptance of drafts by component or class.
drafts() { "$tandem" run drafts.yaml --set "policies.batcher.speculative.acceptance=$1"; }
cat >drafts.yaml <<'END'
model: llama3.1-8b
engine: vllm-0.33
perfmodel: roofline
classes: {interactive: {priority: 0}}
workload:
  mix:
    - {name: chat, class: interactive, lengths: azure-conv-2023, requests: 5,
       arrivals: {process: at_once}}
    - {name: code, lengths: azure-code-2023, requests: 5, arrivals: {process: at_once}}
pools: {all: {machine: dgx-h100, tensor_parallel_size: 1}}
policies: {batcher: {speculative: {method: ngram, num_speculative_tokens: 2}}}
slo: none
END
expect 0 drafts '{interactive: 1.5, code: [0.9, 0.4]}'
rejects 3 drafts '{chat: 1.5}'
says "component 'code' has no 'acceptance': add it, or its class"
rejects 3 drafts '{chat: 1.5, cod: 2}'
says "error: there is no component or class 'cod'"
says "did you mean 'code'?"
rejects 3 drafts '{chat: 1.5, code: 4}'
says "--set:1:"
says "error: 'acceptance' must be from 1 to 3"
rejects 3 "$tandem" run drafts.yaml --set 'workload={lengths: azure-conv-2023, requests: 5,
  arrivals: {process: at_once}}' --set classes=null \
  --set 'policies.batcher.speculative.acceptance={chat: 2}'
says "'acceptance' by name applies to the components of a mix"

# Requests that go on elsewhere as they run.
# refused FILE PATH=VALUE... TEXT : FILE with these values is refused, and the error says so.
refused() {
  file=$1 options=
  shift
  while [ $# -gt 1 ]; do
    options="$options --set '$1'"
    shift
  done
  eval "rejects 3 \"\$tandem\" run \$file --check $options"
  says "error: $1"
}
cat >flow.yaml <<'END'
model: llama3.1-8b
workload: {lengths: azure-conv-2023, requests: 5, arrivals: {process: at_once}}
pools:
  p: {role: prefill, machine: dgx-h100, tensor_parallel_size: 1}
  d: {role: decode, machine: dgx-h100, tensor_parallel_size: 1, count: 2}
policies: {batcher: sarathi}
flow: {from: d, to: p}
perfmodel: roofline
slo: none
END
expect 0 "$tandem" run flow.yaml --check
for batcher in vllm sglang; do
  refused flow.yaml "policies.batcher=$batcher" "'flow' does not support batcher '$batcher'"
  says '  hint: these support it: continuous, mixed, sarathi'
done
refused flow.yaml pools.d.batcher=vllm "'flow' does not support batcher 'vllm'"
refused flow.yaml flow.from=q "there is no pool 'q'"
refused flow.yaml flow.to=d "'from' and 'to' must be two pools of one model"
refused flow.yaml flow.watermark=2 "'watermark' must be from 0.01 to 1"
refused flow.yaml pools.d.pipeline_parallel_size=2 "'flow' supports neither pipelines"
refused flow.yaml policies.kvtier=pie pools.d.cpu_memory=64GB pools.p.cpu_memory=64GB \
  "'flow' supports neither pipelines, attention ranks nor KV tiers that move KV"
refused flow.yaml 'faults={hedge: {after: 1 s}}' \
  "'flow' cannot be used with faults, hedging, checkpoints or groups"
refused flow.yaml policies.router=splitwise_sim_mixed_pool \
  "'flow' does not support router 'splitwise_sim_mixed_pool'"
refused flow.yaml policies.pool=tetriinfer_flip "'flow' cannot be used with a pool policy"

sed '/^flow/d; s/^policies.*/policies: {batcher: sarathi, predictor: oracle, router: dynaserve}/' \
  flow.yaml >cuts.yaml
expect 0 "$tandem" run cuts.yaml --check
refused cuts.yaml policies.predictor=none \
  "router 'dynaserve' goes by predicted outputs, and predictor 'none' predicts nothing"
says '  hint: policies.predictor may be oracle or buckets'
for batcher in vllm sglang tetriinfer splitwise; do
  refused cuts.yaml "policies.batcher=$batcher" \
    "router 'dynaserve' does not support batcher '$batcher'"
  says '  hint: these support it: continuous, mixed, sarathi'
done
refused cuts.yaml pools.d.pipeline_parallel_size=2 "router 'dynaserve' supports neither pipelines"
refused cuts.yaml 'pools.p.faults={gpu: {mtbf: 1 h, mttr: 1 min}}' \
  "router 'dynaserve' cannot be used with faults, hedging, checkpoints or groups"
refused cuts.yaml policies.pool=tetriinfer_flip \
  "router 'dynaserve' cannot be used with a pool policy"
refused cuts.yaml policies.dispatcher=least_loaded \
  "router 'dynaserve' and dispatcher 'least_loaded' exclude each other"
refused cuts.yaml 'flow={from: d, to: p}' "'flow' does not support router 'dynaserve'"
refused cuts.yaml 'policies.router={name: dynaserve, cut: anywhere}' "unknown cut 'anywhere'"
finish
