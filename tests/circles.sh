#!/bin/sh
# The arrows between the files of sim/, and what they must not be.
#
#   tests/circles.sh LIBRARY [--print]
#
# A file is a .c with its .h. An arrow goes from one to another when it includes its header, or when
# its object in LIBRARY (libsim.a) needs a symbol that the other defines. Calls through tables
# (policies, features) are no arrows. Fails on a circle, whatever its length, and on an arrow
# from sim/core/ or sim/books/ to sim/feature/. With --print it lists all arrows.
set -eu
library=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
cd "$(dirname "$0")/.."
command -v nm >/dev/null || exit 77
nm -A "$library" >/dev/null 2>&1 || exit 77
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

find sim -name '*.[ch]' | sort >"$work/files"
xargs awk '
  match($0, /^#include "sim\/[^"]*\.h"/) {
    from = FILENAME; sub(/\.[ch]$/, "", from)
    to = substr($0, 11, RLENGTH - 13)
    if (from != to) print from, to
  }' <"$work/files" >"$work/arrows"

# Objects are named core_memory.c.o for sim/core/memory.c.
sed -n 's/\.c$//p' "$work/files" | awk '{ name = substr($0, 5); gsub("/", "_", name)
  print name, $0 }' >"$work/objects"
nm -A "$library" 2>/dev/null | sed 's/^[^:]*:\([^:]*\)\.c\.o:[0-9a-f ]*/\1 /' |
  awk -v objects="$work/objects" '
    BEGIN { while ((getline line <objects) > 0) { split(line, p, " "); file[p[1]] = p[2] } }
    !($1 in file) { next }
    $2 ~ /^[TDRBC]$/ { home[$3] = file[$1] }
    $2 == "U" { need[++n] = file[$1] " " $3 }
    END {
      for (i = 1; i <= n; i++) {
        split(need[i], part, " ")
        if ((part[2] in home) && home[part[2]] != part[1]) print part[1], home[part[2]]
      }
    }' >>"$work/arrows"
sort -u -o "$work/arrows" "$work/arrows"
[ "${2-}" != --print ] || cat "$work/arrows"

# Whoever nobody points to, or who points to nobody, is in no circle; what is left is.
awk '
  { from[NR] = $1; to[NR] = $2 }
  END {
    do {
      dropped = 0
      split("", points); split("", pointed)
      for (i = 1; i <= NR; i++) if (from[i] != "") { points[from[i]]; pointed[to[i]] }
      for (i = 1; i <= NR; i++)
        if (from[i] != "" && (!(from[i] in pointed) || !(to[i] in points))) {
          from[i] = ""
          dropped = 1
        }
    } while (dropped)
    for (i = 1; i <= NR; i++) if (from[i] != "") print from[i] " -> " to[i]
  }' "$work/arrows" >"$work/circles"
grep -E '^sim/(core|books)/[^ ]* sim/feature/' "$work/arrows" >"$work/upward" || true

count() { wc -l <"$1"; }
echo "$(grep -c '\.c$' "$work/files") files, $(count "$work/arrows") arrows:" \
  "$(count "$work/circles") in or between circles, $(count "$work/upward") from core to features"
cat "$work/circles" "$work/upward"
! [ -s "$work/circles" ] && ! [ -s "$work/upward" ]
