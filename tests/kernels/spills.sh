#!/bin/sh
# What ptxas says of every kernel: none may use a stack frame or spill registers to memory, where
# they would be slower than what the kernel is bound by. Arguments: its reports, one per source;
# each has the same kernels for every architecture, or kernels for sm_90a alone.
# Skipped (77) without any, that is, without nvcc.
set -u
[ $# -gt 0 ] || exit 77

# A report has, per kernel, "Compiling entry function 'NAME' for 'sm_90'", "N bytes stack frame, N
# bytes spill stores, N bytes spill loads" and "Used N registers".
awk '
/Compiling entry function/ { split($0, quoted, "\047"); kernel = quoted[2] " for " quoted[4] }
/bytes stack frame/ && ($1 != 0 || $5 != 0 || $9 != 0) { print kernel ":" $0; bad = 1 }
/Compiling entry function/ { arch = quoted[4]; archs[arch] }
/Used [0-9]+ registers/ { kernels[FILENAME, arch]++; of_arch[arch]++ }
END {
  for (i = 1; i < ARGC; i++) {
    first = (ARGV[i], "sm_90a") in kernels ? "sm_90a" : "sm_80"
    if (!kernels[ARGV[i], first]) { print ARGV[i] ": reports no kernel"; bad = 1 }
    for (arch in archs) {
      wanted = (arch == "sm_90a") == (first == "sm_90a") ? kernels[ARGV[i], first] : 0
      if (kernels[ARGV[i], arch] + 0 != wanted) {
        print ARGV[i] ": " kernels[ARGV[i], arch] + 0 " kernels for " arch ", " wanted " for " first
        bad = 1
      }
    }
  }
  for (arch in archs) print of_arch[arch] " kernels for " arch
  exit bad
}
' "$@"
