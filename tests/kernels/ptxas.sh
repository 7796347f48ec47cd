#!/bin/sh
# The table of kernels/README.md from what ptxas reported: of every kernel of attention registers,
# dynamic shared memory and thread blocks per multiprocessor, on A100 and H100.
#
#   tests/kernels/ptxas.sh README SHARED REPORT...             compares it with README's
#   tests/kernels/ptxas.sh --update README SHARED REPORT...    writes it there
#
# SHARED is a program that prints, a line each, kernel and bytes of dynamic shared memory; NVCC in
# the environment is the compiler's version. Skipped (77) without reports, that is, without nvcc,
# and for another nvcc than the table's.
set -u
export NVCC="${NVCC-?}"
update=false
if [ "${1-}" = --update ]; then
  update=true
  shift
fi
[ $# -gt 2 ] || exit 77
readme=$1
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
"$2" >"$work/shared" || exit 2
shift 2

# A multiprocessor has 65,536 registers, given to warps by 256, and room for 64 warps; of shared
# memory 164 KB on A100 and 228 on H100, of which each block takes 1 KB besides its own.
awk '
function least(a, b) { return a < b ? a : b }
function blocks(registers, bytes, all_kb,    warps) {
  warps = int(65536 / (int((registers * 32 + 255) / 256) * 256))
  return least(least(int(warps / 4), 16), int(all_kb * 1024 / (bytes + 1024)))
}
FILENAME == ARGV[1] { shared[$1] = $2; next }
/Compiling entry function/ {
  split($0, quoted, "\047")
  arch = quoted[4]
  name = ""
  if (match(quoted[2], /attention_(prefill|decode)I4(Bf|Fp)16L.*/)) {
    split(substr(quoted[2], RSTART), part, /E?Li|ELb|EE/)
    kind = substr(part[1], 11, index(part[1], "I4") - 11)
    type = part[1] ~ /Bf16/ ? "bf16" : "fp16"
    is_prefill = kind == "prefill"
    alibi = is_prefill ? part[4] : part[3]
    name = kind "_" part[2] (is_prefill ? "_" 64 * part[3] : "") "_" (alibi ? "alibi" : "plain")
  }
}
/Used [0-9]+ registers/ && name != "" && type == "bf16" {
  match($0, /Used [0-9]+/)
  registers[name, arch] = substr($0, RSTART + 5, RLENGTH - 5)
  if (!(name in seen)) names[++n] = name
  seen[name]
}
END {
  print "| kernel, bf16, nvcc " ENVIRON["NVCC"] " | registers sm_80 | sm_90 | sm_100 |" \
        " shared memory, B | blocks: A100 | H100 |"
  print "|---|---|---|---|---|---|---|"
  for (i = 1; i <= n; i++) {
    name = names[i]
    if (!(name in shared)) { print name ": no bytes of shared memory" > "/dev/stderr"; bad = 1 }
    a100 = blocks(registers[name, "sm_80"], shared[name], 164)
    h100 = blocks(registers[name, "sm_90"], shared[name], 228)
    sm100 = registers[name, "sm_100"] + 0
    printf "| `%s` | %d | %d | %s | %d | %d | %d |\n", name, registers[name, "sm_80"],
           registers[name, "sm_90"], name ~ /_128_128_/ ? "none" : sm100 ? sm100 : "?",
           shared[name], a100, h100
  }
  exit bad || n == 0
}' "$work/shared" "$@" >"$work/rows" || exit 1
{ head -n 2 "$work/rows" && tail -n +3 "$work/rows" | sort -V; } >"$work/table"

awk -v table="$work/table" '
/^<!-- ptxas -->/ {
  print $0 "\n"
  while ((getline line < table) > 0) print line
  print ""
  skip = 1
}
/^<!-- end of ptxas -->/ { skip = 0 }
!skip { print }
' "$readme" >"$work/readme"
grep -q '^<!-- ptxas -->' "$readme" || { echo "$readme: no place for the table"; exit 1; }
if $update; then
  cp "$work/readme" "$readme"
elif ! grep -qF "nvcc $NVCC |" "$readme"; then
  echo "the table is of another nvcc than $NVCC"
  exit 77
elif ! diff -u "$readme" "$work/readme"; then
  echo "$readme: the table is not what ptxas reports; 'ninja -C BUILD kernel_table' writes it"
  exit 1
fi
