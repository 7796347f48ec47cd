#!/bin/sh
# Makes the models of today's engines again, from AIConfigurator's tables:
#
#   perfmodel/fitted/regenerate-aiconfigurator.sh TANDEM FOLDER [PATTERN]
#
# TANDEM is the program, FOLDER has SYSTEM/ENGINE-VERSION/ with gemm.csv.gz and the others. What is
# made is listed in aiconfigurator.csv beside this file; of its lines those that match PATTERN. A
# model that is there is left as it is, so a run that was stopped goes on; remove it to make it
# again. Two are made at a time.
set -eu

# SYSTEM,TABLES,ENGINE,MACHINE,MODEL,QUANTIZATION,KV,TP,EP,DP -> ENGINE/MODEL_GPU_….yaml
make_one() {
  line=$1
  part() { echo "$line" | cut -d, -f"$1"; }
  engine=$(part 3) model=$(part 5) quantization=$(part 6) kv=$(part 7)
  tp=$(part 8) ep=$(part 9) dp=$(part 10)
  name="${model}_GPU_tp$tp"
  [ "$dp" = 1 ] || name="${name}_dp$dp"
  [ "$ep" = 1 ] || name="${name}_ep$ep"
  name="${name}_$quantization"
  [ "$kv" = bf16 ] || name="${name}_kv$kv"
  gpu=$(sed -n 's/^gpu: *\([^ ]*\).*/\1/p' "$home/../machines/$(part 4).yaml")
  to="$home/$engine/$(echo "$name" | sed "s/_GPU_/_${gpu}_/").yaml"
  [ ! -e "$to" ] || return 0
  mkdir -p "$home/$engine"
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  profile="$folder/$(basename "$to" .yaml).csv"
  # What a model is kept in as it is published is left to its own file.
  format="--quantization $quantization"
  case "$model:$quantization" in *:mxfp4 | *:int4) format= ;; esac
  # shellcheck disable=SC2086
  "$tandem" import aiconfigurator "$source/$(part 1)/$(part 2)" --engine "$engine" \
    --machine "$(part 4)" --model "$model" $format --kv-cache-dtype "$kv" --tensor-parallel "$tp" \
    --expert-parallel "$ep" --attention-data-parallel "$dp" -o "$profile" >/dev/null &&
    "$tandem" fit "$profile" -o "$to" >/dev/null || echo "not made: $line" >&2
}

if [ "$1" = --one ]; then
  tandem=$2 source=$3 home=$4
  make_one "$5"
  exit 0
fi
tandem=$(realpath "$1")
source=$(realpath "$2")
home=$(dirname "$(realpath "$0")")
grep -v -e '^#' -e '^system,' "$home/aiconfigurator.csv" | grep -e "${3:-,}" |
  xargs -P 2 -I{} sh "$0" --one "$tandem" "$source" "$home" {}
