/* Checks all books of a run against each other; only reads, and asserts. On in tests, --audit
 * elsewhere.
 *
 *   requests   arrived = completed + rejected + cancelled + in flight; each live one is where its
 *              state says, by the rows of sim/core/lifecycle.h
 *   deadlines  heap, requests and the pending event agree (sim/feature/patience.h)
 *   memory     free blocks + those held by requests and inbound transfers = capacity, per instance
 *   columns    what policies read and instances count agrees with the requests
 *   roles      each instance is in the list of its role or flips; one that is away has nothing left
 *   idleness   idle time and time booked are all there is
 *   batches    context sum, residues and finish counts agree with the requests in them
 *   network    the rates of the flows through a NIC sum to at most its capacity
 *   time       never goes back
 *   totals     of instances are within the time that there was for them */
#ifndef SIM_AUDIT_H
#define SIM_AUDIT_H
#include "sim/core/state.h"

/* After an event; `previous` is the time of the one before. */
void audit_check(const Simulation *self, Tick previous);
/* Of a run that is over: no iteration is in progress. */
void audit_totals(const Simulation *self, const SimResult *result);
#endif
