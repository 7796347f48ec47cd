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

check quickstart 6336388c8bfd1133
check splitwise-hh 2649e036064c5c33
check splitwise-sim e393204dd9242bf9
check roofline-gh200 e1f2c22b3c4e1831
check quickstart 70f05d043e22956d --set policies.batcher=continuous \
  --set policies.transfer=serialized

finish
