#!/bin/sh
# `tandem plan --sample`: windows of a long trace in place of all of it, what the whole trace has by
# them, and what is wrong with such a question.
. "$TANDEM_SOURCE_DIR/tests/cli_testing.sh"

# Two hours, whose rate swings between 0.5 and 3.5 requests/s.
awk 'BEGIN {
  print "timestamp,prompt_tokens,completion_tokens"
  for (t = 0; t < 7199; i++) {
    printf "%.3f,%d,%d\n", t, 100 + i * 37 % 900, 20 + i * 53 % 180
    t += 1 / (2 + 1.5 * sin(t / 1146))
  }
}' >hours.csv
ask() {
  "$tandem" plan --model llama3.1-8b --gpu h100 --trace hours.csv --tp 1 --split no --seeds 1 \
    --slo 'ttft.p90<1s,tpot.mean<30ms' "$@"
}

expect 0 ask --sample 2min --study study.yaml
prints 'sampled     13 of 60 windows of 120 s: '
grep -q '^ *ttft.p90 .* s of the trace (95%: .* to .*, with times .* to .*): met$' out ||
  fail 'no estimate of a limit'
grep -q '^  windows: \[.* s\]$' study.yaml || fail 'no windows in the study'
expect 0 ask --sample 2min --format json
cp out sampled.json
expect 0 ask --sample 2min --format json
cmp -s out sampled.json || fail 'the same question has another answer'
expect 0 ask --sample 2min --sample-seed 2 --format json
! cmp -s out sampled.json || fail 'another seed draws the same windows'
# The range has what all of the trace gives, which is taken whole by as many windows.
expect 0 ask --sample 2min --windows 60 --format json
python3 - <<'END' || fail 'the range has not what the whole trace gives'
import json
part, whole = (json.load(open(name))['sample'] for name in ('sampled.json', 'out'))
assert part['of'] == whole['of'] == whole['windows'] == 60 and part['windows'] == 13
assert part['of_requests'] == whole['requests'] > 3 * part['requests']
for one, all in zip(part['limits'], whole['limits']):
    assert all['low'] == all['value'] == all['high'], all
    assert one['low'] <= all['value'] <= one['high'], (one, all)
    assert one['low_with_times'] < one['low'] and one['high'] < one['high_with_times'], one
END
# The study is an ordinary one.
expect 0 "$tandem" run study.yaml
says 'the answer of the study is design'

rejects 2 ask --sample 2min --rate 3
says "'--sample' needs '--trace', at its own rate"
rejects 2 ask --sample 2min --gpu h100,b200
says "'--sample' needs one GPU"
rejects 2 "$tandem" plan --model llama3.1-8b --gpu h100 --isl 10 --osl 10 --rate 1 \
  --slo 'ttft.p90<1s' --sample 2min
rejects 2 ask --sample 2min --windows 5
