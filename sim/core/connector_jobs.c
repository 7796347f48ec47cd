/* See connector_jobs.h. */
#include "sim/core/connector_jobs.h"
#include "sim/core/limits.h"

/* Slots of those that have ended keep their memory. */
ConnectorJob *connector_job_begin(Simulation *self, Connector *connector, LinkDirection direction,
                                  RequestIx ix, Tick end) {
  const size_t before = connector->jobs_capacity;
  ARENA_RESERVE(self->arena, connector->jobs, connector->jobs_capacity, connector->n_jobs + 1);
  for (size_t i = before; i < connector->jobs_capacity; i++)
    connector->jobs[i] = (ConnectorJob){0};
  ConnectorJob *job = &connector->jobs[connector->n_jobs++];
  job->begun = self->now;
  job->end = end;
  job->direction = direction;
  job->request = ix;
  job->n_blocks = 0;
  return job;
}

void connector_job_add(Simulation *self, ConnectorJob *job, uint64_t key, int32_t tier) {
  ARENA_RESERVE(self->arena, job->blocks, job->blocks_capacity, job->n_blocks + 1);
  job->blocks[job->n_blocks++] = (TierBlock){key, tier};
}

Tick connector_pass(Simulation *self, CopyQueue *queue, LinkDirection direction, Tick from,
                    Tick overhead, double seconds) {
  Tick *end = &queue->ends[direction];
  if (*end > from) from = *end;
  if (sim_passes_the_end(self, (double)(from - self->now) + seconds * TICKS_PER_SECOND))
    return self->now;
  return *end = from + overhead + tick_from_seconds(seconds);
}
