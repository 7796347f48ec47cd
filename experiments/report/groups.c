/* Figures of groups of GPUs that change their shape, and their table. */
#include "experiments/report/report.h"
#include <inttypes.h>
#include <string.h>

// Places of the scalars.
enum { REPLICAS, TURNS, COPIED_OUT, COPIED_IN, STORE, MOST_STORED, GPU, SECONDS = GPU + SHAPES };

/* KV blocks on the GPUs of one replica in this shape. */
static double gpu_blocks(const SimResult *result, const Group *group, Shape shape) {
  const PoolSpec *pool = result->pools[group->spec->pools[shape]].pool;
  return (double)group->n_machines[shape] * (double)pool->kv_blocks;
}

GroupReport report_group(const SimResult *result, const GroupSpec *spec, Arena *arena) {
  GroupReport report = {
      .group = spec,
      .scope = arena_printf(arena, "group.%s", spec->name),
      .scalars = {[REPLICAS] = {"replicas", "", 0},
                  [TURNS] = {"turns", "", 0},
                  [COPIED_OUT] = {"copied_out_bytes", "B", 0},
                  [COPIED_IN] = {"copied_in_bytes", "B", 0},
                  [STORE] = {"store_blocks", "", (double)spec->store_blocks},
                  [MOST_STORED] = {"most_stored_blocks", "", 0},
                  [GPU + SHAPE_PREFILL] = {"prefill_gpu_blocks", "", 0},
                  [GPU + SHAPE_DECODE] = {"decode_gpu_blocks", "", 0}},
  };
  Scalar *scalars = report.scalars;
  for (int i = 0; i < GROUP_ACTIVITIES; i++)
    scalars[SECONDS + i] =
        (Scalar){arena_printf(arena, "%s_s", group_activity_name((GroupActivity)i)), "s", 0};
  for (uint32_t g = 0; g < result->n_groups; g++) {
    const Group *group = &result->groups[g];
    if (group->spec != spec) continue;
    const double most = (double)group->totals.most_stored_blocks;
    scalars[REPLICAS].value++;
    scalars[TURNS].value += (double)group->totals.turns;
    scalars[COPIED_OUT].value += (double)group->totals.copied_bytes[COPY_OUT];
    scalars[COPIED_IN].value += (double)group->totals.copied_bytes[COPY_IN];
    if (most > scalars[MOST_STORED].value) scalars[MOST_STORED].value = most;
    for (int shape = 0; shape < SHAPES; shape++)
      scalars[GPU + shape].value = gpu_blocks(result, group, (Shape)shape);
    for (int i = 0; i < GROUP_ACTIVITIES; i++)
      scalars[SECONDS + i].value += tick_seconds(group->totals.ticks[i]);
  }
  return report;
}

_Static_assert(SECONDS + GROUP_ACTIVITIES == (int)REPORT_GROUP_SCALARS, "one scalar each");

/* Activities as shares of the time of all replicas. */
void report_table_groups(const Report *self, FILE *out) {
  const uint32_t n = self->config->sim.n_groups;
  int width = (int)strlen("group");
  for (uint32_t i = 0; i < n; i++)
    if ((int)strlen(self->groups[i].group->name) > width)
      width = (int)strlen(self->groups[i].group->name);
  if (n > 0) fprintf(out, "\n%-*s  turns", width, "group");
  for (int i = 0; n > 0 && i < GROUP_ACTIVITIES; i++)
    fprintf(out, " %8s", group_activity_name((GroupActivity)i));
  if (n > 0) fputs("    GB out     GB in  store used\n", out);
  for (uint32_t g = 0; g < n; g++) {
    const Scalar *scalars = self->groups[g].scalars;
    const double time = scalars[REPLICAS].value * tick_seconds(self->result->span);
    fprintf(out, "%-*s %6.0f", width, self->groups[g].group->name, scalars[TURNS].value);
    for (int i = 0; i < GROUP_ACTIVITIES; i++)
      fprintf(out, " %7.1f%%", time > 0 ? 100 * scalars[SECONDS + i].value / time : 0);
    fprintf(out, " %9.4g %9.4g %10.1f%%\n", scalars[COPIED_OUT].value / 1e9,
            scalars[COPIED_IN].value / 1e9,
            100 * scalars[MOST_STORED].value / scalars[STORE].value);
  }
  for (uint32_t g = 0; g < n; g++) {
    const Scalar *scalars = self->groups[g].scalars;
    const double gpu = scalars[GPU + SHAPE_DECODE].value;
    if (scalars[STORE].value < gpu)
      fprintf(out,
              "%s: its store holds %.3g of what its GPUs do in decode, so that they turn for few "
              "prompts ('cpu_memory'; 'min_room' and 'finish' of the pool policy)\n",
              self->groups[g].group->name, scalars[STORE].value / gpu);
  }
}
