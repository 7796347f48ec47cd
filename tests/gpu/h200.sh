#!/bin/bash
# Everything that needs a GPU, in one go of under ten minutes, on a machine where nothing is
# installed but a driver and CUDA: `tandem doctor`, whose bands are those of any GPU, also of
# attention by cuDNN where that is found, kernels against their references, profiles, a validation.
# Programs are built elsewhere and carried there. What is skipped has failed: there is a GPU. Only
# of cuDNN and compute-sanitizer, which come apart, a line says that they are not there.
#
#   tests/gpu/h200.sh pack BUILD ARCHIVE    packs what `run` needs out of a build folder
#   tests/gpu/h200.sh run ARCHIVE OUT       runs it in the root of the sources; files go to OUT
#   tests/gpu/h200.sh dry ARCHIVE OUT       the same without a GPU: on the fake backend, fewer steps
#
# SCALE=0.5 halves the budgets. A step that fails is named in the table at the end, and the others
# go on; the exit status is the number of failed steps.
set -u
DEADLINE=${DEADLINE:-570} # seconds from the start in which all must end

# --- packing -----------------------------------------------------------------------------------

# What `tandem` needs and a bare machine may not have; never the libraries of the C compiler.
libraries() {
  ldd "$1" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' |
    grep -vE '/(libc|libm|libdl|libpthread|librt|libgcc_s|ld-linux[^/]*)\.so'
}

pack() {
  build=$1 archive=$2
  folder=$(mktemp -d) || exit 2
  trap 'rm -rf "$folder"' EXIT
  mkdir "$folder/bin" "$folder/lib"
  cp "$build/tandem" "$build/calib/tandem-calib-fake" "$build/kernels/tandem-calib-cuda" \
    "$folder/bin/" || exit 1
  for program in "$build"/tests/kernels/gpu_*; do
    [ -f "$program" ] && [ -x "$program" ] && cp "$program" "$folder/bin/"
  done
  libraries "$build/tandem" | while read -r library; do cp -L "$library" "$folder/lib/"; done
  strip "$folder"/bin/* "$folder"/lib/* 2>/dev/null
  # The programs hold the same kernels: a window over all of them finds that.
  tar -C "$folder" -c bin lib | xz -T1 --lzma2=preset=1,dict=128MiB >"$archive" || exit 1
  ls -l "$archive"
}

# The machine may have no xz.
unpack() {
  if command -v xz >/dev/null; then
    xz -dc "$1"
  else
    python3 -c 'import lzma, shutil, sys
shutil.copyfileobj(lzma.open(sys.argv[1]), sys.stdout.buffer)' "$1"
  fi | tar -C "$2" -x
}

# --- steps -------------------------------------------------------------------------------------

# step SECONDS NAME COMMAND... : the output goes to the log, its last line into the table. The
# command, which may be a function of this file, ends when all of the run should.
step() {
  limit=$1 name=$2
  shift 2
  left=$((DEADLINE - SECONDS))
  if [ "$limit" -gt "$left" ]; then limit=$left; fi
  began=$SECONDS
  echo "== $name: $*" >>"$log"
  : >"$work/step"
  if [ "$limit" -lt 5 ]; then
    printf '%-10s %4d s  %s\n' 'NO TIME' 0 "$name" | tee -a "$table"
    failed=$((failed + 1))
    return 1
  fi
  timeout --kill-after=5 "$limit" bash -c '"$@"' step "$@" >"$work/step" 2>&1
  code=$?
  cat "$work/step" >>"$log"
  last=$(tr '\r' '\n' <"$work/step" | sed 's/\x1b\[[0-9;]*[A-Za-z]//g' | grep -v '^ *$' |
    tail -n 1)
  case $code in
  0) verdict=ok ;;
  124 | 137) verdict=TIME failed=$((failed + 1)) ;;
  *) verdict="FAILED $code" failed=$((failed + 1)) ;;
  esac
  printf '%-10s %4d s  %-28s %.110s\n' "$verdict" $((SECONDS - began)) "$name" "$last" |
    tee -a "$table"
  return $code
}

scaled() { awk -v a="$1" -v b="${SCALE:-1}" 'BEGIN { printf "%d", a * b + 0.5 }'; }

probe() {
  nvidia-smi -q -d CLOCK,POWER,TEMPERATURE,ECC 2>&1 | head -n 120
  nvidia-smi --query-gpu=name,driver_version,clocks.sm,power.draw,power.limit --format=csv
  ldd "$bin/tandem" "$bin/tandem-calib-cuda" | grep -i 'not found' && return 1
  nproc && uname -r && ldd --version | head -n 1
  LD_LIBRARY_PATH=$own_path python3 -c 'import torch
print(torch.__version__, torch.cuda.get_device_name())'
}

# Where cuDNN is: as the user says, beside CUDA, where the loader looks, or in PyTorch's packages.
find_cudnn() {
  IFS=: read -r -a folders <<<"$LD_LIBRARY_PATH:$own_path"
  packages=$(python3 -c 'import nvidia
for path in nvidia.__path__: print(path + "/cudnn/lib/libcudnn.so.9")' 2>/dev/null)
  listed=$(PATH=$PATH:/sbin ldconfig -p 2>/dev/null |
    awk '$1 == "libcudnn.so.9" { print $NF; exit }')
  while read -r file; do
    [ -f "$file" ] && echo "$file" && return
  done < <(printf '%s\n' "${TANDEM_CUDNN-}" "${folders[@]/%//libcudnn.so.9}" "$listed" "$packages")
  return 1
}

# doctor FILE ARGUMENT... : what it says, also if that is nothing good, goes to FILE.txt.
doctor() {
  file=$1
  shift
  step 150 "${file//-/ }" "$bin/tandem" doctor --backend "$backend" "$@"
  cp "$work/step" "$out/$file.txt"
}

# Attention by cuDNN, which comes apart from CUDA.
doctor_cudnn() {
  if ! TANDEM_CUDNN=$(find_cudnn); then
    echo 'NO CUDNN: attention by it is not looked at; TANDEM_CUDNN names its libcudnn.so.9' |
      tee -a "$table"
    return
  fi
  export TANDEM_CUDNN
  doctor doctor-cudnn --attention cudnn
}

correctness() {
  for program in "$bin"/gpu_*; do
    [ -x "$program" ] && step 60 "${program##*/}" "$program"
  done
}

# sanitizer TOOL PROGRAM... : a finding is an exit status of its own.
sanitizer() {
  tool=$1
  shift
  command -v compute-sanitizer >/dev/null || { echo 'no compute-sanitizer' >>"$table"; return; }
  for program; do
    [ -x "$bin/gpu_$program" ] || continue
    step 40 "$tool $program" compute-sanitizer --tool "$tool" --error-exitcode 9 --print-limit 5 \
      "$bin/gpu_$program" --small
  done
}

# calibrate SECONDS FILE ARGUMENT... : the profile of one run, checked.
calibrate() {
  seconds=$(scaled "$1") file=$2
  shift 2
  step $((seconds + 60)) "calibrate ${file##*/}" \
    "$bin/tandem" calibrate --backend "$backend" --budget "$seconds s" -o "$file" "$@"
  [ -s "$file" ] && step 20 "check ${file##*/}" "$bin/tandem" check "$file"
}

validate() {
  [ -s "$out/llama3-8b.csv" ] || return
  step 30 'fit llama3-8b' "$bin/tandem" fit "$out/llama3-8b.csv" -o "$work/llama3-8b.yaml" || return
  gpu=$(sed -n 's/^# gpu: //p' "$out/llama3-8b.csv")
  machine=$(grep -lx "gpu: $gpu.*" "$TANDEM_DATA"/perfmodel/machines/*.yaml | head -n 1)
  any_device=()
  [ -n "$machine" ] || machine=dgx-h200 any_device=(--any-device) # of a dry run
  cat >"$work/validate.yaml" <<END
model: llama3-8b
workload:
  lengths: {prompt: {lognormal: {mean: 1000, sigma: 0.8, min: 16, max: 6000}},
            output: {uniform: [10, 120]}}
  arrivals: {process: poisson, rate: 8 /s}
  requests: 100
  seed: 1
pools:
  all: {machine: $machine, count: 1, tensor_parallel_size: 1}
policies: {batcher: {name: mixed, max_num_batched_tokens: 2048, max_num_seqs: 64}}
perfmodel: $work/llama3-8b.yaml
slo: none
END
  step 75 'validate llama3-8b' "$bin/tandem" validate "$work/validate.yaml" --backend "$backend" \
    "${any_device[@]}"
  cp "$work/step" "$out/validate.txt"
}

# --- PyTorch on the same shapes ----------------------------------------------------------------

torch_figures() {
  LD_LIBRARY_PATH=$own_path python3 - "$1" <<'END'
"""Ceilings and attention of PyTorch on this GPU, as rows of a CSV."""
import sys, time
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

assert torch.cuda.is_available(), "no GPU"
rows = []

def median_us(run, samples=11, seconds=0.05):
    run(); run(); torch.cuda.synchronize()
    times = []
    for _ in range(samples):
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        n = 1 if not times else max(1, min(50, int(seconds / samples / (times[0] * 1e-6))))
        a.record()
        for _ in range(n):
            run()
        b.record(); torch.cuda.synchronize()
        times.append(a.elapsed_time(b) * 1e3 / n)
    return sorted(times)[len(times) // 2]

def note(name, shape, us, figure, unit):
    rows.append((name, shape, round(us, 2), round(figure, 2), unit))
    print(*rows[-1])

half = dict(dtype=torch.bfloat16, device="cuda")
x = torch.randn(1 << 30, **half)
y = torch.empty_like(x)
us = median_us(lambda: y.copy_(x))
note("copy_d2d", "2 GiB", us, 2 * x.numel() * 2 / us / 1e3, "GB/s")
del x, y
a, b = torch.randn(8192, 8192, **half), torch.randn(8192, 8192, **half)
us = median_us(lambda: a @ b.T)
note("gemm burst", "8192^3", us, 2 * 8192**3 / us / 1e6, "TFLOP/s")
torch.cuda.synchronize(); began, n = time.time(), 0
while time.time() - began < 6:
    for _ in range(50):
        a @ b.T
    torch.cuda.synchronize(); n += 50
us = (time.time() - began) / n * 1e6
note("gemm sustained 6 s", "8192^3", us, 2 * 8192**3 / us / 1e6, "TFLOP/s")
host = torch.empty(512 << 20, dtype=torch.uint8, pin_memory=True)
device = torch.empty_like(host, device="cuda")
us = median_us(lambda: device.copy_(host, non_blocking=True))
note("copy_h2d", "512 MiB", us, host.numel() / us / 1e3, "GB/s")
us = median_us(lambda: host.copy_(device, non_blocking=True))
note("copy_d2h", "512 MiB", us, host.numel() / us / 1e3, "GB/s")
del host, device, a, b
for heads, kv in ((64, 8), (8, 1), (32, 8)):
    for s in (512, 2048, 8192):
        q = torch.randn(1, heads, s, 128, **half)
        k, v = torch.randn(1, kv, s, 128, **half), torch.randn(1, kv, s, 128, **half)
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION): # or an error: no other may stand for it
            us = median_us(lambda: F.scaled_dot_product_attention(
                q, k, v, is_causal=True, enable_gqa=True))
        flops = 4 * 128 * heads * s * (s + 1) / 2
        note("prefill_attention", f"{heads}q/{kv}kv/{s}", us, flops / us / 1e6, "TFLOP/s")
with open(sys.argv[1], "w") as out:
    out.write("what,shape,us,figure,unit\n")
    for row in rows:
        out.write(",".join(map(str, row)) + "\n")
END
}

# Our prefill attention per layer at the same shapes, beside PyTorch's.
compare_attention() {
  awk -F, '
    FILENAME == ARGV[1] {
      if ($1 == "prefill_attention") torch[$2] = $3
      next
    }
    FNR == 1 { split("", column) }
    /^#/ { next }
    !("op" in column) {
      for (i = 1; i <= NF; i++) column[$i] = i
      next
    }
    $column["op"] == "prefill_attention" && $column["mode"] == "graph" {
      is_70b = $column["model"] ~ /70b/
      gpus = $column["tensor_parallel_size"]
      tokens = $column["prefill_tokens"]
      shape = (is_70b ? 64 : 32) / gpus "q/" 8 / gpus "kv/" tokens
      if (!(shape in torch) || $column["prefill_area2"] != tokens ^ 2) next
      us = $column["median_us"] / (is_70b ? 80 : 32)
      printf "%-18s ours %9.1f us, PyTorch %9.1f us, ratio %.2f\n", shape, us, torch[shape],
        us / torch[shape]
    }' "$@"
}

# --- all of it ---------------------------------------------------------------------------------

run() {
  archive=$1 out=$2
  mkdir -p "$out" || exit 2
  work=$(mktemp -d) || exit 2
  trap 'rm -rf "$work"' EXIT
  log=$out/log.txt table=$out/summary.txt failed=0
  export bin=$work/bin own_path=${LD_LIBRARY_PATH-} # PyTorch has libraries of its own
  export -f probe torch_figures
  : >"$log"
  : >"$table"
  unpack "$archive" "$work" || exit 2
  export PATH="$PATH:${CUDA_HOME:-/usr/local/cuda}/bin"
  cuda=${CUDA_HOME:-/usr/local/cuda}/lib64
  version=$(ldd "$bin/tandem-calib-cuda" | sed -n 's/.*libcublasLt\.so\.\([0-9]*\).*/\1/p')
  if ! [ -e "$cuda/libcublasLt.so.$version" ]; then # PyTorch brings its own
    cuda=$(VERSION=$version python3 -c 'import nvidia, os
names = [name + os.environ["VERSION"] for name in ("libcublasLt.so.", "libcudart.so.")]
folders = os.walk(list(nvidia.__path__)[0])
print(":".join(f for f, _, files in folders if any(n in files for n in names)))')
  fi
  export LD_LIBRARY_PATH="$work/lib:$cuda${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
  export TANDEM_DATA=$PWD
  if [ "$backend" = cuda ]; then
    step 60 probe probe # PyTorch comes from a cold disk
    doctor doctor
    doctor_cudnn
    correctness
    step 75 'PyTorch' torch_figures "$out/torch.csv"
  fi
  calibrate 70 "$out/llama3-8b.csv" --model llama3-8b --tp 1
  calibrate 85 "$out/llama2-70b-tp8.csv" --model llama2-70b --tp 8
  calibrate 85 "$out/llama2-70b-tp1.csv" --model llama2-70b --tp "$largest"
  validate
  if [ "$backend" = cuda ]; then
    [ -s "$out/torch.csv" ] && compare_attention "$out/torch.csv" "$out"/llama*.csv >>"$table"
    sanitizer memcheck attention norm rope_append rows activation kv_copy
    sanitizer racecheck attention norm rope_append rows # those with shared memory
  fi
  echo "== $SECONDS s in all, $failed steps failed"
  cat "$table"
  [ -s "$out/torch.csv" ] && cat "$out/torch.csv"
  exit "$failed"
}

backend=cuda largest=1
case "$#-${1-}" in
3-pack) pack "$2" "$3" ;;
3-run) run "$2" "$3" ;;
3-dry)
  # The fake GPU holds half of the largest model.
  backend=fake largest=2
  run "$2" "$3"
  ;;
*)
  sed -n 's/^#  *\(tests.*h200.sh \)/\1/p' "$0" >&2
  exit 2
  ;;
esac
