#!/bin/sh
# Writes the tables of experiments/guide/measured.md and perfmodel/residuals.csv again:
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

# Points that are compared, and the median of their errors, of one machine and of split clusters.
awk -F, '
function add(figure, key, text,    i, x) { # in ascending order
  if (text == "") return
  x = text < 0 ? -text : text + 0
  for (i = count[figure, key]++; i > 0 && error[figure, key, i] > x; i--)
    error[figure, key, i + 1] = error[figure, key, i]
  error[figure, key, i + 1] = x
}
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
