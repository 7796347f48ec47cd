#!/bin/sh
# The backend builds where nothing is installed but the CUDA toolkit: with headers of NCCL, NVML and
# the driver that stop the compiler, every source still compiles. Where NCCL's header is, what
# kernels/nccl.h says is what it says; so too of cuDNN's and kernels/cudnn.h.
#
#   tests/kernels/headers.sh ROOT CUDA_INCLUDE SOURCE...    with CC, or cc, and CUDNN_INCLUDE
set -u
[ $# -gt 2 ] || exit 77
root=$1 cuda=$2
shift 2
cc=${CC:-cc}
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
failed=0

for name in nccl.h nvml.h cuda.h cudnn.h; do
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
echo "$# sources compile without nccl.h, nvml.h, cuda.h and cudnn.h"

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
_Static_assert(sizeof(ncclUniqueId) == sizeof(NcclId), "an identity, by value");
ncclResult_t (*get_version)(int *) = ncclGetVersion;
ncclResult_t (*get_id)(ncclUniqueId *) = ncclGetUniqueId;
ncclResult_t (*init_rank)(ncclComm_t *, int, ncclUniqueId, int) = ncclCommInitRank;
ncclResult_t (*destroy)(ncclComm_t) = ncclCommDestroy;
ncclResult_t (*abort_all)(ncclComm_t) = ncclCommAbort;
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

cat >"$work/same_cudnn.c" <<'END'
#include "kernels/cudnn.h"
#include <cudnn.h>
#define SAME(ours, theirs) _Static_assert((int)CUDNN_##ours == (int)CUDNN_##theirs, #theirs);
SAME(OK, STATUS_SUCCESS) SAME(FLOAT, DATA_FLOAT) SAME(HALF, DATA_HALF) SAME(INT32, DATA_INT32)
SAME(BF16, DATA_BFLOAT16) SAME(INT64, DATA_INT64) SAME(CMP_GE, POINTWISE_CMP_GE)
SAME(HEURISTIC_A, HEUR_MODE_A) SAME(OF_HANDLE, TYPE_HANDLE) SAME(OF_DATA_TYPE, TYPE_DATA_TYPE)
SAME(OF_BOOLEAN, TYPE_BOOLEAN) SAME(OF_INT64, TYPE_INT64) SAME(OF_POINTER, TYPE_VOID_PTR)
SAME(OF_HEURISTIC, TYPE_HEUR_MODE) SAME(OF_POINTWISE, TYPE_POINTWISE_MODE)
SAME(OF_DESCRIPTOR, TYPE_BACKEND_DESCRIPTOR) SAME(ENGINE, BACKEND_ENGINE_DESCRIPTOR)
SAME(ENGINE_CONFIG, BACKEND_ENGINECFG_DESCRIPTOR) SAME(HEURISTICS, BACKEND_ENGINEHEUR_DESCRIPTOR)
SAME(PLAN, BACKEND_EXECUTION_PLAN_DESCRIPTOR) SAME(GRAPH, BACKEND_OPERATIONGRAPH_DESCRIPTOR)
SAME(VARIANT_PACK, BACKEND_VARIANT_PACK_DESCRIPTOR) SAME(TENSOR, BACKEND_TENSOR_DESCRIPTOR)
SAME(SDPA, BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR) SAME(HEURISTICS_MODE, ATTR_ENGINEHEUR_MODE)
SAME(HEURISTICS_GRAPH, ATTR_ENGINEHEUR_OPERATION_GRAPH)
SAME(HEURISTICS_RESULTS, ATTR_ENGINEHEUR_RESULTS) SAME(CONFIG_ENGINE, ATTR_ENGINECFG_ENGINE)
SAME(PLAN_HANDLE, ATTR_EXECUTION_PLAN_HANDLE) SAME(PLAN_CONFIG, ATTR_EXECUTION_PLAN_ENGINE_CONFIG)
SAME(PLAN_WORKSPACE, ATTR_EXECUTION_PLAN_WORKSPACE_SIZE)
SAME(GRAPH_HANDLE, ATTR_OPERATIONGRAPH_HANDLE) SAME(GRAPH_OPERATIONS, ATTR_OPERATIONGRAPH_OPS)
SAME(TENSOR_ALIGNMENT, ATTR_TENSOR_BYTE_ALIGNMENT) SAME(TENSOR_DATA_TYPE, ATTR_TENSOR_DATA_TYPE)
SAME(TENSOR_DIMENSIONS, ATTR_TENSOR_DIMENSIONS) SAME(TENSOR_STRIDES, ATTR_TENSOR_STRIDES)
SAME(TENSOR_ID, ATTR_TENSOR_UNIQUE_ID) SAME(TENSOR_IS_VIRTUAL, ATTR_TENSOR_IS_VIRTUAL)
SAME(TENSOR_IS_BY_VALUE, ATTR_TENSOR_IS_BY_VALUE)
SAME(TENSOR_RAGGED_OFFSETS, ATTR_TENSOR_RAGGED_OFFSET_DESC)
SAME(PACK_IDS, ATTR_VARIANT_PACK_UNIQUE_IDS) SAME(PACK_POINTERS, ATTR_VARIANT_PACK_DATA_POINTERS)
SAME(PACK_WORKSPACE, ATTR_VARIANT_PACK_WORKSPACE) SAME(ENGINE_INDEX, ATTR_ENGINE_GLOBAL_INDEX)
SAME(SDPA_Q, ATTR_OPERATION_SDPA_FWD_QDESC) SAME(SDPA_K, ATTR_OPERATION_SDPA_FWD_KDESC)
SAME(SDPA_V, ATTR_OPERATION_SDPA_FWD_VDESC) SAME(SDPA_O, ATTR_OPERATION_SDPA_FWD_ODESC)
SAME(SDPA_SCALE, ATTR_OPERATION_SDPA_FWD_SCALEDESC)
SAME(SDPA_PAGE_TABLE_K, ATTR_OPERATION_SDPA_FWD_PAGE_TABLE_KDESC)
SAME(SDPA_PAGE_TABLE_V, ATTR_OPERATION_SDPA_FWD_PAGE_TABLE_VDESC)
SAME(SDPA_Q_LENGTHS, ATTR_OPERATION_SDPA_FWD_SEQ_LEN_QDESC)
SAME(SDPA_KV_LENGTHS, ATTR_OPERATION_SDPA_FWD_SEQ_LEN_KVDESC)
#if CUDNN_VERSION >= 92100
SAME(SDPA_SUBGRAPH, ATTR_OPERATION_SDPA_FWD_SUBGRAPH)
SAME(SDPA_SUBGRAPH_IN, ATTR_OPERATION_SDPA_FWD_SUBGRAPH_INPUT_UID)
SAME(SDPA_SUBGRAPH_OUT, ATTR_OPERATION_SDPA_FWD_SUBGRAPH_OUTPUT_UID)
SAME(BAND_MASK, BACKEND_OPERATION_DIAGONAL_BAND_MASK_DESCRIPTOR)
SAME(MASK_X, ATTR_OPERATION_DIAGONAL_BAND_MASK_XDESC)
SAME(MASK_KV_LENGTHS, ATTR_OPERATION_DIAGONAL_BAND_MASK_SEQ_LEN_KVDESC)
SAME(MASK_Q_LENGTHS, ATTR_OPERATION_DIAGONAL_BAND_MASK_SEQ_LEN_QDESC)
SAME(MASK_FILL, ATTR_OPERATION_DIAGONAL_BAND_MASK_BDESC)
SAME(MASK_Y, ATTR_OPERATION_DIAGONAL_BAND_MASK_YDESC)
SAME(MASK_COMPARISON, ATTR_OPERATION_DIAGONAL_BAND_MASK_COMPARISON_MODE)
#endif
_Static_assert(sizeof(cudnnStatus_t) == sizeof(int), "results are ints");
_Static_assert(sizeof(cudnnBackendAttributeName_t) == sizeof(int), "names are ints");
size_t (*version)(void) = cudnnGetVersion;
void (*last_error)(char *, size_t) = cudnnGetLastErrorString;
cudnnStatus_t (*create)(CudnnHandle *) = cudnnCreate;
cudnnStatus_t (*set_stream)(CudnnHandle, cudaStream_t) = cudnnSetStream;
cudnnStatus_t (*make)(cudnnBackendDescriptorType_t, CudnnDescriptor *) =
    cudnnBackendCreateDescriptor;
cudnnStatus_t (*finalize)(CudnnDescriptor) = cudnnBackendFinalize;
cudnnStatus_t (*set)(CudnnDescriptor, cudnnBackendAttributeName_t, cudnnBackendAttributeType_t,
                     int64_t, const void *) = cudnnBackendSetAttribute;
cudnnStatus_t (*get)(CudnnDescriptor, cudnnBackendAttributeName_t, cudnnBackendAttributeType_t,
                     int64_t, int64_t *, void *) = cudnnBackendGetAttribute;
cudnnStatus_t (*execute)(CudnnHandle, CudnnDescriptor, CudnnDescriptor) = cudnnBackendExecute;
END
if compiles "$work/same_cudnn.c" -Werror ${CUDNN_INCLUDE:+-isystem "$CUDNN_INCLUDE"} \
  2>"$work/said"; then
  echo 'kernels/cudnn.h agrees with cudnn.h'
elif grep -q 'cudnn.h: No such file' "$work/said"; then
  echo 'no cudnn.h to compare with'
else
  cat "$work/said"
  failed=1
fi
exit $failed
