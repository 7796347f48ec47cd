#!/bin/sh
# Makes the fitted models again, and the table of their errors in perfmodel/README.md:
#
#   perfmodel/fitted/splitwise-2023/regenerate.sh TANDEM perf_model.csv
#
# TANDEM is the program, perf_model.csv SplitwiseSim's data/perf_model.csv. Its power-capped rows
# are the uncapped ones times a constant, which a check of both together would rightly leave out;
# they are checked on their own and shipped because SplitwiseSim's results rest on them.
set -eu
tandem=$(realpath "$1")
source=$(realpath "$2")
home=$(dirname "$(realpath "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cd "$work"
"$tandem" import splitwise-sim "$source" -o all.csv >/dev/null
awk -F, '/^#/ || $2 !~ /pcap/' all.csv >splitwise-sim.csv
awk -F, '/^#/ || /^model,/ || $2 ~ /pcap/' all.csv >splitwise-sim-capped.csv
for profile in splitwise-sim splitwise-sim-capped; do
  "$tandem" check "$profile.csv" --drop "$profile-checked.csv" >/dev/null 2>&1
  "$tandem" fit "$profile-checked.csv" -o models --format csv >>errors.csv
done
rm -f "$home"/*.yaml
cp models/*.yaml "$home"

# Columns of errors.csv: model, gpu, tp, part, kind, rows, configurations, noise, mape, ….
awk -F, '
function cell(name, part, kind) { return sprintf("%.1f", error[name, part, kind]) }
function pair(name, kind) { return cell(name, "prefill", kind) " / " cell(name, "decode", kind) }
function line(name) {
  return sprintf("| %s | %.1f | %s | %s | %s | %s | %s | %s | %s |", name, noise[name],
    cell(name, "iterations", "train"), pair(name, "random 80:20"),
    cell(name, "iterations", "random 80:20"), pair(name, "held out"),
    cell(name, "iterations", "held out"), cell(name, "prefill", "held-out size"), worst[name])
}
BEGIN {
  means[1] = "mean of all"
  means[2] = "mean of tensor parallel >= 4"
}
$1 == "model" { next }
{
  name = $1 " " $2 " " $3
  if (!seen[name]++) names[++n] = name
  error[name, $4, $5] = $9
  if ($4 == "iterations") noise[name] = $8
  if ($4 == "iterations" && $5 == "held out") worst[name] = sprintf("%.1f at %s", $11, $12)
  for (i = 1; i <= ($3 >= 4 ? 2 : 1); i++) {
    sum[means[i], $4, $5] += $9
    if ($4 == "iterations" && $5 == "train") {
      count[means[i]]++
      noise_sum[means[i]] += $8
    }
  }
}
END {
  print "| model, GPU, tensor parallel | noise | train | random 80:20, prefill / decode" \
    " | together | held out, prefill / decode | together | prefill, held-out size" \
    " | worst held out |"
  print "|---|---|---|---|---|---|---|---|---|"
  for (key in sum) {
    split(key, part, SUBSEP)
    error[part[1], part[2], part[3]] = sum[key] / count[part[1]]
  }
  for (i = 1; i <= 2; i++) {
    noise[means[i]] = noise_sum[means[i]] / count[means[i]]
    names[++n] = means[i]
  }
  for (i = 1; i <= n; i++) print line(names[i])
}' errors.csv >table.md

awk '
/^<!-- errors of fitted models/ {
  print
  while ((getline row < "table.md") > 0) print row
  skip = 1
}
/^<!-- end -->/ { skip = 0 }
!skip' "$home/../../README.md" >README.md
cp README.md "$home/../../README.md"
