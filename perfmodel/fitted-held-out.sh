#!/bin/sh
# Prints how far the models in fitted/ miss what their fits never saw, as the files say it, as a
# table:
#
#   perfmodel/fitted-held-out.sh [FOLDER]
#
# For each engine and version the mean over its models of the mean error in percent, and after the
# slash that of the worst model. FOLDER has ENGINE-VERSION/*.yaml; it is fitted/ otherwise.
set -eu
cd "${1:-$(dirname "$0")/fitted}"
# shellcheck disable=SC2016
find . -mindepth 2 -maxdepth 2 -name '*.yaml' | sort | xargs awk '
  function note(engine, error) {
    sum[engine, part] += error
    count[engine, part]++
    if (error > worst[engine, part]) worst[engine, part] = error
  }
  function cell(engine, part) {
    if (!count[engine, part]) return " - |"
    return sprintf(" %.1f / %.1f |", sum[engine, part] / count[engine, part], worst[engine, part])
  }
  FNR == 1 { in_scores = 0; split(FILENAME, path, "/") }
  /^  scores:/ {
    in_scores = 1
    if (!models[path[2]]++) engines[++n] = path[2]
    all++
  }
  /^  points:/ { in_scores = 0 }
  in_scores && /^    [a-z_]+: / { part = $1; sub(":", "", part) }
  in_scores && /held_out:/ {
    error = $0
    sub(/.*held_out: \[/, "", error)
    note(path[2], error + 0)
    note("all", error + 0)
  }
  END {
    parts_n = split("linear prefill_attention decode_attention mixed_attention head " \
      "prefill decode mixed iterations", parts, " ")
    line = "| engine | models |"; rule = "|---|---|"
    for (p = 1; p <= parts_n; p++) {
      title = parts[p]; gsub("_", " ", title)
      if (p >= 6 && p < 9) title = title " iterations"
      line = line " " title " |"; rule = rule "---|"
    }
    print line; print rule
    engines[++n] = "all"; models["all"] = all
    for (e = 1; e <= n; e++) {
      line = "| " engines[e] " | " models[engines[e]] " |"
      for (p = 1; p <= parts_n; p++)
        line = line cell(engines[e], parts[p])
      print line
    }
  }'
