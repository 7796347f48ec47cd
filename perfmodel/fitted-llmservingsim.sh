#!/bin/sh
# Makes the fitted models of vLLM 0.19.0 again:
#
#   perfmodel/fitted-llmservingsim.sh TANDEM PROFILES TABLES
#
# PROFILES is the folder of LLMServingSim's bundles (casys-kaist/LLMServingSim at 5daddb2, MIT),
# with HARDWARE/ORG/MODEL/VARIANT. TABLES is AIConfigurator's folder of rtx_pro_6000_server
# (aiconfigurator-core 0.12.0, Apache-2.0), from which the all-reduces of two GPUs come: those of
# vllm-0.19.0, whose host has 15 GB/s over PCIe. The host of vllm-0.24.0 has 36 GB/s; with another
# topology other times are right.
set -eu
tandem=$(realpath "$1")
profiles=$(realpath "$2")
reduces=$(realpath "$3")/vllm-0.19.0/custom_allreduce.csv.gz
home=$(dirname "$(realpath "$0")")/fitted/vllm-0.19.0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# all_reduces MODEL GPU TP : rows of a profile, by the bytes of a tensor.
all_reduces() {
  zcat "$reduces" | awk -F, -v model="$1" -v gpu="$2" -v tp="$3" '
    $2 == "bfloat16" && $3 == "vllm_graph" && $4 == tp {
      printf "%s,%s,%d,all_reduce,graph,,,%d,0,0,0,0,0,%d,%s,,,,,,,,,,,\n", model, gpu, tp,
        1000000 + NR, $6, $7
    }'
}

# fit BUNDLE MODEL GPU : all degrees.
fit() {
  "$tandem" import llmservingsim "$profiles/$1/bf16" --model "$2" --gpu "$3" \
    -o bundle.csv >/dev/null
  {
    echo "# licence: MIT"
    echo "# attribution: LLMServingSim, casys-kaist, at 5daddb2"
    cat bundle.csv
    if grep -q "^$2,$3,2,linear," bundle.csv; then all_reduces "$2" "$3" 2; fi
  } >"llmservingsim-$2.csv"
  "$tandem" fit "llmservingsim-$2.csv" -o models >/dev/null
}

fit RTX4090/meta-llama/Llama-3.1-8B llama3.1-8b rtx-4090-24gb
fit RTXPRO6000/meta-llama/Llama-3.1-8B llama3.1-8b rtx-pro-6000-96gb
fit RTXPRO6000/Qwen/Qwen3-32B qwen3-32b rtx-pro-6000-96gb
fit RTXPRO6000/Qwen/Qwen3-30B-A3B-Instruct-2507 qwen3-30b-a3b rtx-pro-6000-96gb
mkdir -p "$home"
rm -f "$home"/*.yaml
cp models/vllm-0.19.0/*.yaml "$home"
