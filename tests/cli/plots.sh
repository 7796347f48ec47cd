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

# query FILE DB : the rows of a figure.
query() {
  sql=$(sed 's/;$//' "$source_dir/plots/$1.sql")
  expect 0 "$tandem" query "$2" --format csv --sql "$sql"
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
prints 'series,rate,ttft_p50'
rates=$(cut -d, -f2 out | tail -n +2 | tr '\n' ' ')
[ "$rates" = '2.0 4.0 10.0 2.0 4.0 10.0 ' ] || fail 'rates out of order'
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
prints 'series,rate,ttft_p50,ttft_p99,e2e_p50,tbt_p50,tbt_p99,reshard'
[ "$(cut -d, -f1,2,8 out | tail -n +2 | sort | uniq | wc -l)" -eq 6 ] || fail 'not six points'
[ "$(grep -c ',$' out)" -eq 6 ] || fail 'a share of time in which no group changes its shape'
expect 0 "$tandem" sweep "$source_dir/experiments/papers/seesaw/online.yaml" --output online.db \
  --set sweep.workload.arrivals.rate='[2 /s]' --set 'workload.duration=20 s' \
  --set 'window={from: 1 s, to: 20 s}'
query online online.db
[ "$(awk -F, '$NF > 0.01 && $NF < 1' out | wc -l)" -eq 3 ] || fail 'not three that change shape'
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
[ "$(cut -d, -f1,2 out | tail -n +2 | tr '\n' ' ')" = 'pair,76.0 pair,152.0 ' ] ||
  fail 'not a row for each budget'
expect 0 "$tandem" plot budgets budgets.db -o budgets.png
is_png budgets.png

rejects 3 "$tandem" plot rates map.db -o none.png
says "'map.db' holds nothing for the figure 'rates'"
says 'it draws: Slowdowns over the arrival rate, by design: the points of sweeps whose axes'
[ ! -e none.png ] || fail 'a picture of nothing'
rejects 2 "$tandem" plot heat map.db -o none.png
says "unknown figure 'heat'"
rejects 2 "$tandem" plot rates map.db split.yaml -o none.png
rejects 4 "$tandem" plot rates absent.db -o none.png

# Where a picture cannot be, or not whole, is none, and nothing of it is on the terminal.
rejects 4 "$tandem" plot rates rates.db -o no/where/none.svg
says "there is no folder 'no'"
if [ -w /dev/full ]; then
  ln -s /dev/full full.svg
  rejects 4 "$tandem" plot rates rates.db -o full.svg
  says "cannot write 'full.svg'"
fi
finish
