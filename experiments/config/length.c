/* How long a run is, where `workload.duration` leaves that to what its figures need. */
#include "experiments/config/config.h"

enum { MOST_REQUESTS = 200000 };

static const double usual_precision = 0.05;

static const OptionSpec precision_option = {.key = "precision",
                                            .type = OPTION_REAL,
                                            .min = CONFIG_PRECISION_MIN,
                                            .max = CONFIG_PRECISION_MAX,
                                            .word = "limits"};

int config_bind_length(Config *self, const Node *precision, Diag *diag) {
  const WorkloadConfig *workload = &self->workload;
  LengthConfig *length = &self->length;
  length->automatic = workload->automatic || (precision && workload->trace);
  if (precision && !length->automatic) {
    diag_error(diag, precision->key_at, "'precision' applies to runs that choose their length");
    return diag_hint(diag, "set workload: {duration: auto}");
  }
  if (!length->automatic) return 0;
  length->precision = usual_precision;
  if (precision && option_bind_one(&precision_option, precision, &length->precision, diag))
    return -1;
  length->decides = length->precision < 0;
  if (length->decides) length->precision = usual_precision;
  length->most = workload->requests > 0 ? workload->requests : MOST_REQUESTS;
  const WarmUp *given = &self->sim.warm_up;
  if (given->requests == 0 && given->duration == 0) length->finds_start = true;
  return 0;
}
