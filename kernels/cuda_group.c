/* The other GPUs: the processes of a group that sums a tensor (cuda_rank.h), and memory on a peer
 * for copies. */
#define _GNU_SOURCE // environ, and closing all other descriptors
#include "kernels/rank_call.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct Process {
  pid_t id;
  int socket;  // -1: none
  int answers; // that it still owes
} Process;

/* Rank 0 is the GPU that is measured; its stream is the main lane's. */
struct Group {
  Rank own;
  Process others[KERNEL_RANKS_MOST]; // from 1 on
};

static bool sums(CalibOp op) {
  return op == CALIB_ALL_REDUCE || op == CALIB_ALL_REDUCE_PEER;
}

bool group_has(const CudaState *self) {
  return sums(self->work.op);
}

static int32_t device_of(const CudaState *self, int32_t rank) {
  return (self->options.device + rank) % self->device.n_devices;
}

// --- whether there can be one ------------------------------------------------------------------

static bool can_reach_all(const CudaState *self) {
  for (int32_t i = 0; i < self->model.tensor_parallel_size; i++)
    for (int32_t k = 0; k < self->model.tensor_parallel_size; k++) {
      int can_access = 0;
      if (i == k) continue;
      if (cudaDeviceCanAccessPeer(&can_access, device_of(self, i), device_of(self, k)) ||
          !can_access)
        return false;
    }
  return true;
}

const char *group_missing(CudaState *self, const CalibPoint *point) {
  const int32_t n = self->model.tensor_parallel_size;
  if (self->device.n_devices < 2) return "one GPU";
  if (n < 2) return "one GPU in a group needs no all-reduce";
  if (n > self->device.n_devices || n > KERNEL_RANKS_MOST)
    return "fewer GPUs than tensor_parallel_size";
  if (point->size % 16 != 0) return "a tensor of no whole vectors of 16 bytes";
  if (point->op == CALIB_ALL_REDUCE_PEER) {
    if (n != 2 && n != 4 && n != 8) return "its kernels are for 2, 4 and 8 GPUs";
    return can_reach_all(self) ? NULL : "the GPUs do not reach one another's memory";
  }
  void *library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (!library) return "libnccl.so.2 is not to be found";
  dlclose(library);
  return NULL;
}

// --- processes ---------------------------------------------------------------------------------

/* This program once more, with the socket as its descriptor 3 and none of this one's others. */
static CalibStatus start(Process *self, char *error) {
  int sockets[2];
  char *arguments[] = {"tandem-calib-cuda", "--rank", NULL};
  posix_spawn_file_actions_t actions;
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets)) return CALIB_ENVIRONMENT;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, sockets[1], RANK_SOCKET);
  posix_spawn_file_actions_addclosefrom_np(&actions, RANK_SOCKET + 1);
  const int code = posix_spawn(&self->id, "/proc/self/exe", &actions, NULL, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  close(sockets[1]);
  self->socket = sockets[0];
  if (code == 0) return CALIB_OK;
  close(self->socket);
  self->socket = -1;
  return calib_failed(CALIB_ENVIRONMENT, error, "cannot start the process for another GPU: %s",
                      strerror(code));
}

static CalibStatus lost(const Group *self, int32_t rank, char *error) {
  return calib_failed(CALIB_ENVIRONMENT, error, "the process of GPU %d of %d has ended", (int)rank,
                      (int)self->own.n_ranks);
}

static CalibStatus tell(Group *self, int32_t rank, const RankCall *call, char *error) {
  Process *process = &self->others[rank];
  process->answers = call->kind == RANK_SAMPLE ? 2 : 1;
  return rank_send(process->socket, call, sizeof *call) ? CALIB_OK : lost(self, rank, error);
}

static CalibStatus tell_all(Group *self, const RankCall *call, char *error) {
  for (int32_t rank = 1; rank < self->own.n_ranks; rank++)
    TRY(tell(self, rank, call, error));
  return CALIB_OK;
}

static CalibStatus hear(Group *self, int32_t rank, RankAnswer *ret_answer, char *error) {
  Process *process = &self->others[rank];
  process->answers--;
  const bool is_there = rank_receive(process->socket, ret_answer, sizeof *ret_answer);
  if (is_there && !ret_answer->status) return CALIB_OK;
  process->answers = 0; // a failure is its last
  if (!is_there) return lost(self, rank, error);
  return calib_failed(ret_answer->status, error, "GPU %d of %d: %.200s", (int)rank,
                      (int)self->own.n_ranks, ret_answer->error);
}

/* What each owes beyond `left` answers; handles, where these are asked for. */
static CalibStatus hear_all(Group *self, int left, cudaIpcMemHandle_t *ret_handles, char *error) {
  CalibStatus status = CALIB_OK;
  for (int32_t rank = 1; rank < self->own.n_ranks; rank++) {
    char ignored[CALIB_ERROR_SIZE];
    RankAnswer answer = {.status = CALIB_OK};
    while (self->others[rank].answers > left) {
      const CalibStatus own = hear(self, rank, &answer, status ? ignored : error);
      if (!status) status = own;
    }
    if (ret_handles) ret_handles[rank] = answer.handle;
  }
  return status;
}

static CalibStatus ask_all(Group *self, const RankCall *call, char *error) {
  TRY(tell_all(self, call, error));
  return hear_all(self, 0, NULL, error);
}

/* Processes end when their socket closes. Where something has gone wrong they may wait for one
 * another for ever, and are killed. */
void group_close(CudaState *state, bool has_failed) {
  Group *self = state->group;
  if (!self) return;
  for (int32_t rank = 1; rank < self->own.n_ranks; rank++) {
    Process *process = &self->others[rank];
    if (process->socket < 0) continue;
    if (has_failed) kill(process->id, SIGKILL);
    close(process->socket);
  }
  rank_close(&self->own, has_failed);
  for (int32_t rank = 1; rank < self->own.n_ranks; rank++)
    if (self->others[rank].socket >= 0) waitpid(self->others[rank].id, NULL, 0);
  free(self);
  state->group = NULL;
}

static CalibStatus open_ranks(CudaState *state, Group *self, char *error) {
  for (int32_t rank = 1; rank < self->own.n_ranks; rank++) {
    const RankCall call = {.kind = RANK_OPEN,
                           .rank = rank,
                           .n_ranks = self->own.n_ranks,
                           .device = device_of(state, rank)};
    TRY(start(&self->others[rank], error));
    TRY(tell(self, rank, &call, error));
  }
  TRY(rank_open(&self->own, error));
  return hear_all(self, 0, NULL, error);
}

static CalibStatus open_group(CudaState *state, char *error) {
  const int32_t n = state->model.tensor_parallel_size;
  if (state->group && state->group->own.n_ranks == n) return CALIB_OK;
  group_close(state, false);
  Group *self = state->group = must(calloc(1, sizeof *self));
  self->own = (Rank){.n_ranks = n, .device = state->options.device, .stream = state->main.stream};
  for (int32_t rank = 1; rank < n; rank++)
    self->others[rank].socket = -1;
  return open_ranks(state, self, error);
}

/* The communicator, before the first sum by NCCL: all ranks come to it at once. */
static CalibStatus join(Group *self, char *error) {
  RankCall call = {.kind = RANK_JOIN};
  if (self->own.comm) return CALIB_OK;
  TRY(rank_new_id(&self->own, &call.id, error));
  TRY(tell_all(self, &call, error));
  TRY(rank_join(&self->own, &call.id, error));
  return hear_all(self, 0, NULL, error);
}

// --- a task ------------------------------------------------------------------------------------

/* As much as one shot reads from each of many peers, two would have read sooner. */
static KernelReduce way_of(int32_t n_ranks, int64_t bytes) {
  const int64_t most = n_ranks == 2 ? INT64_MAX : n_ranks == 4 ? 512 << 10 : 256 << 10;
  return bytes < most ? KERNEL_ONE_SHOT : KERNEL_TWO_SHOTS;
}

static CalibStatus connect_ranks(Group *self, const RankTask *task, char *error) {
  RankCall call = {.kind = RANK_DISCONNECT, .task = *task};
  TRY(ask_all(self, &call, error));
  rank_disconnect(&self->own);
  call.kind = RANK_RESERVE;
  TRY(tell_all(self, &call, error));
  const CalibStatus own = rank_reserve(&self->own, task, &call.handles[0], error);
  char others_error[CALIB_ERROR_SIZE];
  const CalibStatus others = hear_all(self, 0, call.handles, own ? others_error : error);
  TRY(own ? own : others);
  call.kind = RANK_CONNECT;
  TRY(tell_all(self, &call, error));
  TRY(rank_connect(&self->own, call.handles, error));
  return hear_all(self, 0, NULL, error);
}

static CalibStatus prepare(CudaState *self, char *error) {
  const int64_t bytes = self->work.size;
  const RankTask task = {.op = self->work.op,
                         .dtype = self->model.dtype,
                         .way = way_of(self->model.tensor_parallel_size, bytes),
                         .bytes = bytes,
                         .seed = self->options.seed};
  TRY(open_group(self, error));
  if (task.op == CALIB_ALL_REDUCE) TRY(join(self->group, error));
  const RankCall drop = {.kind = RANK_DROP_GRAPH};
  TRY(ask_all(self->group, &drop, error));
  return connect_ranks(self->group, &task, error);
}

/* After a failure the group is of no more use; the next point has a new one. */
static CalibStatus closed_if_failed(CudaState *self, CalibStatus status) {
  if (status) group_close(self, true);
  return status;
}

CalibStatus group_prepare(CudaState *self, char *error) {
  const CalibPoint point = {.op = self->work.op, .size = self->work.size};
  const char *missing = group_missing(self, &point);
  if (missing)
    return calib_failed(CALIB_REJECTED, error, "all-reduce is not available: %s", missing);
  return closed_if_failed(self, prepare(self, error));
}

CalibStatus group_run(CudaState *self, char *error) {
  return rank_run(&self->group->own, error);
}

CalibStatus group_begin(CudaState *self, GroupWork work, int32_t n, char *error) {
  static const RankCallKind calls[] = {RANK_RUN, RANK_CAPTURE, RANK_SAMPLE};
  const RankCall call = {.kind = calls[work], .n = n};
  if (!group_has(self)) return CALIB_OK;
  if (!self->group)
    return calib_failed(CALIB_ENVIRONMENT, error, "the group of GPUs has failed before");
  CalibStatus status = tell_all(self->group, &call, error);
  if (!status && work == GROUP_SAMPLE) status = group_run(self, error);
  return closed_if_failed(self, status);
}

CalibStatus group_queued(CudaState *self, char *error) {
  if (!group_has(self)) return CALIB_OK;
  return closed_if_failed(self, hear_all(self->group, 1, NULL, error));
}

CalibStatus group_end(CudaState *self, CalibStatus own, char *error) {
  char ignored[CALIB_ERROR_SIZE];
  if (!group_has(self) || !self->group) return own;
  if (own) return closed_if_failed(self, own);
  CalibStatus status = rank_check(&self->group->own, error);
  const CalibStatus others = hear_all(self->group, 0, NULL, status ? ignored : error);
  return closed_if_failed(self, status ? status : others);
}

void group_name(const CudaState *self, char *ret_name, size_t size) {
  if (!group_has(self) || !self->group) return;
  const Rank *own = &self->group->own;
  int version = 0;
  if (own->task.op == CALIB_ALL_REDUCE_PEER)
    snprintf(ret_name, size, "%s", own->task.way == KERNEL_ONE_SHOT ? "one shot" : "two shots");
  else if (own->call.get_version(&version) == NCCL_SUCCESS)
    snprintf(ret_name, size, "nccl %d.%d.%d", version / 10000, version / 100 % 100, version % 100);
}

// --- verification ------------------------------------------------------------------------------

const void *group_tensor(const CudaState *self, bool is_sum) {
  return self->group ? rank_tensor(&self->group->own, is_sum) : NULL;
}

static CalibStatus move_there(Group *self, int32_t rank, const RankCall *call, void *data,
                              char *error) {
  const int socket = self->others[rank].socket;
  const bool writes = call->kind == RANK_WRITE;
  RankAnswer answer;
  TRY(tell(self, rank, call, error));
  if (writes && !rank_send(socket, data, (size_t)call->n)) return lost(self, rank, error);
  TRY(hear(self, rank, &answer, error));
  if (!writes && !rank_receive(socket, data, (size_t)call->n)) return lost(self, rank, error);
  return CALIB_OK;
}

CalibStatus group_move(CudaState *self, int32_t rank, const void *at, void *data, int64_t bytes,
                       bool writes, char *error) {
  enum { PIECE = 1 << 20 };
  Group *group = self->group;
  if (rank < 1 || rank >= group->own.n_ranks)
    return calib_failed(CALIB_REJECTED, error, "there is no GPU %d in a group of %d", (int)rank,
                        (int)group->own.n_ranks);
  for (int64_t done = 0; done < bytes; done += PIECE) {
    const RankCall call = {.kind = writes ? RANK_WRITE : RANK_READ,
                           .n = (int32_t)(bytes - done < PIECE ? bytes - done : PIECE),
                           .offset = (const char *)at - (char *)group->own.memory.data + done};
    TRY(closed_if_failed(self, move_there(group, rank, &call, (char *)data + done, error)));
  }
  return CALIB_OK;
}

// --- a peer for copies -------------------------------------------------------------------------

int peer_device(const CudaState *self) {
  return (self->options.device + 1) % self->device.n_devices;
}

static CalibStatus reserve_at_peer(CudaState *self, int64_t bytes, char *error) {
  CUDA_TRY(cudaSetDevice(peer_device(self)));
  return buffer_reserve(&self->peer, bytes, error);
}

/* Without access to each other copies go through the host, which is then what is measured. */
CalibStatus peer_reserve(CudaState *self, int64_t bytes, char *error) {
  int can_access = 0;
  CUDA_TRY(cudaDeviceCanAccessPeer(&can_access, self->options.device, peer_device(self)));
  if (can_access) {
    const cudaError_t code = cudaDeviceEnablePeerAccess(peer_device(self), 0);
    cudaGetLastError();
    if (code != cudaSuccess && code != cudaErrorPeerAccessAlreadyEnabled)
      return cuda_status((int)code, "cudaDeviceEnablePeerAccess", error);
  }
  const CalibStatus status = reserve_at_peer(self, bytes, error);
  CUDA_TRY(cudaSetDevice(self->options.device));
  return status;
}

void peer_release(CudaState *self) {
  if (self->device.n_devices < 2) return;
  buffer_release(&self->peer); // cudaFree finds the device by the address
}
