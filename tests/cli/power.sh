#!/bin/sh
# The power of a run and where it is from; limits on GPUs; plans within a budget of power.
. "$TANDEM_SOURCE_DIR/tests/cli_testing.sh"

cat >one.yaml <<'EOF'
model: {name: llama3.1-70b, quantization: fp8}
engine: vllm-0.33
workload: {lengths: azure-conv-2023, arrivals: {process: poisson, rate: 4 /s}, requests: 200}
pools: {serve: {machine: dgx-b200, tensor_parallel_size: 2}}
EOF

# By operators where kernels have watts, by batch where asked for.
expect 0 "$tandem" run one.yaml
prints 'of kernels whose watts were measured (NVML), by their times; of the GPUs alone; error 16%'
expect 0 "$tandem" run one.yaml --set pools.serve.power=batch
prints 'of GPUs by the batch, between reading memory and their limit; of the GPUs alone; error 18%'

# What the building draws and emits is printed where it is asked for.
! grep -q '^building' out || fail 'a building that nobody asked for'
printf 'hour,g_per_kwh,region\n0,100,north\n0,500,south\n1,300,north\n' >grid.csv
north='pue: 1.25, carbon: grid.csv, region: north'
expect 0 "$tandem" run one.yaml --set "energy={$north}" --format csv
awk -v a="$(figure run energy_kwh value)" -v b="$(figure run building_kwh value)" \
  -v c="$(figure run carbon_kg value)" -v d="$(figure run carbon_g_per_request value)" \
  'function is(x, y) { return x > 0.99999 * y && x < 1.00001 * y }
   BEGIN { exit !(is(b, 1.25 * a) && is(c, 0.1 * b) && is(d, 1000 * c / 200)) }' ||
  fail 'not 1.25 times the energy at 100 g each'
expect 0 "$tandem" run one.yaml --set "energy={$north, start_hour: 1}"
prints ' kWh at a PUE of 1.25; '
expect 3 "$tandem" run one.yaml --set 'energy={carbon: grid.csv}'
says "'grid.csv' has several regions"
expect 3 "$tandem" run one.yaml --set 'energy={carbon: grid.csv, region: west}'
says 'has no hour of region west'
printf 'hour,g_per_kwh\n0,100\n2,100\n' >gap.csv
expect 3 "$tandem" run one.yaml --set 'energy={carbon: gap.csv}'
says 'hour 2 of region'

# Limits: less power, and longer in iterations.
of_run() { figure run "$1" value; }
expect 0 "$tandem" run one.yaml --format csv
free=$(of_run mean_power_kw) free_s=$(of_run busy_s) provisioned=$(of_run provisioned_power_kw)
expect 0 "$tandem" run one.yaml --set pools.serve.gpu_power_cap=0.4 --format csv
awk -v a="$free" -v b="$(of_run mean_power_kw)" -v c="$provisioned" \
  -v d="$(of_run provisioned_power_kw)" -v e="$free_s" -v f="$(of_run busy_s)" \
  'BEGIN { exit !(0 < b && b < a && 0 < d && d < c && 0 < e && e < f) }' ||
  fail "a limit saves nothing or costs nothing: $free, $(of_run mean_power_kw)"
expect 0 "$tandem" run one.yaml --set pools.serve.gpu_power_cap=0.4
prints 'GPUs capped at 400 W'
expect 3 "$tandem" run one.yaml --set pools.serve.gpu_power_cap=0.1
says "'gpu_power_cap' must be 280 W to 1000 W"

# A budget that is too small names what it would take; a limit on GPUs fits more into it.
ask() {
  "$tandem" plan --model qwen3-32b --gpu h100 --isl 2000 --osl 300 --rate 10 --split no --tp 2 \
    --seeds 1 --slo 'ttft.p99<2s,tpot.p99<50ms' "$@"
}
expect 3 ask --power-budget '8 kW'
says 'what meets the limits takes 10.2 kW, the budget is 8 kW'
expect 0 ask --power-budget '8 kW' --gpu-power-cap '420 W'
prints 'within 8 kW of provisioned power'
finish
