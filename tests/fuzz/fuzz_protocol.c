/* Lines of a backend's pipe, of any bytes: what is taken is within its bounds, and what is refused
 * says why. */
#include "calib/protocol.h"
#include <assert.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char error[CALIB_ERROR_SIZE];

static bool taken(int status) {
  assert(status == 0 || (*error && strnlen(error, sizeof error) < sizeof error));
  *error = '\0';
  return status == 0;
}

static void read_structs(const ProtocolObject *object, Arena *arena) {
  ProtocolHello hello = {.protocol = 0};
  CalibOptions options = {.device = 0};
  CalibDevice device = {.sm = 0};
  CalibModel model = {.name = NULL};
  CalibSlice slice = {.n_rows = 1};
  CalibTelemetry telemetry = {.throttle = 0};
  if (taken(protocol_get_struct(object, protocol_hello, &hello, arena, error)))
    assert(memchr(hello.name, '\0', sizeof hello.name) && hello.protocol >= 0);
  taken(protocol_get_struct(object, protocol_options, &options, arena, error));
  if (taken(protocol_get_struct(object, protocol_device, &device, arena, error)))
    assert(memchr(device.gpu, '\0', sizeof device.gpu) && device.memory_bytes >= 0 &&
           device.ecc <= CALIB_ON);
  if (taken(protocol_get_struct(object, protocol_model, &model, arena, error)))
    assert(model.dtype <= CALIB_FP32 && model.hidden_size >= 0);
  if (taken(protocol_get_struct(object, protocol_slice, &slice, arena, error)))
    assert(slice.tensor < CALIB_N_TENSORS && slice.n_rows >= 1 && slice.sequence >= CALIB_OF_ROWS);
  if (taken(protocol_get_struct(object, protocol_telemetry, &telemetry, arena, error)))
    assert(isfinite(telemetry.power_w) && telemetry.power_w >= 0);
}

static void read_lists(const ProtocolObject *object, Arena *arena) {
  enum { NUMBERS = 3 };
  CalibPoint point = {.op = CALIB_ITERATION};
  int64_t columns[CALIB_N_TENSORS];
  double values[NUMBERS];
  bool can[PROTOCOL_N_CALLS] = {false};
  if (taken(protocol_get_struct(object, protocol_point, &point, arena, error)))
    assert(point.op < CALIB_N_OPS && point.size >= 0);
  if (taken(protocol_get_batch(object, &point.batch, arena, error))) {
    const int32_t n = point.batch.n_prefills + point.batch.n_decodes;
    assert(point.batch.n_prefills >= 0 && point.batch.n_decodes >= 0 && point.batch.n_logits <= n);
    for (int32_t i = 0; i < n; i++)
      assert(point.batch.sequences[i].new_tokens >= 1 && point.batch.sequences[i].past_tokens >= 0);
  }
  if (taken(protocol_get_columns(object, columns, error)))
    for (int i = 0; i < CALIB_N_TENSORS; i++)
      assert(columns[i] >= 0 && columns[i] <= PROTOCOL_COLUMNS_MAX);
  taken(protocol_get_names(object, "calls", protocol_calls, can, error));
  taken(protocol_get_values(object, values, NUMBERS, error));
}

static void read_values(const ProtocolObject *object) {
  double seconds = 0;
  int32_t repeats = 0;
  int op = 0;
  char text[64];
  if (taken(protocol_get_number(object, "seconds", &seconds, error)))
    assert(isfinite(seconds) && seconds >= 0);
  if (taken(protocol_get_count(object, "repeats", &repeats, error))) assert(repeats >= 1);
  if (taken(protocol_get_text(object, "error", text, sizeof text, error)))
    assert(memchr(text, '\0', sizeof text));
  if (taken(protocol_get_word(object, "status", protocol_statuses, &op, error)))
    assert(protocol_statuses[op]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  ProtocolObject object;
  Arena arena;
  arena_init(&arena);
  if (taken(protocol_parse(&object, (const char *)data, size, error))) {
    read_structs(&object, &arena);
    read_lists(&object, &arena);
    read_values(&object);
  }
  arena_done(&arena);
  return 0;
}
