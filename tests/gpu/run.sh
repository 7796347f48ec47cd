#!/bin/bash
# Everything that needs a GPU, in stages of at most a minute, on a machine where nothing is
# installed but a driver and CUDA. Stages that have passed are not run again: a later call with the
# same OUT, on this machine or on another of its kind, goes on with those that are left or have
# failed. The first stages have what failed when these programs first ran on a GPU. Programs are
# built elsewhere and carried there. What is skipped has failed: there is a GPU. Only of cuDNN and
# compute-sanitizer, which come apart, a line says that they are not there.
#
#   tests/gpu/run.sh pack BUILD ARCHIVE          packs what `run` needs out of a build folder
#   tests/gpu/run.sh run ARCHIVE OUT [STAGE...]  runs stages in the root of the sources
#   tests/gpu/run.sh dry ARCHIVE OUT [STAGE...]  the same without a GPU: on the fake backend
#   tests/gpu/run.sh stages                      lists the stages
#
# SECONDS_LEFT=N ends the call before a stage that may not end within N seconds of the begin
# of the call; without it, all stages run. SCALE=0.5 halves the budgets of profiles. CUDNN_FOLDER
# names the folder of cuDNN's libraries, which are then packed, too (35 MB in place of 5). OUT has
# all files, and summary.txt, the table of the stages so far. The exit status is the number of
# stages of this call that failed, or 75 if none has and some are left.
set -u
STAGE_SECONDS=60 # a stage is stopped then

# --- packing -----------------------------------------------------------------------------------

# What `tandem` needs and a bare machine may not have; never the libraries of the C compiler.
libraries() {
  ldd "$1" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' |
    grep -vE '/(libc|libm|libdl|libpthread|librt|libgcc_s|ld-linux[^/]*)\.so'
}

# What attention needs of cuDNN: the graph, its heuristics, and the engines that are compiled when
# they run. The others are seven times as large.
cudnn_parts='libcudnn.so.9 libcudnn_graph.so.9 libcudnn_heuristic.so.9
  libcudnn_engines_runtime_compiled.so.9'

pack() {
  build=$1 archive=$2
  folder=$(mktemp -d) || exit 2
  trap 'rm -rf "$folder"' EXIT
  mkdir "$folder/bin" "$folder/lib"
  cp "$build/tandem" "$build/calib/tandem-calib-fake" "$folder/bin/" || exit 1
  [ -f "$build/kernels/tandem-calib-cuda" ] && cp "$build/kernels/tandem-calib-cuda" "$folder/bin/"
  for program in "$build"/tests/kernels/gpu_*; do
    [ -f "$program" ] && [ -x "$program" ] && cp "$program" "$folder/bin/"
  done
  libraries "$build/tandem" | while read -r library; do cp -L "$library" "$folder/lib/"; done
  strip "$folder"/bin/* "$folder"/lib/* 2>/dev/null
  if [ -n "${CUDNN_FOLDER-}" ]; then
    mkdir "$folder/cudnn"
    for part in $cudnn_parts; do
      cp -L "$CUDNN_FOLDER/$part" "$folder/cudnn/" || exit 1
    done
  fi
  # The programs hold the same kernels: a window over all of them finds that.
  tar -C "$folder" -c $(cd "$folder" && ls) | xz -T1 --lzma2=preset=1,dict=128MiB >"$archive" ||
    exit 1
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

# step NAME COMMAND... : the output goes to the log, its last line into the table of the stage. The
# command, which may be a function of this file, ends when the stage should.
step() {
  name=$1
  shift
  limit=$((stage_end - SECONDS))
  began=$SECONDS
  echo "== $name: $*" >>"$log"
  : >"$work/step"
  if [ "$limit" -lt 2 ]; then
    printf '  %-10s %4d s  %s\n' 'NO TIME' 0 "$name" | tee -a "$table"
    faults=$((faults + 1))
    return 1
  fi
  timeout --kill-after=5 "$limit" bash -c '"$@"' step "$@" >"$work/step" 2>&1
  code=$?
  cat "$work/step" >>"$log"
  last=$(tr '\r' '\n' <"$work/step" | sed 's/\x1b\[[0-9;]*[A-Za-z]//g' | grep -v '^ *$' |
    tail -n 1)
  case $code in
  0) verdict=ok ;;
  124 | 137) verdict=TIME faults=$((faults + 1)) ;;
  *) verdict="FAILED $code" faults=$((faults + 1)) ;;
  esac
  printf '  %-10s %4d s  %-28s %.110s\n' "$verdict" $((SECONDS - began)) "$name" "$last" |
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

# Where cuDNN is: as the user says; else the newest beside CUDA, where the loader looks, or in
# PyTorch's packages.
find_cudnn() {
  [ -f "${TANDEM_CUDNN-}" ] && echo "$TANDEM_CUDNN" && return
  IFS=: read -r -a folders <<<"$LD_LIBRARY_PATH:$own_path"
  packages=$(python3 -c 'import nvidia
for path in nvidia.__path__: print(path + "/cudnn/lib/libcudnn.so.9")' 2>/dev/null)
  listed=$(PATH=$PATH:/sbin ldconfig -p 2>/dev/null |
    awk '$1 == "libcudnn.so.9" { print $NF; exit }')
  newest=0 found=''
  while read -r file; do
    version=$(python3 -c 'import ctypes, sys
print(ctypes.CDLL(sys.argv[1]).cudnnGetVersion())' "$file" 2>/dev/null) || continue
    ((version <= newest)) || newest=$version found=$file
  done < <(printf '%s\n' "${folders[@]/%//libcudnn.so.9}" "$listed" "$packages")
  [ -n "$found" ] && echo "$found"
}

# gpu_programs NAME... : kernels against their references.
gpu_programs() {
  for program; do
    step "gpu_$program" "$bin/gpu_$program"
  done
}

# sanitizer TOOL PROGRAM... : a finding is an exit status of its own.
sanitizer() {
  tool=$1
  shift
  if ! command -v compute-sanitizer >/dev/null; then
    echo '  no compute-sanitizer' | tee -a "$table"
    return
  fi
  for program; do
    step "$tool $program" compute-sanitizer --tool "$tool" --error-exitcode 9 --print-limit 5 \
      "$bin/gpu_$program" --small
  done
}

# doctor FILE ARGUMENT... : what it says, also if that is nothing good, goes to FILE.txt.
doctor() {
  file=$1
  shift
  step "$file" "$bin/tandem" doctor --backend "$backend" --budget 50s "${peaks[@]}" "$@"
  cp "$work/step" "$out/$file.txt"
}

# calibrate FILE ARGUMENT... : goes on with a profile for most of the stage, and checks it.
calibrate() {
  file=$out/$1.csv
  shift
  step "calibrate ${file##*/}" "$bin/tandem" calibrate --backend "$backend" \
    --budget "$(scaled 45) s" --resume -o "$file" "$@"
  step "check ${file##*/}" "$bin/tandem" check "$file"
}

validate() {
  step 'fit llama3-8b' "$bin/tandem" fit "$out/llama3-8b.csv" -o "$work/llama3-8b.yaml" || return
  gpu=$(sed -n 's/^# gpu: //p' "$out/llama3-8b.csv")
  machine=$(grep -lx "gpu: $gpu.*" "$TANDEM_DATA"/perfmodel/machines/*.yaml | head -n 1)
  any_device=() insist=false
  [ -n "$machine" ] || machine=dgx-h200 any_device=(--any-device) insist=true # of a dry run
  cat >"$work/validate.yaml" <<END
model: llama3-8b
workload:
  lengths: {prompt: {lognormal: {mean: 1000, sigma: 0.8, min: 16, max: 6000}},
            output: {uniform: [10, 120]}}
  arrivals: {process: poisson, rate: 8 /s}
  requests: 60
  seed: 1
pools:
  all: {machine: $machine, count: 1, tensor_parallel_size: 1}
policies: {batcher: {name: mixed, max_num_batched_tokens: 2048, max_num_seqs: 64}}
perfmodel: {name: $work/llama3-8b.yaml, insist: $insist}
slo: none
END
  step 'validate llama3-8b' "$bin/tandem" validate "$work/validate.yaml" --backend "$backend" \
    "${any_device[@]}"
  cp "$work/step" "$out/validate.txt"
}

# --- stages ------------------------------------------------------------------------------------

# Their order, and which need a GPU.
stages() {
  cat <<'END'
first          gpu  8-bit products, all-reduces of one GPU, waits between streams, versions of cuDNN
first-points        points of weights of 8 bits, by the program that measures
doctor              the device, its results, speeds and clock
doctor-cudnn        the same with attention by cuDNN
small-kernels  gpu  kernels against their references
large-kernels  gpu  attention, experts and iterations against their references
torch          gpu  ceilings and attention of PyTorch
8b-1                profile of llama3-8b, by parts
8b-2
8b-3
70b-tp8-1           profile of a shard of llama2-70b
70b-tp8-2
70b-fp8-1           profile of a shard of llama3.1-70b with weights of 8 bits
70b-fp8-2
validate            predicted iterations of llama3-8b beside measured ones
attention      gpu  prefill attention beside PyTorch's
memcheck       gpu  compute-sanitizer: accesses
racecheck      gpu  compute-sanitizer: shared memory
END
}

run_first() {
  step probe probe
  gpu_programs gemm all_reduce harness
  cudnn=$(find_cudnn) && step cudnn python3 -c 'import ctypes, sys
print("cuDNN", ctypes.CDLL(sys.argv[1]).cudnnGetVersion(), sys.argv[1])' "$cudnn"
}

run_first_points() {
  for weights in fp8 fp8_block; do
    rm -f "$work/first.csv"
    step "points in $weights" "$bin/tandem" calibrate --backend "$backend" --model tiny-llama-50m \
      --weights "$weights" --only linear,gemm_qkv,gemm_down --budget 15s -o "$work/first.csv"
    cp "$work/first.csv" "$out/first-$weights.csv"
  done
}

run_doctor_cudnn() {
  if [ "$backend" = cuda ] && ! TANDEM_CUDNN=$(find_cudnn); then
    echo '  NO CUDNN: TANDEM_CUDNN names its libcudnn.so.9' | tee -a "$table"
    return
  fi
  export TANDEM_CUDNN
  doctor doctor-cudnn --attention cudnn
}

run_stage() {
  case $1 in
  first) run_first ;;
  first-points) run_first_points ;;
  doctor) doctor doctor ;;
  doctor-cudnn) run_doctor_cudnn ;;
  small-kernels) gpu_programs activation kv_copy norm quantize rope_append rows ;;
  large-kernels) gpu_programs attention moe iteration ;;
  torch) step PyTorch torch_figures "$out/torch.csv" ;;
  8b-*) calibrate llama3-8b --model llama3-8b ;;
  70b-tp8-*) calibrate llama2-70b-tp8 --model llama2-70b --tp 8 ;;
  70b-fp8-*) calibrate llama3.1-70b-fp8-tp4 --model llama3.1-70b --tp 4 --weights fp8 ;;
  validate) validate ;;
  attention) step 'beside PyTorch' compare_attention "$out/torch.csv" "$out"/llama*.csv ;;
  memcheck) sanitizer memcheck attention norm rope_append rows activation kv_copy ;;
  racecheck) sanitizer racecheck attention norm rope_append rows ;; # those with shared memory
  esac
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

# Where the libraries of the programs are: beside them, in CUDA's folder, or in PyTorch's packages.
find_libraries() {
  export PATH="$PATH:${CUDA_HOME:-/usr/local/cuda}/bin"
  cuda=${CUDA_HOME:-/usr/local/cuda}/lib64
  if [ "$backend" = cuda ]; then
    version=$(ldd "$bin/tandem-calib-cuda" | sed -n 's/.*libcublasLt\.so\.\([0-9]*\).*/\1/p')
    if ! [ -e "$cuda/libcublasLt.so.$version" ]; then # PyTorch brings its own
      cuda=$(VERSION=$version python3 -c 'import nvidia, os
names = [name + os.environ["VERSION"] for name in ("libcublasLt.so.", "libcudart.so.")]
folders = os.walk(list(nvidia.__path__)[0])
print(":".join(f for f, _, files in folders if any(n in files for n in names)))')
    fi
  fi
  export LD_LIBRARY_PATH="$work/lib:$cuda${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
  if [ -d "$work/cudnn" ]; then
    export LD_LIBRARY_PATH="$work/cudnn:$LD_LIBRARY_PATH" TANDEM_CUDNN=$work/cudnn/libcudnn.so.9
  fi
}

# What a stage came to is in OUT/stages/NAME, its first word ok or FAILED.
one_stage() {
  stage=$1
  began_stage=$SECONDS stage_end=$((SECONDS + STAGE_SECONDS)) faults=0
  table=$out/stages/$stage.running
  : >"$table"
  echo "== stage $stage" | tee -a "$log"
  run_stage "$stage"
  verdict=ok
  if [ "$faults" -gt 0 ]; then verdict=FAILED failed=$((failed + 1)); fi
  { printf '%-6s %4d s  %s\n' "$verdict" $((SECONDS - began_stage)) "$stage" && cat "$table"; } \
    >"$out/stages/$stage"
  rm "$table"
}

is_wanted() { # NAME NEEDS-GPU
  [ "$backend" = cuda ] || [ "$2" != gpu ] || return 1
  [ -z "$wanted" ] || [[ " $wanted " = *" $1 "* ]] || return 1
  ! grep -qs '^ok' "$out/stages/$1"
}

run() {
  archive=$1 out=$2
  shift 2
  wanted=$*
  mkdir -p "$out/stages" || exit 2
  work=$(mktemp -d) || exit 2
  trap 'rm -rf "$work"' EXIT
  log=$out/log.txt failed=0 left=0
  export bin=$work/bin own_path=${LD_LIBRARY_PATH-} # PyTorch has libraries of its own
  export -f probe torch_figures compare_attention
  unpack "$archive" "$work" || exit 2
  find_libraries
  export TANDEM_DATA=$PWD
  while read -r name needs _ <&3; do
    is_wanted "$name" "$needs" || continue
    if [ -n "${SECONDS_LEFT-}" ] && [ $((SECONDS + STAGE_SECONDS)) -gt "$SECONDS_LEFT" ]; then
      left=$((left + 1))
    else
      one_stage "$name"
    fi
  done 3< <(stages)
  stages | while read -r name _; do cat "$out/stages/$name" 2>/dev/null; done >"$out/summary.txt"
  echo "== $SECONDS s, $failed stages failed, $left left"
  cat "$out/summary.txt"
  [ "$failed" -gt 0 ] || [ "$left" -eq 0 ] || exit 75
  exit "$failed"
}

backend=cuda peaks=()
case "$#-${1-}" in
3-pack) pack "$2" "$3" ;;
1-stages) stages ;;
*-run | *-dry)
  if [ "$#" -lt 3 ]; then exit 2; fi
  if [ "$1" = dry ]; then
    backend=fake
    peaks=(--machine "$PWD/tests/gpu/fake.yaml")
  fi
  shift
  run "$@"
  ;;
*)
  sed -n 's/^#  *\(tests.*run.sh \)/\1/p' "$0" >&2
  exit 2
  ;;
esac
