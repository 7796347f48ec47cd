#!/bin/sh
# Prints how far models that are composed of these tables miss what their fits never saw:
#
#   perfmodel/tables/held-out.sh TANDEM
#
# For each GPU and engine: how many setups of the shipped models there are, by powers of two of GPUs
# in the format of each model; the mean of their mean errors in percent; that of the worst; and how
# many borrow a table.
set -eu
tandem=$(realpath "$1")
echo "| GPU | engine | setups | mean error | worst | with a borrowed table |"
echo "|---|---|---|---|---|---|"
for gpu in "$(dirname "$0")"/*/; do
  "$tandem" list perfmodels --gpu "$(basename "$gpu")" --model '' |
    grep "_$(basename "$gpu")_.*; held-out error " | awk -v gpu="$(basename "$gpu")" '{
        error = $0
        sub(/.*all terms /, "", error)
        n[$1]++
        sum[$1] += error + 0
        if (error + 0 > worst[$1]) worst[$1] = error + 0
        borrowed[$1] += error ~ /^[^;]*,/
      }
      END {
        for (engine in n)
          printf "| %s | %s | %d | %.1f | %.1f | %d |\n", gpu, engine, n[engine],
            sum[engine] / n[engine], worst[engine], borrowed[engine]
      }' | sort
done
