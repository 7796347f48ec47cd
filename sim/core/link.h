/* The network: each instance's NIC in and out, shared max-min fairly among the flows through them.
 *
 * Rates are recomputed whenever a flow begins or ends (progressive filling: the tightest link fixes
 * the rate of its flows, and so on; of equally tight ones that of the oldest flow first), of those
 * flows alone that share a NIC with it, or with one that does, and so on: no other's rate hangs on
 * it. A flow that shares neither of its NICs runs at their minimum and disturbs nobody, which is
 * the usual case and costs O(1). Invariant between calls: per NIC, the rates of its flows sum to at
 * most its capacity. Over a NIC that is down they are 0, and flows wait.
 *
 * Where there are uplinks (uplinks.h), flows share these too: a flow with the part p on a direction
 * of one takes p bytes of it for each of its own, so that its share is what is left over the sum of
 * parts without a rate. Any two flows may then hang on each other, and rates of all are computed
 * anew.
 *
 * The links to fill are in a heap by their shares, so that F flows over L links take O(F + L log L)
 * where many share a bottleneck, and O(F log L) at most. */
#ifndef SIM_CORE_LINK_H
#define SIM_CORE_LINK_H
#include "sim/core/request.h"
#include "sim/core/uplinks.h"
#include <stdbool.h>

typedef uint32_t FlowIx;

#define FLOW_NONE UINT32_MAX

typedef enum NicSide { NIC_OUT, NIC_IN, NIC_SIDES } NicSide;

typedef struct Flow {
  InstanceIx ends[NIC_SIDES]; // from, to
  bool active;
  bool settled;                                // private: link.c
  uint64_t number;                             // of all that began
  FlowIx next[NIC_SIDES], previous[NIC_SIDES]; // of the same NIC
  int64_t bytes_left;                          // at updated_at
  int64_t rate;                                // bytes per second
  Tick updated_at;
  Crossing *crossings; // [n_crossings], of uplinks
  size_t n_crossings, crossings_capacity;
} Flow;

/* One direction of one instance's NIC. */
typedef struct Nic {
  int64_t nominal;  // bytes per second
  int64_t capacity; // at present; 0: it is down
  int32_t n_flows;
  FlowIx first, last; // of its flows, the oldest first
  /* private: link.c */
  int32_t n_unsettled;
  int64_t left;
  uint32_t place; // among links to fill
  bool touched;
} Nic;

/* One direction of an uplink. */
typedef struct SharedLink {
  double capacity; // bytes per second
  /* private: link.c */
  double left, parts;
  int32_t n_unsettled, n_crossers;
  FlowIx *crossers; // [n_crossers] flows through it, by their numbers
  uint32_t place;   // among links to fill
} SharedLink;

typedef struct Links {
  Arena *arena;
  Nic *nics[NIC_SIDES]; // by instance
  uint32_t n_instances;
  Flow *flows; // by FlowIx, which the caller gives out
  size_t flows_capacity;
  uint64_t n_begun;
  FlowIx *changed; // flows whose rate the last call changed
  size_t n_changed, changed_capacity;
  struct TouchedLink *touched; // private: link.c
  size_t n_touched, touched_capacity;
  bool ordered;                          // private: those to fill are in a heap
  int64_t n_unsettled;                   // private: flows without a rate
  bool stalls;                           // private: there may be flows over a NIC that is down
  const Uplinks *uplinks;                // NULL: there are none
  SharedLink *shared;                    // [2 * uplinks->n], as Crossing.link
  Crossing *crossings;                   // private: of two instances, for as long as a call lasts
  FlowIx *crossers;                      // private: of all uplinks
  size_t n_crossings, crossers_capacity; // of all active flows
  uint32_t n_flows;                      // slots that there is room for
} Links;

/* `capacities` in bytes per second, the same in both directions of an instance. */
void links_init(Links *self, const int64_t *capacities, uint32_t n_instances, Arena *arena);

/* Before the first flow: those that instances share. */
void links_set_uplinks(Links *self, const Uplinks *uplinks);

/* Makes room for flows 0 … n_flows - 1. */
void links_reserve(Links *self, uint32_t n_flows);

/* Starts moving `bytes` > 0. Afterwards `changed` lists the flows whose end moved, this one
 * included. */
void links_begin(Links *self, FlowIx flow, InstanceIx from, InstanceIx to, int64_t bytes, Tick now);
/* Gives an active flow more to move, > 0; afterwards `changed` is that flow. */
void links_add(Links *self, FlowIx flow, int64_t bytes, Tick now);
/* An instance's NIC moves so many bytes per second from now on, in each direction; 0: none.
 * Afterwards `changed` lists the flows whose end moved. */
void links_set_capacity(Links *self, InstanceIx instance, int64_t capacity, Tick now);
/* Ends an active flow, whatever is left of it; returns the bytes that were left. */
int64_t links_end(Links *self, FlowIx flow, Tick now);
/* Bytes per second from one to the other while nobody else uses a link between them and all are as
 * fast as ever; what `bytes` would take then; what an active flow has left. */
int64_t links_alone_rate(const Links *self, InstanceIx from, InstanceIx to);
Tick links_alone_ticks(const Links *self, InstanceIx from, InstanceIx to, int64_t bytes);
int64_t links_left_bytes(const Links *self, FlowIx flow, Tick now);
/* How long an active flow that moves will take at its present rate; that may be beyond the end of
 * time. */
double links_left_ticks(const Links *self, FlowIx flow);
/* When an active flow will have moved all of its bytes at its present rate. */
Tick links_finish(const Links *self, FlowIx flow);
#endif
