/* What a plan found beside its answers, as rows of its study. */
#include "experiments/plan/plan.h"
#include <math.h>

static int add_front(const Front *self, int64_t study, Results *results, Diag *diag) {
  for (int i = 0; i < self->n; i++) {
    const FrontPoint *point = &self->points[i];
    if (results_insert(results, "front",
                       VALUES(value_whole(study), value_text(point->outcome->design->name),
                              value_real(point->load), value_real(point->rate),
                              value_real(point->tokens_per_user), value_real(point->cost),
                              value_real(point->gpu_seconds), value_real(point->joules),
                              value_whole(point->saturated), value_whole(point->met),
                              value_whole(point->best)),
                       diag))
      return -1;
    for (Cause cause = 0; cause < CAUSES; cause++)
      if (point->parts[cause] > 0 &&
          results_insert(results, "part",
                         VALUES(value_whole(study), value_text(point->outcome->design->name),
                                value_text(metrics_causes[cause].name),
                                value_whole(metrics_causes[cause].is_late),
                                value_real(point->parts[cause])),
                         diag))
        return -1;
  }
  return 0;
}

static int add_curve(const Curve *self, double share, int64_t study, Results *results, Diag *diag) {
  for (int i = 0; i < self->n; i++) {
    const CurvePoint *point = &self->points[i];
    if (results_insert(results, "curve",
                       VALUES(value_whole(study), value_text(point->outcome->design->name),
                              value_real(point->load), value_real(point->rate),
                              value_real(point->attained.value), value_real(point->attained.low),
                              value_real(point->attained.high), value_real(point->goodput.value),
                              value_real(point->goodput.low), value_real(point->goodput.high),
                              value_real(share > 0 ? share : NAN)),
                       diag))
      return -1;
  }
  return 0;
}

int plan_store(const Front *front, const Curve *curve, double share, Results *results, Diag *diag) {
  int64_t study = 0;
  if (results_begin(results, diag)) return -1;
  int status = results_ask(results, "SELECT max(id) FROM study", NULL, 0, &study, diag) < 0;
  if (status == 0) status = add_front(front, study, results, diag);
  if (status == 0 && curve) status = add_curve(curve, share, study, results, diag);
  return results_end(results, status ? -1 : 0, diag);
}
