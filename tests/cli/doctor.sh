#!/bin/sh
# `tandem doctor`: a device in order passes; each fault that is planted in the fake one is caught by
# the check that is there for it, and by its exit code; without a GPU it says what is missing.
. "$TANDEM_SOURCE_DIR/tests/cli_testing.sh"
unset TANDEM_FAKE

# Peaks of which the fake GPU reaches 80% in products and 89% in memory.
machine() { # GPU FLOPS BANDWIDTH
  cat <<END
gpu: $1
sm: 80
num_gpus: 1
gpu_memory_bytes: 80 GiB
dense_bf16_flops: $2
hbm_bandwidth: $3
nvlink_bandwidth: 0 B/s
pcie_bandwidth: 25 GB/s
cpu_memory_bytes: 64 GiB
nic_bandwidth: 1 Gbps
gpu_tdp: 400 W
END
}
machine fake-gpu 500e12 '1800 GB/s' >fake.yaml
machine fake-gpu 900e12 '1800 GB/s' >fast.yaml
machine fake-gpu 100e12 '1800 GB/s' >slow.yaml
machine h100-80gb 500e12 '1800 GB/s' >other.yaml

# doctor CODE WORDS ARGUMENT... : of the fake GPU with these faults.
doctor() {
  want=$1 words=$2
  shift 2
  expect "$want" env TANDEM_FAKE="$words" "$tandem" doctor --backend fake --machine fake.yaml \
    --format csv "$@"
}
# verdict PART NAME VERDICT : of one check.
verdict() { grep -q "^$1,$2,$3," out || fail "no verdict '$3' of '$2'"; }
# misses N : so many checks are not well, and each says what to do.
misses() {
  n=$(grep -cE '^[^,]*,[^,]*,(missed|noisy),' out)
  [ "$n" -eq "$1" ] || fail "$n checks are missed, not $1"
  grep -E '^[^,]*,[^,]*,(missed|noisy),.*,$' out >bare && fail "no advice: $(cat bare)"
}
# caught N PART NAME WORDS : the fault is found there, and N checks are missed in all.
caught() {
  doctor 1 "$4"
  verdict "$2" "$3" missed
  misses "$1"
}

# --- in order

doctor 0 ''
misses 0
for name in copy 'gemm 8192' decode 'prefill 8k'; do
  for part in speed twice again; do
    verdict "$part" "$name" ok
  done
done
doctor 0 '' --format json
prints '"verdict": "ok"'
doctor 0 '' --format table
prints '0 noisy, 0 missed'
expect 0 env TANDEM_FAKE= "$tandem" doctor --backend fake --device 1
prints 'no expected range is known'

# --- the device

caught 1 device 'other processes' processes=3
caught 1 device MIG mig=1
caught 1 device PCIe pcie=8
caught 1 device 'memory errors' ecc-errors=2
caught 1 device 'free memory' free=0.5
doctor 0 ecc=0
verdict device ECC noted
doctor 0 processes=0
verdict device 'other processes' noted

# --- results; a wrong one is found in each of the six models that has it

caught 10 results gemm_up wrong=gemm_up
caught 2 results moe_gemm_up wrong=moe_gemm_up
caught 12 results prefill_attention wrong=prefill_attention

# --- an operator that cannot be run is named, and the rest is looked at

caught 12 results linear refuse=linear
prints "'linear' is refused: it is told to"
prints 'operators correct, 0 wrong, 1 that cannot be run'
verdict speed 'gemm 8192' ok

# --- speed: the bands are 85%, 70%, 75% and 50%, of 89%, 73%, 85% and 75%

caught 1 speed copy 'slow=copy_d2d by=0.1'
caught 1 speed 'gemm 8192' 'slow=gemm_o by=0.1'
caught 1 speed decode 'slow=decode_attention by=0.2'
caught 1 speed 'prefill 8k' 'slow=prefill_attention by=0.6'
caught 1 speed copy 'slow=copy_d2d by=-0.2'
doctor 1 '' --machine slow.yaml
verdict speed 'gemm 8192' missed
prints 'no device is faster than its peak'
doctor 1 '' --machine fast.yaml
verdict speed 'gemm 8192' missed

# --- twice the work, and the same again: the second and the third reading of a point; products are
# read more often, to warm up

for pair in 'copy copy_d2d' 'decode decode_attention'; do
  name=${pair% *} op=${pair#* }
  caught 1 twice "$name" "slow=$op by=0.12 from=2 until=2"
  caught 1 twice "$name" "slow=$op by=-0.12 from=2 until=2"
  caught 1 again "$name" "slow=$op by=0.04 from=3"
done
caught 1 twice 'prefill 8k' 'slow=prefill_attention by=0.12 from=2 until=2'
caught 1 again 'prefill 8k' 'slow=prefill_attention by=0.04 from=3'

# --- the clock

caught 1 clock multiprocessors clock=900
caught 1 clock throttle throttle=64
doctor 0 throttle=4
verdict clock throttle noted
prints 'power cap'
doctor 1 noise=0.2
verdict clock spread noisy

# --- attention by cuDNN

doctor 0 '' --attention cudnn
misses 0
doctor 1 no-cudnn --attention cudnn
misses 1
verdict results attention missed
prints 'no attention by cuDNN: it is told to have none'
verdict speed 'prefill 8k' ok
rejects 3 "$tandem" doctor --backend fake --attention cudn
says "did you mean 'cudnn'?"

# --- attention by wgmma

doctor 0 wgmma=0.8
misses 0
verdict kernels 'prefill 8k' noted
prints "'wgmma' is to be used"
doctor 0 wgmma=0.8 --attention wgmma
verdict kernels 'prefill 8k' ok
doctor 0 wgmma=1.2
verdict kernels 'prefill 8k' ok
prints "'tandem' is to be used"
doctor 0 wgmma=1.2 --attention wgmma
verdict kernels 'prefill 8k' noted
caught 1 kernels 'prefill 8k' 'wgmma=0.8 wrong=wgmma'
prints "'tandem' is to be used"
doctor 1 '' --attention wgmma
misses 1
verdict results attention missed
grep -q '^kernels,' out && fail 'kernels are compared that are not there'

# --- what cannot be measured is no success

doctor 1 oom=100000
verdict speed copy missed
doctor 1 pace=0.01 --budget 1s
prints 'the time limit was reached'
expect 1 "$tandem" doctor --backend fake
prints "no machine type has the GPU 'fake-gpu'"

# --- wrong input, and no device

doctor 3 '' --machine other.yaml
says "'other' describes the GPU 'h100-80gb', but the device is 'fake-gpu'"
rejects 3 "$tandem" doctor --backend fke
says "did you mean 'fake'?"
rejects 2 "$tandem" doctor --budget never
rejects 4 env TANDEM_FAKE=no-driver "$tandem" doctor --backend fake
says 'no driver'
rejects 4 "$tandem" doctor --backend fake --device 2
doctor 4 fail=3
says "backend 'fake' failed at"
if [ ! -e /dev/nvidiactl ] && [ ! -e /dev/dxg ]; then
  expect 4 "$tandem" doctor --backend cuda
  says 'there is no GPU'
  says "'tandem doctor --backend cpu'"
  prints 'missed'
  expect 4 "$(without_backends)" doctor
  says 'there is no GPU'
  says "backend 'cuda' is not installed: there is no 'tandem-calib-cuda' beside"
fi
finish
