#!/bin/sh
# Forty-one tasks of people who plan, operate and study clusters, as commands. Each line of
# tasks.txt is "task|exit code|words that are printed|command"; what cannot be said by a command
# is named, with what is nearest to it, on the page what-is-modelled.md. All are small, or stop
# before they simulate: that they can be said is tested here, what they answer by the other tests.
. "$TANDEM_SOURCE_DIR/tests/cli_testing.sh"

examples=$source_dir/experiments/examples
limits="--slo ttft.p90<2s,tpot.p90<50ms --tp 1 --split no --seeds 1"
sizes="--model llama3.1-8b --isl 500 --osl 100 $limits"
gpu="--model llama3.1-8b --gpu h100 $limits"
small="--gpu h100 $sizes"
printf 'gpu,usd_per_gpu_hour\nh100,1.23\n' >prices.csv
printf 'ts,prompt_tokens,completion_tokens\n' | tee long.csv >log.csv
for i in 1 2 3 4 5 6 7 8; do
  echo "$i,$((100 * i)),20" >>log.csv
  echo "$i,$((100000 * i)),20" >>long.csv
done
cat >router.yaml <<'END'
model: llama3.1-8b
engine: vllm-0.33
workload:
  lengths: {prompt: {constant: 500}, output: {constant: 100}}
  arrivals: {process: poisson, rate: 40 /s}
  requests: 100
pools: {serve: {machine: dgx-h100, tensor_parallel_size: 1, count: 2}}
slo: {goodput: {share: 99%, ttft: 1 s}}
sweep: {policies.router: [random, token_jsq], seed: 1..2}
END
sed '/^sweep/d' router.yaml >run.yaml
expect 0 "$tandem" run run.yaml --output run.db --requests
expect 0 "$tandem" sweep router.yaml --output router.db

# "--slo=" in a command takes the limits out of it.
task() {
  case $1 in
  *' --slo= '*) set -- "$(echo "$1" | sed 's/--slo= //; s/\$sizes/$unlimited/')" ;;
  esac
  unlimited="--model llama3.1-8b --isl 500 --osl 100 --tp 1 --seeds 1"
  eval "\"\$tandem\" $1"
}

n=0 worked=0
while IFS='|' read -r question code words command; do
  n=$((n + 1))
  if [ "$code" = page ]; then
    [ ! -f "$source_dir/experiments/guide/what-is-modelled.md" ] ||
      grep -q -- "$words" "$source_dir/experiments/guide/what-is-modelled.md" ||
      fail "$question: the page does not say so"
    continue
  fi
  expect "$code" task "$command"
  cat out err | grep -qF -- "$words" || fail "$question"
  worked=$((worked + 1))
done <"$source_dir/tests/cli/tasks.txt"
[ "$n" -eq 41 ] || fail "$n tasks, not 41"
[ "$worked" -ge 36 ] || fail "$worked tasks work, fewer than 36"
finish
