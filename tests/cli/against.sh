#!/bin/sh
# `tandem validate --against` and what comes before it: logs of an engine whose iteration times are
# known ($TANDEM_MADE_STEPS) are told from those of one that is 5% slower, in each of the forms that
# a log may have; the steps of a log give their model back; what is refused.
. "$TANDEM_SOURCE_DIR/tests/cli_testing.sh"

cat >known.yaml <<'END'
form: composed
model: llama3.1-8b
gpu: h100-80gb
tensor_parallel_size: 1
overhead: 2 ms
linear: {knots: [[1, 4.0e-3], [64, 4.4e-3], [512, 8.0e-3], [8192, 120.0e-3]]}
prefill_attention: {knots: [[0, 0], [134217728, 30.0e-3]]}
decode_attention:
  rows:
    - {sequences: 1, knots: [[0, 0], [131072, 5.0e-3]]}
    - {sequences: 64, knots: [[0, 0], [131072, 5.0e-3]]}
head: none
END
cat >a.yaml <<'END'
model: llama3.1-8b
engine: vllm-0.33
workload:
  lengths: {prompt: {uniform: [50, 3000]}, output: {uniform: [1, 300]}}
  arrivals: {process: poisson, rate: 6 /s}
  requests: 500
  seed: 1
  ignore_eos: true
pools:
  all: {machine: dgx-h100, count: 1, tensor_parallel_size: 1}
perfmodel: ./known.yaml
END

made_steps() {
  "$TANDEM_MADE_STEPS" "$@" || fail 'no steps were made'
}

# An engine that is as its model: nothing is off, but for the microseconds of the log.
made_steps a.yaml 2 1 0 >same.jsonl
expect 0 "$tandem" validate a.yaml --against same.jsonl --within 0.1% --format csv
[ "$(head -n 1 out)" = 'scope,name,statistic,value,unit' ] || fail 'the header has changed'
between 500 requests e2e_s n 500
between 0 requests ttft_s median 0.0005
between 0 requests e2e_s worst 0.01
between 0 iterations all mape 0.0001

# Whose scheduler it was is said.
sed 's/"engine": "vllm"/"engine": "sglang"/' same.jsonl >sglang.jsonl
expect 0 "$tandem" validate a.yaml --against sglang.jsonl --within 0.1%
prints '500 requests of sglang.jsonl, steps and requests of sglang, as its scheduler'

# Each step 5% longer: so are the errors of steps, and tokens come at least so much later.
made_steps a.yaml 2 1.05 0 >slow.jsonl
expect 1 "$tandem" validate a.yaml --against slow.jsonl --within 2% --format csv
between 0.0471 iterations all mape 0.0481
between -0.0481 iterations mixed bias -0.0471
between -0.09 error tpot_s p50 -0.043
between -0.09 error e2e_s mean -0.043
prints 'verdict,not met,within,0.02,'
expect 0 "$tandem" validate a.yaml --against slow.jsonl --within 15%
prints '500 requests of slow.jsonl, steps and requests of vllm, as its scheduler'
prints 'iterations        n'
prints 'verdict      met: '

# Latencies that are 5% longer, whatever the cause, as requests.csv and as a benchmark says them.
awk -F'[:,} ]+' -v OFS=, 'BEGIN { print "request,arrival_s,input_tokens,output_tokens,queued_s," \
    "scheduled_s,first_token_s,last_token_s" }
  /arrived_us/ { for (i = 1; i < NF; i++) { gsub(/[{"]/, "", $i); v[$i] = $(i + 1) }
    at = v["arrived_us"] / 1e6
    printf "%d,%.6f,%d,%d,%.6f,%.6f,%.6f,%.6f\n", n++, at + 7, v["prompt_tokens"],
      v["output_tokens"], at, at, at + 1.05 * (v["first_token_us"] / 1e6 - at),
      at + 1.05 * (v["last_token_us"] / 1e6 - at) }' same.jsonl >requests.csv
awk -F, 'BEGIN { n = 0 }
  NR > 1 { at[n] = $2; p[n] = $3; o[n] = $4; t[n] = $7 - $5; d[n++] = $8 - $7 }
  function list(name, values,    i) {
    printf ", \"%s\": [", name
    for (i = 0; i < n; i++) printf "%s%s", i ? ", " : "", values[i]
    printf "]"
  }
  END {
    printf "{\"date\": \"20261125-000000\", \"backend\": \"vllm\", \"model_id\": \"m\", "
    printf "\"num_prompts\": %d, \"completed\": %d, \"duration\": 100", n, n
    list("start_times", at); list("input_lens", p); list("output_lens", o); list("ttfts", t)
    for (i = 0; i < n; i++) { d[i] = "[" (o[i] > 1 ? d[i] : "") "]"; e[i] = "\"\"" }
    list("itls", d); list("errors", e)
    print "}"
  }' requests.csv >bench.json
for log in requests.csv bench.json; do
  expect 1 "$tandem" validate a.yaml --against $log --within 4% --format csv
  for name in ttft_s tpot_s e2e_s; do
    for statistic in mean p50 p90 p99; do
      between -0.0526 error $name $statistic -0.0426
    done
    between 0.0426 requests $name median 0.0526
    between -0.0526 requests $name bias -0.0426
  done
  expect 0 "$tandem" validate a.yaml --against $log --within 6%
  expect 0 "$tandem" validate a.yaml --against $log --within 6% --format json
  prints '"verdict": "met"'
done

# Steps with noise give their model back: on other steps, of known times, its mean error is below
# 1%. The host's time is in them, so that the engine of the configuration adds none.
made_steps a.yaml 1 1 0.015 >noisy.jsonl
expect 0 "$tandem" import vllm-log noisy.jsonl -o steps.csv
prints 'llama3.1-8b'
grep -q '^# weight_dtype: bf16$' steps.csv || fail 'the profile does not say of which weights'
expect 0 "$tandem" fit steps.csv -o fitted.yaml
expect 0 "$tandem" validate a.yaml --against same.jsonl --set perfmodel=./fitted.yaml \
  --set engine=vllm-0.12 --within 1000% --format csv
between 0 iterations all mape 0.01

# A log that was cut short is read up to there.
head -c 100000 same.jsonl >torn.jsonl
expect 0 "$tandem" import vllm-log torn.jsonl -o torn.csv
grep -q '^# torn: ' torn.csv || fail 'nothing says that the log is cut short'
# The files of several engines are one profile, of one model.
expect 0 "$tandem" import vllm-log same.jsonl torn.jsonl -o both.csv
sed 's/llama3.1-8b/llama3.1-70b/' same.jsonl >other.jsonl
rejects 3 "$tandem" import vllm-log same.jsonl other.jsonl -o both.csv
says "these steps are of another model, 'llama3.1-70b', than those before, 'llama3.1-8b'"

# What is refused.
rejects 2 "$tandem" validate a.yaml
says "or '--against LOG'"
rejects 2 "$tandem" validate a.yaml --backend fake --against same.jsonl
rejects 2 "$tandem" validate a.yaml --against same.jsonl --output runs.db
rejects 4 "$tandem" validate a.yaml --against absent.jsonl
: >empty
rejects 3 "$tandem" validate a.yaml --against empty
grep -v arrived_us same.jsonl >none.jsonl
rejects 3 "$tandem" validate a.yaml --against none.jsonl
says 'the log has no request that was served'
sed 's/"start_times"/"sent"/' bench.json >old.json
rejects 3 "$tandem" validate a.yaml --against old.json
says '--save-detailed'
echo '{"us": 5, "prefill": [[7]]}' >bad.jsonl
rejects 3 "$tandem" validate a.yaml --against bad.jsonl
says "bad.jsonl:1:23: error: 'prefill' must be a list of [new tokens, past tokens], not '[7]'"
rejects 2 "$tandem" import splitwise-sim a.csv b.csv -o c.csv --model llama2-70b
says 'takes one FILE'
finish
