/* The network. Pinned: rates of cases worked out by hand, that rates are max-min fair in random
 * clusters (no NIC over its capacity; each flow has a full NIC on which none is faster), finish
 * times, which flows a call reports as changed, that bytes are the integral of rates, and that
 * rates are those of filling over all flows at once, to the byte, of 240 flows and over uplinks
 * too; over uplinks also that rates are those that bisection finds. Not pinned: bytes lost to
 * rounding below one per change of rate. */
#include "base/rng.h"
#include "sim/core/link.h"
#include "tests/unit/testing.h"
#include <math.h>
#include <string.h>

TestSuite(link, .init = setup, .fini = teardown);

enum { MACHINES = 5, FLOWS = 12 };

static Links new_links(const int64_t *capacities, uint32_t n_machines) {
  Links links;
  links_init(&links, capacities, n_machines, &arena);
  links_reserve(&links, FLOWS);
  return links;
}

static bool has_changed(const Links *links, FlowIx flow) {
  for (size_t i = 0; i < links->n_changed; i++)
    if (links->changed[i] == flow) return true;
  return false;
}

Test(link, a_lone_flow_runs_at_the_slower_of_its_two_nics) {
  static const int64_t capacities[] = {1000, 400, 1000};
  Links links = new_links(capacities, 3);
  links_begin(&links, 0, 0, 1, 800, 0);
  cr_expect_eq(links.flows[0].rate, 400);
  cr_expect_eq(links_finish(&links, 0), 2 * TICKS_PER_SECOND);
  links_begin(&links, 1, 1, 2, 200, TICKS_PER_SECOND);
  cr_expect_eq(links.flows[1].rate, 400, "out and in of a machine are apart");
  cr_expect_eq(links_finish(&links, 1), TICKS_PER_SECOND * 3 / 2);
  cr_expect_not(has_changed(&links, 0));
}

Test(link, two_flows_out_of_one_nic_have_half_each_until_one_ends) {
  static const int64_t capacities[] = {1000, 1000, 1000};
  Links links = new_links(capacities, 3);
  links_begin(&links, 0, 0, 1, 3000, 0); // alone for 1 s: 2000 left
  links_begin(&links, 1, 0, 2, 1000, TICKS_PER_SECOND);
  cr_expect(has_changed(&links, 0) && has_changed(&links, 1));
  cr_expect_eq(links.flows[0].rate, 500);
  cr_expect_eq(links.flows[1].rate, 500);
  cr_expect_eq(links_finish(&links, 0), 5 * TICKS_PER_SECOND);
  cr_expect_eq(links_finish(&links, 1), 3 * TICKS_PER_SECOND);
  cr_expect_eq(links_end(&links, 1, 3 * TICKS_PER_SECOND), 0);
  cr_expect_eq(links.flows[0].rate, 1000);
  cr_expect_eq(links_finish(&links, 0), 4 * TICKS_PER_SECOND, "1000 bytes are left of it");
  cr_expect_eq(links_end(&links, 0, 4 * TICKS_PER_SECOND), 0);
}

Test(link, flows_that_are_held_back_elsewhere_leave_their_share_to_others) {
  static const int64_t capacities[] = {1000, 1000, 300, 1000};
  Links links = new_links(capacities, 4);
  links_begin(&links, 0, 0, 1, 1000000, 0);
  links_begin(&links, 1, 0, 2, 1000000, 0);
  links_begin(&links, 2, 3, 2, 1000000, 0);
  cr_expect_eq(links.flows[1].rate, 150, "half of what machine 2 takes in");
  cr_expect_eq(links.flows[2].rate, 150);
  cr_expect_eq(links.flows[0].rate, 850, "what flow 1 leaves of machine 0");
  links_end(&links, 2, 0);
  cr_expect_eq(links.flows[1].rate, 300);
  cr_expect_eq(links.flows[0].rate, 700);
  links_end(&links, 0, 0);
  cr_expect_eq(links.flows[1].rate, 300);
  cr_expect_not(has_changed(&links, 1));
}

Test(link, ending_early_tells_what_is_left) {
  static const int64_t capacities[] = {1000, 1000};
  Links links = new_links(capacities, 2);
  links_begin(&links, 0, 0, 1, 3000, 0);
  cr_expect_eq(links_end(&links, 0, TICKS_PER_SECOND), 2000);
  links_begin(&links, 0, 1, 0, 500, TICKS_PER_SECOND);
  cr_expect_eq(links_end(&links, 0, TICKS_PER_SECOND), 500, "the flow's number is free again");
}

Test(link, more_for_a_flow_disturbs_nobody) {
  static const int64_t capacities[] = {1000, 1000, 1000};
  Links links = new_links(capacities, 3);
  links_begin(&links, 0, 0, 1, 3000, 0);
  links_begin(&links, 1, 0, 2, 1000, 0);
  links_add(&links, 1, 500, TICKS_PER_SECOND); // half of its 1000 are across
  cr_expect(has_changed(&links, 1) && !has_changed(&links, 0));
  cr_expect_eq(links.flows[1].rate, 500);
  cr_expect_eq(links_finish(&links, 1), 3 * TICKS_PER_SECOND);
  cr_expect_eq(links_end(&links, 1, 3 * TICKS_PER_SECOND), 0);
}

/* --- random clusters */

static int64_t load(const Links *links, bool out, InstanceIx machine) {
  int64_t sum = 0;
  for (FlowIx f = 0; f < FLOWS; f++) {
    const Flow *flow = &links->flows[f];
    if (flow->active && (out ? flow->ends[NIC_OUT] : flow->ends[NIC_IN]) == machine)
      sum += flow->rate;
  }
  return sum;
}

/* The NIC is full but for rounding, and no flow through it is faster than `rate`. */
static bool is_bottleneck(const Links *links, const int64_t *capacities, bool out,
                          InstanceIx machine, int64_t rate) {
  if (load(links, out, machine) + FLOWS <= capacities[machine]) return false;
  for (FlowIx f = 0; f < FLOWS; f++) {
    const Flow *flow = &links->flows[f];
    if (flow->active && (out ? flow->ends[NIC_OUT] : flow->ends[NIC_IN]) == machine &&
        flow->rate > rate)
      return false;
  }
  return true;
}

static void expect_fair(const Links *links, const int64_t *capacities) {
  for (InstanceIx m = 0; m < MACHINES; m++) {
    cr_assert_leq(load(links, true, m), capacities[m]);
    cr_assert_leq(load(links, false, m), capacities[m]);
  }
  for (FlowIx f = 0; f < FLOWS; f++) {
    const Flow *flow = &links->flows[f];
    if (!flow->active) continue;
    cr_assert_gt(flow->rate, 0);
    cr_assert(is_bottleneck(links, capacities, true, flow->ends[NIC_OUT], flow->rate) ||
                  is_bottleneck(links, capacities, false, flow->ends[NIC_IN], flow->rate),
              "nothing holds flow %u at %lld", f, (long long)flow->rate);
  }
}

/* The bytes of each flow by adding up rate · time between calls. */
typedef struct Meter {
  double bytes[FLOWS], moved[FLOWS];
  Tick finish[FLOWS];
  int changes[FLOWS];
  Tick at;
} Meter;

static void meter_advance(Meter *self, const Links *links, Tick now) {
  for (FlowIx f = 0; f < FLOWS; f++) {
    if (!links->flows[f].active) continue;
    self->moved[f] += (double)links->flows[f].rate * tick_seconds(now - self->at);
    if (self->moved[f] > self->bytes[f]) self->moved[f] = self->bytes[f];
  }
  self->at = now;
}

/* After a call: an unchanged flow ends when it would have, and a changed one when its bytes say. */
static void meter_check(Meter *self, const Links *links) {
  for (FlowIx f = 0; f < FLOWS; f++) {
    if (!links->flows[f].active) continue;
    const Tick finish = links_finish(links, f);
    if (!has_changed(links, f)) {
      cr_assert_eq(finish, self->finish[f], "flow %u was moved silently", f);
      continue;
    }
    self->finish[f] = finish;
    self->changes[f]++;
    const double rate = (double)links->flows[f].rate;
    const double left = self->bytes[f] - self->moved[f];
    cr_assert_lt(fabs(tick_seconds(finish - self->at) * rate - left), self->changes[f] + 1.0);
  }
}

static void begin_random(Links *links, Meter *meter, FlowIx flow, Rng *rng) {
  const InstanceIx from = (InstanceIx)rng_below(rng, MACHINES);
  const InstanceIx to = (from + 1 + (InstanceIx)rng_below(rng, MACHINES - 1)) % MACHINES;
  const int64_t bytes = 1 + (int64_t)rng_below(rng, 1000000);
  links_begin(links, flow, from, to, bytes, meter->at);
  meter->bytes[flow] = (double)bytes;
  meter->moved[flow] = 0;
  meter->changes[flow] = 0;
  cr_assert(has_changed(links, flow));
}

static void end_and_check(Links *links, Meter *meter, FlowIx flow) {
  const int64_t left = links_end(links, flow, meter->at);
  const double moved = meter->bytes[flow] - (double)left;
  cr_assert_lt(fabs(moved - meter->moved[flow]), meter->changes[flow] + 1.0);
}

Test(link, rates_are_max_min_fair_and_bytes_are_conserved) {
  for (uint64_t seed = 1; seed <= 60; seed++) {
    Rng rng;
    rng_init(&rng, seed, "link");
    int64_t capacities[MACHINES];
    for (int m = 0; m < MACHINES; m++)
      capacities[m] = 1000 + (int64_t)rng_below(&rng, seed % 2 ? 1000000 : 3) * 1000;
    Links links = new_links(capacities, MACHINES);
    Meter meter = {0};
    for (int i = 0; i < 200; i++) {
      const FlowIx flow = (FlowIx)rng_below(&rng, FLOWS);
      const bool active = links.flows[flow].active;
      const bool to_its_end = active && links_finish(&links, flow) < meter.at + TICKS_PER_SECOND;
      const Tick now = to_its_end ? links_finish(&links, flow)
                                  : meter.at + (Tick)rng_below(&rng, (uint64_t)TICKS_PER_SECOND);
      meter_advance(&meter, &links, now > meter.at ? now : meter.at);
      if (active)
        end_and_check(&links, &meter, flow);
      else
        begin_random(&links, &meter, flow, &rng);
      expect_fair(&links, capacities);
      meter_check(&meter, &links);
    }
  }
}

Test(link, at_its_finish_nothing_is_left_of_a_flow) {
  Rng rng;
  rng_init(&rng, 3, "link");
  static const int64_t capacities[] = {399999999999, 123456789012, 7};
  for (int i = 0; i < 300; i++) {
    Links links = new_links(capacities, 3);
    const InstanceIx to = 1 + (InstanceIx)rng_below(&rng, 2);
    links_begin(&links, 0, 0, to, 1 + (int64_t)rng_below(&rng, 1000000), 0);
    cr_assert_leq(links_end(&links, 0, links_finish(&links, 0)), 1);
  }
}

/* --- filling over all flows, written plainly */

/* Rates of all active flows: as often as any is without one, the NIC with the smallest share for
 * each of those gives it to them; of equal NICs that of the oldest flow, the one out of it first.
 * `ages` are flows, the oldest first. */
static void fill_all(const Links *links, const int64_t *capacities, const FlowIx *ages, int n_ages,
                     int64_t *ret_rates) {
  int64_t left[2][MACHINES];
  bool settled[FLOWS] = {0};
  for (InstanceIx m = 0; m < MACHINES; m++)
    left[0][m] = left[1][m] = capacities[m];
  for (;;) {
    int64_t best = INT64_MAX;
    int best_side = 0;
    InstanceIx best_machine = INSTANCE_NONE;
    for (int i = 0; i < n_ages; i++) {
      const FlowIx f = ages[i];
      for (int side = 0; side < 2; side++) {
        const InstanceIx machine = links->flows[f].ends[side];
        int64_t n = 0;
        for (FlowIx g = 0; g < FLOWS; g++)
          n += links->flows[g].active && !settled[g] && links->flows[g].ends[side] == machine;
        if (n == 0 || left[side][machine] / n >= best) continue;
        best = left[side][machine] / n;
        best_side = side;
        best_machine = machine;
      }
    }
    if (best_machine == INSTANCE_NONE) return;
    for (FlowIx f = 0; f < FLOWS; f++) {
      const Flow *flow = &links->flows[f];
      if (!flow->active || settled[f] || flow->ends[best_side] != best_machine) continue;
      settled[f] = true;
      ret_rates[f] = best > 1 ? best : 1;
      for (int side = 0; side < 2; side++)
        left[side][flow->ends[side]] -= ret_rates[f];
    }
  }
}

Test(link, rates_are_those_of_filling_over_all_flows_at_once) {
  for (uint64_t seed = 1; seed <= 300; seed++) {
    Rng rng;
    rng_init(&rng, seed, "fill");
    int64_t capacities[MACHINES]; // few values, so that shares are equal and leave a rest
    for (int m = 0; m < MACHINES; m++)
      capacities[m] = 997 + (int64_t)rng_below(&rng, seed % 3 + 1) * 10;
    Links links = new_links(capacities, MACHINES);
    Meter meter = {0};
    FlowIx ages[FLOWS];
    int n_ages = 0;
    for (int i = 0; i < 100; i++) {
      const FlowIx flow = (FlowIx)rng_below(&rng, FLOWS);
      if (links.flows[flow].active) {
        links_end(&links, flow, meter.at);
        int kept = 0;
        for (int k = 0; k < n_ages; k++)
          if (ages[k] != flow) ages[kept++] = ages[k];
        n_ages = kept;
      } else {
        begin_random(&links, &meter, flow, &rng);
        ages[n_ages++] = flow;
      }
      int64_t rates[FLOWS];
      fill_all(&links, capacities, ages, n_ages, rates);
      for (FlowIx f = 0; f < FLOWS; f++)
        if (links.flows[f].active)
          cr_assert_eq(links.flows[f].rate, rates[f], "seed %d, call %d", (int)seed, i);
    }
  }
}

/* --- uplinks */

enum { SWITCHES = 3 };

/* Machines 0 and 1 on switch 0, 2 and 3 on switch 1; 4 has a quarter on 0, the rest on 2. */
static const int64_t uplink_bandwidth[SWITCHES] = {600, 600, 300};
static const UplinkShare uplink_shares[] = {{0, 1}, {0, 1}, {1, 1}, {1, 1}, {0, 0.25}, {2, 0.75}};
static const uint32_t uplink_first[] = {0, 1, 2, 3, 4, 6};
static const Uplinks rack = {SWITCHES, uplink_bandwidth, MACHINES, uplink_first, uplink_shares};

static Links new_rack(void) {
  static const int64_t capacities[MACHINES + 1] = {1000, 1000, 1000, 1000, 1000, 1000};
  Links links = new_links(capacities, MACHINES + 1);
  links_set_uplinks(&links, &rack);
  return links;
}

Test(link, flows_between_switches_share_the_uplinks_of_both) {
  Links links = new_rack();
  links_begin(&links, 0, 0, 2, 1200, 0);
  cr_expect_eq(links.flows[0].rate, 600);
  links_begin(&links, 1, 1, 3, 9000, 0);
  cr_expect(has_changed(&links, 0) && has_changed(&links, 1));
  cr_expect(links.flows[0].rate == 300 && links.flows[1].rate == 300, "no NIC is shared");
  links_begin(&links, 2, 0, 1, 9000, 0);
  cr_expect_eq(links.flows[2].rate, 700, "beneath the switch: what flow 0 leaves of the NIC");
  cr_expect_eq(links_finish(&links, 0), 4 * TICKS_PER_SECOND);
  cr_expect_eq(links_end(&links, 0, 4 * TICKS_PER_SECOND), 0);
  cr_expect(links.flows[1].rate == 600 && links.flows[2].rate == 1000);
}

Test(link, only_what_leaves_a_switch_takes_its_uplink) {
  Links links = new_rack();
  cr_expect_eq(links_alone_rate(&links, 0, 1), 1000);
  cr_expect_eq(links_alone_rate(&links, 0, 2), 600);
  cr_expect_eq(links_alone_rate(&links, 0, 4), 400, "3/4 of it go into switch 2");
  cr_expect_eq(links_alone_rate(&links, 4, 2), 400, "3/4 out of switch 2, all into switch 1");
  cr_expect_eq(links_alone_rate(&links, 2, 5), 600, "machine 5 is on no switch");
  cr_expect_eq(links_alone_ticks(&links, 0, 2, 1200), 2 * TICKS_PER_SECOND);
  links_begin(&links, 0, 0, 4, 8000, 0);
  cr_expect_eq(links.flows[0].rate, 400);
  links_begin(&links, 1, 0, 2, 8000, 0);
  cr_expect_eq(links.flows[0].rate, 342, "600 of switch 0 for 1 + 3/4 flows");
  cr_expect_eq(links.flows[1].rate, 342);
}

/* How much of a link, by number (NICs out, NICs in, uplinks out, uplinks in), a byte takes. */
static double part_of(const Flow *flow, int link) {
  if (link < MACHINES) return flow->ends[NIC_OUT] == (InstanceIx)link;
  if (link < 2 * MACHINES) return flow->ends[NIC_IN] == (InstanceIx)(link - MACHINES);
  const bool in = link >= 2 * MACHINES + SWITCHES;
  const uint32_t uplink = (uint32_t)(link - 2 * MACHINES - (in ? SWITCHES : 0));
  double shares[NIC_SIDES] = {0, 0};
  for (int side = 0; side < NIC_SIDES; side++)
    for (uint32_t i = rack.first[flow->ends[side]]; i < rack.first[flow->ends[side] + 1]; i++)
      if (rack.shares[i].uplink == uplink) shares[side] = rack.shares[i].share;
  return fmax(0, in ? shares[1] - shares[0] : shares[0] - shares[1]);
}

/* Max-min fair rates in another way: the rates of all flows that are not held rise together, until
 * bisection finds no higher level at which all links carry them; flows on full links are then held.
 */
static void raise(const Links *links, const double *capacities, double *ret_rates) {
  enum { LINKS = 2 * MACHINES + 2 * SWITCHES };
  bool held[FLOWS];
  for (FlowIx f = 0; f < FLOWS; f++) {
    held[f] = !links->flows[f].active;
    ret_rates[f] = 0;
  }
  for (int round = 0; round < FLOWS; round++) {
    double low = 0, high = 1e9;
    for (int i = 0; i < 200; i++) {
      const double level = (low + high) / 2;
      bool fits = true;
      for (int l = 0; l < LINKS; l++) {
        double load = 0;
        for (FlowIx f = 0; f < FLOWS; f++)
          load += links->flows[f].active
                      ? part_of(&links->flows[f], l) * (held[f] ? ret_rates[f] : level)
                      : 0;
        fits &= load <= capacities[l];
      }
      *(fits ? &low : &high) = level;
    }
    for (FlowIx f = 0; f < FLOWS; f++)
      if (!held[f]) ret_rates[f] = low;
    for (int l = 0; l < LINKS; l++) {
      double load = 0;
      for (FlowIx f = 0; f < FLOWS; f++)
        if (links->flows[f].active) load += part_of(&links->flows[f], l) * ret_rates[f];
      for (FlowIx f = 0; load > capacities[l] * (1 - 1e-9) && f < FLOWS; f++)
        held[f] |= links->flows[f].active && part_of(&links->flows[f], l) > 0;
    }
  }
}

Test(link, rates_over_uplinks_are_max_min_fair_and_their_bytes_are_conserved) {
  double capacities[2 * MACHINES + 2 * SWITCHES];
  for (int l = 0; l < 2 * MACHINES + 2 * SWITCHES; l++)
    capacities[l] =
        1e6 * (l < 2 * MACHINES ? 1000 : (double)rack.bandwidth[(l - 2 * MACHINES) % SWITCHES]);
  const int64_t fast[SWITCHES] = {600000000, 600000000, 300000000};
  const Uplinks uplinks = {SWITCHES, fast, MACHINES, uplink_first, uplink_shares};
  for (uint64_t seed = 1; seed <= 20; seed++) {
    Rng rng;
    rng_init(&rng, seed, "uplinks");
    int64_t nics[MACHINES];
    for (int m = 0; m < MACHINES; m++) {
      nics[m] = 100000000 * (1 + (int64_t)rng_below(&rng, 10));
      capacities[m] = capacities[MACHINES + m] = (double)nics[m];
    }
    Links links = new_links(nics, MACHINES);
    links_set_uplinks(&links, &uplinks);
    Meter meter = {0};
    for (int i = 0; i < 60; i++) {
      const FlowIx flow = (FlowIx)rng_below(&rng, FLOWS);
      meter_advance(&meter, &links, meter.at + (Tick)rng_below(&rng, TICKS_PER_SECOND / 1000));
      if (links.flows[flow].active)
        end_and_check(&links, &meter, flow);
      else
        begin_random(&links, &meter, flow, &rng);
      meter_check(&meter, &links);
      double rates[FLOWS];
      raise(&links, capacities, rates);
      for (FlowIx f = 0; f < FLOWS; f++)
        if (links.flows[f].active)
          cr_assert_lt(fabs(rates[f] - (double)links.flows[f].rate), 4.0 * FLOWS,
                       "flow %u of seed %d: %.1f, not %lld", f, (int)seed, rates[f],
                       (long long)links.flows[f].rate);
    }
  }
}

/* --- many flows, filled plainly */

enum { MANY_MACHINES = 16, MANY_FLOWS = 240, MANY_SWITCHES = 4, MANY_STEPS = 60 };

typedef struct Many {
  Links links;
  Uplinks uplinks; // n 0: there are none
  int64_t nics[MANY_MACHINES], bandwidth[MANY_SWITCHES];
  uint32_t first[MANY_MACHINES + 1];
  UplinkShare shares[2 * MANY_MACHINES];
  FlowIx ages[MANY_FLOWS]; // active flows, the oldest first
  int n_ages;
  bool settled[MANY_FLOWS];
  int64_t rates[MANY_FLOWS];
} Many;

/* Each machine is on a switch, or a quarter of it is, and the rest on another. */
static void set_switches(Many *self, Rng *rng, int64_t fast) {
  uint32_t n = 0;
  for (uint32_t m = 0; m < MANY_MACHINES; m++) {
    const uint32_t at = (uint32_t)rng_below(rng, MANY_SWITCHES - 1);
    const bool both = m % 3 == 0;
    self->first[m] = n;
    self->shares[n++] = (UplinkShare){at, both ? 0.25 : 1};
    if (both) self->shares[n++] = (UplinkShare){at + 1, 0.75};
  }
  self->first[MANY_MACHINES] = n;
  for (int i = 0; i < MANY_SWITCHES; i++)
    self->bandwidth[i] = 1 + (int64_t)rng_below(rng, (uint64_t)fast * 2);
  self->uplinks =
      (Uplinks){MANY_SWITCHES, self->bandwidth, MANY_MACHINES, self->first, self->shares};
  links_set_uplinks(&self->links, &self->uplinks);
}

/* A link is a NIC (2 * machine + side) or, beyond these, a direction of an uplink. */
static double part_on(const Many *self, FlowIx f, uint32_t link) {
  const Flow *flow = &self->links.flows[f];
  if (link < 2 * MANY_MACHINES) return flow->ends[link % 2] == link / 2;
  double shares[NIC_SIDES] = {0, 0};
  for (int side = 0; side < NIC_SIDES; side++)
    for (uint32_t i = self->first[flow->ends[side]]; i < self->first[flow->ends[side] + 1]; i++)
      if (self->shares[i].uplink == (link - 2 * MANY_MACHINES) / 2)
        shares[side] = self->shares[i].share;
  return fmax(0, link % 2 == NIC_IN ? shares[NIC_IN] - shares[NIC_OUT]
                                    : shares[NIC_OUT] - shares[NIC_IN]);
}

/* What each flow without a rate may have of a link: what those that have one leave. Parts are
 * quarters, so that all sums are exact. */
static int64_t share_on(const Many *self, uint32_t link) {
  const bool nic = link < 2 * MANY_MACHINES;
  double left =
      nic ? (double)self->nics[link / 2] : (double)self->bandwidth[(link - 2 * MANY_MACHINES) / 2];
  double parts = 0;
  for (int i = 0; i < self->n_ages; i++) {
    const FlowIx f = self->ages[i];
    const double part = part_on(self, f, link);
    if (self->settled[f])
      left -= part * (double)self->rates[f];
    else
      parts += part;
  }
  if (parts == 0) return INT64_MAX;
  if (nic) return (int64_t)left / (int64_t)parts;
  return left > 0 ? (int64_t)(left / parts) : 0;
}

/* The link with the least; of equal ones NICs by their oldest flows, then uplinks. */
static uint32_t least_link(const Many *self, int64_t *ret_share) {
  uint32_t best = UINT32_MAX;
  *ret_share = INT64_MAX;
  for (int i = 0; i < 2 * self->n_ages; i++) {
    const uint32_t side = (uint32_t)(i % 2);
    const uint32_t link = 2 * self->links.flows[self->ages[i / 2]].ends[side] + side;
    const int64_t share = share_on(self, link);
    if (share >= *ret_share) continue;
    best = link;
    *ret_share = share;
  }
  for (uint32_t i = 0; i < 2 * self->uplinks.n; i++) {
    const int64_t share = share_on(self, 2 * MANY_MACHINES + i);
    if (share >= *ret_share) continue;
    best = 2 * MANY_MACHINES + i;
    *ret_share = share;
  }
  return best;
}

static void fill_plainly(Many *self) {
  int64_t share;
  uint32_t link;
  memset(self->settled, 0, sizeof self->settled);
  while ((link = least_link(self, &share)) != UINT32_MAX) {
    const int64_t least = link >= 2 * MANY_MACHINES || self->nics[link / 2] > 0;
    for (int i = 0; i < self->n_ages; i++) {
      const FlowIx f = self->ages[i];
      if (self->settled[f] || part_on(self, f, link) == 0) continue;
      self->settled[f] = true;
      self->rates[f] = share > least ? share : least;
    }
  }
}

/* A flow begins or ends, or a NIC goes down or comes back. */
static void change(Many *self, Rng *rng, int64_t fast) {
  const FlowIx f = (FlowIx)rng_below(rng, MANY_FLOWS);
  const uint32_t m = (uint32_t)rng_below(rng, MANY_MACHINES);
  const uint32_t to = (uint32_t)rng_below(rng, MANY_MACHINES);
  if (rng_below(rng, 16) == 0) {
    self->nics[m] = self->nics[m] ? 0 : 1 + (int64_t)rng_below(rng, (uint64_t)fast);
    links_set_capacity(&self->links, m, self->nics[m], 0);
  } else if (self->links.flows[f].active && rng_below(rng, 4) == 0) {
    int kept = 0;
    for (int i = 0; i < self->n_ages; i++)
      if (self->ages[i] != f) self->ages[kept++] = self->ages[i];
    self->n_ages = kept;
    links_end(&self->links, f, 0);
  } else if (!self->links.flows[f].active && m != to) {
    links_begin(&self->links, f, m, to, INT64_C(1) << 40, 0);
    self->ages[self->n_ages++] = f;
  }
}

/* Of slow links too, of which a flow gets a byte per second however many there are. */
Test(link, rates_of_many_flows_are_those_of_a_plain_filling) {
  for (uint64_t seed = 1; seed <= 24; seed++) {
    Rng rng;
    rng_init(&rng, seed, "many");
    const int64_t fast = seed % 3 == 0 ? 8 : seed % 3 == 1 ? 300 : 1000000;
    Many *many = ARENA_NEW(&arena, Many);
    for (int m = 0; m < MANY_MACHINES; m++)
      many->nics[m] = 1 + (int64_t)rng_below(&rng, (uint64_t)fast);
    links_init(&many->links, many->nics, MANY_MACHINES, &arena);
    links_reserve(&many->links, MANY_FLOWS);
    if (seed % 4 > 0) set_switches(many, &rng, seed % 4 == 1 ? fast * 20 : fast);
    for (int i = 0; i < MANY_STEPS; i++) {
      for (int k = 0; k < 8; k++)
        change(many, &rng, fast);
      fill_plainly(many);
      for (int k = 0; k < many->n_ages; k++)
        cr_assert_eq(many->links.flows[many->ages[k]].rate, many->rates[many->ages[k]],
                     "seed %d, step %d", (int)seed, i);
    }
    cr_assert_gt(many->n_ages, MANY_FLOWS / 2);
  }
}
