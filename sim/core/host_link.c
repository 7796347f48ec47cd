/* See host_link.h. */
#include "sim/core/host_link.h"
#include <assert.h>
#include <math.h>

static const char *const DIRECTIONS[] = {"both", "to_gpu", "to_cpu", NULL};

#define TRAFFIC(field, kind, ...)                                                                  \
  { .key = #field, .type = kind, .offset = offsetof(BackgroundTraffic, field), __VA_ARGS__ }

const OptionSpec host_link_traffic_options[] = {
    TRAFFIC(from, OPTION_TICKS, .fallback = "0 s", .min = 0, .max = 9.2e6,
            .help = "Time at which the traffic begins."),
    TRAFFIC(to, OPTION_TICKS, .min = 0, .max = 9.2e6, .help = "Time at which the traffic ends.",
            .absent = "never"),
    TRAFFIC(direction, OPTION_CHOICE, .fallback = "both", .choices = DIRECTIONS,
            .help = "Direction of the traffic."),
    TRAFFIC(share, OPTION_REAL, .fallback = "0", .min = 0, .max = 1,
            .help = "Share of the direction's peak bandwidth that the traffic takes."),
    TRAFFIC(bandwidth, OPTION_BANDWIDTH, .fallback = "0 B/s", .min = 0, .max = 1e15,
            .help = "Bandwidth that the traffic takes in addition to the share."),
    {0},
};

int host_link_init(HostLink *self, const HostLinkOptions *options, Arena *arena, Diag *diag) {
  *self = (HostLink){.options = *options};
  const Node *list = options->background;
  if (!list) return 0;
  if (list->kind != NODE_LIST) return diag_error(diag, list->at, "'background' must be a list");
  self->background = ARENA_ARRAY(arena, BackgroundTraffic, list->n_children);
  int status = 0;
  for (const Node *item = list->first; item; item = item->next) {
    BackgroundTraffic *traffic = &self->background[self->n_background++];
    traffic->to = TICK_MAX;
    if (option_bind(host_link_traffic_options, item, NULL, item->at, traffic, diag) != 0)
      status = -1;
    else if (traffic->to <= traffic->from)
      status = diag_error(diag, item->at, "'to' must be later than 'from'");
  }
  return status;
}

static double peak_of(const HostLink *self, LinkDirection direction) {
  return (double)(direction == LINK_TO_GPU ? self->options.to_gpu : self->options.to_cpu);
}

/* The part of a direction that background traffic and copies leave at `now`. */
static double left_at(const HostLink *self, const CopyQueue *beside, LinkDirection direction,
                      Tick now) {
  double left = 1;
  for (int32_t i = 0; i < self->n_background; i++) {
    const BackgroundTraffic *traffic = &self->background[i];
    if (now < traffic->from || now >= traffic->to) continue;
    if (traffic->direction != 0 && traffic->direction != (int)direction + 1) continue;
    left -= traffic->share + (double)traffic->bandwidth / peak_of(self, direction);
  }
  if (beside && now < beside->ends[direction]) left /= 2;
  return fmax(left, HOST_LINK_LEAST);
}

int host_link_check(const HostLink *self, double bytes, const char *owner, Place at, Diag *diag) {
  static const double LONGEST_S = 9e6;
  for (LinkDirection direction = LINK_TO_GPU; direction < LINK_DIRECTIONS; direction++) {
    const double least = peak_of(self, direction) * self->options.efficiency * HOST_LINK_LEAST;
    if (least <= 0)
      return diag_error(diag, at, "%s needs a link to CPU memory with a bandwidth above 0", owner);
    if ((bytes + (double)self->options.half_size) / least > LONGEST_S)
      return diag_error(diag, at, "%s needs a faster link to CPU memory than one of %g B/s", owner,
                        peak_of(self, direction));
  }
  return 0;
}

double host_link_peak(const HostLink *self, LinkDirection direction) {
  return peak_of(self, direction) * self->options.efficiency;
}

double host_link_rate(const HostLink *self, const CopyQueue *beside, LinkDirection direction,
                      Tick now) {
  return host_link_peak(self, direction) * left_at(self, beside, direction, now);
}

Tick host_link_next_change(const HostLink *self, const CopyQueue *beside, Tick now) {
  Tick next = TICK_MAX;
  for (int direction = 0; beside && direction < LINK_DIRECTIONS; direction++)
    if (beside->ends[direction] > now && beside->ends[direction] < next)
      next = beside->ends[direction];
  for (int32_t i = 0; i < self->n_background; i++) {
    const Tick ends[] = {self->background[i].from, self->background[i].to};
    for (int k = 0; k < 2; k++)
      if (ends[k] > now && ends[k] < next) next = ends[k];
  }
  return next;
}

Tick host_link_ticks(const HostLink *self, const CopyQueue *beside, LinkDirection direction,
                     int64_t bytes, Tick begin) {
  assert(bytes > 0 && begin >= 0);
  const double rate = host_link_peak(self, direction);
  double left =
      ((double)bytes + (double)self->options.half_size) / rate; // seconds at the full rate
  Tick now = begin;
  for (;;) {
    const double part = left_at(self, beside, direction, now);
    const Tick next = host_link_next_change(self, beside, now);
    if (next == TICK_MAX || left / part <= tick_seconds(next - now)) {
      if (left / part >= 0.999 * tick_seconds(TICK_MAX - (now - begin))) return TICK_MAX;
      const Tick ticks = now - begin + tick_from_seconds(left / part);
      return ticks > 0 ? ticks : 1;
    }
    left -= tick_seconds(next - now) * part;
    now = next;
  }
}

Tick host_link_queue(const HostLink *self, CopyQueue *queue, LinkDirection direction, int64_t bytes,
                     Tick from, bool beside_tier) {
  static const CopyQueue always = {{TICK_MAX, TICK_MAX}};
  const Tick begin = from > queue->ends[direction] ? from : queue->ends[direction];
  const Tick ticks = host_link_ticks(self, beside_tier ? &always : NULL, direction, bytes, begin);
  if (ticks > TICK_MAX - begin) return TICK_MAX;
  return queue->ends[direction] = begin + ticks;
}
