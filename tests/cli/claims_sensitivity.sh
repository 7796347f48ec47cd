#!/bin/sh
# What `tandem report claims` makes of inputs that a paper leaves out: the range of a figure that is
# outside and where in it the figure is inside, in the three formats; what is wrong with a block.
. "$TANDEM_SOURCE_DIR/tests/cli_testing.sh"

mkdir paper
cat >paper/paper.yaml <<'END'
title: A paper
released:
  config: base.yaml
tandem:
  config: base.yaml
END
config >paper/base.yaml
cat >paper/least.yaml <<'END'
provision:
  objective: machines
  constraint: {rate: 4 /s}
  designs:
    more: {pools.all.machine: dgx-a100, pools.all.count: 1..9}
    some: {pools.all.count: 1..20}
END

# claim SENSITIVITY... : requests completed are what it says there are, so that ranges are known.
claim() {
  cat <<'END'
claim: what it says
where: §1
runs:
  base: {}
  other: {}
  late: {columns: [tandem]}
studies:
  least: {study: least.yaml}
figures:
  - {what: some, value: base.completed, paper: 25, tolerance: 5}
  - {what: many, value: base.completed, paper: 1000, tolerance: 1, unit: s}
  - {what: ratio, value: base.completed / other.completed, paper: 50%, tolerance: 10%, unit: "%"}
  - {what: fine, value: base.completed, paper: 40, tolerance: 0}
  - {what: late, value: late.completed + 0 * base.completed, range: [8, 12]}
  - {what: ordered, value: base.completed < 40, range: [1, 1], unit: "yes"}
  - {what: told, value: base.completed}
  - {what: machines, value: least.some.machines, paper: 2, tolerance: 0.5}
END
  [ $# -eq 0 ] || echo 'sensitivity:'
  for entry; do echo "  - {$entry}"; done
}

# range FIGURE TEXT : what the CSV says of a figure's sensitivity.
range() {
  found=$(grep "^P-1,[^,]*,$1," out |
    sed 's/^\([^,]*,\)\{11\}//; s/,"measured, held-out.*//; s/"//g')
  [ "$found" = "$2" ] || fail "figure $1: '$found', not '$2'"
}

requests='why: how many there were, sweep: {workload.requests: 10..50 step 10}'
claim "$requests" >paper/P-1.yaml
expect 0 "$tandem" report claims ./paper --format csv
prints 'verdict,note,sensitivity'
range some 'over requests 10..50: 10..50, inside at 20..30'
range many 'over requests 10..50: 10..50 s, never inside'
range ratio 'over requests 10..50: 100%, never inside'
range fine ''
range late 'over requests 10..50: 10..50, inside at 10'
range ordered 'over requests 10..50: no..yes, inside at 10..30'
range told ''
range machines 'over requests 10..50: 1, never inside'
cp out first.csv
expect 0 "$tandem" report claims ./paper --format csv --jobs 1
cmp -s out first.csv || fail 'another number of threads gives other ranges'
expect 0 "$tandem" report claims ./paper
prints '    over requests 10..50: 10..50, inside at 20..30 (how many there were)'
expect 0 "$tandem" report claims ./paper --format json
prints '"sensitivity": [{"over": "requests 10..50", "why": "how many there were", '
prints '"low": 10, "high": 50, "inside": "20..30"}], "verdict": "outside"'
prints '"inside": ""}]'
prints '"sensitivity": [], "verdict": "within"'
expect 0 "$tandem" report claims ./paper --no-sensitivity
! grep -q over out || fail 'a sensitivity that was not wanted'

# Some sources only; some figures only; several axes, values that do not follow each other, named
# sets of values; what a study is told.
rates='{provision.constraint.rate: [5 /s, 20 /s, 40 /s]}'
claim "why: a, sources: [base], figures: [some, ratio], sweep: {workload.requests: [24, 16, 20]}" \
  'why: b, figures: [some], sweep: {workload.requests: [20, 50], pools.all.count: [1, 2]}' \
  'why: c, figures: [some], sweep: {size: {small: {workload.requests: 22}, large: {seed: 2}}}' \
  "why: d, sources: [least], sweep: $rates" >paper/P-1.yaml
expect 0 "$tandem" report claims ./paper --format csv
of_two='workload.requests=20 pools.all.count'
range some "over requests 24, 16, 20: 16..24, inside at 24, 20; \
over requests 20..50, count 1..2: 20..50, inside at $of_two=1, $of_two=2; \
over size small, large: 22..40, inside at small"
range ratio 'over requests 24, 16, 20: 40%..60%, inside at 24, 16, 20'
range machines 'over rate 5 /s..40 /s: 1..2, inside at 40 /s'

pair='workload.requests: [20, 50], pools.all.count: [1, 2]'
claim "why: a, figures: [some], sweep: {pair: {$pair}}" >paper/P-1.yaml
expect 0 "$tandem" report claims ./paper --format csv
range some 'over pair (20, 1), (50, 2): 20..50, inside at (20, 1)'

# A point whose input is not here has no value.
away='none: {workload: {trace: nowhere.csv}}'
claim "why: a, figures: [some], sweep: {trace: {$away, few: {workload.requests: 20}}}" \
  "why: b, figures: [many], sweep: {trace: {$away}}" >paper/P-1.yaml
expect 0 "$tandem" report claims ./paper --format csv
range some 'over trace none, few: 20, inside at few'
range many 'over trace none: no value, never inside'

# What is wrong with a block.
broken() { # TEXT SENSITIVITY
  claim "$2" >paper/P-1.yaml
  rejects 3 "$tandem" report claims ./paper
  says "$1"
}
broken "paper/P-1.yaml:19:24: error: the claim has no source 'bace'" \
  'why: a, sources: [bace], sweep: {seed: 1..2}'
says "did you mean 'base'?"
broken "paper/P-1.yaml:19:24: error: the claim has no figure 'sum'" \
  'why: a, figures: [sum], sweep: {seed: 1..2}'
broken "no source of figure 'told' is varied" \
  'why: a, sources: [other], figures: [told], sweep: {seed: 1..2}'
broken "'figures' must be a list of names" 'why: a, figures: some, sweep: {seed: 1..2}'
broken "missing key 'why'" 'sweep: {seed: 1..2}'
broken "missing key 'sweep'" 'why: a'
broken "unknown key 'sweeps'" 'why: a, sweeps: {seed: 1..2}'
broken "range '2..1' is empty" 'why: a, sweep: {seed: 2..1}'
broken "paper/P-1.yaml:19:22: error: unknown key 'sead'" 'why: a, sweep: {sead: 1..2}'
claim | sed 's/^figures:/sensitivity: none\nfigures:/' >paper/P-1.yaml
rejects 3 "$tandem" report claims ./paper
says "'sensitivity' must be a list"
finish
