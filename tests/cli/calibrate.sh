#!/bin/sh
# `tandem calibrate` on the fake backend: its profile passes `check` and `fit`, whenever it is
# killed; `--resume` comes to the same points; and every way of failing ends with one line, a code
# of its own, and all that was measured in the file. Needs TANDEM_OTHER_LIBRARY, a library.
. "$TANDEM_SOURCE_DIR/tests/cli_testing.sh"
unset TANDEM_FAKE

# fake ARGUMENT... : a small model of two layers on the fake GPU.
fake() { "$tandem" calibrate --backend fake --model llama3-8b --layers 2 "$@"; }
fake_with() {
  words=$1
  shift
  (TANDEM_FAKE=$words && export TANDEM_FAKE && fake "$@")
}

rows() { grep -vc '^#\|^model,' "$1"; }
# Which points a profile has: group, operator and configuration.
points() { grep -v '^#\|^model,' "$1" | cut -d, -f1-8 | sort -u; }
accepted() {
  expect 0 "$tandem" check "$1"
  expect 0 "$tandem" fit "$1" -o models
}
one_line() { [ "$(grep -c 'error:' err)" -eq 1 ] || fail 'not one error'; }

# --- what a whole run leaves

expect 0 fake -o whole.csv
prints '601 of 655 points measured'
prints 'waived: needs several devices'
accepted whole.csv
prints 'llama3-8b-2l_fake-gpu_tp1'
for fact in 'finished: all points' 'engine_preset: ideal' 'all_reduce: none' 'backend: fake' \
  'seed: 1' 'dtype: bf16'; do
  grep -qx "# $fact" whole.csv || fail "no fact '$fact'"
done
# What a row says of the GPU meanwhile; a number where the counter moved enough.
column() { # NAME FILE : its values, of each row
  awk -F, -v name="$1" '/^#/ { next }
    $1 == "model" { for (i = 1; i <= NF; i++) if ($i == name) at = i; next } { print $at }' "$2"
}
[ "$(column throttle whole.csv | sort -u)" = none ] || fail 'reasons to throttle without one'
[ "$(column rates whole.csv | grep -c sustained)" -eq 2 ] || fail 'not two sustained rows'
for name in energy_j power_w; do
  [ "$(column $name whole.csv | grep -c .)" -eq "$(rows whole.csv)" ] || fail "a row without $name"
done
[ "$(column algorithm whole.csv | grep -c 'of the fake')" -ge 100 ] || fail 'no algorithms'
[ "$(column mode whole.csv | grep -c queued)" -ge 50 ] || fail 'copies are said to be graphs'
expect 0 "$tandem" fit whole.csv
prints ' sustained: '
expect 0 fake_with 'throttle=4 clock=900' --only head -o capped.csv
[ "$(column throttle capped.csv | sort -u)" = 'power cap' ] || fail 'no reason to throttle'
[ "$(column least_sm_clock_mhz capped.csv | sort -u)" = 900 ] || fail 'not the clock'

# A clock that fell: what it came back from is measured again, else each row says it.
expect 0 fake_with 'slow=head by=1 dip=0.5 until=1' -o dip.csv
prints 'clock below 75% of its usual rate at 1 readings'
prints '1 points measured again, 0 flagged'
[ -z "$(column stop dip.csv | grep clock)" ] || fail 'a row is kept that was measured again'
accepted dip.csv
expect 0 fake_with 'slow=head dip=0.5' -o low.csv
column stop low.csv | grep clock | sort -u >got
[ "$(cat got)" = 'interval; clock' ] || fail "not each row of a low clock says so: $(cat got)"
expect 3 "$tandem" check low.csv
prints 'clock: head of llama3-8b-2l on fake-gpu'
expect 0 "$tandem" check low.csv --drop high.csv
[ -z "$(column op high.csv | grep -x head)" ] || fail 'rows of a low clock are not dropped'

# A sustained row takes seconds, and is not begun without them.
expect 0 fake --budget 6s -o short.csv
[ "$(column rates short.csv | grep -c sustained)" -eq 0 ] || fail 'sustained beyond the budget'
says '2 points left'
expect 0 fake --resume -o short.csv
[ "$(column rates short.csv | grep -c sustained)" -eq 2 ] || fail 'what was left is left'

# Another GPU of the kind goes on; anchors say how far the two differ.
expect 0 fake --budget 6s -o two.csv
expect 0 fake_with 'uuid=1 step=0.05 after=0' --resume -o two.csv
says "was begun on another GPU of this kind"
prints 'drift 5.'
[ "$(sed -n 's/^# gpu_uuid_hash: //p' two.csv | wc -w)" -eq 2 ] || fail 'not both GPUs are named'
expect 0 fake_with uuid=1 --resume -o two.csv
grep -q 'another GPU' err && fail 'a GPU that is known is another'

# What else is on the GPU is recorded, and warned of.
expect 0 fake_with 'processes=3 pcie=8 ecc-errors=2 mig=1' --only head -o company.csv
says 'warning: other processes: 2; they take time and power'
says 'warning: PCIe: 8 of 16 lanes; '
says 'warning: memory errors: 2 uncorrectable; '
says 'warning: MIG: on; '
for fact in 'other_processes: 2' 'ecc: on' 'ecc_errors: 2' 'mig: on' 'pcie_lanes: 8 of 16' \
  'sm_clock_most_mhz: 1500'; do
  grep -qx "# $fact" company.csv || fail "no fact '$fact'"
done
expect 0 fake --only head -o alone.csv
grep -q warning err && fail 'a warning without a cause'
grep -qx '# other_processes: 0' alone.csv || fail 'it does not say that it was alone'

grep -q 'FAKE-0000' whole.csv && fail 'the uuid is in the profile'

expect 0 "$tandem" calibrate --backend fake --device 1 --model llama3-8b --layers 2 --tp 1,2 \
  -o cpu.csv
accepted cpu.csv
expect 0 fake --dry-run
prints '601 points in about'
[ ! -e fake-gpu.csv ] || fail 'a dry run wrote a file'
expect 0 fake
accepted fake-gpu.csv
expect 0 fake --only linear,gemm_qkv --output some.csv
[ "$(points some.csv | cut -d, -f4 | sort -u | tr '\n' ' ')" = 'gemm_qkv linear ' ] ||
  fail 'other operators than asked for'

expect 0 "$tandem" fit some.csv -o some.yaml
prints 'not measured, and counted as 0: prefill_attention, decode_attention, head'

# --- tables

expect 0 fake --only linear,head,decode_attention,gemm_o -o part.csv --tables tables
says "tables of kernels in 'tables/fake-gpu/tandem-"
says "note: no machine type has the GPU 'fake-gpu'"
for name in gemm generation_attention head linear; do
  grep -q '^# part.csv, rows [0-9a-f]*, date 20' tables/fake-gpu/tandem-*/$name.csv ||
    fail "no table '$name' with its source"
done
[ ! -e tables/fake-gpu/tandem-*/context_attention.csv ] || fail 'a table of what was not measured'

# --- experts

expect 0 "$tandem" calibrate --backend fake --model qwen3-30b-a3b --layers 2 -o experts.csv
accepted experts.csv
prints 'qwen3-30b-a3b-2l_fake-gpu_tp1'
for op in moe_routing moe_gemm_up moe_gemm_down moe_combine; do
  grep -q ",$op," experts.csv || fail "no $op of a model with experts"
done
grep -q ',gemm_up,\|,gemm_down,' experts.csv && fail 'an MLP beside the experts'
grep -q ',moe_' whole.csv && fail 'experts of a model that has none'
expect 3 "$tandem" calibrate --backend fake --model deepseek-v3 -o none.csv
says "model 'deepseek-v3' has shared experts"

# --- weights of 8 bits

expect 0 fake --weights fp8_block -o eight.csv
accepted eight.csv
[ -f models/llama3-8b-2l_fake-gpu_tp1_fp8_block.yaml ] || fail 'the format is not in the name'
grep -qx 'weight_dtype: fp8_block' models/llama3-8b-2l_fake-gpu_tp1_fp8_block.yaml ||
  fail 'the format is not in the model'
grep -qx '# weight_dtype: fp8_block' eight.csv || fail 'the format is no fact'
grep -q 'weight_dtype' whole.csv && fail 'a format of weights that have none'
expect 3 fake --weights fp8_blok -o none.csv
says "did you mean 'fp8_block'?"

# --- attention by cuDNN

expect 0 fake --attention cudnn -o cudnn.csv
accepted cudnn.csv
grep -qx '# attention: cudnn' cudnn.csv || fail 'whose attention is no fact'
attending=$(column op cudnn.csv | grep -c '^iteration$\|_attention$')
[ "$(column attn_kernel cudnn.csv | grep -c '^cudnn of the fake$')" -eq "$attending" ] ||
  fail 'rows of attention do not say whose it is, or others do'
[ -z "$(column attn_kernel whole.csv | grep .)" ] || fail 'the fake has no attention of its own'
[ -f models/llama3-8b-2l_fake-gpu_tp1_cudnn.yaml ] || fail 'whose attention is not in the name'
grep -q '^    "attention": "cudnn"$' models/llama3-8b-2l_fake-gpu_tp1_cudnn.yaml ||
  fail 'whose attention is not in the model'
sed '0,/cudnn of the fake/s//tandem/' cudnn.csv >two.csv
rejects 3 "$tandem" fit two.csv -o models
says "attention of 'tandem' and of 'cudnn' in one group cannot be fitted together"
grep -q '^# attention' whole.csv && fail 'a fact of attention that nobody asked for'
rejects 3 fake --resume -o cudnn.csv
says "its 'attention' is 'cudnn', now it is 'unknown'"
rejects 3 fake --resume --attention cudnn -o whole.csv
says "its 'attention' is 'unknown', now it is 'cudnn'"
expect 0 fake --resume --attention cudnn -o cudnn.csv
expect 3 fake --attention cudn -o none.csv
says "did you mean 'cudnn'?"
expect 3 "$tandem" calibrate --backend cpu --attention cudnn -o none.csv
says 'the cpu backend has only its own attention'

# --- whatever ends it

# start FILE : a slow run in the background, as soon as it has a file.
start() {
  rm -f "$1"
  TANDEM_FAKE=pace=0.0005 "$tandem" calibrate --backend fake --model llama3-8b --layers 2 \
    -o "$1" >out 2>err &
  last="calibrate -o $1 &"
  tries=0
  until [ -e "$1" ] || [ "$tries" -eq 600 ]; do
    sleep 0.1
    tries=$((tries + 1))
  done
}

# Killed, cut off by hand or interrupted: check and fit take what is there.
for after in 0 0.03 0.2 1; do
  start killed.csv
  sleep "$after"
  kill -9 $! 2>kill.err
  wait $! 2>kill.err
  accepted killed.csv
done
grep -qx '# finished: no' killed.csv || fail 'a killed run says that it finished'
had=$(rows killed.csv)
[ "$had" -lt "$(rows whole.csv)" ] || fail 'it was not killed in time'
expect 0 fake --resume -o killed.csv
points whole.csv >want
points killed.csv >got
cmp -s want got || fail 'resuming came to other points'
accepted killed.csv

head=$(grep -n '^model,' whole.csv | cut -d: -f1)
for n in 2 3 4 5 6 8 13 21 34 55; do
  head -n $((head + n)) whole.csv >cut.csv
  accepted cut.csv
done

head -c "$(($(wc -c <whole.csv) - 30))" whole.csv >torn.csv
accepted torn.csv
says 'the last line is not complete'
expect 0 fake --resume -o torn.csv
points torn.csv >got
cmp -s want got || fail 'resuming a torn file came to other points'
[ "$(tail -c 1 torn.csv)" = '' ] || fail 'the last line is still torn'

# Two of one file would rename theirs over the other's.
start shared.csv
rejects 3 fake -o shared.csv
says "shared.csv: error: 'shared.csv' is in use by another calibration, process $!"
one_line
rejects 3 fake --resume -o shared.csv
says 'is in use by another calibration'
kill -TERM $!
wait $!
[ ! -e shared.csv-calibration ] || fail 'the lock was left'
expect 0 fake --resume -o shared.csv
points shared.csv >got
cmp -s want got || fail 'a file that was locked came to other points'

start interrupted.csv
sleep 0.2
kill -TERM $!
code=0
wait $! || code=$?
[ "$code" -eq 143 ] || fail "exit code $code after SIGTERM"
says 'interrupted'
accepted interrupted.csv
grep -qx '# finished: interrupted' interrupted.csv || fail 'the end is not recorded'

expect 3 fake --budget 1us -o none.csv # a budget shorter than any point
says '--budget: error: no point fits in 1e-06 s'
[ ! -e none.csv ] || fail 'a profile without points'
expect 0 fake_with pace=0.001 --budget 0.5s -o budget.csv
says 'out of budget'
accepted budget.csv
expect 0 fake --resume -o budget.csv
points budget.csv >got
cmp -s want got || fail 'resuming after the budget came to other points'

grep '^# worst_error' budget.csv >verified
expect 0 fake --resume -o budget.csv
grep '^# worst_error' budget.csv >got
cmp -s verified got || fail 'a run with nothing to do took away what was found before'

# --- resuming something else

rejects 3 fake -o whole.csv
says 'the profile already exists'
rejects 3 fake --resume --seed 2 -o whole.csv
says "its 'seed' is '1', now it is '2'"
rejects 3 fake --resume --tp 2 -o whole.csv
says "'tensor_parallel_sizes' is '1', now it is '2'"
rejects 3 "$tandem" calibrate --backend fake --device 1 --model llama3-8b --layers 2 --resume \
  -o whole.csv
says "its 'gpu' is 'fake-gpu', now it is 'fake-cpu'"

# --- failing on the way

expect 4 fake_with fail=60 -o failed.csv
one_line
says 'point 60 fails'
accepted failed.csv
expect 0 fake_with oom=2048 -o oom.csv
prints 'waived: out of memory'
says 'points do not fit in memory'
accepted oom.csv
expect 4 fake_with wrong=gemm_o -o wrong.csv
says "operator 'gemm_o' gives wrong results"
accepted wrong.csv
points wrong.csv | grep -q gemm_o && fail 'a wrong result is in the profile'
# A disk that is full after 40 KiB: SIGXFSZ is ignored, so write() fails as on any full disk.
last='a full disk'
code=0
(trap '' XFSZ && ulimit -f 80 && fake -o disk.csv >out 2>err) || code=$?
[ "$code" -eq 4 ] || fail "exit code $code, not 4"
says 'disk.csv: error: cannot write'
one_line
accepted disk.csv
expect 0 fake_with wrong=gemm_o --no-verify -o unverified.csv
expect 0 fake_with step=0.1 -o drift.csv
prints 'points measured again'
prints ' 0 flagged'
accepted drift.csv
points drift.csv >got
cmp -s want got || fail 'a drift left other points'

# --- bad input

rejects 3 "$tandem" calibrate --backend fke --model llama3-8b
says "did you mean 'fake'?"
rejects 3 "$tandem" calibrate --backend fake --model llama3-8c
says "did you mean 'llama3-8b'?"
rejects 3 fake --dtype fp17
rejects 3 fake --only liner
says "did you mean 'linear'?"
rejects 3 fake --tp 3
says 'tensor_parallel_size 3 does not divide the heads'
rejects 3 fake --layers 33
rejects 3 fake --tp 1,2,1
says "'llama3-8b-2l' with tensor_parallel_size 1 is given twice"
expect 3 "$tandem" calibrate --backend fake --model bloom-176b -o none.csv
prints 'nothing measured: it does not fit'
grep -q 'all points' out && fail 'it claims to have all points'
[ ! -e none.csv ] || fail 'a profile of nothing'
rejects 2 fake --budget soon
says "a time such as '120 s'"
rejects 3 fake --tp 1,x
rejects 2 "$tandem" calibrate --backend fake
says "a GPU needs '--model NAME'"
expect 3 "$tandem" calibrate --backend fake --model llama2-70b --tp 1,4 -o large.csv
says 'tensor_parallel_size 2 fits'
one_line
accepted large.csv

# --- what the environment lacks

rejects 4 fake_with no-driver -o none.csv
says 'no driver'
rejects 4 fake --device 9
says 'no device 9'
rejects 4 "$tandem" calibrate --backend fake --device 2 --model llama3-8b
says 'compute capability 7.0'
expect 4 fake -o /dev/full
says '/dev/full: error: cannot write'
rejects 4 env TANDEM_OPENBLAS=/absent.so "$tandem" calibrate --backend cpu -o cpu.csv
says 'needs OpenBLAS'
one_line
rejects 4 env TANDEM_OPENBLAS="$TANDEM_OTHER_LIBRARY" "$tandem" calibrate --backend cpu -o cpu.csv
says 'is not OpenBLAS'
one_line
rejects 4 fake -o nowhere/profile.csv
says 'nowhere/profile.csv: error'
expect 0 "$tandem" calibrate --help
prints 'usage: tandem calibrate [options]'
finish
