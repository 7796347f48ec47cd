/* See energy.h. */
#include "sim/books/energy.h"
#include "perfmodel/power.h"

double energy_of_pool(const PoolSpec *pool, const InstanceTotals *totals, Tick span,
                      bool second_shape) {
  const double on = tick_seconds(span) * pool->count - total_seconds(totals->off_ticks);
  const double prefill = total_seconds(totals->prefill_ticks);
  const double decode = total_seconds(totals->decode_ticks);
  const double down = total_seconds(totals->down_ticks);
  const double idle = (second_shape ? 0 : on - down) - prefill - decode;
  const double busy = pool->perfmodel->power
                          ? pool->gpus * power_joules(totals->milliwatt_ticks) +
                                (prefill + decode) * pool->rest_power
                          : prefill * pool->prefill_power + decode * pool->decode_power;
  return busy + idle * pool->idle_power;
}
