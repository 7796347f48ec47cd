/* Requests and what is made of their answers. */
#include "calib/backend_process.h"
#include "base/text.h"
#include "calib/operators.h"
#include "calib/process.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { WARM_UP_RUNS = 2 };

typedef struct Remote {
  Arena arena; // of this and of texts that are handed out
  Backend table;
  ProtocolHello hello;
  Process process;
  ProtocolLine line;     // to send
  ProtocolObject answer; // the newest
  bool can[PROTOCOL_N_CALLS];
  bool is_warm;                     // the prepared point; of a program that measures no points
  const CalibPoint *point;          // prepared
  bool has_columns;                 // of that point
  int64_t columns[CALIB_N_TENSORS]; // 0: none
  CalibStatus columns_status;       // why all are 0
  char columns_error[CALIB_ERROR_SIZE];
} Remote;

/* ---- Asking ---- */

static void begin(Remote *self, const char *call) {
  protocol_begin(&self->line);
  protocol_put_text(&self->line, "call", call);
}

static CalibStatus refuse(Remote *self, const char *call, char *error) {
  char why[CALIB_ERROR_SIZE];
  memcpy(why, error, sizeof why);
  return process_refuse(&self->process, call, why, error);
}

/* An answer with "error" is a failure of the call, and its program goes on. */
static CalibStatus judge(Remote *self, const char *call, char *error) {
  int status = -CALIB_ENVIRONMENT;
  char why[CALIB_ERROR_SIZE] = "";
  if (!protocol_find(&self->answer, "error")) return CALIB_OK;
  if (protocol_get_text(&self->answer, "error", why, sizeof why, error))
    return refuse(self, call, error);
  if (protocol_find(&self->answer, "status") &&
      protocol_get_word(&self->answer, "status", protocol_statuses, &status, error))
    return refuse(self, call, error);
  memcpy(error, why, sizeof why);
  return status == CALIB_OK ? CALIB_ENVIRONMENT : (CalibStatus)-status;
}

/* Sends what has been begun. `error` has CALIB_ERROR_SIZE. */
static CalibStatus ask(Remote *self, const char *call, char *error) {
  Line answer;
  protocol_end(&self->line);
  const CalibStatus status = process_ask(&self->process, call, &self->line, &answer, error);
  if (status) return status;
  if (protocol_parse(&self->answer, answer.text, (size_t)answer.length, error))
    return refuse(self, call, error);
  return judge(self, call, error);
}

static CalibStatus ask_seconds(Remote *self, const char *call, double *ret_seconds, char *error) {
  const CalibStatus status = ask(self, call, error);
  if (status) return status;
  if (protocol_get_number(&self->answer, "seconds", ret_seconds, error))
    return refuse(self, call, error);
  if (*ret_seconds > 0) return CALIB_OK;
  snprintf(error, CALIB_ERROR_SIZE, "'seconds' must be above 0");
  return refuse(self, call, error);
}

/* ---- The table ---- */

static void remote_close(void *state) {
  Remote *self = state;
  Arena arena = self->arena; // which holds the state itself
  process_end(&self->process);
  arena_done(&arena);
}

static CalibStatus remote_load(void *state, const CalibModel *model, char *error) {
  Remote *self = state;
  self->has_columns = false;
  self->point = NULL;
  begin(self, "load");
  protocol_put_struct(&self->line, protocol_model, model);
  return ask(self, "load", error);
}

static void begin_point(Remote *self, const char *call, const CalibPoint *point) {
  begin(self, call);
  protocol_put_struct(&self->line, protocol_point, point);
  protocol_put_batch(&self->line, &point->batch);
}

/* A failure is no reason to pass a point over. */
static const char *remote_supports(void *state, const CalibPoint *point) {
  Remote *self = state;
  char error[CALIB_ERROR_SIZE], why[CALIB_ERROR_SIZE];
  if (!self->can[PROTOCOL_CAN_measure]) {
    if (point->op != CALIB_ITERATION) return "the backend runs whole iterations only";
    if (point->mode != CALIB_GRAPH) return "the backend has no launch modes";
    if (point->busy || point->hot || point->layers > 0)
      return "the backend runs plain batches only";
  }
  if (!self->can[PROTOCOL_CAN_supports]) return NULL;
  begin_point(self, "supports", point);
  if (ask(self, "supports", error)) return NULL;
  if (protocol_get_text(&self->answer, "why", why, sizeof why, error)) {
    refuse(self, "supports", error);
    return NULL;
  }
  return *why ? text_shown(arena_copy(&self->arena, why, strlen(why)), &self->arena) : NULL;
}

static CalibStatus remote_prepare(void *state, const CalibPoint *point, char *error) {
  Remote *self = state;
  self->has_columns = self->is_warm = false;
  self->point = point;
  if (!self->can[PROTOCOL_CAN_measure]) return CALIB_OK;
  begin_point(self, "prepare", point);
  return ask(self, "prepare", error);
}

static CalibStatus remote_run_batch(void *state, const CalibBatch *batch, double *ret_seconds,
                                    char *error) {
  Remote *self = state;
  self->has_columns = false;
  begin(self, "run_batch");
  protocol_put_batch(&self->line, batch);
  return ask_seconds(self, "run_batch", ret_seconds, error);
}

/* By run_batch alone. */
static CalibStatus measure_batch(Remote *self, int32_t repeats, double *ret_seconds, char *error) {
  double sum = 0, seconds = 0;
  for (int32_t i = self->is_warm ? 0 : -WARM_UP_RUNS; i < repeats; i++) {
    const CalibStatus status = remote_run_batch(self, &self->point->batch, &seconds, error);
    if (status) return status;
    if (i >= 0) sum += seconds;
  }
  self->is_warm = true;
  *ret_seconds = sum / repeats;
  return CALIB_OK;
}

static CalibStatus remote_measure(void *state, int32_t repeats, double *ret_seconds, char *error) {
  Remote *self = state;
  if (!self->can[PROTOCOL_CAN_measure]) return measure_batch(self, repeats, ret_seconds, error);
  begin(self, "measure");
  protocol_put_int(&self->line, "repeats", repeats);
  return ask_seconds(self, "measure", ret_seconds, error);
}

static void remote_telemetry(void *state, CalibTelemetry *ret_telemetry) {
  Remote *self = state;
  char error[CALIB_ERROR_SIZE];
  *ret_telemetry = calib_telemetry_unknown;
  if (!self->can[PROTOCOL_CAN_telemetry]) return;
  begin(self, "telemetry");
  if (ask(self, "telemetry", error)) return;
  if (protocol_get_struct(&self->answer, protocol_telemetry, ret_telemetry, &self->arena, error)) {
    refuse(self, "telemetry", error);
    *ret_telemetry = calib_telemetry_unknown;
  }
}

/* ---- Verification ---- */

static CalibStatus remote_run(void *state, char *error) {
  Remote *self = state;
  begin(self, "run");
  return ask(self, "run", error);
}

static CalibStatus ask_columns(Remote *self, char *error) {
  begin(self, "columns");
  const CalibStatus status = ask(self, "columns", error);
  if (status) return status;
  return protocol_get_columns(&self->answer, self->columns, error) ? refuse(self, "columns", error)
                                                                   : CALIB_OK;
}

/* All at once, because each is asked for often. */
static int64_t remote_columns(void *state, CalibTensor tensor) {
  Remote *self = state;
  if (!self->has_columns) {
    memset(self->columns, 0, sizeof self->columns);
    self->has_columns = true;
    self->columns_status = ask_columns(self, self->columns_error);
    if (self->columns_status) memset(self->columns, 0, sizeof self->columns);
  }
  return self->columns[tensor];
}

/* Columns before rows: none if they could not be had. */
static CalibStatus need_columns(Remote *self, CalibTensor tensor, int64_t *ret_columns,
                                char *error) {
  *ret_columns = remote_columns(self, tensor);
  if (self->columns_status) memcpy(error, self->columns_error, CALIB_ERROR_SIZE);
  return self->columns_status;
}

/* Rows from `row` on, as many as go into a line. */
static CalibSlice next_slice(const CalibSlice *all, int64_t done, int64_t columns) {
  CalibSlice slice = *all;
  const int64_t most = columns < PROTOCOL_NUMBERS_MAX ? PROTOCOL_NUMBERS_MAX / columns : 1;
  slice.row += done;
  slice.n_rows = all->n_rows - done < most ? all->n_rows - done : most;
  return slice;
}

static CalibStatus remote_move(void *state, const CalibSlice *slice, double *values, bool writes,
                               char *error) {
  Remote *self = state;
  const char *verb = writes ? "write" : "read";
  int64_t columns;
  const CalibStatus status = need_columns(self, slice->tensor, &columns, error);
  if (status) return status;
  for (int64_t done = 0; columns > 0 && done < slice->n_rows;) {
    const CalibSlice some = next_slice(slice, done, columns);
    double *from = values + done * columns;
    begin(self, verb);
    protocol_put_struct(&self->line, protocol_slice, &some);
    if (writes) protocol_put_values(&self->line, from, some.n_rows * columns);
    const CalibStatus moved = ask(self, verb, error);
    if (moved) return moved;
    if (!writes && protocol_get_values(&self->answer, from, some.n_rows * columns, error))
      return refuse(self, verb, error);
    done += some.n_rows;
  }
  return CALIB_OK;
}

/* How far a wrong result is off is said, too. */
static CalibStatus remote_verify(void *state, CalibOp op, double *ret_error, char *error) {
  Remote *self = state;
  char why[CALIB_ERROR_SIZE];
  begin(self, "verify");
  protocol_put_text(&self->line, "op", calib_op_names[op]);
  const CalibStatus status = ask(self, "verify", error);
  if (status && status != CALIB_WRONG) return status;
  if (!protocol_find(&self->answer, "off") ||
      protocol_get_number(&self->answer, "off", ret_error, why) == 0)
    return status;
  return process_refuse(&self->process, "verify", why, error);
}

/* ---- Opening ---- */

static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash && slash[1] ? slash + 1 : path;
}

static CalibStatus say_hello(Remote *self, char *error) {
  ProtocolHello *hello = &self->hello;
  begin(self, "hello");
  protocol_put_int(&self->line, "protocol", PROTOCOL_VERSION);
  CalibStatus status = ask(self, "hello", error);
  if (status) return status;
  if (protocol_get_struct(&self->answer, protocol_hello, hello, &self->arena, error) ||
      protocol_get_names(&self->answer, "calls", protocol_calls, self->can, error))
    return refuse(self, "hello", error);
  if (!*hello->name)
    snprintf(hello->name, sizeof hello->name, "%.60s", base_name(self->process.path));
  if (!self->can[PROTOCOL_CAN_measure]) hello->whole = true;
  if (hello->protocol == PROTOCOL_VERSION) return CALIB_OK;
  return calib_failed(
      CALIB_ENVIRONMENT, error,
      "'%.200s' uses version %d of the protocol, this program version %d; build both again",
      self->process.path, (int)hello->protocol, PROTOCOL_VERSION);
}

static void fill_table(Remote *self) {
  const bool verifies = self->can[PROTOCOL_CAN_read];
  self->table = (Backend){.name = self->hello.name,
                          .help = self->hello.help,
                          .whole = self->hello.whole,
                          .load = remote_load,
                          .supports = remote_supports,
                          .prepare = remote_prepare,
                          .measure = remote_measure,
                          .run_batch = remote_run_batch,
                          .run = verifies ? remote_run : NULL,
                          .columns = verifies ? remote_columns : NULL,
                          .move = verifies ? remote_move : NULL,
                          .verify = self->can[PROTOCOL_CAN_verify] ? remote_verify : NULL,
                          .telemetry = remote_telemetry,
                          .close = remote_close};
}

/* It is a key of profiles and models. */
static bool is_key(const char *text) {
  for (; *text; text++)
    if (!isalnum((unsigned char)*text) && !strchr("._-", *text)) return false;
  return true;
}

static CalibStatus open_device(Remote *self, const CalibOptions *options, CalibDevice *ret_device,
                               char *error) {
  begin(self, "open");
  protocol_put_struct(&self->line, protocol_options, options);
  const CalibStatus status = ask(self, "open", error);
  *ret_device = (CalibDevice){.n_devices = 1};
  if (status) return status;
  if (protocol_get_struct(&self->answer, protocol_device, ret_device, &self->arena, error))
    return refuse(self, "open", error);
  if (!*ret_device->name)
    snprintf(ret_device->name, sizeof ret_device->name, "%s", self->hello.name);
  if (!*ret_device->gpu)
    snprintf(ret_device->gpu, sizeof ret_device->gpu, "%s",
             is_key(self->hello.name) ? self->hello.name : "unknown");
  if (is_key(ret_device->gpu)) return CALIB_OK;
  snprintf(error, CALIB_ERROR_SIZE, "'gpu' must consist of letters, digits, '.', '_' and '-'");
  return refuse(self, "open", error);
}

int backend_process_open(OpenBackend *ret_backend, const char *path, const CalibOptions *options,
                         Diag *diag) {
  Arena arena;
  arena_init(&arena);
  Remote *self = ARENA_NEW(&arena, Remote);
  char error[CALIB_ERROR_SIZE] = "";
  if (process_start(&self->process, path, options->interrupted, diag)) {
    arena_done(&arena);
    return -1;
  }
  self->arena = arena;
  self->line.arena = &self->arena;
  CalibStatus status = say_hello(self, error);
  if (!status) {
    fill_table(self);
    status = open_device(self, options, &ret_backend->device, error);
  }
  ret_backend->table = &self->table;
  ret_backend->state = self;
  if (!status) return 0;
  const int result = backend_failed(status, error, place_of_file(NULL), diag);
  remote_close(self);
  ret_backend->table = NULL;
  return result;
}
