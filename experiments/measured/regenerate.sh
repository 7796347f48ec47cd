#!/bin/sh
# Writes the tables of experiments/guide/measured.md, perfmodel/residuals.csv and
# perfmodel/measured_rows.csv again:
#
#   experiments/measured/regenerate.sh TANDEM FOLDER
#
# TANDEM is the program, FOLDER that of the measurements, with e2e/ in it.
set -eu
root=$(dirname "$(realpath "$0")")/../..
page=$root/experiments/guide/measured.md
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$1" report measured "$2" --format markdown -o "$work/groups"
"$1" report measured "$2" --format csv -o "$work/quoted"
# Without the commas of texts.
awk -F'"' -v OFS= '{ for (i = 2; i <= NF; i += 2) gsub(",", ";", $i) } 1' \
  "$work/quoted" >"$work/points"

# Keeps the sizes of errors of each figure and key in ascending order, and their sum.
sorting='
function add(figure, key, text,    i, x) { # in ascending order
  if (text == "") return
  x = text < 0 ? -text : text + 0
  sum[figure, key] += x
  for (i = count[figure, key]++; i > 0 && error[figure, key, i] > x; i--)
    error[figure, key, i + 1] = error[figure, key, i]
  error[figure, key, i + 1] = x
}
'

# Points that are compared, and the median of their errors, of one machine and of split clusters.
awk -F, "$sorting"'
function median(figure, key,    n) {
  n = count[figure, key]
  if (n == 0) return "-"
  return sprintf("%.1f%%", 50 * (error[figure, key, int((n + 1) / 2)] + \
                                 error[figure, key, int((n + 2) / 2)]))
}
NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i; next }
{
  split_mode = $column["mode"] == "disagg" ? "split" : "one machine"
  key = $column["set"] " | " split_mode
  if (!(key in all)) keys[++n_keys] = key
  all[key]++
  if ($column["why"] != "") next
  if ($column["fitted"] != "") { fitted[key]++; next }
  compared[key]++
  add("tpot", key, $column["tpot_error"])
  add("ttft", key, $column["ttft_error"])
  add("tokens", key, $column["tokens_error"])
  if ($column["odd"] != "") { odd[key]++; next }
  add("tpot", key " | even", $column["tpot_error"])
  add("ttft", key " | even", $column["ttft_error"])
}
END {
  print "| set | clusters | points | compared | fitted to | TPOT | TTFT | tokens/s and GPU " \
    "| odd | TPOT without these | TTFT without these |"
  print "|---|---|---|---|---|---|---|---|---|---|---|"
  for (i = 1; i <= n_keys; i++) {
    key = keys[i]
    print "| " key " | " all[key] " | " compared[key] + 0 " | " fitted[key] + 0 " | " \
      median("tpot", key) " | " median("ttft", key) " | " median("tokens", key) " | " \
      odd[key] + 0 " | " median("tpot", key " | even") " | " median("ttft", key " | even") " |"
  }
}' "$work/points" >"$work/summary"

# The errors of split clusters by where their numbers of instances are from: the mean, and the
# median.
awk -F, "$sorting"'
function means(figure, key,    n) {
  n = count[figure, key]
  if (n == 0) return "-"
  return sprintf("%.1f%%, %.1f%%", 100 * sum[figure, key] / n, \
                 50 * (error[figure, key, int((n + 1) / 2)] + error[figure, key, int((n + 2) / 2)]))
}
function origin(solved) {
  if (solved == "") return "in the row"
  if (solved ~ /same times/) return "in a row with the same times"
  if (solved ~ /without speculative/) return "the same, listed with speculative decoding, too"
  return "of the one deployment listed" (solved ~ /with spec/ ? ", with speculative decoding" : "")
}
NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i; next }
$column["mode"] != "disagg" || $column["why"] $column["fitted"] != "" { next }
{
  key = origin($column["solved"])
  rows[key]++
  odd[key] += $column["odd"] != ""
  add("tpot", key, $column["tpot_error"])
  add("ttft", key, $column["ttft_error"])
  if ($column["odd"] == "") add("even", key, $column["tpot_error"])
}
END {
  n = split("in the row|in a row with the same times|of the one deployment listed|" \
    "the same, listed with speculative decoding, too|" \
    "of the one deployment listed, with speculative decoding", keys, "|")
  print "| numbers of instances | points | TPOT | TTFT | odd | TPOT without these |"
  print "|---|---|---|---|---|---|"
  for (i = 1; i <= n; i++)
    if (keys[i] in rows)
      print "| " keys[i] " | " rows[keys[i]] " | " means("tpot", keys[i]) " | " \
        means("ttft", keys[i]) " | " odd[keys[i]] " | " means("even", keys[i]) " |"
}' "$work/points" >"$work/origins"

# By how much composed models were off, by engine and GPU and of all: the median, and what a sixth
# of the rows are below and above. GPUs have the names of their tables. Rows with speculative
# decoding are left out: how many drafts were accepted there is assumed.
errors='($column["why"] $column["fitted"] == "" && $column["set"] == "inferencex" && \
  $column["drafts"] + 0 == 0 && $column["tpot_error"] != "") {
  gpu = $column["gpu"]
  sub(/_.*/, "", gpu)
  print $column["engine"] "," names[gpu] "," $column[figure]
  print "all,all," $column[figure]
}'
for figure in tpot_error ttft_error; do
  for tables in "$root"/perfmodel/tables/*/; do basename "$tables"; done |
    awk -F, -v figure=$figure 'NR == FNR { gpu = $0; sub(/-.*/, "", gpu); names[gpu] = $0; next }
      FNR == 1 { for (i = 1; i <= NF; i++) column[$i] = i; next }
      '"$errors" - "$work/points" | sort -t, -k1,1 -k2,2 -k3,3g | awk -F, '
      function tell(    lowest, highest) {
        if (n == 0) return
        lowest = int(n / 6)
        highest = n - 1 - lowest
        printf "%s,%d,%.1f,%.1f,%.1f\n", key, n, 100 * error[lowest], \
          50 * (error[int((n - 1) / 2)] + error[int(n / 2)]), 100 * error[highest]
      }
      $1 "," $2 != key { tell(); n = 0; key = $1 "," $2 }
      { error[n++] = $3 }
      END { tell() }' >"$work/$figure"
done
{
  echo '# By how many percent models composed of tables were off on rows of InferenceX:'
  echo '# (predicted - measured) / measured. A sixth of the rows is below low, a sixth above high.'
  echo "# Written by experiments/measured/regenerate.sh on $(date -u +%Y-%m-%d)."
  echo engine,gpu,rows,tpot_low,tpot_median,tpot_high,ttft_low,ttft_median,ttft_high
  paste -d, "$work/tpot_error" "$work/ttft_error" | cut -d, -f1-6,10-12
} >"$root/perfmodel/residuals.csv"

# A line for each configuration that was measured, for answers to find their nearest ones in
# (perfmodel/near_rows.h): the mean of its rows. A log of requests is one. Rows that something was
# fitted to are left out. GPUs have the names of their machines, or else of their tables.
{
  cat <<'EOF'
# Configurations that others measured; how far Tandem was off, (predicted - measured) / measured,
# in the mean TTFT and TPOT. Rows with a concurrency are measurements of SemiAnalysis InferenceX and
# of NVIDIA, as AIConfigurator collects them (aiconfigurator-core 0.12.0, Apache-2.0); those without
# are logs of vLLM that LLMServingSim keeps (casys-kaist/LLMServingSim 5daddb2, MIT). Where rows is
# more than 1, a line is the mean of so many and has the id of the first. Odd: the measurement is
# implausible (experiments/guide/measured.md). experiments/measured/regenerate.sh writes this file.
EOF
  {
    sed -n 's/^gpu: //p' "$root"/perfmodel/machines/*.yaml
    for tables in "$root"/perfmodel/tables/*/; do basename "$tables"; done
  } | awk -F, '
  function plain(gpu) { # "h100" of h100_sxm and of h100-80gb
    gpu = tolower(gpu)
    sub(/_.*/, "", gpu)
    sub(/-[0-9]+gb$/, "", gpu)
    gsub("-", "", gpu)
    return gpu
  }
  NR == FNR { names[plain($0)] = $0; next }
  FNR == 1 { for (i = 1; i <= NF; i++) column[$i] = i; next }
  $column["why"] $column["fitted"] != "" || $column["tpot_ms"] == "" || $column["ttft_ms"] == "" ||
    !(plain($column["gpu"]) in names) { next }
  {
    is_log = $column["set"] == "vllm_logs"
    id = $column["id"]
    if (is_log) sub("/[^/]*$", "", id)
    shape = $column["engine"] "," $column["version"] "," names[plain($column["gpu"])] "," \
      $column["model"] "," $column["precision"] "," $column["mode"] "," $column["degrees"] "," \
      $column["gpus"]
    odd = $column["odd"] == "" ? "" : "odd"
    key = is_log ? id : shape "," $column["isl"] "," $column["osl"] "," $column["concurrency"] "," \
      $column["drafts"] "," odd
    if (!(key in n)) {
      keys[++n_keys] = key
      first[key] = id "," shape
      drafts[key] = $column["drafts"]
      concurrency[key] = is_log ? "" : $column["concurrency"]
      log_of[key] = is_log
      is_odd[key] = odd
    }
    n[key]++
    isl[key] += $column["isl"]
    osl[key] += $column["osl"]
    ttft[key] += $column["ttft_ms"]
    tpot[key] += $column["tpot_ms"]
    if (is_log) {
      ttft_off[key] += $column["predicted_ttft_ms"] - $column["ttft_ms"]
      tpot_off[key] += $column["predicted_tpot_ms"] - $column["tpot_ms"]
    } else {
      ttft_off[key] += $column["ttft_error"]
      tpot_off[key] += $column["tpot_error"]
    }
  }
  END {
    for (i = 1; i <= n_keys; i++) {
      key = keys[i]
      rows = log_of[key] ? 1 : n[key]
      printf "%s,%.6g,%.6g,%s,%d,%d,%.6g,%.6g,%.3f,%.3f,%s\n", first[key], isl[key] / n[key],
        osl[key] / n[key], concurrency[key], drafts[key], rows, ttft[key] / n[key],
        tpot[key] / n[key], ttft_off[key] / (log_of[key] ? ttft[key] : n[key]),
        tpot_off[key] / (log_of[key] ? tpot[key] : n[key]), is_odd[key]
    }
  }' - "$work/points" | LC_ALL=C sort -t, -k4,4 -k5,5 -k2,3 -k6,8 -k10,12n -k1,1 >"$work/rows"
  echo id,engine,version,gpu,model,weights,mode,degrees,gpus,isl,osl,concurrency,drafts,rows,\
ttft_ms,tpot_ms,ttft_error,tpot_error,odd
  cat "$work/rows"
} >"$root/perfmodel/measured_rows.csv"

# Beside another tool's predictions, which lie beside the measurements.
"$1" report measured "$2" --against "$2/aic-predictions/inferencex.csv.gz" --columns aic_ \
  --format csv -o "$work/both"
awk -F, '
function percent(share) { return share == "" ? "-" : sprintf("%.1f%%", 100 * share) }
NR == 1 {
  print "| engine | GPU | model | points | TPOT | theirs | TTFT | theirs | TPOT nearer |"
  print "|---|---|---|---|---|---|---|---|---|"
  next
}
{
  sub(/_.*/, "", $2)
  model = $3 == "" ? "" : $3 ", " $4 ($5 == "disagg" ? ", split" : "")
  print "| " $1 " | " toupper($2) " | " model " | " $6 " | " percent($7) " | " percent($8) " | " \
    percent($12) " | " percent($13) " | " percent($11) " |"
}' "$work/both" >"$work/against"

awk -v folder="$work" '
/^<!-- measured / {
  print
  while ((getline line < (folder "/" $3)) > 0) print line
  inside = 1
}
/^<!-- end -->/ { inside = 0 }
!inside
' "$page" >"$work/page"
cp "$work/page" "$page"
