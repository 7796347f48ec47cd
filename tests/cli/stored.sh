#!/bin/sh
# What a database keeps of a configuration is what was given: each shipped example is stored, and
# 'why', 'timeline' and 'plot' have it again from there; so are values in every form that they can
# have in a file.
. "$TANDEM_SOURCE_DIR/tests/cli_testing.sh"
examples=$source_dir/experiments/examples
shared=$source_dir/../shared # traces that are too large to ship
mkdir root
[ ! -d "$shared" ] || ln -s "$(cd "$shared" && pwd)" shared
cd root || exit 2

# again DB : a run of it that ended by itself and served somebody is asked of all that simulates it
# again.
again() {
  expect 0 "$tandem" query "$1" --format csv \
    --sql "SELECT min(id) FROM run JOIN machine ON run_id = id
           WHERE status IN ('done', 'stalled') AND decode_tokens > 0"
  run=$(tail -n 1 out)
  expect 0 "$tandem" why "$1" "$run" --slowest 2
  expect 0 "$tandem" timeline "$1" "$run" -o timeline.json
  [ -s timeline.json ] || fail 'no timeline'
  command -v gnuplot >gnuplot || return 0
  expect 0 "$tandem" plot cluster "$1" --run "$run" -o cluster.svg
  [ -s cluster.svg ] || fail 'no figure'
}

for config in "$examples"/*.yaml; do
  name=$(basename "$config" .yaml)
  set --
  case $name in
  azure-week) ;;
  azure-*) [ -d ../shared/data/traces ] || continue ;;
  cpu) continue ;; # needs what 'tandem fit' made of this machine: tests/cli/validate.sh
  esac
  if grep -q '^provision:' "$config"; then
    expect 0 "$tandem" provision "$config" --output "$name.db" --set workload.requests=60
  elif grep -q '^sweep:' "$config"; then
    expect 0 "$tandem" sweep "$config" --output "$name.db" --set workload.requests=60
  else
    expect 0 "$tandem" run "$config" --output "$name.db" --set workload.requests=60
  fi
  again "$name.db"
done

# --- Values in other forms than the examples have them

cat >forms.yaml <<'END2'
model: {name: "llama3.1-70b", quantization: 'fp8'}
engine: vllm-0.24
workload:
  lengths: {prompt: {lognormal: {mean: 1k, sigma: 5e-1}}, output: {constant: 0100}}
  arrivals:
    process: poisson
    rate: 600
      /min
  requests: 6e1
pools:
  'café # 1': {machine: dgx-h100, tensor_parallel_size: +4, gpu_memory_utilization: 90%}
  "90%": {machine: dgx-h100, tensor_parallel_size: 4, gpu_memory_utilization: .8, count: 2}
policies: {router: "jsq", batcher: {enable_prefix_caching: false}}
perfmodel: {engine: vllm}
prices: {dgx-h100: {gpu_cost_per_hour: 3.5 $/h, price_date: 2026-05, price_source: "a: b, #c"}}
slo: {ttft.p99: 1500	ms, goodput: {share: 99%, ttft: 1 s, tpot: .04 s}}
END2
expect 0 "$tandem" run forms.yaml --output forms.db --requests
again forms.db
expect 0 "$tandem" query forms.db --format csv --sql 'SELECT config FROM run'
prints 'share: 99%'
prints 'gpu_memory_utilization: 90%'
digest=$(digest_of forms.yaml)
expect 0 "$tandem" query forms.db --format csv --sql "SELECT digest FROM run"
prints "$digest"

# Percentages along an axis and in a study.
expect 0 "$tandem" sweep forms.yaml --output axis.db --set \
  'sweep={"pools.90%.gpu_memory_utilization": 70%..90% step 10%}'
again axis.db
expect 0 "$tandem" provision forms.yaml --output study.db --set \
  'provision={objective: instances, designs: {a: {"pools.90%.count": 1..4}}}'
again study.db

finish
