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

check quickstart 2ff688f1737a4a7f
check splitwise-hh f0db265520c42f21
check splitwise-sim 859489aeea407c12
check roofline-gh200 9b91b4bf3c7a6b2b
check quickstart 983c0ab10de7196f --set policies.batcher=continuous \
  --set policies.transfer=serialized

finish
