#!/bin/sh
# `tandem plan`: what answers must hold beside the limits, how they do at other loads, and pictures.
. "$TANDEM_SOURCE_DIR/tests/cli_testing.sh"

limits='ttft.p90<2s,tpot.p90<50ms'
ask() {
  "$tandem" plan --model llama3.1-8b --gpu h100 --isl 500 --osl 100 --slo "$limits" --sold gpu "$@"
}

# Headroom and spares are of the search, the figures of the load itself; both cost GPUs.
expect 0 ask --rate 200 --tp 1 --split no --seeds 1 --headroom 20% --spares N-1 --study hard.yaml \
  --format json
cp out hard.json
expect 0 ask --rate 200 --tp 1 --split no --seeds 1 --format json
cp out easy.json
expect 0 ask --rate 240 --tp 1 --split no --seeds 1 --format json
cp out more.json
grep -qx '  n_plus: 1 # instances of each pool that may be down' hard.yaml || fail 'no spare'
grep -q '^  headroom: 0.2 # share of the load' hard.yaml || fail 'no headroom'
grep -qx '      pools.serve.count: 2..513' hard.yaml || fail 'the range leaves no instance'
python3 - <<'END' || fail 'what must be held is not'
import json
def best(name):
    plan = json.load(open(name))
    design, = [d for d in plan['answers']['designs'] if d['design'] == plan['best']]
    return plan, design['answers'][0]
hard, easy, more = best('hard.json'), best('easy.json'), best('more.json')
# One instance more than the load with headroom takes.
assert hard[1]['gpus'] == more[1]['gpus'] + 1 > easy[1]['gpus']
assert hard[1]['rate_rps'] == 200
asked, = [run for run in hard[0]['runs'] if run['load'] == 1 and run['design'] == hard[0]['best']]
assert 150 < asked['requests_per_s'] < 220, asked
assert any('1 instance down during the whole run' in note for note in hard[0]['notes'])
END
expect 0 "$tandem" provision hard.yaml --format json
python3 - <<'END' || fail 'provision has another answer'
import json
study, plan = json.load(open('out')), json.load(open('hard.json'))
assert study['best'] == plan['best'] and study['designs'] == plan['answers']['designs']
END
# Of users and of traces as well.
expect 0 ask --users 400 --tp 1 --split no --seeds 1 --headroom 0.5
prints 'limits are those of 1.5 times the load'

# At most so many GPUs; of equally dear designs the one with the fewest.
expect 3 ask --rate 200 --tp 1,2 --split no --seeds 1 --max-gpus 1
says 'what meets the limits takes 4 GPUs of at most 1'
expect 0 ask --rate 2 --seeds 1 --sold whole
prints 'answer      1 instance of tp1: 1 GPU, '
expect 0 ask --rate 20 --tp 1 --seeds 1 --max-gpus 8 --power-budget '20 kW' --dry-run
prints 'constraint: {power: 20000 W, gpus: 8}'
for spares in N-0 N+1 N1 -1 some; do
  rejects 3 ask --rate 20 "--spares=$spares"
  says "is not a number of spare instances"
done

# Of a day the peak is held.
printf 'hour,rate\n0,1\n1,3\n2,2\n' >day.csv
expect 0 ask --rate 20 --day day.csv --tp 1 --split no --seeds 1 --dry-run
prints 'rate: 30 /s}'
expect 0 ask --rate 20 --day day.csv --tp 1 --split no --seeds 1
prints 'that is the peak of day.csv, 1.5 times its mean of 20 requests/s:'
prints 'its valleys leave 33% of the capacity'
rejects 2 ask --users 20 --day day.csv
says "'--day' needs '--rate', its mean"
rejects 3 ask --rate 20 --day azure-conv-1999
says 'azure-conv-1999'

# A load that grows: the answer holds it until the rate that it holds is reached.
expect 0 ask --rate 30 --tp 1 --split no --seeds 1 --growth 10%/month --from 2026-11 \
  --until 2027-11 --format json
python3 - <<'END' || fail 'growth is wrong'
import json, math
growth = json.load(open('out'))['growth']
assert abs(30 * 1.1 ** growth['months'] / growth['held_rps'] - 1) < 1e-6
assert abs(growth['until_rps'] / (30 * 1.1 ** 12) - 1) < 1e-6
year, month = divmod(2026 * 12 + 10 + math.floor(growth['months']), 12)
assert growth['month'] == f'{year:04}-{month + 1:02}', growth
open('held', 'w').write(str(growth['held_rps']))
open('takes', 'w').write(growth['until_takes'])
END
for part in 0.97:1 1.1:2; do
  expect 0 ask --rate "$(awk "{ print ${part%:*} * \$1 }" held)" --tp 1 --split no --seeds 1
  grep -q "^answer .*: ${part#*:} GPU" out || fail "what is held: $part takes another number"
done
expect 0 ask --rate 94.153 --tp 1 --split no --seeds 1
prints "$(sed 's/.*: //' takes), " # GPUs and money; of equal designs it may be another
rejects 3 ask --rate 30 --growth 10%/week
says "'10%/week' is not a growth"
rejects 2 ask --users 30 --growth 10%
says "'--until' and '--from' need '--growth', and that needs '--rate'"
rejects 3 ask --rate 30 --growth 10% --until 2027-12
says 'the month of the load that is asked is not known'
rejects 3 ask --rate 30 --growth 10% --from 2026-11 --until 2026-11
says "'2026-11' is not after '--from'"
rejects 3 ask --rate 30 --growth 10% --from 2026-13 --until 12
says "'2026-13' is not a month"
rejects 3 ask --rate 30 --growth 10% --until 0
says '0 months are not between 0.01 and 1200'

# Requests that are all there at once: within 3% of all of them simulated; by cost; in time.
batch() { "$tandem" plan --model llama3.1-8b --isl 500 --osl 100 --batch "$@"; }
expect 0 batch 12k --gpu h100 --tp 1 --sold gpu --format json
cp out batch.json
expect 0 batch 12k --gpu h100 --tp 1 --dry-run
grep -v -e '^  requests: 2048' -e '^provision' -e '^  objective' -e '^  seeds' out |
  sed -e '/^  designs/,$d' -e 's/{process: at_once}/&\n  requests: 12000/' >run.yaml
echo 'pools: {serve: {machine: dgx-h100, tensor_parallel_size: 1}}' >>run.yaml
expect 0 "$tandem" run run.yaml --format json
python3 - <<'END' || fail 'a batch takes another time'
import json
rows, run = json.load(open('batch.json')), json.load(open('out'))
row, = [row for row in rows if row['design'] == 'tp1']
assert row['instances'] == 1 and run['requests'] == 12000
assert abs(3600 * row['hours'] / run['duration_s'] - 1) < 0.03
assert row['low_hours'] < row['hours'] < row['high_hours']
assert abs(row['cost_usd'] / row['hours'] - 3.99) < 0.01
END
expect 0 batch 1M --deadline 1h --gpu h100,a100 --tp 1 --sold gpu --format json
python3 - <<'END' || fail 'the deadline is missed, or more GPUs than it takes'
import json
rows = json.load(open('out'))
assert [row['machine'] for row in rows] and len(rows) == 2
assert rows[0]['cost_usd'] <= rows[1]['cost_usd']
for row in rows:
    assert row['hours'] <= 1 < row['hours'] * row['instances'] / (row['instances'] - 1)
END
rejects 2 batch 1k --gpu h100 --slo 'ttft.p99<1s'
says "'--batch' has no latency limits"
rejects 3 batch 1k --gpu h100 --rate 3
says "'--batch' replaces --rate, --users, --gpus and --trace"
rejects 2 "$tandem" plan --model llama3.1-8b --gpu h100 --isl 500 --osl 100 --rate 3
says "'--slo LIMITS' is missing"

# Attainment falls beyond the knee, and no point is outside its range.
expect 0 ask --rate 20 --tp 1 --split no --seeds 2 --curve
prints 'requests that keep all limits by themselves, against the rate'
grep -Eq '^tp1 \(1\): 90% of the requests keep the limits up to [0-9.]+ requests/s in all' out ||
  fail 'no knee'
expect 0 ask --rate 20 --tp 1 --split no --seeds 2 --curve --format json
python3 - <<'END' || fail 'the curve is wrong'
import json
curve = json.load(open('out'))['curve']
by = {}
for point in curve:
    by.setdefault(point['design'], []).append(point)
    assert 0 <= point['attained_low'] <= point['attained'] <= point['attained_high'] <= 1
    assert point['goodput_rps_low'] <= point['goodput_rps'] <= point['goodput_rps_high']
    assert point['goodput_rps'] < 1.1 * point['requests_per_s']
assert by
for points in by.values():
    loads = [point['load'] for point in points]
    assert loads == sorted(loads) and 1 in loads
    assert points[0]['attained'] > 0.99 and points[-1]['attained'] < 0.5
END
# The other way round: what so many GPUs hold, takes so many, and a tenth more takes more.
expect 0 ask --gpus 2 --tp 1 --split no --seeds 1 --format json --study rate.yaml
grep -q '^  constraint: {gpus: 2}' rate.yaml || fail 'the study has another number of GPUs'
rate=$(python3 - <<'END'
import json
plan = json.load(open('out'))
best, = [d['answers'][0] for d in plan['answers']['designs'] if d['design'] == plan['best']]
assert best['gpus'] == 2 and plan['next']['gpus'] == 1
assert 1.3 * best['rate_rps'] < plan['next']['rate_rps'] < 1.7 * best['rate_rps']
print(best['rate_rps'])
END
) || fail 'no rate of 2 GPUs'
for part in 0.9:2 1.1:3; do
  expect 0 ask --rate "$(awk "BEGIN { print ${part%:*} * $rate }")" --tp 1 --split no --seeds 1
  grep -q "^answer .*: ${part#*:} GPUs, " out || fail "$part of $rate takes another number"
done
expect 0 ask --gpus 1 --tp 1 --split no --seeds 1 --gpu h100,a100
prints '   req/s '
awk '$1 ~ /^dgx/ { if (NR > 2 && $5 > rate) bad = 1; rate = $5 } END { exit bad || NR != 3 }' out ||
  fail 'GPUs are not by their rates'
rejects 3 ask --gpus 2 --rate 20
says "'--gpus' asks for the highest rate: omit --rate and --users"
rejects 3 "$tandem" plan --model llama3.1-8b --gpu h100 --slo "$limits" --gpus 2 \
  --trace "$source_dir/traces/sample/azure_sample.csv"
says "'--gpus' cannot be used with a trace, which is too short at a high rate"
rejects 3 ask --rate 20 --tp 1 --seeds 1 --slo 'tbt.p99<1s' --curve
says 'no limit is one that a request can keep'
rejects 2 ask --rate 20 --figure front.pdf
says "'--figure' needs a file that ends in .png or .svg"
if command -v gnuplot >/dev/null; then
  expect 0 ask --rate 20 --tp 1 --split no --seeds 1 --curve --figure curve.svg
  expect 0 "$tandem" plan --model llama3.1-8b --gpu h100,b200 --isl 500 --osl 100 --rate 20 \
    --slo "$limits" --tp 1 --split no --seeds 1 --figure front.svg
  for text in 'curve.svg:goodput, requests/s' 'curve.svg:tp1 (1)' 'curve.svg:llama3.1-8b on dgx' \
    'front.svg:dgx-b200 bf16' 'front.svg:$ per million output tokens' 'front.svg:1 / mean TPOT'; do
    grep -qF "${text#*:}" "${text%%:*}" || fail "no '${text#*:}' in ${text%%:*}"
  done
fi
finish
