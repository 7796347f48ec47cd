#!/bin/sh
# Failure domains: which instances lie in which, what a failure, a release and a domain that is down
# take, what is wrong is said where it stands, and how many instances survive a rack.
. "$TANDEM_SOURCE_DIR/tests/cli_testing.sh"

# matches PATTERN : a line of stdout does.
matches() { grep -q -- "$1" out || fail "no line matches '$1'"; }

cat >racks.yaml <<'END'
model: llama2-70b
workload:
  lengths: {prompt: {constant: 500}, output: {constant: 20}}
  arrivals: {process: poisson, rate: 2 /s}
  duration: 30 min
pools:
  prefill: {role: prefill, machine: dgx-h100, count: 3}
  decode: {role: decode, machine: dgx-h100, count: 3}
domains:
  rack: {size: 2, schedule: [{at: 10 min, for: 3 min, domain: 1}]}
faults: {detection: 5 s, retry: {limit: 5, backoff: 100 ms}}
END

# outages NAME WANT OPTION... : the instances with that outcome, and when, of a run.
outages() {
  name=$1
  wanted=$2
  shift 2
  expect 0 "$tandem" run racks.yaml --event-log events.csv "$@"
  got=$(sed -n "s/^\([0-9]*\)\.[0-9]*,$name,,\([0-9]*\),.*/\2@\1/p" events.csv | tr '\n' ' ')
  [ "$got" = "$wanted" ] || fail "$name of $*: $got, not $wanted"
}

# Machines 0 to 2 prefill and 3 to 5 decode. Packed, rack 1 has 2 and 3; dealt out over three racks
# it has 1 and 4; a feed over racks 0 and 1 has 0 to 3.
outages failure '2@600 3@600 '
outages repair '2@780 3@780 '
prints 'failures     2, instances down 3.3'
outages failure '1@600 4@600 ' --set domains.rack.placement=spread
outages failure '0@600 1@600 2@600 3@600 ' --set 'domains={rack: {size: 2},
  power: {of: rack, size: 2, schedule: [{at: 10 min, for: 1 min, domain: 0}]}}'
outages failure '0@600 4@600 ' --set domains.rack.placement=spread --set domains.rack.count=4 \
  --set 'domains.rack.schedule=[{at: 10 min, for: 1 min, domain: 0}]'
outages drain '2@600 3@600 ' --set \
  'domains.rack.schedule=[{at: 10 min, for: 3 min, domain: 1, kind: drain}]'
prints '; 0 requests lost'

# Four instances on two machines, and the sixteen ranks of one on two machines, go together.
outages failure '0@600 1@600 ' --set pools.prefill.tensor_parallel_size=4 \
  --set pools.prefill.count=4 \
  --set 'domains={rack: {size: 1, schedule: [{at: 10 min, for: 1 min, domain: 0}]}}'
cat >wide.yaml <<'END'
model: deepseek-v3
engine: vllm-0.24
workload:
  lengths: {prompt: {constant: 500}, output: {constant: 20}}
  arrivals: {process: poisson, rate: 2 /s}
  duration: 20 min
pools:
  serve:
    machine: dgx-h200
    count: 2
    nnodes: 2
    tensor_parallel_size: 1
    attention_data_parallel_size: 16
    expert_parallel_size: 16
domains: {machine: {size: 1, schedule: [{at: 10 min, for: 3 min, domain: 3}]}}
END
expect 0 "$tandem" run wide.yaml --event-log events.csv
sed -n 's/^\([0-9]*\)\.[0-9]*,failure,,\([0-9]*\),.*/\2@\1/p' events.csv >failed.csv
seq -f '%.0f@600' 16 31 | cmp -s - failed.csv || fail 'its machine takes not just its 16 ranks'

# A release: a rack after the other, with five minutes each and no start; all at once; and one that
# fails on its canary, which is down for ten minutes more.
release='at: 5 min, for: 2 min'
outages drain '0@300 1@300 2@420 3@420 4@540 5@540 ' --set "domains.rack={size: 2,
  release: {$release}}"
outages drain '0@300 1@300 2@300 3@300 4@600 5@600 ' --set "domains.rack={size: 2,
  release: {$release, at_once: 2, every: 5 min}}"
outages drain '0@300 1@300 2@360 3@360 4@360 5@360 ' --set "domains.rack={size: 2,
  release: {$release, at_once: 3, canary: 0.2, every: 1 min}}"
bad="domains.rack={size: 2, release: {$release, canary: 0.3, fails: true, rollback: 10 min}}"
outages failure '0@420 1@420 ' --set "$bad"
outages repair '0@1020 1@1020 ' --set "$bad"

# One is down from the beginning: nobody is lost, and its instances have nothing to do.
expect 0 "$tandem" run racks.yaml --set 'domains.rack={size: 2, down: 1}' --format json
prints '"losses": 0'
expect 0 "$tandem" run racks.yaml --set 'domains.rack={size: 2, down: 1}'
prints 'instances down 33.3% of the time; 0 requests lost'

# KV of 500 tokens of 327,680 bytes takes 16.384 ms over an uplink of 10 GB/s, between racks of
# three whose switches are one for all GPUs or one for each half of them; beneath one switch, the
# NICs' 0.4096 ms. Both values are those of single transfers.
moved() { sed -n 's/.*"kv_transfer_s": .*"p50": \([0-9.]*\), .*/\1/p' out; }
carries() {
  wanted=$1
  shift
  expect 0 "$tandem" run racks.yaml --set workload.arrivals.rate='0.05 /s' \
    --set workload.requests=20 --set policies.transfer=serialized --set faults=null \
    --format json "$@"
  echo "$(moved) $wanted" | awk '{ exit !($1 > 0.99 * $2 && $1 < 1.01 * $2) }' ||
    fail "transfers take $(moved) s with $*, not $wanted"
}
carries 0.0004096 --set 'domains={rack: {size: 3}}'
carries 0.016384 --set 'domains={rack: {size: 3, uplink: 10 GB/s}}'
carries 0.016384 --set 'domains={rack: {size: 3, oversubscription: 120}}'
carries 0.016384 --set 'domains={rack: {size: 3, uplink: 10 GB/s, rails: 2}}'
carries 0.0004096 --set 'domains={rack: {size: 6, uplink: 10 GB/s, rails: 8}}'

# What the ranks of an instance on two machines exchange takes as long as on machines with a quarter
# of the NIC, if the machines' uplinks are oversubscribed by 4; beneath a switch it takes what it
# did. Measured kernels are slowed down, too.
sed 's/^nic_bandwidth: .*/nic_bandwidth: 100 GB\/s/' \
  "$source_dir/perfmodel/machines/dgx-h200.yaml" >quarter.yaml
digest_of() {
  expect 0 "$tandem" run wide.yaml --set workload.duration='1 min' --format json "$@"
  sed -n 's/.*"digest": "\(.*\)".*/\1/p' out
}
roofline='perfmodel=roofline'
fast=$(digest_of --set $roofline --set domains.machine='{size: 1}')
slow=$(digest_of --set $roofline --set pools.serve.machine=./quarter.yaml --set domains=null)
[ "$fast" != "$slow" ] || fail 'a quarter of the NIC changes nothing'
oversubscribed() {
  digest_of --set $roofline --set domains.machine="{size: $1, oversubscription: 4}"
}
[ "$(oversubscribed 1)" = "$slow" ] ||
  fail 'uplinks oversubscribed by 4 are not as a quarter of the NICs'
[ "$(oversubscribed 2)" = "$fast" ] ||
  fail 'what stays beneath a switch is slowed down'
tpot() { sed -n 's/.*"tpot_s": {"mean": \([0-9.]*\),.*/\1/p' out; }
digest_of --set domains.machine='{size: 1}' >/dev/null
fast=$(tpot)
digest_of --set domains.machine='{size: 1, oversubscription: 400}' >/dev/null
echo "$fast $(tpot)" | awk '{ exit !($2 > 1.2 * $1) }' || fail "$fast and $(tpot) s a token"

# What is wrong.
wrong() {
  message=$1
  shift
  expect 3 "$tandem" run racks.yaml "$@"
  says "$message"
}
wrong "there is no rack 3" --set 'domains.rack.schedule=[{at: 1 min, domain: 3}]'
wrong "2 domains of 2 machines have no room for 6" --set domains.rack.count=2
wrong "'of' names 'row', which is no domain before" --set 'domains.power={of: row, size: 2}'
wrong "'placement' applies to domains of machines" \
  --set 'domains.power={of: rack, size: 2, placement: pack}'
wrong "a source of failures needs 'mtbf'" --set 'domains.rack.faults={}'
wrong "'kind' and 'factor' are those of 'faults'" --set domains.rack.kind=slow
wrong "'kind: slow' needs 'factor'" --set domains.rack.kind=slow \
  --set 'domains.rack.faults={mtbf: 1 h, mttr: 1 min}'
wrong "'kind: store' applies to the groups" --set domains.rack.kind=store \
  --set 'domains.rack.faults={mtbf: 1 h, mttr: 1 min}'
wrong "'fails' needs 'rollback'" --set "domains.rack.release={$release, fails: true}"
wrong "'schedule' must be a list of outages" --set domains.rack.schedule=1
wrong "'domains' must be a map" --set domains=rack
wrong "'uplink' and 'oversubscription' exclude each other" \
  --set domains.rack.uplink='1 GB/s' --set domains.rack.oversubscription=2
wrong "'rails' needs 'uplink' or 'oversubscription'" --set domains.rack.rails=8
wrong "3 rails do not divide the 8 GPUs" --set domains.rack.oversubscription=2 \
  --set domains.rack.rails=3
wrong "'rack' has an uplink, which KV does not take" --set domains.rack.oversubscription=2 \
  --set network.path=nvlink

# Drawn: step by step it is the same, and the report has a closed form.
drawn='domains.rack={size: 2, faults: {mtbf: 10 min, mttr: 1 min}}'
expect 0 "$tandem" run racks.yaml --set "$drawn" --format json
grep -m1 '"digest"' out >digest
matches '"up_share_expected": 0\.[0-9]'
expect 0 "$tandem" run racks.yaml --set "$drawn" --format json --step
grep -m1 '"digest"' out | cmp -s - digest || fail '--step changes the digest'
expect 0 "$tandem" run racks.yaml --set "$drawn"
matches '^up  *prefill: all 3 .*% of the time (closed form [0-9.]*%), 2 or more'
matches '^recovery  *decode: known after 5.00 s; a repaired instance starts at once'

# Six instances hold the rate. With racks of four, it takes ten where they are packed; over eight
# racks eight, as a rack then has two. The run that binds is that of six instances.
study=$source_dir/experiments/examples/survive.yaml
one() { "$tandem" provision "$study" --no-range "$@"; }
expect 0 one --set provision.survive=null
matches '^packed  6 mixed '
matches '^spread  6 mixed '
margin=$(sed -n 's/^spread .* \([0-9.]*%\)$/\1/p' out)
expect 0 one --jobs 1
prints 'with any one rack down'
matches '^packed  10 mixed .* '"$margin"'$'
matches '^spread  8 mixed .* '"$margin"'$'
cp out alone
expect 0 one --jobs 2
sed '/^simulations/d' out >out.2
sed '/^simulations/d' alone | cmp -s - out.2 || fail 'the answer depends on the number of threads'
expect 3 one --survive row
says "'survive' names 'row', which is no key of 'domains'"
ask() {
  "$tandem" plan --model llama3.1-70b --weights fp8 --gpu h100 --isl 1000 --osl 200 --rate 48 \
    --slo 'ttft.p99<1s,tpot.p99<60ms' "$@"
}
expect 0 ask --survive rack=4 --dry-run
matches '^domains: {rack: {size: 4, placement: spread}}'
matches '^  survive: rack$'
expect 0 ask --survive machine --split no --tp 4 --seeds 1
matches 'the limits hold with any one of . machine domains down during the whole run'
expect 3 ask --survive rack
says "'rack' is not a failure domain"
finish
