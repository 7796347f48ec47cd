/* As much of NCCL as the backend calls, for processes of one machine without a GPU: sums through
 * memory that rank 0 has made, in the order of ranks, in double. It is done when it is queued. */
#define _GNU_SOURCE // memfd_create
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "kernels/half.h"
#include "kernels/nccl.h"

enum { MOST = 8, SLOT_BYTES = 4 << 20, FAILED = 1 };

typedef struct Shared {
  int arrived, round; // at the barrier; how often all have
  unsigned char slots[MOST][SLOT_BYTES];
} Shared;

struct ncclComm {
  Shared *shared;
  int n, rank;
};

static void meet(Shared *shared, int n) {
  const int round = __atomic_load_n(&shared->round, __ATOMIC_ACQUIRE);
  if (__atomic_add_fetch(&shared->arrived, 1, __ATOMIC_ACQ_REL) == n) {
    __atomic_store_n(&shared->arrived, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&shared->round, round + 1, __ATOMIC_RELEASE);
  }
  while (__atomic_load_n(&shared->round, __ATOMIC_ACQUIRE) == round)
    nanosleep(&(struct timespec){.tv_nsec = 10000}, NULL);
}

int ncclGetVersion(int *version) {
  *version = 22703;
  return NCCL_SUCCESS;
}

/* The file stays open as long as the process lives. */
int ncclGetUniqueId(NcclId *id) {
  const int file = memfd_create("nccl", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, sizeof(Shared))) return FAILED;
  snprintf(id->bytes, sizeof id->bytes, "/proc/%d/fd/%d", (int)getpid(), file);
  return NCCL_SUCCESS;
}

int ncclCommInitRank(NcclComm *comm, int n, NcclId id, int rank) {
  const int file = open(id.bytes, O_RDWR | O_CLOEXEC);
  NcclComm self = calloc(1, sizeof *self);
  if (!self || file < 0 || n > MOST) return FAILED;
  *self = (struct ncclComm){.n = n, .rank = rank};
  self->shared = mmap(NULL, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (self->shared == MAP_FAILED) return FAILED;
  meet(self->shared, n);
  *comm = self;
  return NCCL_SUCCESS;
}

int ncclCommDestroy(NcclComm comm) {
  munmap(comm->shared, sizeof(Shared));
  free(comm);
  return NCCL_SUCCESS;
}

int ncclCommAbort(NcclComm comm) {
  return ncclCommDestroy(comm);
}

int ncclAllReduce(const void *in, void *out, size_t n, int type, int op, NcclComm comm,
                  cudaStream_t stream) {
  const CalibDtype dtype = type == NCCL_BFLOAT16 ? CALIB_BF16 : CALIB_FP16;
  Shared *shared = comm->shared;
  (void)stream;
  if (2 * n > SLOT_BYTES || op != NCCL_SUM) return FAILED;
  memcpy(shared->slots[comm->rank], in, 2 * n);
  meet(shared, comm->n);
  for (size_t i = 0; i < n; i++) {
    double sum = 0;
    for (int rank = 0; rank < comm->n; rank++)
      sum += half_load(dtype, (const uint16_t *)shared->slots[rank], (int64_t)i);
    half_store(dtype, out, (int64_t)i, sum);
  }
  meet(shared, comm->n);
  return NCCL_SUCCESS;
}

const char *ncclGetErrorString(int code) {
  return code == NCCL_SUCCESS ? "no error" : "an error of the fake";
}
