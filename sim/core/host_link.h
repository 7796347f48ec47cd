/* The link between the memory of a set of GPUs and their CPU's, each direction with a rate of its
 * own.
 *
 * A copy of s bytes gets efficiency · peak · s/(s + h): small ones are slow. Pie Fig. 1 has 95% of
 * the peak from 16 MB on, hence h = 0.84 MB. That is s + h bytes at the full rate, so what other
 * processes take of the link (background traffic, a schedule known in advance) slows a copy while
 * they take it. They leave at least HOST_LINK_LEAST of a direction. Plain IEEE arithmetic: the same
 * ticks everywhere.
 *
 * Copies of KV and weights go one at a time in each direction, first come, first served. One waits
 * for those before it and for nothing else, so its end is known when it is queued, and a queue is
 * when the last of it ends (CopyQueue). A tier whose iterations move KV all the time shares a
 * direction with them: each has half of what background traffic leaves. */
#ifndef SIM_CORE_HOST_LINK_H
#define SIM_CORE_HOST_LINK_H
#include "base/option.h"
#include "base/units.h"

#define HOST_LINK_LEAST 0.01

typedef enum LinkDirection { LINK_TO_GPU, LINK_TO_CPU, LINK_DIRECTIONS } LinkDirection;

typedef struct HostLinkOptions {
  int64_t to_gpu, to_cpu; // bytes per second at peak
  int64_t half_size;      // h: the bytes that get half of it
  double efficiency;      // of the peak that swapping reaches
  const Node *background; // list of {from, to, direction, share, bandwidth}; NULL: none
} HostLinkOptions;

#define HOST_LINK_OPTION(State, member, name, field, kind, value, low, high, text)                 \
  {                                                                                                \
    .key = name, .type = kind, .offset = offsetof(State, member.field), .fallback = value,         \
    .min = low, .max = high, .help = text                                                          \
  }
/* Rows of an option table whose state `State` has HostLinkOptions as `member`: what transfers reach
 * of the peaks, which the instance type has. */
#define HOST_LINK_USE(State, member)                                                               \
  HOST_LINK_OPTION(State, member, "half_size", half_size, OPTION_BYTES, "0.84 MB", 0, 1e15,        \
                   "Size of a transfer that reaches half of the peak bandwidth (Pie, Fig. 1)."),   \
      HOST_LINK_OPTION(State, member, "efficiency", efficiency, OPTION_REAL, "1", 0.01, 1,         \
                       "Share of the peak bandwidth that large transfers reach."),                 \
  {                                                                                                \
    .key = "background", .type = OPTION_NODE, .offset = offsetof(State, member.background),        \
    .help = "Other traffic on the link: a list of {from, to, direction, share, bandwidth}.",       \
    .absent = "none"                                                                               \
  }

extern const OptionSpec host_link_traffic_options[]; // of an item of `background`

typedef struct BackgroundTraffic {
  Tick from, to;     // half open; `to` TICK_MAX: for ever
  int direction;     // 0: both, else LinkDirection + 1
  double share;      // of the direction's peak
  int64_t bandwidth; // bytes per second, taken in addition
} BackgroundTraffic;

/* Copies over the link of one set of GPUs. */
typedef struct CopyQueue {
  Tick ends[LINK_DIRECTIONS]; // of all that were queued
} CopyQueue;

typedef struct HostLink {
  HostLinkOptions options;
  BackgroundTraffic *background;
  int32_t n_background;
} HostLink;

/* Reads the schedule. 0, or -1 with located messages. */
int host_link_init(HostLink *self, const HostLinkOptions *options, Arena *arena, Diag *diag);
/* Error at `at`, of `owner`, when a direction has no rate or `bytes` at its worst take more than
 * the 106 days of simulated time. */
int host_link_check(const HostLink *self, double bytes, const char *owner, Place at, Diag *diag);
/* Ticks, at least 1, that `bytes` > 0 take which begin to move at `begin`, beside copies or, with
 * NULL, none; TICK_MAX when that is beyond the end of simulated time. */
Tick host_link_ticks(const HostLink *self, const CopyQueue *beside, LinkDirection direction,
                     int64_t bytes, Tick begin);
/* Queues a copy of `bytes` > 0 that can begin at `from`, beside a tier's or not. When it ends, or
 * TICK_MAX, and then it is not queued. */
Tick host_link_queue(const HostLink *self, CopyQueue *queue, LinkDirection direction, int64_t bytes,
                     Tick from, bool beside_tier);
/* Bytes per second of a transfer that is large and alone. */
double host_link_peak(const HostLink *self, LinkDirection direction);
/* Bytes per second at `now` of a transfer that is large. */
double host_link_rate(const HostLink *self, const CopyQueue *beside, LinkDirection direction,
                      Tick now);
/* When background traffic next begins or ends after `now`, or copies end; TICK_MAX: never. */
Tick host_link_next_change(const HostLink *self, const CopyQueue *beside, Tick now);
#endif
