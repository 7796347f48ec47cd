#!/bin/sh
# What ptxas says of every kernel: none may use a stack frame or spill registers to memory, where
# they would be slower than what the kernel is bound by. Arguments: its reports, one per source.
# Skipped (77) without any, that is, without nvcc.
set -u
[ $# -gt 0 ] || exit 77

# A report has, per kernel, "Compiling entry function 'NAME' for 'sm_90'", "N bytes stack frame, N
# bytes spill stores, N bytes spill loads" and "Used N registers".
awk '
/Compiling entry function/ { split($0, quoted, "\047"); kernel = quoted[2] " for " quoted[4] }
/bytes stack frame/ && ($1 != 0 || $5 != 0 || $9 != 0) { print kernel ":" $0; bad = 1 }
/Used [0-9]+ registers/ { kernels[FILENAME]++; all++ }
END {
  for (i = 1; i < ARGC; i++)
    if (!kernels[ARGV[i]]) { print ARGV[i] ": reports no kernel"; bad = 1 }
  print all " kernels"
  exit bad
}
' "$@"
