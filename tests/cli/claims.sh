#!/bin/sh
# `tandem report claims` on a paper of its own: figures of runs, models and studies, both columns,
# every verdict, and what is wrong with a paper's files. That the papers in this repository can be
# read is shown by one of their claims that needs no run.
. "$TANDEM_SOURCE_DIR/tests/cli_testing.sh"

mkdir paper
cat >paper/paper.yaml <<'END'
title: A paper
released:
  config: base.yaml
  designs:
    twice: {pools.all.count: 4}
tandem:
  config: base.yaml
  designs:
    twice: {pools.all.count: 4, workload.requests: 20}
END
config >paper/base.yaml
cat >paper/batch.yaml <<'END'
provision:
  objective: throughput
  designs:
    most: {pools.all.count: 1..3}
    few: {pools.all.count: [1, 2]}
END
cat >paper/rates.yaml <<'END'
provision:
  objective: machines
  constraint: {rate: 4 /s}
  designs:
    any: {pools.all.count: 1..5}
    all: {design: twice}
END

# claim FIGURE... : writes paper/P-1.yaml with these, and the sources they may use.
claim() {
  cat <<'END'
claim: what it says
where: §1
runs:
  base: {}
  twice: {design: twice, set: {workload.lengths: {prompt: {constant: 400}, output: {constant: 20}}}}
  three: {set: {workload.arrivals: {process: at_once}, pools.all.count: 3}}
  late: {columns: [tandem], released: {seed: 7}}
  away: {set: {workload: {trace: nowhere.csv}}}
models:
  one: {}
studies:
  least: {study: rates.yaml}
  none: {study: rates.yaml, set: {slo: {ttft.p50: 1 ms}}}
  batch: {study: batch.yaml, set: {slo: none, workload.arrivals: {process: at_once}}}
figures:
END
  for figure; do echo "  - {$figure}"; done
}

# row FIGURE VERDICT RELEASED TANDEM : what the CSV says of a figure.
row() {
  found=$(grep "^P-1,[^,]*,$1," out | cut -d, -f5,6,10)
  [ "$found" = "$3,$4,$2" ] || fail "figure $1: '$found', not '$3,$4,$2'"
}

ordered='twice.ttft_s.p50 < base.ttft_s.p50 and one.prefill(400) < one.prefill(500)'
decodes='base.busy_share(400) + base.busy_share(1e9) - base.pool.all.busy_share(400)'
beside='"one.prefill_beside(400, 3, 400) / one.prefill(1600, 4)"'
idle='base.time_share(0) + base.pool.all.utilization - 1 < 1e-6 and '
idle=$idle'1 - base.time_share(0) - base.pool.all.utilization < 1e-6'
busy='base.pool.all.busy_s / base.duration_s / 2 - base.pool.all.utilization'
claim 'what: machines, value: twice.completed, paper: 40, tolerance: 0' \
  'what: off, value: twice.completed, paper: 41, tolerance: 1%' \
  'what: relative, value: twice.completed, paper: 41, tolerance: 3%' \
  'what: ranged, value: twice.completed / base.completed, range: [1, 1.2]' \
  'what: told, value: twice.completed - 40' \
  'what: nowhere, value: none.any.machines / none.any.machines, paper: 1, tolerance: 0' \
  'what: absent, value: away.completed, paper: 1, tolerance: 1' \
  'what: one column, value: late.completed, paper: 40, tolerance: 0' \
  "what: ordered, value: $ordered, paper: 'yes', range: [1, 1], unit: 'yes'" \
  "what: decodes, value: $decodes, range: [1, 1]" \
  "what: beside, value: $beside, range: [1, 1]" \
  "what: busy, value: $busy, paper: 0, tolerance: 1e-9" \
  'what: padding, value: base.pool.all.padding_tokens, paper: 0, tolerance: 0' \
  "what: idle, value: $idle, range: [1, 1]" \
  'what: searched, value: least.any.machines, paper: 1, tolerance: 0' \
  'what: measured, value: batch.most.throughput / three.throughput_rps, range: [1, 1]' \
  'what: tokens, value: batch.most.tokens / three.output_tokens_per_s, range: [1, 1]' \
  'what: chosen, value: 10 * batch.most.pools.all.count + batch.few.pools.all.count, paper: 32' \
  'what: filled, value: "fill(1760, 1540, 24.8)", paper: 8, tolerance: 0' \
  'what: expanded, value: "one.expansion(9, 2) * 7 / 9", paper: 1, tolerance: 0' \
  'what: senseless, value: "one.expansion(9, 8)", paper: 1, tolerance: 1' \
  'what: linked, value: one.link_share(64e6) > one.link_share(1e6), range: [1, 1]' >paper/P-1.yaml
expect 0 "$tandem" report claims ./paper --format csv
prints 'id,claim,figure,paper,released,tandem,low,high,unit,verdict,note'
row machines within 40 20
row off outside 40 20
row relative within 40 20
row ranged within 1 0.5
row told reported 0 -20
row absent input-missing '' ''
row nowhere outside '' ''
row 'one column' within '' 40
row ordered within 1 1
row decodes within 1 1
row beside within 1 1
row padding within 0 0
row idle within 1 1
row searched within 1 1
row measured within 1 1
row tokens within 1 1
row chosen reported 32 32
row filled within 8 8
row expanded within 1 1
row senseless outside '' ''
row linked within 1 1
cp out first.csv
expect 0 "$tandem" report claims ./paper --format csv --jobs 1
cmp -s out first.csv || fail 'another number of threads gives other figures'
measured='measured, held-out error up to [0-9.]*%'
[ "$(grep -c ",\"$measured\",0[0-9.]*,[a-z]*," out)" -gt 15 ] ||
  fail 'nothing on where times come from'
expect 0 "$tandem" report claims ./paper
grep -q '^  times (tandem): measured, held-out error up to [0-9.]*%' out ||
  fail 'nothing on where times come from'
prints '1 claims by released: 15 within, 3 outside, 1 input-missing, 2 reported'
prints '1 claims by tandem: '
prints "cannot read 'nowhere.csv'"
expect 0 "$tandem" report claims ./paper --format json
prints '"id": "P-1", "claim": "what it says", "figure": "off", "stated": "41", "released": 40'

# A column of measured times follows `tandem` where all is on its machine, with designs of its own.
cp -r paper three
cat >>three/paper.yaml <<'END'
h100:
  config: base.yaml
  machine: dgx-h100
  designs:
    twice: {pools.all.count: 4, workload.requests: 30}
END
cat >three/P-1.yaml <<'END'
claim: what it says
where: §1
runs:
  base: {columns: [tandem]}
  twice: {design: twice, tandem: {seed: 5}}
  other: {set: {pools.all.machine: dgx-a100}}
  first: {columns: [released]}
studies:
  least: {study: rates.yaml}
figures:
  - {what: follows, value: base.completed}
  - {what: design, value: twice.completed, paper: 20, rule: exact}
  - {what: machine, value: other.completed}
  - {what: not in tandem, value: first.completed}
  - {what: study, value: least.any.machines}
END
third() { # FIGURE TANDEM H100
  found=$(grep "^P-1,[^,]*,$1," out | cut -d, -f6,21)
  [ "$found" = "$2,$3" ] || fail "figure $1: '$found', not '$2,$3'"
}
expect 0 "$tandem" report claims ./three --format csv
prints 'by_tandem,miss_released,miss_tandem,h100,by_h100,miss_h100'
third follows 40 40
third design 20 30
third machine 40 ''
third 'not in tandem' '' ''
third study 1 1
expect 0 "$tandem" report claims ./three
prints '1 claims by h100: 0 within, 1 outside'
grep -q ' released       tandem         h100  within' out || fail 'no column h100'
sed -i 's/  machine: dgx-h100//' three/paper.yaml
rejects 3 "$tandem" report claims ./three
says "column 'h100' has a 'machine', and no other has"

# With seeds a figure is the mean of what it is on each; an ordering is the share of them.
seeded() { # SET FIGURE
  cat <<END
claim: what it says
where: §1
seeds: 3
runs:
  other: {columns: [tandem], set: $1}
figures:
  - {$2}
END
}
random='{workload.arrivals.process: poisson}'
seeded "$random" 'what: mean, value: other.ttft_s.mean' >paper/P-1.yaml
expect 0 "$tandem" report claims ./paper --format csv
mean=$(grep '^P-1' out | cut -d, -f6)
for seed in 1 2 3; do
  expect 0 "$tandem" run paper/base.yaml --set workload.arrivals.process=poisson --seed $seed \
    --format csv
  grep '^run,ttft_s,mean,' out | cut -d, -f4
done >means
awk -v mean="$mean" '{ sum += $1; if ($1 > mean) above++ }
  END { exit !(NR == 3 && above > 0 && above < 3 && (sum / 3 - mean) ^ 2 < 1e-18) }' means ||
  fail "the mean of $(paste -sd' ' means) is not $mean"
share=$(awk -v first="$(head -1 means)" '$1 > first { n++ } END { print n / 3 }' means)
seeded "$random" "what: share, value: other.ttft_s.mean > $(head -1 means)" >paper/P-1.yaml
expect 0 "$tandem" report claims ./paper --format csv
grep -q "^P-1,[^,]*,share,,,${share%????}" out || fail "no share of $share"
seeded '{seed: 7}' 'what: a, value: other.ttft_s.mean' >paper/P-1.yaml
rejects 3 "$tandem" report claims ./paper
says "'other' sets 'seed', so its claim can have one seed only"

# What is wrong with a claim.
broken() { # TEXT FIGURE
  claim "$2" >paper/P-1.yaml
  rejects 3 "$tandem" report claims ./paper
  says "$1"
}
broken "paper/P-1.yaml:16:22: error: unknown figure 'ttft'" 'what: a, value: base.ttft'
broken "is not a figure of a source" 'what: a, value: bose.completed'
broken "expected a number or a name at the end of '1 +'" 'what: a, value: 1 +'
broken "a tolerance needs a number in 'paper', not 'many'" \
  'what: a, value: 1, paper: many, tolerance: 2'
broken "'tolerance' must be a number such as 0.2 or 20%" \
  'what: a, value: 1, paper: 1, tolerance: some'
broken "'range' must be [low, high]" 'what: a, value: 1, range: [2, 1]'
broken "unknown key 'vaule'" 'what: a, vaule: 1'
broken "'prefill' takes 1 to 2 arguments, not 0" 'what: a, value: one.prefill'
broken "the study has no figure 'any.rats'; a figure is" 'what: a, value: least.any.rats'

# What is wrong with its sources, and with the folder.
source_broken() { # TEXT SED-SCRIPT
  claim 'what: a, value: 1' | sed "$2" >paper/P-1.yaml
  rejects 3 "$tandem" report claims ./paper
  says "$1"
}
source_broken "no design 'thrice' in column 'released'" 's/design: twice/design: thrice/'
source_broken "unknown key 'sets'" 's/set: {workload.l/sets: {workload.l/'
source_broken "'other' is not a column of this paper" 's/\[tandem\]/[other]/'
source_broken "paper/P-1.yaml:4:33: error: unknown router 'nobody'" \
  's/base: {}/base: {set: {policies.router: nobody}}/'
claim 'what: a, value: 1' >paper/P-1.yaml
rejects 3 "$tandem" report claims ./paper --only P-2
says "no claim P-2 in './paper'"
rejects 4 "$tandem" report claims nowhere
rejects 2 "$tandem" report clams
rejects 2 "$tandem" report claims --only P-1
rejects 2 "$tandem" report claims ./paper --jobs 0
expect 0 "$tandem" report claims splitwise --only SW-CFG
prints ', 0 outside, 0 input-missing, 0 reported; inputs, formulas and fits: 11 within, 0 outside'
expect 0 "$tandem" report claims tetriinfer
prints '18 claims by tandem: '
prints ' 0 input-missing, '
for id in TI-NET TI-FLIP; do
  expect 0 "$tandem" report claims tetriinfer --only "$id"
  prints ' within, 0 outside, 0 input-missing, '
done

for id in SE-T3 SE-F1 SE-F11n; do
  expect 0 "$tandem" report claims seesaw --only "$id"
  prints ' within, 0 outside, 0 input-missing, '
done

# The study that is in no paper.
expect 0 "$tandem" provision "$source_dir/experiments/papers/tetriinfer/versus.yaml" \
  --set provision.seeds=1 --set 'workload.duration=20 s'
prints 'chunks-1024 '
expect 0 "$tandem" provision "$source_dir/experiments/race/race.yaml" \
  --set provision.seeds=1 --set 'workload.duration=3 s' --set 'provision.tolerance=40 /s'
grep -q "^vllm  *none: 'tbt.p99', limit 0.05 s" out || fail 'chunks of 8192 tokens are steady'
grep -q '^vllm-split  *[1-9] prefill, [1-9] decode' out || fail 'separate phases hold nothing'
expect 0 "$tandem" report claims pie --only PI-F4
prints ', 0 outside, 0 input-missing, 0 reported; inputs, formulas and fits: 9 within, 0 outside'
expect 0 "$tandem" report claims pie --only PI-EXP
prints ', 0 outside, 0 input-missing, 0 reported; inputs, formulas and fits: 5 within, 0 outside'
expect 0 "$tandem" report claims pie --only PI-F1
prints ', 0 outside, 0 input-missing, 1 reported; inputs, formulas and fits: 3 within, 0 outside'
expect 0 "$tandem" report claims pie --only PI-F6
prints '1 claims by tandem: 1 within, 3 outside, 0 input-missing, 4 reported'
finish
