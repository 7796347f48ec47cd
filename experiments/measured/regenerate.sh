#!/bin/sh
# Writes the table of measured engines in README.md again:
#
#   experiments/measured/regenerate.sh TANDEM FOLDER
#
# TANDEM is the program, FOLDER that of the measurements, with e2e/ in it.
set -eu
readme=$(dirname "$(realpath "$0")")/../../README.md
table=$(mktemp)
trap 'rm -f "$table" "$table.new"' EXIT
"$1" report measured "$2" --format markdown -o "$table"
awk -v table="$table" '
/^<!-- measured engines/ {
  print
  while ((getline line < table) > 0) print line
  inside = 1
}
/^<!-- end -->/ { inside = 0 }
!inside
' "$readme" >"$table.new"
cp "$table.new" "$readme"
