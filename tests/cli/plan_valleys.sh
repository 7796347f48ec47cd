#!/bin/sh
# `tandem plan --day --batch`: a batch job in the valleys of a day, beside fleets of their own; its
# figures by hand from the profile, and what is wrong with such a question.
. "$TANDEM_SOURCE_DIR/tests/cli_testing.sh"

ask() {
  "$tandem" plan --model llama3.1-8b --gpu h100 --tp 1 --seeds 1 --isl 1000 --osl 200 --rate 60 \
    --slo 'ttft.p90<1s,tpot.p90<30ms' "$@"
}
awk 'BEGIN { print "hour,rate"; for (h = 0; h < 24; h++) print h "," 10 + 9 * sin(h / 3.8197) }' \
  >day.csv

expect 0 ask --day day.csv --batch 1M --deadline 8h
for line in 'question ' 'separate .* GPUs: ' 'shared .* GPUs: .* fewer' 'valleys .* leave ' \
  'note '; do
  grep -q "^$line" out || fail "no line '$line'"
done
[ "$(wc -L <out)" -le 108 ] || fail 'wider than 108 columns'
expect 0 ask --day day.csv --batch 1M --deadline 8h --format json
cp out free.json
expect 0 ask --day day.csv --batch 3M --deadline 5h --batch-start 22.5 --batch-isl 500 \
  --batch-osl 100 --format json
python3 - free.json out <<'END' || fail 'the figures are not those of the profile'
import csv, json, math, sys
rates = [float(row['rate']) for row in csv.DictReader(open('day.csv'))]
peak = max(rates)
def free_hours(row, start):
    """Instance hours that are left, minute by minute."""
    n, sum = row['online_instances'], 0
    for minute in range(round(60 * row['deadline_h'])):
        rate = rates[int(start + minute / 60) % 24]
        need = max(math.ceil(n * rate / peak - 1e-9), row['lowest_instances'])
        sum += max(n - need, 0) / 60
    return sum
for name in sys.argv[1:]:
    row = json.load(open(name))[0]
    free = free_hours(row, row['start_h'])
    assert abs(free - row['free_instance_hours']) < 1e-6 * free, (free, row)
    missing = row['requests'] / row['requests_per_s_instance'] / 3600 - free
    assert row['more_instances'] == max(math.ceil(missing / row['deadline_h'] - 1e-9), 0), row
    assert row['separate_gpus'] == row['online_gpus'] + row['batch_gpus'], row
    assert row['shared_gpus'] == row['online_gpus'] + row['more_instances'], row # a GPU each
    assert row['shared_gpus'] <= row['separate_gpus'], row
    assert row['lowest_instances'] >= 1, row
row = json.load(open(sys.argv[1]))[0]
assert row['shared_gpus'] < row['separate_gpus'], row
# Without a start it is when the valleys leave most, if the lowest rate did not bind.
plain = dict(row, lowest_instances=0)
assert free_hours(plain, row['start_h']) > max(free_hours(plain, h) for h in range(24)) - 1e-6, row
assert json.load(open(sys.argv[2]))[0]['start_h'] == 22.5
END

rejects 2 ask --day day.csv --batch 1M
says "'--batch' beside '--day' needs '--slo' and '--deadline'"
rejects 2 ask --day day.csv --batch 1M --deadline 8h --batch-isl 5
rejects 2 ask --day day.csv --batch 1M --deadline 8h --gpu h100,b200
rejects 3 "$tandem" plan --model llama3.1-8b --gpu h100 --tp 1 --seeds 1 --isl 1000 --osl 200 \
  --rate 60 --slo 'tpot.p90<1ms' --day day.csv --batch 1M --deadline 8h
