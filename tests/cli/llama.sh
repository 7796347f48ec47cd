#!/bin/sh
# `--backend llama`: what is refused without libllama, or with files that are not its own; and where
# TANDEM_LLAMA names one, measurement, fit and validation of a tiny random model from end to end.
# Times are not judged: machines for tests have other work.
. "$TANDEM_SOURCE_DIR/tests/cli_testing.sh"
library=${TANDEM_LLAMA:-}
unset TANDEM_LLAMA

# --- without the library

rejects 4 env TANDEM_LLAMA=/absent.so "$tandem" calibrate --backend llama --model llama3-8b
says 'cannot open libllama'
rejects 4 env TANDEM_LLAMA="$TANDEM_OTHER_LIBRARY" "$tandem" calibrate --backend llama \
  --model llama3-8b
says "it has no 'llama_"

printf 'GGUF\003\000\000\000' >cut.gguf
rejects 3 "$tandem" calibrate --backend fake --model cut.gguf
says 'the GGUF file is damaged or not supported: it ends too early at byte 8'
rejects 4 "$tandem" calibrate --backend fake --model absent.gguf
says "cannot open 'absent.gguf'"
command -v python3 >/dev/null || finish
expect 0 python3 "$source_dir/tests/python/make_tiny_gguf.py" tiny.gguf
expect 0 "$tandem" calibrate --backend fake --model tiny.gguf --dry-run
prints 'tiny on'

llama() { "$tandem" calibrate --backend llama --threads 1 "$@"; }

# closed NAME : a configuration of its model and fit.
closed() {
  cat <<END
model: ./$1.gguf
workload:
  lengths: {prompt: {uniform: [20, 200]}, output: {uniform: [4, 20]}}
  arrivals: {process: poisson, rate: 5 /s}
  requests: 20
  seed: 1
pools: {serve: {machine: cpu, count: 1, tensor_parallel_size: 1}}
policies: {batcher: {name: mixed, max_num_batched_tokens: 256, max_num_seqs: 8}}
perfmodel: ./$1.yaml
slo: none
END
}

# validated NAME : a validation that runs to its end, whatever it finds.
validated() {
  closed "$1" >closed.yaml
  last="validate $1" code=0
  "$tandem" validate closed.yaml --backend llama --threads 1 >out 2>err || code=$?
  [ "$code" -le 1 ] || fail "exit code $code"
  prints 'ttft p50'
}

# --- a library that keeps the books of the cache, and one with other parameters

export TANDEM_LLAMA="$TANDEM_FAKE_LLAMA"
cp tiny.gguf fake.gguf
expect 0 env FAKE_LLAMA=gpu "$tandem" calibrate --backend llama --model fake.gguf --budget 2s \
  -o gpu.csv
for fact in 'gpu: h100-80gb' 'machine: NVIDIA H100 80GB HBM3' 'memory_mib: 80896'; do
  grep -qx "# $fact" gpu.csv || fail "no fact '$fact'"
done
expect 0 "$tandem" check gpu.csv
rejects 4 env FAKE_LLAMA=layout "$tandem" calibrate --backend llama --model fake.gguf
says "'n_ubatch' of the parameters of a context does not have its default"
expect 4 env FAKE_LLAMA=fails "$tandem" calibrate --backend llama --model fake.gguf -o fake.csv
says 'llama_decode of'
says 'failed with -3'
expect 0 llama --model fake.gguf --budget 15s --resume -o fake.csv
prints 'fake on cpu'
expect 0 "$tandem" fit fake.csv -o fake.yaml
validated fake

# --- the library itself

[ ! -e failed ] || finish
[ ! -e failed ] || exit 1
[ -n "$library" ] || exit 77
export TANDEM_LLAMA="$library"

expect 3 llama --model llama3-8b -o none.csv
says 'llama.cpp runs models of GGUF files'
printf 'GGUF\003\000\000\000\000\000\000\000' >not.gguf
expect 3 llama --model not.gguf -o none.csv
{ head -c 1000 tiny.gguf; } >half.gguf
expect 3 llama --model half.gguf -o none.csv

expect 0 llama --model tiny.gguf --budget 8s -o tiny.csv
prints 'tiny on cpu'
grep -q '^# backend: llama' tiny.csv || fail 'the profile does not say its backend'
grep -q '^# .*llama.cpp' tiny.csv || fail 'the profile does not say the library'
grep -v '^#\|^model,' tiny.csv | cut -d, -f4 | sort -u >ops
[ "$(cat ops)" = iteration ] || fail 'other rows than iterations'
rows=$(wc -l <tiny.csv)
expect 0 llama --model tiny.gguf --budget 30s --resume -o tiny.csv
[ "$(wc -l <tiny.csv)" -gt "$rows" ] || fail '--resume adds nothing'
expect 0 "$tandem" fit tiny.csv -o tiny.yaml
prints 'held out'

validated tiny
finish
