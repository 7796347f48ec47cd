#!/bin/sh
# Every file of experiments/examples runs. Those of today's models and engines spend less than 5% of
# their time beyond what was measured; a new one is held to that unless it is named here.
. "$TANDEM_SOURCE_DIR/tests/cli_testing.sh"
shared=$source_dir/../shared # traces that are too large to ship
mkdir root
[ ! -d "$shared" ] || ln -s "$(cd "$shared" && pwd)" shared
cd root || exit 2

# of_today : the last command took times that an engine of today was measured to take.
of_today() {
  case $name in
  splitwise-* | seesaw | roofline-* | attention-ffn) ;; # a paper's, and facts that nobody measured
  *) says 'note: iteration times are those of ' ;;
  esac
}

# shares KEY : the numbers that JSON on stdout has under it, all below 0.05.
shares() {
  grep -o "\"$1\": [0-9][0-9.e-]*" out | sed 's/.* //' >shares
  [ -s shares ] || fail 'no share of time beyond what was measured'
  awk '$1 >= 0.05 { bad = 1 } END { exit bad }' shares ||
    fail "extrapolated: $(sort -g shares | tail -1)"
}

for config in "$source_dir"/experiments/examples/*.yaml; do
  name=$(basename "$config" .yaml)
  set --
  case $name in
  azure-week) set -- --set workload.requests=20000 ;; # of 44 million
  azure-*) [ -d ../shared/data/traces ] || continue ;;
  cpu) continue ;; # needs what 'tandem fit' made of this machine: tests/cli/validate.sh
  esac
  if grep -q '^provision:' "$config"; then
    expect 0 "$tandem" provision "$config" --format json
    of_today
    shares extrapolated
  elif grep -q '^sweep:' "$config"; then
    expect 0 "$tandem" sweep "$config" --output "$name.db"
    of_today
    expect 0 "$tandem" query "$name.db" --format json --sql \
      "SELECT value AS time_share FROM metric WHERE scope = 'extrapolated' AND name = 'time_share'"
    shares time_share
  else
    expect 0 "$tandem" run "$config" "$@" --format json
    of_today
    case $name in splitwise-*) ;; *) shares time_share ;; esac
  fi
done

finish
