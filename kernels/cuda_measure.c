/* Times the prepared work by events on its stream.
 *
 * Work that a graph can hold is captured, as many runs as make it long against the launch of a
 * graph, or as the operator has sets of operands. While the first launches are queued, a kernel
 * holds the stream at a gate, so that the host's time for them is not measured; what follows is
 * queued while the device is busy. The same gate serves copies, which are no graphs. Eager work has
 * no gate: the time between its kernels is the host's, and is what is to be measured. */
#include "kernels/cuda_state.h"
#include <math.h>

enum { MAX_GRAPH_NODES = 2048, MAX_OPERATOR_RUNS = 1024 };
// Of a graph that has to go over much KV before it comes to the first again.
enum { MAX_COLD_NODES = 16384 };
// Work of these sizes is in the queue before the gate opens: what a queue holds for certain.
enum { QUEUED_NODES = 512 };
static const int64_t GATE_TIMEOUT_NS = 200 * 1000 * 1000;
static const double GRAPH_SECONDS = 1e-3;
// Clocks are up when for so long nothing was faster by more than the share.
static const double WARM_UP_SECONDS = 10e-3, WARM_UP_SHARE = 0.01, WARM_UP_MOST_SECONDS = 0.5;
// The decodes beside a busy point.
enum { BUSY_DECODES = 32, BUSY_CONTEXT = 1024 };

// --- running -----------------------------------------------------------------------------------

static CalibStatus run_once(CudaState *self, int64_t repetition, char *error) {
  const CudaWork *work = &self->work;
  if (work->parts)
    return layers_run(self, &self->main, work->parts, work->layers, work->hot, repetition, error);
  return operator_run(self, repetition, error);
}

/* Launches of one run at most, with experts; those that a product may add apart. */
static int32_t nodes_of_run(const CudaWork *work) {
  const unsigned parts = work->parts;
  if (!parts) return 1;
  const int32_t of_layer = (parts & CALIB_PART_LINEAR ? 12 : 0) +
                           (parts & CALIB_PART_PREFILL ? 1 : 0) +
                           (parts & CALIB_PART_DECODE ? 2 : 0);
  return work->layers * of_layer + (parts & CALIB_PART_LINEAR ? 1 : 0) +
         (parts & CALIB_PART_HEAD ? 6 : 0);
}

/* Of all streams, for what the host needs finished. */
static CalibStatus wait_for_all(CudaState *self, char *error) {
  CUDA_TRY(cudaStreamSynchronize(self->main.stream));
  if (self->back) CUDA_TRY(cudaStreamSynchronize(self->back));
  if (self->side.stream) CUDA_TRY(cudaStreamSynchronize(self->side.stream));
  return CUDA_STATUS(cudaGetLastError());
}

static void close_gate(CudaState *self) {
  *self->gate = 0;
}

static void open_gate(CudaState *self) {
  *self->gate = 1;
}

static CalibStatus queue_gate(CudaState *self, char *error) {
  close_gate(self);
  return CUDA_STATUS(kernel_wait_flag(self->main.stream, self->gate, GATE_TIMEOUT_NS));
}

// --- graphs ------------------------------------------------------------------------------------

static void drop_graph(CudaLane *lane) {
  if (lane->graph) cudaGraphExecDestroy(lane->graph);
  lane->graph = NULL;
}

typedef CalibStatus (*Runs)(CudaState *self, int32_t n, char *error);

static CalibStatus main_runs(CudaState *self, int32_t n, char *error) {
  for (int32_t i = 0; i < n; i++)
    TRY(run_once(self, i, error));
  return CALIB_OK;
}

static CalibStatus side_runs(CudaState *self, int32_t n, char *error) {
  for (int32_t i = 0; i < n; i++)
    TRY(layers_run(self, &self->side, CALIB_PARTS, self->model.num_hidden_layers, false, i, error));
  return CALIB_OK;
}

static CalibStatus instantiate(CudaLane *lane, cudaGraph_t graph, char *error) {
  CUDA_TRY(cudaGraphInstantiate(&lane->graph, graph, 0));
  return CUDA_STATUS(cudaGraphUpload(lane->graph, lane->stream));
}

/* A capture that has begun is ended whatever happens in it. */
static CalibStatus capture(CudaState *self, CudaLane *lane, Runs runs, int32_t n, char *error) {
  cudaGraph_t graph = NULL;
  drop_graph(lane);
  lane->unroll = n;
  TRY(group_begin(self, GROUP_CAPTURE, n, error));
  CUDA_TRY(cudaStreamBeginCapture(lane->stream, cudaStreamCaptureModeThreadLocal));
  CalibStatus status = runs(self, n, error);
  const cudaError_t ended = cudaStreamEndCapture(lane->stream, &graph);
  if (status == CALIB_OK && ended != cudaSuccess)
    status = cuda_status((int)ended, "cudaStreamEndCapture", error);
  if (status == CALIB_OK) status = instantiate(lane, graph, error);
  if (graph) cudaGraphDestroy(graph);
  if (ended != cudaSuccess) cudaGetLastError();
  return group_end(self, status, error);
}

// --- a sample ----------------------------------------------------------------------------------

/* Seconds between the events of the main lane, when both have passed. */
static CalibStatus read_events(CudaState *self, double *ret_seconds, char *error) {
  float ms = 0;
  TRY(wait_for_all(self, error));
  CUDA_TRY(cudaEventElapsedTime(&ms, self->main.begin, self->main.end));
  *ret_seconds = (double)ms / 1e3;
  return CALIB_OK;
}

/* The way back of copies in both directions begins with the way there, and the sample ends when
 * both have ended. */
static CalibStatus fork_back(CudaState *self, char *error) {
  if (self->work.op != CALIB_COPY_BOTH) return CALIB_OK;
  return CUDA_STATUS(cudaStreamWaitEvent(self->back, self->main.begin, 0));
}

static CalibStatus join_back(CudaState *self, char *error) {
  if (self->work.op != CALIB_COPY_BOTH) return CALIB_OK;
  CUDA_TRY(cudaEventRecord(self->back_end, self->back));
  return CUDA_STATUS(cudaStreamWaitEvent(self->main.stream, self->back_end, 0));
}

/* The decodes beside a busy point: two in the queue from before the sample until it has ended. */
static CalibStatus queue_decodes(CudaState *self, int64_t ix, char *error) {
  CUDA_TRY(cudaGraphLaunch(self->side.graph, self->side.stream));
  return CUDA_STATUS(
      cudaEventRecord(ix % 2 == 0 ? self->side.begin : self->side.end, self->side.stream));
}

static CalibStatus begin_busy(CudaState *self, char *error) {
  if (!self->work.busy) return CALIB_OK;
  TRY(queue_decodes(self, 0, error));
  return queue_decodes(self, 1, error);
}

static CalibStatus go_on_busy(CudaState *self, char *error) {
  if (!self->work.busy) return CALIB_OK;
  for (int64_t ix = 0;; ix++) {
    const cudaError_t ended = cudaEventQuery(self->main.end);
    if (ended == cudaSuccess) return CALIB_OK;
    if (ended != cudaErrorNotReady) return cuda_status((int)ended, "cudaEventQuery", error);
    cudaGetLastError(); // some runtimes keep this answer as an error
    CUDA_TRY(cudaEventSynchronize(ix % 2 == 0 ? self->side.begin : self->side.end));
    TRY(queue_decodes(self, ix, error));
  }
}

/* Opens the gate when the other GPUs of a group, which it does not hold, are as ready as this. */
static CalibStatus let_go(CudaState *self, bool has_gate, char *error) {
  if (!has_gate || *self->gate) return CALIB_OK;
  TRY(group_queued(self, error));
  open_gate(self);
  return CALIB_OK;
}

/* Queues `launches` graphs, or runs where there is no graph; opens the gate on the way. */
static CalibStatus queue_runs(CudaState *self, int32_t launches, bool has_gate, char *error) {
  CudaLane *lane = &self->main;
  const int32_t nodes =
      lane->graph ? lane->unroll * nodes_of_run(&self->work) : nodes_of_run(&self->work);
  if (has_gate) TRY(queue_gate(self, error));
  TRY(group_begin(self, GROUP_SAMPLE, launches, error));
  CUDA_TRY(cudaEventRecord(lane->begin, lane->stream));
  TRY(fork_back(self, error));
  for (int32_t i = 0; i < launches; i++) {
    if (lane->graph)
      CUDA_TRY(cudaGraphLaunch(lane->graph, lane->stream));
    else
      TRY(run_once(self, i, error));
    if (((int64_t)i + 1) * nodes >= QUEUED_NODES) TRY(let_go(self, has_gate, error));
  }
  TRY(join_back(self, error));
  CUDA_TRY(cudaEventRecord(lane->end, lane->stream));
  return let_go(self, has_gate, error);
}

/* Copies of memory that is not pinned wait for the host, and so would for ever at the gate. Nor is
 * there one where the queue has twice been too short for what should wait behind it. */
static bool has_gate(const CudaWork *work) {
  return !work->is_eager && work->op != CALIB_COPY_PAGEABLE && work->stalls < 2;
}

static CalibStatus sample(CudaState *self, int32_t launches, double *ret_seconds, char *error) {
  TRY(begin_busy(self, error));
  const double began = calib_seconds();
  CalibStatus status = queue_runs(self, launches, has_gate(&self->work), error);
  open_gate(self); // also when that has failed
  if (calib_seconds() - began >= 1e-9 * (double)GATE_TIMEOUT_NS) self->work.stalls++;
  if (status == CALIB_OK) status = go_on_busy(self, error);
  if (status == CALIB_OK) status = read_events(self, ret_seconds, error);
  if (group_has(self)) return group_end(self, status, error);
  if (status == CALIB_OK) return CALIB_OK;
  char ignored[CALIB_ERROR_SIZE];
  (void)wait_for_all(self, ignored);
  return status;
}

// --- preparing ---------------------------------------------------------------------------------

void work_end(CudaState *self) {
  if (self->main.stream) cudaStreamSynchronize(self->main.stream);
  if (self->side.stream) cudaStreamSynchronize(self->side.stream);
  if (self->back) cudaStreamSynchronize(self->back);
  drop_graph(&self->main);
  drop_graph(&self->side);
  self->work = (CudaWork){0};
}

/* Attention alone: nothing else passes the cache from one layer's KV to that of the next. */
static bool is_kv_alone(const CudaWork *work) {
  return !work->hot && (work->parts == CALIB_PART_PREFILL || work->parts == CALIB_PART_DECODE);
}

/* Its runs go over layers enough to pass 2.5 times the cache, if those of the model are too few. */
static CalibStatus set_cold_batch(CudaState *self, const CalibBatch *batch, char *error) {
  CudaWork *work = &self->work;
  const int64_t pages = batch_pages(batch, self->model.block_size);
  const int64_t cold = memory_plan_cold_layers(&self->memory, pages, self->device.cache_bytes);
  const int64_t most = (int64_t)MAX_COLD_NODES / nodes_of_run(work) * work->layers;
  const int64_t wanted = cold < most ? cold : most;
  TRY(lane_set_batch(self, &self->main, batch,
                     wanted > work->layers ? (int32_t)wanted : work->layers, error));
  work->copies = (self->main.layout.kv_layers + work->layers - 1) / work->layers;
  return CALIB_OK;
}

static CalibStatus set_operands(CudaState *self, const CalibPoint *point, char *error) {
  CudaWork *work = &self->work;
  if (!work->parts) return operator_prepare(self, error);
  if (work->op == CALIB_HEAD && !work->hot) work->copies = self->memory.heads;
  if (work->op == CALIB_LINEAR || work->op == CALIB_HEAD)
    return lane_set_tokens(self, &self->main, work->op, work->size, work->layers, error);
  if (is_kv_alone(work)) return set_cold_batch(self, &point->batch, error);
  return lane_set_batch(self, &self->main, &point->batch, work->layers, error);
}

/* The products of every shape are tuned on their first call, which a capture cannot hold. One layer
 * has them all. */
static CalibStatus tune(CudaState *self, CudaLane *lane, unsigned parts, char *error) {
  if (parts) TRY(layers_run(self, lane, parts, 1, false, 0, error));
  return wait_for_all(self, error);
}

static CalibStatus prepare_side(CudaState *self, char *error) {
  CalibSequence sequences[BUSY_DECODES];
  const CalibBatch batch = {
      .sequences = sequences, .n_decodes = BUSY_DECODES, .n_logits = BUSY_DECODES};
  int32_t context = BUSY_CONTEXT;
  if (self->model.positions == CALIB_LEARNED && self->model.max_position_embeddings < context)
    context = self->model.max_position_embeddings;
  for (int i = 0; i < BUSY_DECODES; i++)
    sequences[i] = (CalibSequence){.new_tokens = 1, .past_tokens = context - 1};
  TRY(lane_open(self, &self->side, error));
  TRY(lane_set_batch(self, &self->side, &batch, self->model.num_hidden_layers, error));
  TRY(tune(self, &self->side, CALIB_PARTS, error));
  return capture(self, &self->side, side_runs, 1, error);
}

static CalibStatus run_between_events(CudaState *self, double *ret_seconds, char *error) {
  CUDA_TRY(cudaEventRecord(self->main.begin, self->main.stream));
  TRY(run_once(self, 0, error));
  CUDA_TRY(cudaEventRecord(self->main.end, self->main.stream));
  return read_events(self, ret_seconds, error);
}

/* Seconds of one run, launched alone. */
static CalibStatus time_eagerly(CudaState *self, double *ret_seconds, char *error) {
  TRY(group_begin(self, GROUP_RUN, 1, error));
  return group_end(self, run_between_events(self, ret_seconds, error), error);
}

/* Whole rounds of the sets of operands: the next replay begins with the first set, which must be
 * out of the cache then. */
static int32_t runs_of_graph(const CudaWork *work, double seconds) {
  const int32_t most = work->parts ? MAX_GRAPH_NODES / nodes_of_run(work) : MAX_OPERATOR_RUNS;
  const double runs = ceil(GRAPH_SECONDS / fmax(seconds, 1e-7));
  const int32_t n = runs < most ? (int32_t)runs : most;
  const int32_t rounds = (n + work->copies - 1) / work->copies;
  return rounds < 1 ? work->copies : rounds * work->copies;
}

/* Until clocks and caches are as they stay: a device that was idle is faster with each sample. One
 * that is busy lasts two runs of decodes in any case. */
static CalibStatus warm_up(CudaState *self, char *error) {
  const double least_seconds = WARM_UP_SECONDS / (self->work.busy ? 2 : 100);
  double least = INFINITY, steady = 0;
  for (double total = 0; steady < WARM_UP_SECONDS && total < WARM_UP_MOST_SECONDS;) {
    double seconds = 0;
    TRY(sample(self, 1, &seconds, error));
    const double took = fmax(seconds, least_seconds);
    total += took;
    steady = seconds < (1 - WARM_UP_SHARE) * least ? 0 : steady + took; // not at the first
    least = fmin(least, seconds);
  }
  return CALIB_OK;
}

static CalibStatus prepare(CudaState *self, const CalibPoint *point, char *error) {
  self->work =
      (CudaWork){.op = point->op,
                 .is_eager = point->mode == CALIB_EAGER,
                 .hot = point->hot,
                 .busy = point->busy,
                 .parts = calib_parts(point->op),
                 .layers = point->layers > 0 ? point->layers : self->model.num_hidden_layers,
                 .size = point->size,
                 .copies = 1};
  TRY(set_operands(self, point, error));
  return self->work.busy ? prepare_side(self, error) : CALIB_OK;
}

CalibStatus work_prepare(CudaState *self, const CalibPoint *point, char *error) {
  work_end(self);
  const CalibStatus status = prepare(self, point, error);
  if (status != CALIB_OK)
    work_end(self);
  else
    self->work.is_prepared = true;
  return status;
}

static CalibStatus not_prepared(char *error) {
  return calib_failed(CALIB_REJECTED, error, "no point is prepared");
}

CalibStatus work_run(void *state, char *error) {
  CudaState *self = state;
  if (!self->work.is_prepared) return not_prepared(error);
  TRY(group_begin(self, GROUP_RUN, 1, error));
  CalibStatus status = run_once(self, 0, error);
  if (status == CALIB_OK) status = wait_for_all(self, error);
  return group_end(self, status, error);
}

/* The graph, if the work has one, and the first runs. */
static CalibStatus make_ready(CudaState *self, char *error) {
  CudaWork *work = &self->work;
  double seconds = 0;
  TRY(tune(self, &self->main, work->parts, error));
  TRY(time_eagerly(self, &seconds, error)); // loads modules, tunes single products
  if (!work->is_eager && calib_is_captured(work->op)) {
    if (!work->parts) TRY(time_eagerly(self, &seconds, error));
    TRY(capture(self, &self->main, main_runs, runs_of_graph(work, seconds), error));
  }
  TRY(warm_up(self, error));
  work->is_warm = true;
  return CALIB_OK;
}

CalibStatus work_measure(void *state, int32_t repeats, double *ret_seconds, char *error) {
  CudaState *self = state;
  if (!self->work.is_prepared || repeats < 1) return not_prepared(error);
  if (!self->work.is_warm) TRY(make_ready(self, error));
  const int32_t unroll = self->main.graph ? self->main.unroll : 1;
  const int32_t launches = (repeats + unroll - 1) / unroll;
  double seconds = 0;
  TRY(sample(self, launches, &seconds, error));
  *ret_seconds = seconds / ((double)launches * unroll);
  return CALIB_OK;
}

static CalibStatus run_batch(CudaState *self, const CalibBatch *batch, double *ret_seconds,
                             char *error) {
  self->work = (CudaWork){.op = CALIB_ITERATION,
                          .parts = CALIB_PARTS,
                          .layers = self->model.num_hidden_layers,
                          .copies = 1};
  TRY(lane_set_batch(self, &self->main, batch, self->work.layers, error));
  TRY(tune(self, &self->main, CALIB_PARTS, error));
  TRY(capture(self, &self->main, main_runs, 1, error));
  return sample(self, 1, ret_seconds, error);
}

CalibStatus work_run_batch(CudaState *self, const CalibBatch *batch, double *ret_seconds,
                           char *error) {
  work_end(self);
  const CalibStatus status = run_batch(self, batch, ret_seconds, error);
  work_end(self);
  return status;
}
