#!/bin/sh
# What `tandem report claims` holds a figure against: the rules, by which the paper's statement
# alone says what is near enough, and that all figures of this repository have one; what is counted
# apart; both columns; and one setting of what papers leave out for all claims of a group.
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

# figure KEYS : a claim of one figure.
figure_claim() {
  printf 'claim: a\nwhere: b\nfigures:\n  - {what: a, value: 1, %s}\n' "$1" >paper/P-1.yaml
}
rule() { # PAPER RULE LOW,HIGH
  figure_claim "paper: \"$1\", rule: $2"
  expect 0 "$tandem" report claims ./paper --format csv
  found=$(tail -1 out | sed 's/"[^"]*"//g' | cut -d, -f7,8)
  [ "$found" = "$3" ] || fail "'$1' by '$2' is '$found', not '$3'"
}
rule 25 exact 25,25
rule yes exact 1,1
rule 'yes (1.67 times less)' exact 1,1
rule '9 / 4' exact 2.25,2.25
rule 5-7 exact 5,7
rule 0.5 digits 0.45,0.6
rule 1500 digits 1499.5,1501
rule 95% digits 0.945,0.96
rule -86.5% digits -0.866,-0.8645
rule 60-70% digits 0.595,0.71
rule '40 (a grid of 10)' digits 39.5,41
rule '<7%' bound ,0.07
rule 'below -9%' bound ,-0.09
rule 'up to 2.5' bound ,2.5
rule '>10' bound 10,
rule 'above 50% (mostly)' bound 0.5,
rule 'more than 95%' bound 0.95,
rule 'at least 3' bound 3,
rule 'near 1' near 0.95,1.05
rule '0% (on par)' near -0.05,0.05
# "Above 1" leaves 1 out, "at least 1" does not; the figure is 1.
for bound in 'above 1:outside' 'below 1:outside' 'at least 1:within' 'up to 1:within' \
  '<2:within'; do
  figure_claim "paper: '${bound%:*}', rule: bound"
  expect 0 "$tandem" report claims ./paper --format csv
  grep -q ",${bound#*:}," out || fail "1 is not ${bound#*:} by '${bound%:*}'"
done
broken() { # KEYS TEXT
  figure_claim "$1"
  rejects 3 "$tandem" report claims ./paper
  says "$2"
}
broken 'paper: many, rule: digits' "a rule needs a number in 'paper', not 'many'"
broken 'paper: <7%, rule: digits' \
  "words such as '<', 'above' or 'up to' need rule 'bound', and only they do"
broken 'paper: 7%, rule: bound' \
  "words such as '<', 'above' or 'up to' need rule 'bound', and only they do"
broken 'paper: 7, rule: nearly' "unknown rule 'nearly'"
broken 'paper: 1, rule: near, tolerance: 2' "'rule', 'tolerance' and 'range' exclude each other"

# No figure of a paper here has a tolerance or a range of its own, so none can fit its outcome.
shipped=$source_dir/experiments/papers
figures=$(cat "$shipped"/*/[A-Z]*-*.yaml | grep -c 'rule: ')
[ "$figures" -gt 250 ] || fail "only $figures figures that are judged"
! grep -nE '[{ ](tolerance|range): ' "$shipped"/*/[A-Z]*-*.yaml || fail 'a tolerance by no rule'

# What comes back is counted apart, and all by each column.
cat >paper/P-1.yaml <<'END'
claim: a
where: b
runs: {base: {tandem: {workload.requests: 20}}}
figures:
  - {what: turns, value: base.completed, paper: 40, rule: exact}
  - {what: never, value: base.completed, paper: 50, rule: exact}
  - {what: put in, value: base.completed, paper: 40, rule: exact, kind: input}
  - {what: written, value: 7, paper: 7, rule: exact, kind: formula}
  - {what: told, value: 7}
END
expect 0 "$tandem" report claims ./paper
prints 'within; tandem: outside by 50%'
prints 'outside by 20%'
prints 'within; tandem: outside by 50% (input)'
prints 'within (formula)'
prints 'by released: 1 within, 1 outside, 0 input-missing, 1 reported; '
prints '; inputs, formulas and fits: 2 within, 0 outside'
prints 'by tandem: 0 within, 2 outside, 0 input-missing, 1 reported; '
prints '; inputs, formulas and fits: 1 within, 1 outside'
prints 'one setting for each group: 1 of 2 predictions within; as configured: 1'
expect 0 "$tandem" report claims ./paper --format csv
grep -q '^P-1,a,turns,.*,prediction,within,outside,,0.5,,,$' out || fail 'not both verdicts'
grep -q '^P-1,a,put in,.*,input,within,outside,,0.5,,,$' out || fail 'not the kind'

# P-1 wants 10 requests, P-2 others; alone each gets them, as a group one setting only.
group() { # FILE GROUP REQUESTS
  cat >"paper/$1.yaml" <<END
claim: a
where: b
group: $2
runs: {base: {}}
figures:
  - {what: some, value: base.completed, paper: $3, rule: exact}
  - {what: as many, value: base.completed / $3, paper: 1, rule: exact}
sensitivity:
  - {why: how many, sweep: {workload.requests: [10, 20, 30]}}
END
}
group P-1 one 10
group P-2 two 20
expect 0 "$tandem" report claims ./paper
prints '  one: 0 of 2 predictions within; with workload.requests=10: 2'
prints '  two: 0 of 2 predictions within; with workload.requests=20: 2'
prints 'one setting for each group: 4 of 4 predictions within; as configured: 0'
group P-2 one 20
expect 0 "$tandem" report claims ./paper
prints '  one: 0 of 4 predictions within; with workload.requests=10: 2'
prints 'one setting for each group: 2 of 4 predictions within; as configured: 0'
# What is inside as it is has to be so at the setting as well: P-2 has its 40 requests.
group P-2 one 40
expect 0 "$tandem" report claims ./paper
prints 'one setting for each group: 2 of 4 predictions within; as configured: 2'
finish
