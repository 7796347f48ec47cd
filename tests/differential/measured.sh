#!/bin/sh
# Engines that others measured, against what the models that ship give for them: the mean error of
# each of these sets stays below its bound, with as many points as there are. Skipped without the
# measurements or without models of today's engines.
. "$TANDEM_SOURCE_DIR/tests/cli_testing.sh"

folder=${TANDEM_DATA_DIR:-}/measured
[ -r "$folder/e2e/inferencex.csv.gz" ] || exit 77
# Of one pool all points; of two, which take five times as long, those of one engine and GPU.
expect 0 "$tandem" report measured "$folder" --format csv --mode agg
cp out all
expect 0 "$tandem" report measured "$folder" --format csv --mode disagg --set inferencex \
  --engine trtllm --gpu h200
sed 1d out >>all

# Without the commas of texts.
awk -F'"' -v OFS= '{ for (i = 2; i <= NF; i += 2) gsub(",", ";", $i) } 1' all >points
# Columns of the points, by name. Rows with drafts are sets of their own.
awk -F, '
NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i }
NR > 1 {
  set = $column["set"] " " $column["engine"] " " $column["gpu"] " " $column["model"] " " \
    $column["precision"] " " $column["mode"] ($column["drafts"] > 0 ? " mtp" : "")
  whole = $column["fitted"] != "" && $column["fitted"] !~ /before TTFT/ || \
    $column["fitted"] ~ /^host/
  if (whole || $column["odd"] != "") next
  print set "," $column["tpot_error"] "," ($column["fitted"] == "" ? $column["ttft_error"] : "") \
    "," $column["tokens_error"]
}' points >errors

# within SET COLUMN POINTS PERCENT : COLUMN 2: TPOT, 3: TTFT, 4: throughput.
within() {
  awk -F, -v set="$1" -v column="$2" -v points="$3" -v bound="$4" '
  $1 == set && $column != "" { n++; sum += $column < 0 ? -$column : $column }
  END {
    if (n >= points && 100 * sum / n <= bound) exit
    printf "%s: %d points, %.1f%%\n", set, n, n ? 100 * sum / n : 0
    exit 1
  }' errors || fail "$1 is beyond $4% or has fewer than $3 points"
}
vllm='inferencex vllm' trtllm='inferencex trtllm' sglang='inferencex sglang'
within "$vllm h100_sxm meta-llama/Llama-3.1-70B fp8 agg" 2 45 4
within "$vllm h100_sxm meta-llama/Llama-3.1-70B fp8 agg" 3 45 10
within "$vllm h100_sxm Qwen/Qwen3-32B bf16 agg" 2 75 8
within "$vllm b200_sxm meta-llama/Llama-3.1-70B fp8 agg" 2 60 8
within "$vllm h100_sxm openai/gpt-oss-120b fp4 agg" 2 60 12
within "$vllm h100_sxm MiniMaxAI/MiniMax-M2.5 fp8 agg" 2 30 12
within "$trtllm b200_sxm meta-llama/Llama-3.1-70B fp8 agg" 2 72 8
within "$trtllm b200_sxm meta-llama/Llama-3.1-70B fp4 agg" 2 72 8
within "$trtllm h100_sxm meta-llama/Llama-3.1-8B-Instruct bf16 agg" 2 147 7
within "$trtllm h100_sxm Qwen/Qwen3-235B-A22B-FP8 fp8 agg" 2 105 12
within "$vllm b200_sxm MiniMaxAI/MiniMax-M2.5 fp8 agg" 2 195 12
within "$vllm b200_sxm MiniMaxAI/MiniMax-M2.5 fp4 agg" 2 104 12
within "$trtllm h200_sxm deepseek-ai/DeepSeek-R1 fp8 agg" 2 17 15
within "$trtllm h200_sxm deepseek-ai/DeepSeek-R1 fp8 disagg" 2 34 15
within "$sglang h200_sxm deepseek-ai/DeepSeek-R1 fp8 agg" 2 30 15
within "$sglang h200_sxm deepseek-ai/DeepSeek-R1 fp8 agg" 4 30 15
within "$trtllm b200_sxm deepseek-ai/DeepSeek-R1 fp4 agg mtp" 2 62 25
within "$trtllm b200_sxm deepseek-ai/DeepSeek-R1 fp8 agg mtp" 2 56 25
within "$trtllm h200_sxm deepseek-ai/DeepSeek-R1 fp8 agg mtp" 2 40 25
within "perf_overview trtllm H100 Llama-3.3-70B fp8 agg" 4 10 8
within "perf_overview trtllm H100 Llama-3.1-8B fp8 agg" 4 10 6

# log_within LOG COLUMN PERCENT : the mean of a log's requests, 1: TTFT, 2: TPOT, 3: E2E.
log_within() {
  awk -F, -v log_="$1" -v figure="$2" -v bound="$3" '
  NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i }
  index($1, log_ "/") == 1 {
    split("ttft_ms tpot_ms e2e_ms", names, " ")
    measured += $column[names[figure]]
    predicted += $column["predicted_" names[figure]]
  }
  END {
    error = measured > 0 ? 100 * (predicted / measured - 1) : 1e9
    if (error <= bound && error >= -bound) exit
    printf "%s: %.1f%%\n", log_, error
    exit 1
  }' points || fail "$1 is beyond $3%"
}
for figure in 1 2 3; do
  log_within RTX4090_Llama-3.1-8B $figure 3
  log_within RTXPRO6000_Qwen3-32B $figure 3
done
finish
