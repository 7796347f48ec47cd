/* See eventlog.h. */
#include "sim/books/eventlog.h"
#include <inttypes.h>

static const char *const names[OUTCOMES] = {
    [OUTCOME_ARRIVAL] = "arrival",
    [OUTCOME_PLACEMENT] = "placement",
    [OUTCOME_REJECTION] = "rejection",
    [OUTCOME_PREFILL_BEGIN] = "prefill_begin",
    [OUTCOME_FIRST_TOKEN] = "first_token",
    [OUTCOME_TRANSFER_BEGIN] = "transfer_begin",
    [OUTCOME_TRANSFER_END] = "transfer_end",
    [OUTCOME_DECODE_BEGIN] = "decode_begin",
    [OUTCOME_PREEMPTION] = "preemption",
    [OUTCOME_RECOMPUTE] = "recompute",
    [OUTCOME_LAST_TOKEN] = "last_token",
    [OUTCOME_ROLE] = "role",
    [OUTCOME_DISPATCH] = "dispatch",
    [OUTCOME_FLIP] = "flip",
    [OUTCOME_SWAP_OUT] = "swap_out",
    [OUTCOME_SWAP_IN] = "swap_in",
    [OUTCOME_EXPANSION] = "expansion",
    [OUTCOME_COPY_OUT] = "copy_out",
    [OUTCOME_COPY_IN] = "copy_in",
    [OUTCOME_SHAPE] = "shape",
    [OUTCOME_CANCELLED] = "cancelled",
    [OUTCOME_FAILURE] = "failure",
    [OUTCOME_DETECTION] = "detection",
    [OUTCOME_REPAIR] = "repair",
    [OUTCOME_UP] = "up",
    [OUTCOME_LOST] = "lost",
    [OUTCOME_DRAIN] = "drain",
    [OUTCOME_AWAY] = "away",
    [OUTCOME_SLOW] = "slow",
    [OUTCOME_START] = "start",
    [OUTCOME_STOP] = "stop",
    [OUTCOME_OFF] = "off",
    [OUTCOME_LINK] = "link",
    [OUTCOME_STORE] = "store",
    [OUTCOME_CHECKPOINT] = "checkpoint",
    [OUTCOME_HEDGE] = "hedge",
    [OUTCOME_REDUNDANT] = "redundant",
    [OUTCOME_REARRANGEMENT] = "rearrangement",
};

void eventlog_init(EventLog *self, FILE *out) {
  *self = (EventLog){.out = out};
  if (out) fputs("time_s,event,request,machine,a,b\n", out);
}

static void write_line(const EventLog *self, Tick at, Outcome outcome, uint64_t request,
                       uint32_t instance, int64_t a, int64_t b) {
  fprintf(self->out, "%" PRId64 ".%012" PRId64 ",%s,", at / TICKS_PER_SECOND, at % TICKS_PER_SECOND,
          names[outcome]);
  if (request != LOG_NOBODY) fprintf(self->out, "%" PRIu64, request);
  if (instance == UINT32_MAX)
    fprintf(self->out, ",,%" PRId64 ",%" PRId64 "\n", a, b);
  else
    fprintf(self->out, ",%" PRIu32 ",%" PRId64 ",%" PRId64 "\n", instance, a, b);
}

void eventlog_tell(const EventLog *self, Tick at, Outcome outcome, uint64_t request,
                   uint32_t instance, int64_t a, int64_t b) {
  if (self->out) write_line(self, at, outcome, request, instance, a, b);
  if (self->listener) self->listener(self->context, at, outcome, request, instance, a, b);
}
