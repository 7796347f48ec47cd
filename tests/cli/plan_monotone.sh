#!/bin/sh
# More requests, headroom or spares, or tighter limits never give a cheaper cluster, nor fewer GPUs
# of one design; and of more designs or GPUs to choose from the best is never dearer.
. "$TANDEM_SOURCE_DIR/tests/cli_testing.sh"

# "COST GPUS" of the answer to a question.
answer_of() {
  "$tandem" plan --model llama3.1-8b --isl 500 --osl 100 --seeds 1 --sold gpu --format json "$@" \
    >out 2>err || fail "no answer to $*"
  python3 -c 'import json
answers = json.load(open("out"))["answers"]
best, = [d for d in answers["designs"] if d["design"] == answers["best"]]
print(best["answers"][0]["cost_per_hour"], best["answers"][0]["gpus"])'
}

# Each question takes no less than the one before.
rises() {
  awk '$1 < cost || $2 < gpus { print "line " NR ": " $0; bad = 1 }
    { cost = $1; gpus = $2 } END { exit bad || NR < 2 }' rising >why || fail "$1: $(cat why)"
}

one_design='--gpu h100 --tp 1 --split no'
wide='ttft.p90<2s,tpot.p90<50ms'
for rate in 20 80 200; do
  answer_of $one_design --rate $rate --slo "$wide"
done >rising
rises 'more requests'
for slo in "$wide" 'ttft.p90<500ms,tpot.p90<50ms' 'ttft.p90<500ms,tpot.p90<20ms' \
  'ttft.p99<300ms,tpot.p99<15ms'; do
  answer_of $one_design --rate 80 --slo "$slo"
done >rising
rises 'tighter limits'
for held in '' '--headroom 10%' '--headroom 50%' '--headroom 50% --spares N-1' \
  '--headroom 50% --spares N-2'; do
  answer_of $one_design --rate 80 --slo "$wide" $held
done >rising
rises 'more that must be held'
for designs in '--tp 1,2' '--tp 2' '--tp 2 --split no'; do
  answer_of --gpu h100 $designs --rate 80 --slo 'ttft.p90<500ms,tpot.p90<20ms' |
    awk '{ print $1, 0 }' # fewer GPUs may be dearer, of several designs
done >rising
rises 'fewer designs'
for users in 8 64 256; do
  answer_of $one_design --users $users --slo "$wide"
done >rising
rises 'more users'
for gpus in b200,h200,h100 b200,h200 b200,b300; do
  "$tandem" plan --model llama3.1-8b --isl 500 --osl 100 --seeds 1 --sold gpu --format json \
    --rate 80 --slo "$wide" --tp 1 --split no --gpu $gpus 2>/dev/null >sides.json
  python3 -c 'import json
print(json.load(open("sides.json"))[0]["cost_per_hour"], 0)'
done >rising
rises 'fewer GPUs to choose from'
finish
