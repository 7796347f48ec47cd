/* The lines between Tandem and a backend: everything that crosses comes out as it went in, bit for
 * bit, and what is out of its range is refused by name. */
#include "calib/operators.h"
#include "calib/protocol.h"
#include "tests/unit/testing.h"
#include <float.h>
#include <math.h>
#include <string.h>

TestSuite(protocol, .init = setup, .fini = teardown, .timeout = 60);

static char error[CALIB_ERROR_SIZE];

/* The line, ended and read again. */
static ProtocolObject read_back(ProtocolLine *line) {
  ProtocolObject object;
  protocol_end(line);
  cr_assert_eq(line->text[line->length - 1], '\n');
  for (size_t i = 0; i + 1 < line->length; i++)
    cr_assert(line->text[i] >= ' ' && line->text[i] <= '~', "byte %zu is no ASCII", i);
  cr_assert_eq(protocol_parse(&object, line->text, line->length - 1, error), 0, "%s", error);
  return object;
}

static ProtocolObject parse(const char *text) {
  ProtocolObject object;
  cr_assert_eq(protocol_parse(&object, text, strlen(text), error), 0, "%s: %s", text, error);
  return object;
}

Test(protocol, structs_come_out_as_they_went_in) {
  const CalibDevice device = {.name = "H\u00e9 \"\\ \U0001f600",
                              .gpu = "h100-80gb",
                              .library =
                                  "a library whose name takes all the 63 bytes that there is roo",
                              .sm = 90,
                              .memory_bytes = INT64_MAX,
                              .ecc = CALIB_ON,
                              .mig = CALIB_OFF,
                              .pcie_width = INT32_MAX,
                              .sm_clock_most_mhz = 1980.1};
  CalibDevice got = {.sm = 0};
  ProtocolLine line = {.arena = &arena};
  protocol_begin(&line);
  protocol_put_struct(&line, protocol_device, &device);
  const ProtocolObject object = read_back(&line);
  cr_assert_eq(protocol_get_struct(&object, protocol_device, &got, &arena, error), 0, "%s", error);
  cr_expect_str_eq(got.name, device.name);
  cr_expect_str_eq(got.library, device.library);
  cr_expect_eq(got.memory_bytes, device.memory_bytes);
  cr_expect_eq(got.ecc, CALIB_ON);
  cr_expect_eq(got.mig, CALIB_OFF);
  cr_expect_eq(got.pcie_width, INT32_MAX);
  cr_expect_eq(got.sm_clock_most_mhz, device.sm_clock_most_mhz);
}

Test(protocol, what_is_not_known_stays_so) {
  CalibTelemetry telemetry = {.power_w = NAN, .energy_j = 1e9 + 1.0 / 3, .throttle = 1ULL << 63};
  CalibTelemetry got = {.power_w = NAN, .sm_clock_mhz = 3};
  CalibOptions options = {.seed = UINT64_MAX, .verify = true}, got_options = {.seed = 1};
  ProtocolLine line = {.arena = &arena};
  protocol_begin(&line);
  protocol_put_struct(&line, protocol_telemetry, &telemetry);
  protocol_put_struct(&line, protocol_options, &options);
  const ProtocolObject object = read_back(&line);
  cr_assert_eq(protocol_get_struct(&object, protocol_telemetry, &got, &arena, error), 0, "%s",
               error);
  cr_assert_eq(protocol_get_struct(&object, protocol_options, &got_options, &arena, error), 0);
  cr_expect(isnan(got.power_w));
  cr_expect_eq(got.sm_clock_mhz, 0);
  cr_expect_eq(got.energy_j, telemetry.energy_j);
  cr_expect_eq(got.throttle, telemetry.throttle);
  cr_expect_eq(got_options.seed, UINT64_MAX);
  cr_expect(got_options.verify);
}

Test(protocol, models_and_points_keep_their_words) {
  const CalibModel model = {.name = "m",
                            .file = "a/\xc3\xa9.gguf",
                            .num_hidden_layers = 2,
                            .norm = CALIB_LAYER_NORM,
                            .activation = CALIB_RELU,
                            .positions = CALIB_LEARNED,
                            .dtype = CALIB_FP16};
  CalibModel got = {.name = NULL};
  ProtocolLine line = {.arena = &arena};
  for (int op = 0; op < CALIB_N_OPS; op++) {
    const CalibSequence sequences[] = {{129, 45}, {1, INT32_MAX}};
    const CalibPoint point = {.op = (CalibOp)op,
                              .mode = CALIB_EAGER,
                              .hot = true,
                              .layers = 1,
                              .batch = {sequences, 1, 1, 2},
                              .size = 7};
    CalibPoint found = {.op = CALIB_ITERATION};
    protocol_begin(&line);
    protocol_put_struct(&line, protocol_point, &point);
    protocol_put_batch(&line, &point.batch);
    const ProtocolObject object = read_back(&line);
    cr_assert_eq(protocol_get_struct(&object, protocol_point, &found, &arena, error), 0, "%s",
                 error);
    cr_assert_eq(protocol_get_batch(&object, &found.batch, &arena, error), 0, "%s", error);
    cr_expect(found.op == point.op && found.mode == CALIB_EAGER && found.hot && !found.busy);
    cr_expect(found.layers == 1 && found.size == 7 && found.batch.n_prefills == 1);
    cr_expect(found.batch.n_decodes == 1 && found.batch.n_logits == 2);
    cr_expect_eq(memcmp(found.batch.sequences, sequences, sizeof sequences), 0);
  }
  protocol_begin(&line);
  protocol_put_struct(&line, protocol_model, &model);
  ProtocolObject object = read_back(&line);
  cr_expect_neq(protocol_get_struct(&object, protocol_model, &got, &arena, error), 0);
  cr_expect_str_eq(error, "'hidden_size' must be a whole number from 1 to 2147483647, not '0'");
  cr_expect_str_eq(got.file, model.file);
  object = parse("{\"norm\":\"layer_norm\",\"dtype\":\"fp16\",\"positions\":\"learned\"}");
  cr_assert_eq(protocol_get_struct(&object, protocol_model, &got, &arena, error), 0, "%s", error);
  cr_expect(got.norm == CALIB_LAYER_NORM && got.dtype == CALIB_FP16);
  cr_expect(got.positions == CALIB_LEARNED);
}

/* All lengths around the blocks and groups of the encoding, as short and as long numbers. */
Test(protocol, numbers_are_exact) {
  static const double odd[] = {0.0,     -0.0,    NAN,       INFINITY, -INFINITY,      1.0 / 3,
                               DBL_MAX, DBL_MIN, 0x1p-1074, 0x1p-149, 0x1.fffffep127, 1e300};
  enum { MOST = 1600 };
  double *values = ARENA_ARRAY(&arena, double, MOST), *got = ARENA_ARRAY(&arena, double, MOST);
  ProtocolLine line = {.arena = &arena};
  for (int64_t n = 1; n < MOST; n += n < 12 ? 1 : 127) {
    for (int is_short = 0; is_short < 2; is_short++) {
      for (int64_t i = 0; i < n; i++)
        values[i] = is_short ? (double)(i - 3) / 64 : i < 12 ? odd[i] : 1.0 / (double)i;
      if (is_short) values[n / 2] = NAN;
      protocol_begin(&line);
      protocol_put_values(&line, values, n);
      const ProtocolObject object = read_back(&line);
      const bool fits = is_short || n < 6; // as the first of the odd ones do
      cr_expect(field_is(*protocol_find(&object, "type"), fits ? "\"f32\"" : "\"f64\""));
      cr_assert_eq(protocol_get_values(&object, got, n, error), 0, "%d: %s", (int)n, error);
      for (int64_t i = 0; i < n; i++)
        cr_assert(isnan(values[i]) ? isnan(got[i]) : memcmp(&values[i], &got[i], 8) == 0,
                  "number %d of %d: %g is %g", (int)i, (int)n, values[i], got[i]);
      cr_expect_neq(protocol_get_values(&object, got, n + 1, error), 0);
    }
  }
}

Test(protocol, what_is_no_object_is_refused) {
  static const char *const lines[] = {"",
                                      "null",
                                      "[1]",
                                      "{\"a\":1",
                                      "{\"a\":1}}",
                                      "{\"a\":1} x",
                                      "{\"a\" 1}",
                                      "{\"a\":1,\"a\":2}",
                                      "{\"a\":\"\\\"}"};
  ProtocolObject object;
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
    cr_expect_neq(protocol_parse(&object, lines[i], strlen(lines[i]), error), 0, "%s", lines[i]);
  ProtocolLine line = {.arena = &arena};
  protocol_begin(&line);
  for (int i = 0; i <= PROTOCOL_MEMBERS_MAX; i++)
    protocol_put_int(&line, arena_printf(&arena, "k%d", i), i);
  protocol_end(&line);
  cr_expect_neq(protocol_parse(&object, line.text, line.length - 1, error), 0);
  cr_expect_str_eq(error, "the object has more than 64 members");
}

Test(protocol, what_is_out_of_range_is_refused_by_name) {
  static const struct {
    const char *line, *error;
  } cases[] = {
      {"{\"sm\":1.5}", "'sm' must be a whole number from 0 to 2147483647, not '1.5'"},
      {"{\"sm\":2147483648}", "'sm' must be a whole number from 0 to 2147483647, not '2147483648'"},
      {"{\"sm\":-1}", "'sm' must be a whole number from 0 to 2147483647, not '-1'"},
      {"{\"memory_bytes\":9223372036854775808}",
       "'memory_bytes' must be a whole number from 0 to 9223372036854775807, not "
       "'9223372036854775808'"},
      {"{\"ecc\":1}", "'ecc' must be true or false, not '1'"},
      {"{\"gpu\":5}", "'gpu' must be text, not '5'"},
      {"{\"gpu\":\"\\u0000\"}", "'gpu' must be text, not '\"\\u0000\"'"},
      {"{\"gpu\":\"\\ud800\"}", "'gpu' must be text, not '\"\\ud800\"'"},
      {"{\"sm_clock_most_mhz\":1e31}",
       "'sm_clock_most_mhz' must be a number from 0 to 1e30, not '1e31'"},
  };
  CalibDevice device = {.sm = 0};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const ProtocolObject object = parse(cases[i].line);
    cr_expect_neq(protocol_get_struct(&object, protocol_device, &device, &arena, error), 0, "%s",
                  cases[i].line);
    cr_expect_str_eq(error, cases[i].error);
  }
  const char *const batches[] = {"{\"sequences\":[[0,1]]}",
                                 "{\"sequences\":[[1,-1]]}",
                                 "{\"sequences\":[[1,1,1]]}",
                                 "{\"sequences\":[1]}",
                                 "{\"sequences\":[[1,1]],\"n_prefills\":2}",
                                 "{\"sequences\":[[1,1]],\"n_logits\":2}",
                                 "{\"sequences\":{}}"};
  for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
    CalibBatch batch;
    const ProtocolObject object = parse(batches[i]);
    cr_expect_neq(protocol_get_batch(&object, &batch, &arena, error), 0, "%s", batches[i]);
  }
}

Test(protocol, long_texts_are_cut_between_characters) {
  char text[8];
  ProtocolLine line = {.arena = &arena};
  protocol_begin(&line);
  protocol_put_text(&line, "error", "abcdef\u00e9\n");
  const ProtocolObject object = read_back(&line);
  cr_assert_eq(protocol_get_text(&object, "error", text, sizeof text, error), 0, "%s", error);
  cr_expect_str_eq(text, "abcdef");
}
