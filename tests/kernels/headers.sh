#!/bin/sh
# The backend builds where nothing is installed but the CUDA toolkit: with headers of NCCL, NVML and
# the driver that stop the compiler, every source still compiles. Where NCCL's header is, what
# kernels/nccl.h says is what it says.
#
#   tests/kernels/headers.sh ROOT CUDA_INCLUDE SOURCE...    with CC, or cc
set -u
[ $# -gt 2 ] || exit 77
root=$1 cuda=$2
shift 2
cc=${CC:-cc}
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
failed=0

for name in nccl.h nvml.h cuda.h; do
  echo "#error \"$name is included\"" >"$work/$name"
done

# compiles FILE OPTION... : without a word where it does.
compiles() {
  file=$1
  shift
  # shellcheck disable=SC2086 # CC may be several words
  $cc -std=c11 -D_GNU_SOURCE -DKERNEL_IMAGE='""' -fsyntax-only "$@" -I"$root" \
    -isystem "$cuda" "$file"
}

for source; do
  compiles "$source" -I"$work" || failed=1
done
echo "$# sources compile without nccl.h, nvml.h and cuda.h"

# That those headers do stop the compiler.
printf '#include <nccl.h>\nint unused;\n' >"$work/names_it.c"
if compiles "$work/names_it.c" -I"$work" 2>/dev/null; then
  echo 'a source that includes nccl.h compiles too'
  failed=1
fi

cat >"$work/same.c" <<'END'
#include "kernels/nccl.h"
#include <nccl.h>
_Static_assert((int)ncclSuccess == (int)NCCL_SUCCESS, "result");
_Static_assert((int)ncclFloat16 == (int)NCCL_FLOAT16, "fp16");
_Static_assert((int)ncclBfloat16 == (int)NCCL_BFLOAT16, "bf16");
_Static_assert((int)ncclSum == (int)NCCL_SUM, "sum");
_Static_assert(sizeof(ncclResult_t) == sizeof(int), "results are ints");
_Static_assert(sizeof(ncclDataType_t) == sizeof(int), "types are ints");
_Static_assert(sizeof(ncclRedOp_t) == sizeof(int), "operations are ints");
_Static_assert(sizeof(ncclComm_t) == sizeof(NcclComm), "communicators");
ncclResult_t (*init_all)(ncclComm_t *, int, const int *) = ncclCommInitAll;
ncclResult_t (*all_reduce)(const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t,
                           cudaStream_t) = ncclAllReduce;
END
if compiles "$work/same.c" -Werror 2>"$work/said"; then
  echo 'kernels/nccl.h agrees with nccl.h'
elif grep -q 'nccl.h: No such file' "$work/said"; then
  echo 'no nccl.h to compare with'
else
  cat "$work/said"
  failed=1
fi
exit $failed
