#!/bin/sh
# Traffic that changes over time, and two kinds of it: a run has the requests that `trace --every`
# shows, one machine event at a time and coalesced give the same digest, a profile's numbers count
# in the configuration's digest, and a profile that does not cover the day is refused at its place.
. "$TANDEM_SOURCE_DIR/tests/cli_testing.sh"

printf 'hour,rate\n0,1\n1,9\n' >two.csv
cat >traffic.yaml <<'END'
model: llama2-70b
workload:
  mix:
    - name: code
      lengths: azure-code-2024
      arrivals: {process: diurnal, profile: azure-code-2024, rate: 1 /s, start: Friday 22:30}
    - name: chat
      lengths: azure-conv-2024
      arrivals:
        {process: diurnal, profile: two.csv, period: 2 h, start: 50 min, peak_rate: 1 /s, cv: 2}
    - name: bursts
      lengths: {prompt: {constant: 500}, output: {constant: 20}}
      arrivals:
        process: mmpp
        states: [{rate: 0 /s, mean_time: 2 min}, {rate: 3 /s, mean_time: 10 s}]
        modulation: {cv: 0.5, time_constant: 10 min}
  duration: 20 min
pools:
  all: {role: mixed, machine: dgx-h100, count: 2}
policies:
  router: jsq
END

digest() { sed -n 's/.*"digest": "\(.*\)".*/\1/p' out; }
expect 0 "$tandem" run traffic.yaml --format json
coalesced=$(digest)
requests=$(sed -n 's/.*"requests": \([0-9]*\).*/\1/p' out | head -1)
[ -n "$coalesced" ] || fail 'no digest'
expect 0 "$tandem" run traffic.yaml --format json --step
[ "$(digest)" = "$coalesced" ] || fail 'stepped differs from coalesced'

expect 0 "$tandem" trace traffic.yaml --every '10 min' --format csv
drawn=$(awk -F, 'NR > 1 { n += $2 } END { print n }' out)
[ "$drawn" = "$requests" ] || fail "$requests requests ran, and $drawn are shown"
[ "$(grep -c bursts out)" -eq 2 ] || fail 'a row for each component and interval'
# The second profile goes from 1 to 9 after ten minutes.
awk -F, '/chat/ { n[++i] = $2 } END { exit !(n[2] > 4 * n[1]) }' out ||
  fail 'the profile is not followed'

expect 0 "$tandem" trace traffic.yaml --every '1 h' --format json
prints '"component": "chat"'
rejects 2 "$tandem" trace traffic.yaml
says "add '--every'"
printf 'hour,rate\n0,1\n1,9\n2,3\n' >two.csv
rejects 3 "$tandem" run traffic.yaml
says 'traffic.yaml:10:'
says 'the profile has 3 values of 1 h, 3 h in all, and does not cover 2 h'
printf 'hour,rate\n0,1\n1,-9\n' >two.csv
rejects 3 "$tandem" run traffic.yaml
says 'two.csv:3:3: error:'

# Lengths alone: clients that wait ask for no times, but a part that is cut out by time does.
printf 'num_prefill_tokens,num_decode_tokens\n30,5\n20,15\n10,7\n' >lengths.csv
config | sed '/lengths/,/requests/d; s/^workload:/workload: {trace: lengths.csv}/' >alone.yaml
rejects 3 "$tandem" run alone.yaml
says 'lengths.csv:1:1: error: no known column holds the arrivals'
says 'clients that wait'
expect 0 "$tandem" run alone.yaml --set 'workload.closed_loop={clients: 2}'
prints '3 completed'
expect 0 "$tandem" run alone.yaml --set workload.loop=2 \
  --set 'workload.closed_loop={clients: 9}' --set 'workload.columns={prompt: 2, output: 1}'
prints '6 completed'
for cut in start='1 s' duration='1 s' sort=true; do
  rejects 3 "$tandem" run alone.yaml --set 'workload.closed_loop={clients: 2}' --set "workload.$cut"
  says 'no known column holds the arrivals'
done
# Times that are there change nothing.
printf 'arrived_at,num_prefill_tokens,num_decode_tokens\n7,30,5\n3,20,15\nx,10,7\n' >timed.csv
bare=$(digest_of alone.yaml --set 'workload.closed_loop={clients: 2}')
timed=$(digest_of alone.yaml --set 'workload.closed_loop={clients: 2}' \
  --set workload.trace=timed.csv)
[ -n "$bare" ] && [ "$bare" = "$timed" ] || fail "'$bare' without times, '$timed' with them"

finish
