/* The process of another rank (cuda_rank.h), and both ends' way of sending. */
#include "kernels/rank_call.h"
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

bool rank_send(int socket, const void *data, size_t bytes) {
  for (const char *at = data; bytes > 0;) {
    const ssize_t n = send(socket, at, bytes, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    bytes -= (size_t)n;
  }
  return true;
}

bool rank_receive(int socket, void *data, size_t bytes) {
  for (char *at = data; bytes > 0;) {
    const ssize_t n = read(socket, at, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    bytes -= (size_t)n;
  }
  return true;
}

typedef struct Process {
  int socket;
  Rank rank;
  cudaGraphExec_t graph;
} Process;

static CalibStatus open_rank(Process *self, const RankCall *call, char *error) {
  Rank *rank = &self->rank;
  *rank = (Rank){.rank = call->rank, .n_ranks = call->n_ranks, .device = call->device};
  TRY(rank_open(rank, error));
  return CUDA_STATUS(cudaStreamCreateWithFlags(&rank->stream, cudaStreamNonBlocking));
}

static CalibStatus run(Process *self, int32_t n, char *error) {
  for (int32_t i = 0; i < n; i++)
    TRY(rank_run(&self->rank, error));
  return CALIB_OK;
}

static void drop_graph(Process *self) {
  if (self->graph) cudaGraphExecDestroy(self->graph);
  self->graph = NULL;
}

/* A capture that has begun is ended whatever happens in it. */
static CalibStatus capture(Process *self, int32_t n, char *error) {
  cudaStream_t stream = self->rank.stream;
  cudaGraph_t graph = NULL;
  drop_graph(self);
  CUDA_TRY(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  CalibStatus status = run(self, n, error);
  const cudaError_t ended = cudaStreamEndCapture(stream, &graph);
  TRY(status);
  CUDA_TRY(ended);
  const cudaError_t made = cudaGraphInstantiate(&self->graph, graph, 0);
  cudaGraphDestroy(graph);
  CUDA_TRY(made);
  CUDA_TRY(cudaGraphUpload(self->graph, stream));
  return CUDA_STATUS(cudaStreamSynchronize(stream));
}

static CalibStatus queue(Process *self, int32_t launches, char *error) {
  TRY(run(self, 1, error));
  if (!self->graph) return run(self, launches, error);
  for (int32_t i = 0; i < launches; i++)
    CUDA_TRY(cudaGraphLaunch(self->graph, self->rank.stream));
  return CALIB_OK;
}

static bool answer(const Process *self, CalibStatus status, const RankAnswer *answer) {
  RankAnswer sent = *answer;
  sent.status = status;
  return rank_send(self->socket, &sent, sizeof sent);
}

/* Bytes of the rank's memory to or from the other end; false: that is gone. */
static bool move(Process *self, const RankCall *call, RankAnswer *ret_answer) {
  const bool writes = call->kind == RANK_WRITE;
  const size_t n = (size_t)call->n;
  char *at = (char *)self->rank.memory.data + call->offset, *data = must(malloc(n + 1));
  bool goes_on = !writes || rank_receive(self->socket, data, n);
  const cudaError_t code = writes ? cudaMemcpy(at, data, n, cudaMemcpyHostToDevice)
                                  : cudaMemcpy(data, at, n, cudaMemcpyDeviceToHost);
  const CalibStatus status = cuda_status((int)code, "cudaMemcpy", ret_answer->error);
  goes_on = goes_on && answer(self, status, ret_answer);
  if (goes_on && !status && !writes) goes_on = rank_send(self->socket, data, n);
  free(data);
  return goes_on;
}

static CalibStatus act(Process *self, const RankCall *call, RankAnswer *ret_answer) {
  Rank *rank = &self->rank;
  char *error = ret_answer->error;
  switch (call->kind) {
  case RANK_OPEN:
    return open_rank(self, call, error);
  case RANK_JOIN:
    return rank_join(rank, &call->id, error);
  case RANK_DISCONNECT:
    rank_disconnect(rank);
    return CALIB_OK;
  case RANK_RESERVE:
    return rank_reserve(rank, &call->task, &ret_answer->handle, error);
  case RANK_CONNECT:
    return rank_connect(rank, call->handles, error);
  case RANK_CAPTURE:
    return capture(self, call->n, error);
  case RANK_RUN:
    TRY(run(self, call->n, error));
    return rank_check(rank, error);
  case RANK_SAMPLE:
    TRY(queue(self, call->n, error));
    return answer(self, CALIB_OK, ret_answer) ? rank_check(rank, error) : CALIB_ENVIRONMENT;
  case RANK_DROP_GRAPH:
    drop_graph(self);
    return CALIB_OK;
  default:
    return CALIB_REJECTED;
  }
}

/* A rank whose group is gone waits for nobody. */
int rank_serve(int socket) {
  Process self = {.socket = socket};
  RankCall call;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (bool goes_on = true; goes_on && rank_receive(socket, &call, sizeof call);) {
    RankAnswer answered = {.status = CALIB_OK};
    if (call.kind == RANK_READ || call.kind == RANK_WRITE)
      goes_on = move(&self, &call, &answered);
    else
      goes_on = answer(&self, act(&self, &call, &answered), &answered);
  }
  drop_graph(&self);
  rank_close(&self.rank, false);
  return 0;
}
