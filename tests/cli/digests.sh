#!/bin/sh
# The same inputs give the same digest on any compiler, with and without coalescing: what the
# examples gave when they were last changed on purpose. A run that differs here differs somewhere;
# when it should, the new digest belongs in this table, with the reason in the commit.
. "$TANDEM_SOURCE_DIR/tests/cli_testing.sh"

check() {
  config=$source_dir/experiments/examples/$1.yaml
  digest=$2
  shift 2
  for way in '' --step --audit; do
    # shellcheck disable=SC2086 # no word when empty
    expect 0 "$tandem" run "$config" --set workload.requests=3000 "$@" $way --format json
    prints "\"digest\": \"$digest\""
  done
}

check quickstart c02b1da170656951
check splitwise-hh 56b0f3d224325072
check splitwise-sim e393204dd9242bf9
check quickstart 4b465e6a74885c5c --set policies.batcher=continuous \
  --set policies.transfer=serialized

finish
