#!/bin/sh
# `tandem fit` and `tandem plot fit` on small profiles: what they write, and exit codes of bad
# input.
set -u
tandem=$TANDEM_BINARY
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 2
failed=0

# expect CODE TEXT COMMAND... : the exit code, and TEXT somewhere in what it prints.
expect() {
  code=$1
  text=$2
  shift 2
  "$@" >out 2>&1
  got=$?
  if [ "$got" -ne "$code" ] || { [ -n "$text" ] && ! grep -qF -e "$text" out; }; then
    echo "expected $code and '$text' from: $*"
    echo "got $got:"
    cat out
    failed=1
  fi
}

columns='model,gpu,tensor_parallel_size,op,mode,configuration,prefill_tokens,prefill_area2'
columns="$columns,decode_seqs,context_tokens,logit_seqs,median_us,mad_us,p10_us,p90_us,samples"
columns="$columns,power_w,sm_clock_mhz,mem_clock_mhz,roofline_fraction,stop"
# profile GPU TP... : prefill and decode iterations whose times follow simple lines.
profile() {
  echo '# engine_preset: eager-2023'
  echo '# date: 2023-11-30'
  echo "$columns"
  gpu=$1
  shift
  for tp; do
    awk -v gpu="$gpu" -v tp="$tp" 'BEGIN {
      for (p = 64; p <= 4096; p *= 2)
        printf "m1,%s,%d,iteration,,%d,%d,%d,0,0,1,%d,,,,,,,,,\n", gpu, tp, p, p, p * p,
          20000 + 50 * p
      for (n = 1; n <= 32; n *= 2)
        printf "m1,%s,%d,iteration,,%d,0,0,%d,%d,%d,%d,,,,,,,,,\n", gpu, tp, 5000 + n, n,
          500 * n, n, 9000 + 100 * n
    }'
  done
}
profile g1 1 2 >two.csv
profile g1 1 >one.csv
{ cat one.csv && echo 'm1,g1,1,iteration,,9,100,10000,0,0,1,25000,,,,,,,,,'; } >other.csv
head -4 one.csv >short.csv
sed 's/iteration,,64,64/iteration,,64,x/' one.csv >bad.csv
sed 's/median_us/median_ms/' one.csv >unit.csv
mkdir taken

expect 0 'm1_g1_tp1' "$tandem" fit one.csv -o one.yaml
expect 0 'held out' "$tandem" fit one.csv
expect 0 'm1,g1,2,decode,held out' "$tandem" fit two.csv --format csv -o models
expect 0 '"kind": "held out"' "$tandem" fit one.csv --format json
expect 0 'm1_g1_tp2' "$tandem" fit two.csv --tp 2 -o two.yaml
expect 0 'digest' cat models/m1_g1_tp1.yaml
expect 0 '"date": "2023-11-30"' cat models/m1_g1_tp2.yaml
expect 0 "engine 'ideal'" "$tandem" fit one.csv --preset ideal
expect 0 'was fitted to' "$tandem" fit --verify one.csv one.yaml
cp one.yaml again.yaml
expect 0 'm1' "$tandem" fit one.csv -o one.yaml
expect 0 '' cmp one.yaml again.yaml

# A shard of two GPUs measured on one, in graphs and eagerly; hot rows and finer operators.
calibrated() {
  echo '# engine_preset: ideal'
  echo '# all_reduce: none'
  echo "$columns,cache,size"
  awk -v rows="$1" 'BEGIN {
    for (p = 1; p <= 4096; p *= 2) {
      printf "llama2-70b,h100-80gb,2,linear,graph,%d,%d,0,0,0,0,%d,,,,,,,,,,cold,\n", p, p,
        20000 + 50 * p
      printf "llama2-70b,h100-80gb,2,linear,graph,%d,%d,0,0,0,0,%d,,,,,,,,,,hot,\n", p, p,
        9000 + 50 * p
      printf "llama2-70b,h100-80gb,2,linear,eager,%d,%d,0,0,0,0,%d,,,,,,,,,,cold,\n", p, p,
        29000 + 50 * p
      printf "llama2-70b,h100-80gb,2,prefill_attention,graph,%d,%d,%d,0,0,0,%d,,,,,,,,,,,\n", p, p,
        p * p, 1000 + p * p / 1000
      printf "llama2-70b,h100-80gb,2,iteration,graph,%d,%d,%d,0,0,1,%d,,,,,,,,,,cold,\n", p, p,
        p * p, 22000 + 50 * p + p * p / 1000
    }
    for (b = 1024; rows && b <= 2 ^ 26; b *= 4)
      printf "llama2-70b,h100-80gb,2,all_reduce,graph,%d,0,0,0,0,0,%d,,,,,,,,,,,%d\n", b,
        10 + b / 100000, b
    for (n = 1; n <= 8; n *= 2)
      printf "llama2-70b,h100-80gb,2,gemm_o,graph,%d,0,0,0,0,0,%d,,,,,,,,,,cold,%d\n", n, n, n
  }'
}
calibrated 0 >bare.csv
calibrated 1 >reduced.csv
expect 0 'left out: 13 rows of the other mode, 13 rows measured on a hot or busy GPU, 4 rows of' \
  "$tandem" fit bare.csv
expect 0 "all-reduce: 160 an iteration, table 'vllm-" "$tandem" fit bare.csv
sed 's/h100-80gb/h100-80gb-pcap/' bare.csv >other.csv # a GPU without tables
expect 0 'all-reduce: missing: measured on one GPU' "$tandem" fit other.csv
expect 0 "all-reduce: 160 an iteration, rings of 'dgx-h100'" "$tandem" fit bare.csv \
  --machine dgx-h100 -o ring.yaml
expect 0 "160 an iteration, rings of 'dgx-h100'" cat ring.yaml
expect 0 'all-reduce: 160 an iteration, from 9 measured rows' "$tandem" fit reduced.csv -o ar.yaml
expect 0 'was fitted to' "$tandem" fit --verify reduced.csv ar.yaml
expect 0 'iterations and operators: ' "$tandem" fit reduced.csv
expect 0 'overhead 0.99' "$tandem" fit bare.csv

# What an H100 took: iterations that a fit has not seen are less than 2% off, terms less than 6.5%.
measured=$MESON_SOURCE_ROOT/perfmodel/profiles/h100-80gb
for model in llama3-8b llama2-70b-tp8; do
  "$tandem" fit "$measured/$model-wgmma.csv" >errors
  expect 0 '' awk '$2 == "held" && $3 == "out" && $1 ~ /^(iterations|linear|head|.*_attention)$/ {
    met += $7 > 0 && $7 < ($1 == "iterations" ? 2 : 6.5) }
    END { exit met != 5 }' errors
done

# Host time is that of an engine's release, which a run names; what a preset counts of kernels is in
# those that were measured.
expect 3 "the host time of 'eager-2023' is not part of a fit" \
  "$tandem" fit bare.csv --preset eager-2023
expect 3 "it is that of engine 'vllm-2023', which a configuration names" \
  "$tandem" fit bare.csv --preset eager-2023
expect 0 'overhead 0.99' "$tandem" fit bare.csv -o plain.yaml
expect 0 'overhead 0.99' "$tandem" fit bare.csv --preset graph-engine -o floors.yaml
sed '/engine_preset:/d' plain.yaml >plain
sed '/engine_preset:/d' floors.yaml >floors
expect 0 '' cmp plain floors

# Sustained rows are fitted to by nobody, and said.
commas=,,,,,,,,,
{
  sed 's/^model,.*/&,rates/; s/^llama2.*/&,/' bare.csv
  echo "llama2-70b,h100-80gb,2,iteration,graph,99,4096,16777216,0,0,1,300000$commas,cold,,sustained"
} >sustained.csv
expect 0 '1 sustained rows' "$tandem" fit sustained.csv -o sustained.yaml
expect 0 "takes 1.2" "$tandem" fit sustained.csv
expect 0 'time_scale: 1.2' "$tandem" fit sustained.csv
sed '/^ *digest:/d; /^ *profile:/d' plain.yaml >plain
sed '/^ *digest:/d; /^ *profile:/d' sustained.yaml >fitted
expect 0 '' cmp plain fitted
expect 0 '' "$tandem" fit bare.csv --mode eager

# Tables of kernels, and how far what is composed of them is from the iterations beside.
expect 0 "note: 'llama2-70b' cannot be composed of these tables" "$tandem" fit bare.csv \
  --tables tables
cp -r "$TANDEM_SOURCE_DIR/perfmodel/tables/h100-80gb/vllm-0.24.0" tables/h100-80gb
expect 0 'all              13' "$tandem" fit bare.csv --tables tables
expect 0 'lack a part of it, attention of decodes of vllm-0.24.0 (' "$tandem" fit bare.csv \
  --tables tables
expect 0 'bfloat16,8192,32,4,128,14336,1,250.6' cat tables/h100-80gb/tandem-0.0/linear.csv
expect 2 "several profiles need '--tables'" "$tandem" fit bare.csv reduced.csv one.csv
expect 2 "'--tables' and '-o' exclude each other" "$tandem" fit bare.csv --tables t -o x.yaml
expect 3 "the profile is of the engine 'vllm'" \
  sh -c "sed '1i # engine: vllm' bare.csv >engine.csv; '$tandem' fit engine.csv --tables t"
expect 2 "'--mode' must be graph or eager, not 'fast'" "$tandem" fit bare.csv --mode fast
expect 3 "dgx-h100" "$tandem" fit bare.csv --machine dgx-h10

expect 3 'was fitted to rows with digest' "$tandem" fit --verify other.csv one.yaml
expect 3 'the profile has, nearest first, m1_g1_tp2, m1_g1_tp1' "$tandem" fit two.csv --tp 4
expect 3 'the profile has, nearest first, m1_g1_tp1, m1_g1_tp2' "$tandem" fit two.csv --model m2 \
  --tp 1
expect 3 'the profile has several groups' "$tandem" fit two.csv -o model.yaml
expect 3 'at least two points' "$tandem" fit short.csv
expect 3 'bad.csv:4:' "$tandem" fit bad.csv
expect 3 'median_us' "$tandem" fit unit.csv
expect 3 'eager-2024' "$tandem" fit one.csv --preset eager-2024
expect 4 'cannot write' "$tandem" fit one.csv -o nowhere/one.yaml
expect 4 'cannot make the folder' "$tandem" fit one.csv -o one.csv
expect 4 'absent.csv' "$tandem" fit absent.csv
expect 2 "needs MODEL" "$tandem" fit --verify one.csv
expect 2 "only with '--verify'" "$tandem" fit one.csv one.yaml
expect 0 'usage: tandem fit' "$tandem" fit --help

sed '/^fit:/,$d' one.yaml >bare.yaml
expect 3 'no record of a fit' "$tandem" plot fit bare.yaml -o picture.svg
expect 2 '.png or .svg' "$tandem" plot fit one.yaml -o picture.jpg
expect 2 "'-o FILE' is missing" "$tandem" plot fit one.yaml
expect 3 'was fitted to rows with digest' "$tandem" plot fit one.yaml other.csv -o picture.svg
if command -v gnuplot >/dev/null; then
  expect 0 '' "$tandem" plot fit one.yaml one.csv -o picture.svg
  expect 0 'sequences' cat picture.svg
  expect 0 '' "$tandem" plot fit one.yaml -o "it's.png"
  expect 0 '' test -s "it's.png"
  expect 4 'cannot write' "$tandem" plot fit one.yaml -o nowhere/picture.svg
fi
mkdir empty
expect 4 "'gnuplot' was not found" env PATH="$work/empty" "$tandem" plot fit one.yaml -o picture.svg
exit $failed
