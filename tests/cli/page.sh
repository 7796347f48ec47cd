#!/bin/sh
# `tandem report DB`: the page of a sweep, of a study, of a run, of what an engine measured. It is
# well-formed, needs no network and no script, its links lead somewhere, what it says is what the
# database has, and nothing of a stranger's text is markup. See browser.sh for how it is shown.
. "$TANDEM_SOURCE_DIR/tests/cli_testing.sh"

# whole PAGE : it is well-formed, of one piece, and all links within it lead somewhere.
whole() {
  last="the page $1"
  if command -v xmllint >/dev/null; then
    xmllint --noout "$1" 2>err || fail 'it is not well-formed'
  fi
  tail -1 "$1" | grep -q '^</html>$' || fail 'it does not end'
  grep -q "default-src 'none'" "$1" || fail 'it may fetch something'
  ! grep -Eiq '<script|<iframe|<img|<link|<object| src=| on[a-z]+=|@import' "$1" ||
    fail 'it has a script, or wants something from elsewhere'
  ! grep -Eiq 'href="[^#]|url\([^#]' "$1" || fail 'a link leads elsewhere'
  grep -o 'href="#[^"]*"' "$1" | sort -u | sed 's/href="#\(.*\)"/\1/' >links
  [ -s links ] || fail 'there are no links'
  while read -r id; do
    [ "$(grep -c " id=\"$id\"" "$1")" -eq 1 ] || fail "'$id' is not there once"
  done <links
  [ "$(wc -c <"$1")" -lt 3000000 ] || fail 'it has more than 3 MB'
}

# shows PAGE TEXT... : it has these texts.
shows() {
  last="the page $1"
  page=$1
  shift
  for text in "$@"; do
    grep -qF -- "$text" "$page" || fail "it lacks '$text'"
  done
}

# --- a sweep of 500 runs

cat >wide.yaml <<'END_OF_FILE'
model: llama2-70b
workload:
  lengths: {prompt: {constant: 500}, output: {constant: 20}}
  arrivals: {process: poisson, rate: 4 /s}
  requests: 20
pools:
  prefill: {role: prefill, machine: dgx-h100}
  decode: {role: decode, machine: dgx-h100}
policies: {router: token_jsq, transfer: splitwise}
perfmodel: splitwise-2023
slo: {ttft.p99: 200 ms, tpot.p99: 50 ms}
sweep:
  pools.prefill.count: 1..5
  workload.arrivals.rate: 1..20 /s
  seed: 1..5
END_OF_FILE
expect 0 "$tandem" sweep wide.yaml --output wide.db
expect 0 "$tandem" report wide.db -o wide.html
whole wide.html
! grep -q 'not measured' wide.html || fail 'a margin that was measured is said not to be'
shows wide.html 'wide.yaml: a sweep, 500 runs' 'ttft.p99 below 200 ms' \
  'pools.prefill.count: 1, 2, 3, 4, 5' '1 /s … 20 /s, 20 values' \
  'of 100 configurations meet all limits on every seed' \
  'mean of 5 seeds, 95%' 'fitted to measurements' 'tandem sweep wide.yaml'
# Each of 100 cases stands in one table, folded or not.
[ "$(grep -c '<td>[0-9]*</td><td>[0-9]* /s</td>' wide.html)" -eq 100 ] ||
  fail 'not every configuration has a row'
# How many keep their limit is what the database says.
kept=$("$tandem" query wide.db --format csv --sql 'SELECT count(*) FROM (SELECT 1 FROM point
  JOIN point_value AS a ON a.sweep_id = 1 AND a.point = point.point AND a.axis = 0
  JOIN point_value AS b ON b.sweep_id = 1 AND b.point = point.point AND b.axis = 1
  JOIN slo ON slo.run_id = point.run_id GROUP BY a.value, b.value HAVING min(met))' |
  tail -1)
shows wide.html "$kept of 100 configurations meet"
if command -v gnuplot >/dev/null; then
  grep -q '<svg class="figure"' wide.html || fail 'there is no figure'
  [ "$(grep -c '<figcaption>' wide.html)" -eq "$(grep -c '</figure>' wide.html)" ] ||
    fail 'a figure has no caption'
fi
# The same again, to the byte, also to standard output; and whole without gnuplot.
expect 0 "$tandem" report wide.db
cmp -s wide.html out || fail 'the page differs'
mkdir bin
expect 0 env PATH="$work/bin" "$tandem" report wide.db -o plain.html
whole plain.html
shows plain.html 'There is no figure here'

# --- a run, a study, what an engine measured, all in one

config >small.yaml
expect 0 "$tandem" run small.yaml --output all.db
expect 0 "$tandem" report all.db -o run.html
whole run.html
shows run.html 'small.yaml: 1 run' 'Which latency do users see' 'Latencies' 'tandem run small.yaml'
cat >study.yaml <<'END_OF_FILE'
model: llama2-70b
workload:
  lengths: {prompt: {constant: 500}, output: {constant: 20}}
  arrivals: {process: poisson, rate: 8 /s}
  requests: 60
pools:
  all: {role: mixed, machine: dgx-h100}
policies: {router: jsq}
slo: {ttft.p99: 300 ms}
provision:
  objective: cost
  seeds: 3
  designs: {whole: {pools.all.count: 1..6}, none: {slo.ttft.p99: 1 ms, pools.all.count: 1..3}}
END_OF_FILE
expect 0 "$tandem" provision study.yaml --output all.db
expect 0 "$tandem" report all.db -o all.html
whole all.html
shows all.html 'study.yaml: a study' 'serves the load at the lowest cost' 'on 3 seeds' 'small.yaml'

# --- the page of a plan: four figures that answer it, the others in an appendix

expect 0 "$tandem" plan --model llama3.1-8b --gpu h100 --rate 4 --isl 200 --osl 20 --tp 1,2 \
  --split no --seeds 1 --slo 'ttft.p99<200ms,tpot.p99<20ms' --curve --output plan.db
design=$(sed -n 's/^answer .* instances* of \([^:]*\):.*/\1/p' out)
expect 0 "$tandem" report plan.db -o plan.html
whole plan.html
shows plan.html "<p class=\"answer\">$design: " # of equal cost it is the one with fewer GPUs
shows plan.html '<h1>Which design serves 4 requests/s of llama3.1-8b at the lowest cost?</h1>' \
  'tandem plan: a study' 'tandem provision study.yaml --output'
sed '/id="appendix"/,$d' plan.html >main.html
sed -n '/id="appendix"/,/<\/section>/p' plan.html >appendix.html
if command -v gnuplot >/dev/null; then
  for question in 'Up to which rate do the limits hold?' 'What does a faster answer cost?' \
    'What does each design take, and how much does it leave?' \
    'Where does the time of a request go?'; do
    shows main.html "<h3>$question</h3>"
  done
  [ "$(grep -c '<figure>' main.html)" -eq 4 ] || fail 'not four figures'
  [ "$(grep -c '<figure>' appendix.html)" -gt 2 ] || fail 'no other figures in the appendix'
  ! grep -Eq '<text>[^<]*(=|max_num)' main.html || fail 'keys in place of names of designs'
fi
# What a request's time is spent on adds up to its E2E; a curve is there for both designs.
"$tandem" query plan.db --format csv --sql "SELECT round((SELECT sum(seconds) FROM part
  WHERE design = answer.design) / metric.value, 6) AS share FROM answer
  JOIN run USING (config_digest) JOIN metric ON run_id = run.id AND metric.name = 'e2e_s'
  AND statistic = 'mean' AND scope = 'run'" | sed 1d | sort -u >shares
[ "$(cat shares)" = 1.0 ] || fail "parts are $(tr '\n' ' ' <shares)of E2E"
expect 0 "$tandem" plot curve plan.db -o curve.csv
[ "$(sed '1d;s/,.*//' curve.csv | sort -u | wc -l)" -gt 2 ] || fail 'not a curve of each design'
for page in wide run plan; do
  grep -q '<h1[^>]*>[^<]*?</h1>' $page.html || fail "the title of $page.html is no question"
  grep -q '<title>[^<]*\(?\|Simulations\)</title>' $page.html || fail "nor the window's"
done

# --- nothing of a text is markup

sed 's/ all:/ "<b>a\&b":/' small.yaml >'<i>.yaml'
expect 0 "$tandem" run '<i>.yaml' --output '<u>.db'
expect 0 "$tandem" report '<u>.db' -o odd.html
whole odd.html
shows odd.html '&#60;b&#62;a&#38;b' '&#60;i&#62;.yaml'

# --- what is wrong

rejects 2 "$tandem" report
says 'tandem report measured'
rejects 2 "$tandem" report splitwise
says 'tandem report claims'
rejects 3 "$tandem" report small.yaml -o x.html
rejects 4 "$tandem" report absent.db -o x.html
rejects 3 "$tandem" report all.db -o all.db
[ ! -e x.html ] || fail 'a page of nothing is written'
finish
