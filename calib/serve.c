/* One function for each call. */
#include "calib/serve.h"
#include "calib/operators.h"
#include "calib/protocol.h"
#include <errno.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

typedef struct Server {
  const Backend *backend;
  int answers;                    // file
  Arena arena;                    // of this and its lines
  Arena texts;                    // of the model's
  Arena point;                    // of what is prepared
  Arena request;                  // of one request
  bool can[PROTOCOL_N_CALLS + 1]; // the last: what every backend can
  bool is_open, is_loaded, is_prepared;
  void *state;
  CalibModel model;
  CalibPoint prepared;
  ProtocolObject in;
  ProtocolLine out;
} Server;

static CalibStatus reject(char *error, const char *why) {
  return calib_failed(CALIB_REJECTED, error, "%s", why);
}

/* ---- Calls ---- */

static CalibStatus do_hello(Server *self, char *error) {
  const Backend *backend = self->backend;
  ProtocolHello hello = {.protocol = PROTOCOL_VERSION, .whole = backend->whole};
  (void)error;
  snprintf(hello.name, sizeof hello.name, "%s", backend->name);
  snprintf(hello.help, sizeof hello.help, "%s", backend->help);
  protocol_put_struct(&self->out, protocol_hello, &hello);
  protocol_put_names(&self->out, "calls", protocol_calls, self->can);
  return CALIB_OK;
}

static CalibStatus do_open(Server *self, char *error) {
  CalibOptions options = {.seed = 1};
  CalibDevice device = {.sm = 0};
  if (self->is_open) return reject(error, "a device is already open");
  if (protocol_get_struct(&self->in, protocol_options, &options, &self->request, error))
    return CALIB_REJECTED;
  const CalibStatus status = self->backend->open(&options, &self->state, error);
  if (status) return status;
  self->is_open = true;
  self->backend->describe(self->state, &device);
  protocol_put_struct(&self->out, protocol_device, &device);
  return CALIB_OK;
}

static CalibStatus check_model(const CalibModel *model, char *error) {
  if (!model->name) return reject(error, "'name' is missing");
  const int32_t tp = model->tensor_parallel_size;
  if (!model->num_hidden_layers || !model->hidden_size || !model->num_attention_heads ||
      !model->num_key_value_heads || !model->head_dim || !model->intermediate_size ||
      !model->vocab_size || !model->max_position_embeddings || !tp || !model->block_size)
    return reject(error, "a size of the model is missing");
  if (model->num_attention_heads % tp != 0 || model->intermediate_size % tp != 0)
    return reject(error, "tensor_parallel_size does not divide the heads or intermediate_size");
  return CALIB_OK;
}

/* The strings of the model before last as long as it does. */
static CalibStatus do_load(Server *self, char *error) {
  CalibModel model = {.name = NULL};
  Arena texts;
  arena_init(&texts);
  CalibStatus status = CALIB_REJECTED;
  if (protocol_get_struct(&self->in, protocol_model, &model, &texts, error) == 0)
    status = check_model(&model, error);
  if (status) {
    arena_done(&texts);
    return status;
  }
  self->is_loaded = self->is_prepared = false;
  self->model = model;
  status = self->backend->load(self->state, &self->model, error);
  arena_done(&self->texts);
  self->texts = texts;
  self->is_loaded = status == CALIB_OK;
  return status;
}

static CalibStatus get_point(const Server *self, CalibPoint *ret_point, Arena *arena, char *error) {
  *ret_point = (CalibPoint){.op = CALIB_ITERATION};
  if (!protocol_find(&self->in, "op")) return reject(error, "'op' is missing");
  if (protocol_get_struct(&self->in, protocol_point, ret_point, arena, error) ||
      protocol_get_batch(&self->in, &ret_point->batch, arena, error))
    return CALIB_REJECTED;
  const bool is_batch = calib_op_size(ret_point->op) == CALIB_SIZE_batch;
  if (is_batch && ret_point->batch.n_prefills + ret_point->batch.n_decodes == 0)
    return reject(error, "'sequences' must not be empty");
  if (!is_batch && ret_point->size < 1) return reject(error, "'size' must be 1 or more");
  if (ret_point->layers > self->model.num_hidden_layers)
    return reject(error, "'layers' is more than the layers of the model");
  return CALIB_OK;
}

static CalibStatus do_supports(Server *self, char *error) {
  CalibPoint point;
  const CalibStatus status = get_point(self, &point, &self->request, error);
  if (status) return status;
  const char *why = self->backend->supports(self->state, &point);
  if (why) protocol_put_text(&self->out, "why", why);
  return CALIB_OK;
}

static CalibStatus do_prepare(Server *self, char *error) {
  CalibPoint point;
  Arena arena;
  arena_init(&arena);
  self->is_prepared = false;
  CalibStatus status = get_point(self, &point, &arena, error);
  const char *why =
      !status && self->backend->supports ? self->backend->supports(self->state, &point) : NULL;
  if (why) status = reject(error, why);
  if (status) {
    arena_done(&arena);
    return status;
  }
  Arena before = self->point; // which lives until this one is prepared
  self->prepared = point;
  self->point = arena;
  status = self->backend->prepare(self->state, &self->prepared, error);
  arena_done(&before);
  self->is_prepared = status == CALIB_OK;
  return status;
}

static CalibStatus do_measure(Server *self, char *error) {
  int32_t repeats = 1;
  double seconds = NAN;
  if (protocol_get_count(&self->in, "repeats", &repeats, error)) return CALIB_REJECTED;
  const CalibStatus status = self->backend->measure(self->state, repeats, &seconds, error);
  if (!status) protocol_put_number(&self->out, "seconds", seconds);
  return status;
}

static CalibStatus do_run_batch(Server *self, char *error) {
  CalibBatch batch;
  double seconds = NAN;
  if (protocol_get_batch(&self->in, &batch, &self->request, error)) return CALIB_REJECTED;
  if (batch.n_prefills + batch.n_decodes == 0)
    return reject(error, "'sequences' must not be empty");
  const CalibStatus status = self->backend->run_batch(self->state, &batch, &seconds, error);
  if (!status) protocol_put_number(&self->out, "seconds", seconds);
  return status;
}

static CalibStatus do_telemetry(Server *self, char *error) {
  CalibTelemetry telemetry = {.throttle = 0};
  (void)error;
  self->backend->telemetry(self->state, &telemetry);
  protocol_put_struct(&self->out, protocol_telemetry, &telemetry);
  return CALIB_OK;
}

static CalibStatus do_verify(Server *self, char *error) {
  int op = 0;
  double off = NAN;
  if (protocol_get_word(&self->in, "op", calib_op_names, &op, error)) return CALIB_REJECTED;
  self->is_prepared = false;
  const CalibStatus status = self->backend->verify(self->state, (CalibOp)op, &off, error);
  protocol_put_number(&self->out, "off", off);
  return status;
}

/* ---- Tensors ---- */

static CalibStatus do_run(Server *self, char *error) {
  return self->backend->run(self->state, error);
}

static CalibStatus do_columns(Server *self, char *error) {
  int64_t columns[CALIB_N_TENSORS];
  (void)error;
  for (int tensor = 0; tensor < CALIB_N_TENSORS; tensor++)
    columns[tensor] = self->backend->columns(self->state, (CalibTensor)tensor);
  protocol_put_columns(&self->out, columns);
  return CALIB_OK;
}

/* The rows that are meant, and room for their numbers. */
static CalibStatus get_slice(Server *self, CalibSlice *ret_slice, double **ret_values,
                             int64_t *ret_n, char *error) {
  *ret_slice = (CalibSlice){.sequence = CALIB_OF_ROWS, .n_rows = 1};
  if (!protocol_find(&self->in, "tensor")) return reject(error, "'tensor' is missing");
  if (protocol_get_struct(&self->in, protocol_slice, ret_slice, &self->request, error))
    return CALIB_REJECTED;
  const int64_t columns = self->backend->columns(self->state, ret_slice->tensor);
  if (columns < 1 || columns > PROTOCOL_COLUMNS_MAX)
    return reject(error, "there is no such tensor");
  if (ret_slice->n_rows > 1 && ret_slice->n_rows > PROTOCOL_NUMBERS_MAX / columns)
    return reject(error, "'n_rows' is too large for one line");
  *ret_n = ret_slice->n_rows * columns;
  *ret_values = ARENA_ARRAY(&self->request, double, *ret_n);
  return CALIB_OK;
}

static CalibStatus do_read(Server *self, char *error) {
  CalibSlice slice;
  double *values = NULL;
  int64_t n = 0;
  CalibStatus status = get_slice(self, &slice, &values, &n, error);
  if (!status) status = self->backend->move(self->state, &slice, values, false, error);
  if (!status) protocol_put_values(&self->out, values, n);
  return status;
}

static CalibStatus do_write(Server *self, char *error) {
  CalibSlice slice;
  double *values = NULL;
  int64_t n = 0;
  const CalibStatus status = get_slice(self, &slice, &values, &n, error);
  if (status) return status;
  if (protocol_get_values(&self->in, values, n, error)) return CALIB_REJECTED;
  return self->backend->move(self->state, &slice, values, true, error);
}

/* ---- Requests ---- */

typedef enum Need { NOTHING, OPEN, LOADED, PREPARED } Need;

typedef struct Call {
  const char *name;
  CalibStatus (*run)(Server *self, char *error);
  Need need;
  ProtocolCall is_part_of; // PROTOCOL_N_CALLS: of what every backend can
} Call;

static const Call CALLS[] = {
    {"hello", do_hello, NOTHING, PROTOCOL_N_CALLS},
    {"open", do_open, NOTHING, PROTOCOL_N_CALLS},
    {"load", do_load, OPEN, PROTOCOL_N_CALLS},
    {"supports", do_supports, LOADED, PROTOCOL_CAN_supports},
    {"prepare", do_prepare, LOADED, PROTOCOL_CAN_measure},
    {"measure", do_measure, PREPARED, PROTOCOL_CAN_measure},
    {"run_batch", do_run_batch, LOADED, PROTOCOL_N_CALLS},
    {"run", do_run, PREPARED, PROTOCOL_CAN_read},
    {"columns", do_columns, LOADED, PROTOCOL_CAN_read},
    {"read", do_read, PREPARED, PROTOCOL_CAN_read},
    {"write", do_write, PREPARED, PROTOCOL_CAN_read},
    {"verify", do_verify, LOADED, PROTOCOL_CAN_verify},
    {"telemetry", do_telemetry, OPEN, PROTOCOL_CAN_telemetry},
};
enum { N_CALLS = sizeof CALLS / sizeof *CALLS };

static CalibStatus run_call(Server *self, const Call *call, char *error) {
  if (!self->can[call->is_part_of]) return reject(error, "the backend has no such call");
  if (call->need >= OPEN && !self->is_open) return reject(error, "no device is open");
  if (call->need >= LOADED && !self->is_loaded) return reject(error, "no model is loaded");
  if (call->need == PREPARED && !self->is_prepared) return reject(error, "no point is prepared");
  return call->run(self, error);
}

static CalibStatus run_request(Server *self, Line line, char *error) {
  char name[32] = "";
  if (protocol_parse(&self->in, line.text, (size_t)line.length, error) ||
      protocol_get_text(&self->in, "call", name, sizeof name, error))
    return CALIB_REJECTED;
  for (int i = 0; i < N_CALLS; i++)
    if (strcmp(CALLS[i].name, name) == 0) return run_call(self, &CALLS[i], error);
  return reject(error, "there is no such call");
}

static bool send_answer(const Server *self) {
  for (size_t sent = 0; sent < self->out.length;) {
    const ssize_t n = write(self->answers, self->out.text + sent, self->out.length - sent);
    if (n < 0 && errno != EINTR) return false;
    if (n > 0) sent += (size_t)n;
  }
  return true;
}

static bool answer(Server *self, Line line) {
  char error[CALIB_ERROR_SIZE] = "";
  arena_init(&self->request);
  protocol_begin(&self->out);
  const CalibStatus status = run_request(self, line, error);
  if (status) {
    protocol_put_text(&self->out, "status", protocol_statuses[-status]);
    protocol_put_text(&self->out, "error", *error ? error : "it fails");
  }
  protocol_end(&self->out);
  arena_done(&self->request);
  return send_answer(self);
}

/* Lines of standard input as they come: 1 and one, 0 at the end or where one is too long. */
typedef struct Requests {
  Arena *arena;
  char *buffer;
  size_t begin, end, capacity; // unread bytes are buffer[begin, end)
} Requests;

static int next_request(Requests *self, Line *ret_line) {
  enum { LEAST = 1 << 16 };
  for (size_t seen = self->begin;;) {
    const char *end = seen < self->end ? memchr(self->buffer + seen, '\n', self->end - seen) : NULL;
    if (end) {
      const char *text = self->buffer + self->begin;
      *ret_line = (Line){.text = text, .length = (int)(end - text), .number = 1};
      self->begin = (size_t)(end + 1 - self->buffer);
      return 1;
    }
    seen = self->end;
    if (self->begin > 0) {
      memmove(self->buffer, self->buffer + self->begin, self->end - self->begin);
      self->end -= self->begin;
      seen -= self->begin;
      self->begin = 0;
    }
    if (self->end > PROTOCOL_LINE_MAX) return 0;
    if (self->end == self->capacity) {
      self->capacity = self->capacity > 0 ? 2 * self->capacity : LEAST;
      self->buffer = arena_resize(self->arena, self->buffer, self->capacity);
    }
    const ssize_t n = read(STDIN_FILENO, self->buffer + self->end, self->capacity - self->end);
    if (n == 0 || (n < 0 && errno != EINTR)) return 0;
    if (n > 0) self->end += (size_t)n;
  }
}

int serve(const Backend *backend) {
  Server self = {.backend = backend,
                 .answers = dup(STDOUT_FILENO),
                 .can = {[PROTOCOL_CAN_supports] = backend->supports,
                         [PROTOCOL_CAN_measure] = backend->measure,
                         [PROTOCOL_CAN_telemetry] = true,
                         [PROTOCOL_CAN_verify] = backend->verify,
                         [PROTOCOL_CAN_read] = backend->run,
                         [PROTOCOL_N_CALLS] = true}};
  Line line;
  if (isatty(STDIN_FILENO) || self.answers < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
    fprintf(stderr, "%s: started by 'tandem', it answers on a pipe\n", backend->name);
    return 2;
  }
  arena_init(&self.arena);
  arena_init(&self.texts);
  arena_init(&self.point);
  self.out.arena = &self.arena;
  Requests requests = {.arena = &self.arena};
  while (next_request(&requests, &line) > 0 && answer(&self, line)) {
  }
  if (self.is_open) backend->close(self.state);
  arena_done(&self.point);
  arena_done(&self.texts);
  arena_done(&self.arena);
  return 0;
}
