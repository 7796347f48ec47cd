/* See events.h. The format: "Trace Event Format", Google, 2016. */
#include "experiments/timeline/events.h"
#include "experiments/base/writer.h"
#include <inttypes.h>

enum {
  TICKS_PER_NS = 1000,
  ABOUT_SLICE = 190, // bytes
  ABOUT_FLOW = 90,
  ABOUT_COUNTER = 120,
};

static void put_us(const char *before, int64_t ns, FILE *out) {
  fprintf(out, "%s%" PRId64 ".%03d", before, ns / 1000, (int)(ns % 1000));
}

/* Up to its time; false when it is only counted. */
static bool begin(TraceEvents *self, char phase, const char *name, TrackId track, int about) {
  if (!self->out) {
    self->bytes += about;
    return false;
  }
  fprintf(self->out, "%s\n{\"ph\":\"%c\",\"pid\":%u", self->any ? "," : "", phase, track.pid);
  if (track.tid > 0) fprintf(self->out, ",\"tid\":%u", track.tid);
  fputs(",\"name\":", self->out);
  write_json_string(name, self->out);
  self->any = true;
  return true;
}

static void put_args(const EventArg *args, FILE *out) {
  fputs(",\"args\":{", out);
  for (int i = 0; args[i].kind; i++) {
    fprintf(out, "%s\"%s\":", i > 0 ? "," : "", args[i].key);
    if (args[i].kind == ARG_WHOLE)
      fprintf(out, "%" PRId64, args[i].whole);
    else if (args[i].kind == ARG_TICKS)
      put_us("", args[i].whole / TICKS_PER_NS, out);
    else
      write_number(args[i].real, "null", out);
  }
  putc('}', out);
}

void events_begin(TraceEvents *self, FILE *out) {
  *self = (TraceEvents){.out = out};
  if (out) fputs("{\"traceEvents\":[", out);
}

static void put_fact(TraceEvents *self, TrackId track, const char *fact) {
  begin(self, 'M', fact, track, 0);
  fputs(",\"args\":{", self->out);
}

void events_name(TraceEvents *self, TrackId track, const char *name, int64_t place) {
  if (!self->out) return;
  put_fact(self, track, track.tid > 0 ? "thread_name" : "process_name");
  fputs("\"name\":", self->out);
  write_json_string(name, self->out);
  fputs("}}", self->out);
  put_fact(self, track, track.tid > 0 ? "thread_sort_index" : "process_sort_index");
  fprintf(self->out, "\"sort_index\":%" PRId64 "}}", place);
}

void events_slice(TraceEvents *self, TrackId track, const char *name, Tick begin_at, Tick end,
                  const EventArg *args) {
  const int64_t ns = begin_at / TICKS_PER_NS;
  self->slices++;
  if (!begin(self, 'X', name, track, ABOUT_SLICE)) return;
  put_us(",\"ts\":", ns, self->out);
  put_us(",\"dur\":", end / TICKS_PER_NS - ns, self->out);
  put_args(args, self->out);
  putc('}', self->out);
}

void events_instant(TraceEvents *self, TrackId track, const char *name, Tick at) {
  if (!begin(self, 'i', name, track, ABOUT_FLOW)) return;
  put_us(",\"ts\":", at / TICKS_PER_NS, self->out);
  fputs(",\"s\":\"t\"}", self->out);
}

void events_flow(TraceEvents *self, char phase, TrackId track, uint64_t id, Tick at) {
  if (!begin(self, phase, "KV", track, ABOUT_FLOW)) return;
  put_us(",\"ts\":", at / TICKS_PER_NS, self->out);
  fprintf(self->out, ",\"cat\":\"kv\",\"id\":%" PRIu64 "%s}", id,
          phase == 'f' ? ",\"bp\":\"e\"" : "");
}

void events_counter(TraceEvents *self, uint32_t pid, const char *name, Tick at,
                    const EventArg *args) {
  if (!begin(self, 'C', name, (TrackId){pid, 0}, ABOUT_COUNTER)) return;
  put_us(",\"ts\":", at / TICKS_PER_NS, self->out);
  put_args(args, self->out);
  putc('}', self->out);
}

void events_end(TraceEvents *self, const char *const *facts) {
  if (!self->out) return;
  fputs("\n],\n\"displayTimeUnit\":\"ms\",\n\"otherData\":{", self->out);
  for (int i = 0; facts[i]; i += 2)
    write_json_text(i > 0 ? ", " : "", facts[i], facts[i + 1], self->out);
  fputs("}}\n", self->out);
  self->bytes = ftell(self->out); // -1 of a pipe
}
