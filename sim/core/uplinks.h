/* Links above the NICs that several instances share: the uplinks of a rail's or a rack's switch to
 * what connects these, such as a spine.
 *
 * Each instance has a share of its traffic on each switch that its GPUs hang on: 1 on one, or so
 * much of 1 on each of several as it has GPUs there. What goes from a to b and has the share x of a
 * and y of b on a switch stays beneath that by min(x, y); the uplink carries x - min(x, y) of it
 * out, and y - min(x, y) in. */
#ifndef SIM_CORE_UPLINKS_H
#define SIM_CORE_UPLINKS_H
#include <stddef.h>
#include <stdint.h>

typedef struct UplinkShare {
  uint32_t uplink;
  double share; // > 0; of an instance and a kind of switches they sum to 1
} UplinkShare;

/* As a configuration has them; the switches of all kinds together. */
typedef struct Uplinks {
  uint32_t n;                // 0: there are none
  const int64_t *bandwidth;  // [n], bytes/s in each direction, > 0
  uint32_t n_instances;      // what is beyond these is on no switch
  const uint32_t *first;     // [n_instances + 1] in `shares`
  const UplinkShare *shares; // of each instance by ascending uplink
} Uplinks;

/* A direction of an uplink, and the part of a flow that goes through it. */
typedef struct Crossing {
  uint32_t link; // 2 * uplink: out; 2 * uplink + 1: in
  double part;
} Crossing;

/* The most that uplinks_cross has to say of two instances. */
size_t uplinks_most_crossings(const Uplinks *self, uint32_t from, uint32_t to);
/* The directions that a flow goes through; returns how many there are. */
size_t uplinks_cross(const Uplinks *self, uint32_t from, uint32_t to, Crossing *ret);
#endif
