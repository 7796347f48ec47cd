/* Parts of the reader of recorded runs (vllm.h), which return -1 with a diagnostic. */
#ifndef TESTS_DIFFERENTIAL_VLLM_RECORD_H
#define TESTS_DIFFERENTIAL_VLLM_RECORD_H
#include "tests/differential/json.h"
#include "tests/differential/vllm.h"

enum { MICRO_PLACES = 6 }; // a microsecond is 10^6 ticks

int record_skip(Json *json);
int record_micros(Json *json, Tick *ret_ticks);
/* What nobody knows here may change what the run decides, so that it is not skipped. */
int record_refuse(const Json *json, const char *what, Field key);
/* The `config` of a run. In vllm_config.c. */
int record_config(RecordedRun *self, Json *json);
#endif
