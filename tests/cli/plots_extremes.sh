#!/bin/sh
# Figures of extreme data: axes hold all there is, names that are cut are told apart, and gnuplot
# has nothing to say.
. "$TANDEM_SOURCE_DIR/tests/cli_testing.sh"
command -v gnuplot >/dev/null || exit 77

# plotted DB FIGURE [OPTION…] : draws picture.svg.
plotted() {
  db=$1 figure=$2
  shift 2
  expect 0 "$tandem" plot "$figure" "$db" "$@" -o picture.svg
  [ ! -s err ] || fail "gnuplot has something to say about $figure of $db"
}
# Lines and bars of data in panels, from the left: "PANEL TOP Y" of each vertex, whose panel is that
# of the last frame drawn before it; a frame is drawn in grey from its top left down.
vertices() {
  awk '
    /<path/ && match($0, /d=.M[^ ]* L[^ ]* L[^ ]* M/) && /107, 107, 107/ {
      split(substr($0, RSTART + 4), first, /[, ]/)
      if (first[2] + 0 != top) { panel++; top = first[2] + 0 }
      next
    }
    /<path stroke=.rgb\( *(0|213|76)/ {
      sub(/.* d=./, ""); sub(/.\/>.*/, "")
      n = split($0, at, /[ ]+/)
      for (i = 1; i <= n; i++) if (split(at[i], xy, ",") == 2) print panel, top, xy[2]
    }' picture.svg
}
# in_frame PANEL N : at least N vertices are in the panel, and none where a line would be cut off.
in_frame() {
  vertices | awk -v p="$1" -v n="$2" '$1 == p { found++; if ($3 - $2 < 0.5) cut++ }
    END { exit !(found >= n && cut == 0) }' || fail "$figure: data left out of panel $1"
}
texts() { sed -n 's/.*<text>\(.*\)<\/text>.*/\1/p' picture.svg | sed 's/<[^>]*>//g; s/^ *//'; }

config | sed 's/^slo.*//; s/process: fixed/process: poisson/; /requests:/d' >day.yaml
cat >>day.yaml <<'END'
slo: {goodput: {share: 0.99, ttft: 1 us}}
END
# hours DB DURATION TTFT
hours() {
  expect 0 "$tandem" run day.yaml --output "$1" --set workload.duration="$2" \
    --set workload.arrivals.rate=0.1/s --set slo.goodput.ttft="$3"
  plotted "$1" hours
}
hours bad.db '3 h' '1 us' # all requests are bad, a hundred times as many as may be
in_frame 3 6
texts | grep -qx 100 || fail 'no axis up to 100%'
hours one.db '30 min' '1 us' # an hour is seen
in_frame 3 2
hours none.db '2 h' '100 s' # and where nothing is bad the limit is
texts | grep -q 'not good' || fail 'no panel of what was not good'

config | sed 's/^slo.*//; s/process: fixed/process: poisson/' >designs.yaml
cat >>designs.yaml <<'END'
slo: {ttft.p99: 1 ms}
sweep:
  design:
END
name=a-design-whose-name-goes-on-and-on-for-longer-than-anything-has-room-for
for i in 1 2 3 4 5 6 7 8 9 10 11; do
  echo "    $name-$i-of-the-second-kind-of-all-of-these: {pools.all.count: $i}"
done >>designs.yaml
echo '  workload.arrivals.rate: [2 /s, 4 /s, 40 /s]' >>designs.yaml
expect 0 "$tandem" sweep designs.yaml --output designs.db
plotted designs.db load --metric ttft.p99
in_frame 1 3
plotted designs.db bars --metric ttft.p99 --where rate='40 /s'
[ "$(texts | grep -c '…')" -eq 11 ] || fail 'not eleven bars with a name'
[ "$(texts | grep '…' | sort -u | wc -l)" -eq 11 ] || fail 'bars that are called alike'
blue="<polygon fill = 'rgb(  0, 114, 178)'"
sed -n "s/.*$blue.*points = '[^ ]* \([0-9.]*\),.*/\1/p" picture.svg >ends
[ "$(wc -l <ends)" -eq 11 ] && awk '$1 > 830 { exit 1 }' ends || fail 'bars that are cut off'
plotted designs.db heat --metric ttft.p99 --x design --y rate
[ "$(texts | grep '…' | sort -u | wc -l)" -eq 11 ] || fail 'columns without a name of their own'
plotted designs.db heat --metric ttft.p99 --x rate --y design
[ "$(texts | grep '…' | sort -u | wc -l)" -eq 11 ] || fail 'rows without a name of their own'
plotted designs.db pareto # none meets its limit
expect 0 "$tandem" sweep designs.yaml --output met.db --set 'slo.ttft.p99=1000 s'
plotted met.db pareto
texts | grep -q "1: $name-" || fail 'no name of a design at its number'

# What some designs leave to its default is said to be so.
config >some.yaml
for rate in 2 4; do
  expect 0 "$tandem" run some.yaml --output some.db --set "workload.arrivals.rate=$rate /s"
  expect 0 "$tandem" run some.yaml --output some.db --set "workload.arrivals.rate=$rate /s" \
    --set policies.batcher.max_num_batched_tokens=512
done
plotted some.db load --metric ttft.p99
texts | grep -q 'default max_num_batched_tokens' || fail 'no word of the default'
! texts | grep -q unset || fail 'a word of the program'

# One request, with a limit that a program writes as 1e-06.
config | sed 's/^slo.*/slo: {ttft.p99: 1 us}/; s/requests: 40/requests: 1/' >one.yaml
expect 0 "$tandem" run one.yaml --requests --output one.db
plotted one.db cdf
[ "$(vertices | grep -c '^1 ')" -ge 2 ] || fail 'a step that is not drawn'
plotted one.db requests
expect 0 "$tandem" plot cluster one.db -o one.csv
awk -F, 'NR > 1 && $4 > 1 { exit 1 }' one.csv || fail 'more requests run than there are'

# A window that begins late: its curves are of it, not of the time before.
cat >late.csv <<'END'
timestamp,prompt_tokens,completion_tokens
100000,500,20
100000.5,500,20
100001,500,20
END
config | sed 's/^  lengths.*/  trace: late.csv/; /arrivals:/d; /requests:/d; s/^slo.*//' >late.yaml
expect 0 "$tandem" run late.yaml --requests --output late.db --set workload.time=s
for figure in cluster batches requests; do
  plotted late.db $figure
  texts | grep -qx '10000[01]\.[0-9]*' || fail "$figure: no time within the window"
done
expect 0 "$tandem" plot cluster late.db -o late.csv
awk -F, 'NR > 1 && $4 > 0 { n++ } END { exit n < 10 }' late.csv || fail 'the window is not drawn'

# An interval of few seeds is wide: it ends at 0, and at 1 where it is that of a share.
config | sed 's/process: fixed/process: poisson/; s/^slo.*//' >shares.yaml
cat >>shares.yaml <<'END'
slo: {goodput: {share: 0.9, ttft: 60 ms}}
sweep:
  workload.arrivals.rate: [5 /s, 20 /s]
  seed: [1, 2]
END
expect 0 "$tandem" sweep shares.yaml --output shares.db
expect 0 "$tandem" plot bars shares.db --metric slo.goodput -o shares.csv
awk -F, 'NR > 1 && $3 + $4 > 1 && $3 < $4 { wide = 1 } END { exit !wide }' shares.csv ||
  fail 'no interval reaches beyond a share'
plotted shares.db bars --metric slo.goodput
texts | grep -Eqx '1.[3-9]|[2-9]|-.*' && fail 'an axis beyond what a share can be'

# Every budget buys clusters of one price.
config | sed 's/^slo.*/slo: {ttft.p99: 10 s}/' >budget.yaml
cat >>budget.yaml <<'END'
provision:
  objective: throughput
  constraint: {cost: 40 $/h}
  rates: {from: 1 /s, to: 8 /s}
  designs: {one: {pools.all.count: 1..1}}
END
expect 0 "$tandem" provision budget.yaml --output budget.db
plotted budget.db budgets
finish
