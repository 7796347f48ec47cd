#!/bin/sh
# Figures from databases of results: which rows they take, and that gnuplot draws them.
. "$TANDEM_SOURCE_DIR/tests/cli_testing.sh"
command -v gnuplot >/dev/null || exit 77

config | sed 's/^slo.*//; s/router: jsq/router: splitwise/' >split.yaml
sed -i 's/^pools:.*//; s/^  all:.*//' split.yaml
cat >>split.yaml <<'END'
slo: splitwise
pools:
  prefill: {role: prefill, machine: dgx-h100}
  decode: {role: decode, machine: dgx-h100}
END
cp split.yaml map.yaml
cat >>map.yaml <<'END'
sweep:
  pools.prefill.count: 1..3
  pools.decode.count: 1..2
END
cp split.yaml rates.yaml
cat >>rates.yaml <<'END'
sweep:
  design:
    small: {}
    "it's larger": {pools.prefill.count: 2}
  workload.arrivals.rate: [2 /s, 4 /s, 10 /s]
END

# query NAME DB [OPTION…] : the rows of a figure.
query() {
  expect 0 "$tandem" plot "$@" -o rows.csv
  cp rows.csv out
}

# is_png FILE : it is one, and not an empty page.
is_png() {
  [ "$(head -c 4 "$1" | tail -c 3)" = PNG ] || fail "$1 is no PNG"
  [ "$(wc -c <"$1")" -gt 4000 ] || fail "$1 is empty"
}

expect 0 "$tandem" sweep map.yaml --output map.db
query design-space map.db
[ "$(wc -l <out)" -eq 7 ] || fail 'not a row for each of six clusters'
[ "$(cut -d, -f2,3 out | sort -u | wc -l)" -eq 7 ] || fail 'not six different clusters'
expect 0 "$tandem" plot design-space map.db -o map.png
is_png map.png

# Several runs of a cluster, clusters that make no rectangle, and none that meets all.
expect 0 "$tandem" sweep map.yaml --output odd.db --set sweep.pools.prefill.count=1 \
  --set sweep.workload.arrivals.rate='[4 /s, 400 /s]' --set workload.requests=400
expect 0 "$tandem" run split.yaml --output odd.db --set pools.decode.count=3 \
  --set workload.arrivals.rate=400/s --set workload.requests=400
query design-space odd.db
[ "$(wc -l <out)" -eq 4 ] || fail 'not a row for each of three clusters'
expect 0 "$tandem" run split.yaml --output odd.db --set pools.prefill.count=3 \
  --set workload.arrivals.rate=400/s --set workload.requests=400
expect 0 "$tandem" plot design-space odd.db -o odd.png
is_png odd.png

expect 0 "$tandem" sweep rates.yaml --output rates.db
query rates rates.db
prints 'series,panel,x,mean,half'
rates=$(grep '^small,1,' out | cut -d, -f3 | tr '\n' ' ')
[ "$rates" = '2 4 10 ' ] || fail 'rates out of order'
[ "$(grep -c '^,' out)" -eq 9 ] || fail 'not the nine limits that it has'
query load rates.db --metric ttft.p50 --where 'design=small'
[ "$(cut -d, -f1,2,3 out | tr '\n' ' ')" = 'series,panel,x ,1,2 ,1,4 ,1,10 ' ] ||
  fail 'not one curve'
rejects 3 "$tandem" plot load rates.db --metric ttft.p5 -o none.svg
says "the runs have no figure 'ttft.p5'"
says 'did you mean'
rejects 3 "$tandem" plot load rates.db --axis rat -o none.svg
says "did you mean 'workload.arrivals.rate'"
rejects 3 "$tandem" plot load rates.db --axis design -o none.svg
says "the values of 'design' are not numbers of one unit"
rejects 3 "$tandem" plot timeline rates.db --metric ttft -o none.svg
says "figure 'timeline' does not use this option"
expect 0 "$tandem" plot rates rates.db -o rates.png
is_png rates.png
expect 0 "$tandem" plot rates rates.db -o rates.svg
grep -q '<svg' rates.svg || fail 'no SVG'
grep -qi gnuplot rates.svg && grep -i gnuplot rates.svg | grep -qv ' id=' && fail 'what drew it'

# The same bytes each time, and a part of a page: no prologue, no size, ids and colours of its own.
for picture in rates.svg rates.png; do
  cp "$picture" "before-$picture"
  expect 0 "$tandem" plot rates rates.db -o "$picture"
  cmp "$picture" "before-$picture" >&2 || fail "$picture is drawn otherwise each time"
done
expect 0 "$tandem" plot rates rates.db --inline -o part.svg
case $(head -c 20 part.svg) in
'<svg class="figure"'*) ;;
*) fail 'not one element' ;;
esac
grep -q 'var(--figure-0072b2,#0072b2)' part.svg || fail 'no colour for CSS'
grep -qE "rgb\(|id='gp|#gp|<[?!]| width=\"[0-9]+\" height=\"[0-9]+\"$" part.svg &&
  fail 'not for a page'
rejects 2 "$tandem" plot rates rates.db --inline -o part.png
says "does not end in .svg"

# The same points with what users see of them; nothing here changes its shape.
query online rates.db
[ "$(grep -c '^small,' out)" -eq 15 ] || fail 'not five figures at three rates'
expect 0 "$tandem" sweep "$source_dir/experiments/papers/seesaw/online.yaml" --output online.db \
  --set sweep.workload.arrivals.rate='[2 /s]' --set 'workload.duration=20 s' \
  --set 'window={from: 1 s, to: 20 s}'
query online online.db
[ "$(grep -c ',6,2,[0-9]' out)" -eq 3 ] || fail 'not three that change shape'
expect 0 "$tandem" plot online online.db -o online.png
is_png online.png

# A timeline: one row per sample, and spans that follow each other from start to end.
expect 0 "$tandem" run "$source_dir/experiments/examples/seesaw.yaml" --output seesaw.db \
  --set workload.requests=300 --set groups.gpus.cpu_memory='40 GiB'
query timeline seesaw.db
prints 'series,at_s,gpu,store,prompts,decoding'
tail -n +2 out | cut -d, -f1 | uniq >series
[ "$(sort -u series | tr '\n' ' ')" = 'all decode drain prefill reshard stall ' ] ||
  fail 'other series than activities'
[ "$(sort series | uniq -d)" = '' ] || fail 'the rows of a series do not stand together'
spans=$(awk -F, 'NR > 1 && $1 != "all" { sum += $3 - $2 } END { printf "%.3f", sum }' out)
expect 0 "$tandem" query seesaw.db --format csv \
  --sql "SELECT printf('%.3f', value) FROM metric WHERE name = 'duration_s'"
prints "$spans"
expect 0 "$tandem" plot timeline seesaw.db -o seesaw.png
is_png seesaw.png
rejects 3 "$tandem" plot timeline map.db -o none.png
# Two budgets, two designs, of which the second never has an answer.
cp split.yaml budgets.yaml
cat >>budgets.yaml <<'END'
provision:
  objective: throughput
  constraint: {cost: 80 $/h}
  rates: {from: 1 /s, to: 30 /s}
  tolerance: 1 /s
  seeds: 2
  designs:
    pair: {pools.prefill.count: 1..4, pools.decode.count: 1..4}
    none: {slo: {ttft.p50: 1 us}, pools.decode.count: 1..4}
END
for budget in 80 160; do
  expect 0 "$tandem" provision budgets.yaml --output budgets.db \
    --set "provision.constraint.cost=$budget \$/h"
done
query budgets budgets.db
prints 'series,cost_per_hour,rate,low,high'
[ "$(cut -d, -f1,2 out | tail -n +2 | tr '\n' ' ')" = 'pair,63.84 pair,159.6 ' ] ||
  fail 'not a row for each budget'
expect 0 "$tandem" plot budgets budgets.db -o budgets.png
is_png budgets.png

rejects 3 "$tandem" plot requests map.db -o none.png
says "'map.db' has nothing for the figure 'requests'"
says 'the figure draws single requests of runs with --requests'
rejects 3 "$tandem" plot rates seesaw.db -o none.png
says 'the figure needs a number that varies between the runs'
[ ! -e none.png ] || fail 'a picture of nothing'
rejects 2 "$tandem" plot heap map.db -o none.png
says "unknown figure 'heap'"
rejects 2 "$tandem" plot rates map.db split.yaml -o none.png
rejects 4 "$tandem" plot rates absent.db -o none.png

# The general ones: of a sweep over a word, numbers and seeds, and of a run with its requests.
config >any.yaml
cat >>any.yaml <<'END'
sweep:
  policies.router: [jsq, round_robin]
  pools.all.count: [1, 2, 10]
  workload.arrivals.rate: [4 /s, 60 /s]
  workload.seed: [1, 2, 3]
END
sed -i 's/process: fixed/process: poisson/' any.yaml
expect 0 "$tandem" sweep any.yaml --output any.db
query load any.db --metric ttft.p99 --axis count --where rate='60 /s'
[ "$(grep '^jsq,1,' out | cut -d, -f3 | tr '\n' ' ')" = '1 2 10 ' ] || fail 'counts out of order'
[ "$(grep -c '^jsq,1,.*,[0-9.]*[1-9]$' out)" -eq 3 ] || fail 'no interval over three seeds'
query load any.db --metric ttft.p99 # a curve for each router and count
[ "$(cut -d, -f1,2,3 out | grep -c 'count=')" -eq 12 ] || fail 'curves were joined'
query bars any.db --metric throughput_rps --where rate='4 /s' --where count=2
[ "$(cut -d, -f1 out | tr '\n' ' ')" = 'series jsq round_robin ' ] || fail 'not a bar for each'
query heat any.db --x rate --y router --where count=10
[ "$(tail -n +2 out | cut -d, -f3,4 | tr '\n' ' ')" = '0,0 0,1 1,0 1,1 ' ] ||
  fail 'not four places'
query cdf any.db --metric e2e --where rate='60 /s' --where count=1
awk -F, 'NR > 1 && $1 != "" && ($1 == was && ($3 < x || $4 <= y)) { exit 1 }
  { was = $1; x = $3; y = $4 }' out || fail 'a distribution that falls'
[ "$(grep -cE '^[a-z_]+,1,.*,1$' out)" -eq 2 ] || fail 'distributions that do not end at all'
query pareto any.db --where router=jsq --where count=10
[ "$(awk -F, '$1 != "" && $5 == 1' out | wc -l)" -eq "$(grep -c '^,' out)" ] || fail 'another front'
expect 0 "$tandem" run any.yaml --set sweep=null --output single.db --requests
query requests single.db
[ "$(wc -l <out)" -eq 41 ] || fail 'not forty requests'
for figure in load bars heat cdf pareto; do
  expect 0 "$tandem" plot $figure any.db -o $figure.png
  is_png $figure.png
  [ ! -s err ] || fail "gnuplot has something to say about $figure"
done
expect 0 "$tandem" plot requests single.db -o requests.png

# One run over time, simulated again: what is drawn is what the database has of it.
query cluster single.db
[ "$(wc -l <out)" -eq 242 ] || fail 'not a row for each span'
prints 'pool,time_s,waiting,running,kv_share,cached_share,power_kw,prefill_tokens,decode_tokens'
awk -F, 'NR > 1 && ($5 < 0 || $5 > 1 || $4 < 0) { exit 1 }' out || fail 'shares beyond one'
awk -F, 'NR > 1 && $4 > 0 { n++ } END { exit n < 5 }' out || fail 'nothing ever runs'
for figure in cluster batches; do
  expect 0 "$tandem" plot $figure single.db -o $figure.png
  is_png $figure.png
done
expect 0 "$tandem" plot batches any.db --run 3 -o batches.png
rejects 3 "$tandem" plot cluster any.db --run 3000 -o none.png
rejects 3 "$tandem" plot cluster any.db --metric ttft -o none.png
says "figure 'cluster' does not use this option"
expect 0 "$tandem" plot bars single.db -o bars.png
expect 0 "$tandem" plot designs budgets.db -o designs.png

# Designs whose pools have other names are told apart by what their pools are.
expect 0 "$tandem" run split.yaml --output pools.db
config >whole.yaml
expect 0 "$tandem" run whole.yaml --output pools.db
query bars pools.db --metric throughput_rps
prints '"dgx-h100, '
prints '"dgx-h100 prefill + dgx-h100 decode, '
rejects 2 "$tandem" plot load any.db --where count -o none.png
says "'--where' must be KEY=VALUE"
rejects 3 "$tandem" plot load any.db --where count=3 -o none.png
says "no completed run has pools.all.count = '3'"
rejects 3 "$tandem" plot requests any.db --run 1 -o none.png
says 'of runs with --requests'

# Where a picture cannot be, or not whole, is none, and nothing of it is on the terminal.
rejects 4 "$tandem" plot rates rates.db -o no/where/none.svg
says "there is no folder 'no'"
if [ -w /dev/full ]; then
  ln -s /dev/full full.svg
  rejects 4 "$tandem" plot rates rates.db -o full.svg
  says "cannot write 'full.svg'"
fi
finish
