#!/bin/sh
# Engines: what there is, what `run` says they gave, that sweeps and studies vary them, and what is
# refused where.
. "$TANDEM_SOURCE_DIR/tests/cli_testing.sh"

expect 0 "$tandem" list engines
prints 'vllm-0.5.4'
prints 'max_num_batched_tokens  512'
prints 'max_num_batched_tokens  2048, or the model'

config >good.yaml
expect 0 "$tandem" run good.yaml --check
[ "$(grep -c note: err)" -eq 0 ] || fail 'a note where no engine gives anything'
expect 0 "$tandem" run good.yaml --check --set engine=vllm-0.5.4 --set pools.all.block_size=32
says "note: pool 'all', GPUs h100-80gb of 80 GiB: vllm-0.5.4 gives batcher sarathi, max_num_batched"
says 'max_num_batched_tokens 512, max_num_seqs 256, gpu_memory_utilization 0.9'
! grep -q block_size err || fail 'what is written is said to be given'

rejects 3 "$tandem" run good.yaml --set engine=vllm-0.54
says "--set:1:8: error: unknown engine 'vllm-0.54'"
says "hint: did you mean 'vllm-0.5.4'?"
sed 's/count: 2/engine: vlm-2023/' good.yaml >bad.yaml
rejects 3 "$tandem" run bad.yaml
says "bad.yaml:7:49: error: unknown engine 'vlm-2023'"
# What the engine's batcher refuses is said once, where it stands.
sed 's/router: jsq/batcher: {max_num_seq: 3}/; s/^slo.*/engine: vllm-0.5.4/' good.yaml >bad.yaml
rejects 3 "$tandem" run bad.yaml
says "bad.yaml:9:13: error: unknown key 'max_num_seq'"
[ "$(grep -c error: err)" -eq 1 ] || fail 'more than one error'

# An axis of a sweep, and a design of a study.
{ cat good.yaml; echo 'sweep: {engine: [none, vllm-0.5.4, vllm-2023]}'; } >sweep.yaml
expect 0 "$tandem" sweep sweep.yaml --output sweep.db
expect 0 "$tandem" query sweep.db points --format csv
[ "$(grep -c 'vllm-\|none' out)" -eq 3 ] || fail 'three points'
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
