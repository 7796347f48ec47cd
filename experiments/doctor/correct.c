/* Results before times: a backend that is wrong is fast for nothing. */
#include "calib/backend_load.h"
#include "calib/operators.h"
#include "calib/verify.h"
#include "experiments/doctor/doctor.h"
#include <math.h>

static const char RESULTS[] = "results";

/* What the operators of one model came to. */
typedef struct Tally {
  int right, wrong, failed; // the last: cannot be run
  double worst;             // share of what is allowed
  CalibOp worst_op;
} Tally;

static void add_fault(Doctor *self, const char *name, bool is_wrong, const char *error) {
  doctor_add(
      self, RESULTS, name, DOCTOR_MISSED, error,
      !is_wrong
          ? "'tandem calibrate' leaves this operator out; the others are measured"
          : "times of this operator are not valid: run 'meson test --suite gpu' in a build on "
            "this machine; if it passes, the GPU may be faulty");
}

/* −1 when the backend failed. */
static int verify_one(Doctor *self, const DoctorJob *job, const VerifyTarget *target, CalibOp op,
                      Tally *tally, Diag *diag) {
  char error[CALIB_ERROR_SIZE] = "";
  double off = NAN;
  const CalibStatus status = verify_operator(target, op, &off, error);
  if (status == CALIB_ENVIRONMENT) return doctor_failed(job, calib_op_name(op), error, diag);
  tally->wrong += status == CALIB_WRONG;
  tally->failed += status && status != CALIB_WRONG;
  if (status) add_fault(self, calib_op_name(op), status == CALIB_WRONG, error);
  if (status || isnan(off)) return 0;
  /* What a backend of its own verification allows is its own, too. */
  const double share = target->backend->verify ? 0 : off / verify_tolerance(target->model, op);
  tally->right++;
  if (share < tally->worst) return 0;
  tally->worst = share;
  tally->worst_op = op;
  return 0;
}

static void add_tally(Doctor *self, const CalibModel *model, const Tally *tally) {
  const int faults = tally->wrong + tally->failed;
  if (tally->right + faults == 0) {
    doctor_add(self, RESULTS, model->name, DOCTOR_NOTED, "not verified",
               "this backend returns no results to compare; use the tests of the engine instead");
    return;
  }
  const char *found =
      arena_printf(self->arena, "%d operators correct, %d wrong, %d that cannot be run",
                   tally->right, tally->wrong, tally->failed);
  if (tally->right > 0 && faults == 0 && tally->worst > 0)
    found = arena_printf(
        self->arena, "%d operators correct; the largest error is %.0f%% of the tolerance, in '%s'",
        tally->right, 100 * tally->worst, calib_op_name(tally->worst_op));
  doctor_add(self, RESULTS, model->name, faults > 0 ? DOCTOR_MISSED : DOCTOR_OK, found,
             "see the operators above");
}

/* A model that does not fit is a check of its own, unless it is the one that is timed. */
static int load(Doctor *self, const DoctorJob *job, const CalibModel *model, bool *ret_loaded,
                Diag *diag) {
  char error[CALIB_ERROR_SIZE] = "";
  const CalibStatus status = job->backend->load(job->state, model, error);
  *ret_loaded = status == CALIB_OK;
  if (status == CALIB_OK) return 0;
  if (status == CALIB_ENVIRONMENT) return doctor_failed(job, model->name, error, diag);
  if (model == job->model) return backend_failed(status, error, place_of_file(NULL), diag);
  doctor_add(self, RESULTS, model->name, DOCTOR_MISSED, error,
             "free device memory, or end the process that holds it");
  return 0;
}

static int verify_model(Doctor *self, const DoctorJob *job, const CalibModel *model, Diag *diag) {
  const VerifyTarget target = {job->backend, job->state, model};
  Tally tally = {.right = 0};
  bool loaded = false;
  if (load(self, job, model, &loaded, diag)) return -1;
  for (int op = 0; loaded && op < CALIB_N_OPS; op++) {
    if (job->interrupted && *job->interrupted) return diag_interrupted(diag);
    if (verify_one(self, job, &target, (CalibOp)op, &tally, diag)) return -1;
  }
  if (loaded) add_tally(self, model, &tally);
  return 0;
}

int doctor_correct(Doctor *self, const DoctorJob *job, Diag *diag) {
  for (const CalibModel *const *other = job->others; other && *other; other++)
    if (verify_model(self, job, *other, diag)) return -1;
  return verify_model(self, job, job->model, diag);
}
