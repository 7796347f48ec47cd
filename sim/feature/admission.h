/* Who may come in: classes of requests with a limit on how many are in flight, and tenants with
 * limits of their own, among whom those who wait are served fairly. RULES.md has the rules.
 *
 * A request is *in flight* from when it is admitted until it has left for good; one that is lost
 * with a machine stays so. Components of a class and a tenant share a *lane*, a queue in order of
 * arrival (REQUEST_HELD). Whenever somebody leaves, or a tenant's bucket is no longer empty, the
 * lanes that may are admitted from: by the class's priority, then the tenant with the least service
 * so far over its weight (Sheng et al., Fairness in Serving Large Language Models, OSDI 2024,
 * Algorithm 2), then the first to have arrived. */
#ifndef SIM_FEATURE_ADMISSION_H
#define SIM_FEATURE_ADMISSION_H
#include "sim/core/state.h"

/* Sets up lanes where there are classes or tenants. */
void engine_start_admission(Engine *self);
/* Output tokens of a row that arrives now: fewer where its class serves more than it may by cutting
 * them. */
int32_t engine_admitted_tokens(Engine *self, const TraceRow *row, int32_t output_tokens);
/* Whether a request that has arrived is in flight from now on; else it is held, or rejected. */
bool engine_admit(Engine *self, RequestIx request);
/* One that is held leaves its lane. */
void admission_leave(Engine *self, RequestIx request);
/* One that was admitted has left for good, with what its tenant was served of it. */
void admission_end(Engine *self, const Request *request, int64_t output_tokens);
/* Those that may be are admitted, and placed. */
void engine_handle_admission(Engine *self);
/* What tenants were served. */
void admission_sum_up(const Engine *self, TenantResult *results);
/* Asserts that those in flight and held are those that are counted. */
void admission_audit(const Engine *self);
#endif
