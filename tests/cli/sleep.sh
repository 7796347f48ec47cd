#!/bin/sh
# Models that take turns on the same GPUs: the example, its figures, and what is refused.
. "$TANDEM_SOURCE_DIR/tests/cli_testing.sh"
example=$source_dir/experiments/examples/sleep.yaml
short='--set workload.duration=1800s'

expect 0 "$tandem" run "$example" $short
prints '1 instance on 1 GPU'
prints 'starts of 1.61 s'
digest=$(grep '^digest' out | cut -d' ' -f8)
[ -n "$digest" ] || fail 'no digest'
expect 0 "$tandem" run "$example" $short --step
grep -q "$digest" out || fail 'step by step something else happens'

expect 0 "$tandem" run "$example" $short --set sleep.level=2
prints 'starts of 4.79 s'
expect 0 "$tandem" run "$example" $short --set sleep.instances=2
prints '2 instances on 2 GPUs'
prints '1 starts of 810 ms, 0 stops'

refuses() {
  says=$1
  shift
  expect 3 "$tandem" run "$example" "$@"
  says "$says"
}
refuses "'sleep' cannot be used with a scaler" --set 'policies.scaler={name: target, queue: 2}'
refuses "'sleep' cannot be used with faults" --set 'pools.chat.faults={gpu: {}}'
refuses "'sleep' cannot be used with 'scaling' or 'spares'" --set 'pools.chat.scaling={max: 2}'
refuses "must have the same GPUs" --set pools.chat.tensor_parallel_size=2
refuses "2 instances begin awake, of at most 1" --set pools.code.count=1
refuses "level 2 of 'sleep' needs 'start_up.weights'" --set sleep.level=2 \
  --set pools.chat.start_up=null
sed 's/^cpu_memory_bytes: 2 TB/cpu_memory_bytes: 120 GB/' \
  "$source_dir/perfmodel/machines/dgx-h100.yaml" >small.yaml
refuses "take 16.38 GB of CPU memory, of which the GPUs of one instance have 15 GB" \
  --set pools.chat.machine="$work/small.yaml" --set pools.code.machine="$work/small.yaml"
finish
