/* Results before times: a backend that is wrong is fast for nothing. */
#include "calib/backend_load.h"
#include "calib/operators.h"
#include "calib/verify.h"
#include "experiments/doctor/doctor.h"
#include <math.h>

static const char RESULTS[] = "results";
static const double SHARE = 0.4; // of the time
/* The reference of what goes through a whole layer reads all of its weights: about a second for so
 * many on one processor. */
static const double MOST_WEIGHTS = 1e8;

/* What the operators of one model came to. */
typedef struct Tally {
  int right, wrong, failed; // the last: cannot be run
  int late, large;          // not compared: for lack of time; for the size of a layer
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

/* What was compared of the model, and what was not. */
static const char *found_of(const Doctor *self, const Tally *tally) {
  Arena *arena = self->arena;
  const char *found = arena_printf(arena, "%d operators correct", tally->right);
  if (tally->wrong + tally->failed > 0)
    found = arena_printf(arena, "%s, %d wrong, %d that cannot be run", found, tally->wrong,
                         tally->failed);
  else if (tally->worst > 0)
    found = arena_printf(arena, "%s; the largest error is %.0f%% of the tolerance, in '%s'", found,
                         100 * tally->worst, calib_op_name(tally->worst_op));
  if (tally->large > 0)
    found = arena_printf(arena, "%s; %d not verified, because their layers are large", found,
                         tally->large);
  if (tally->late > 0)
    found = arena_printf(arena, "%s; %d not verified for lack of time", found, tally->late);
  return found;
}

static void add_tally(Doctor *self, const CalibModel *model, const Tally *tally) {
  const int faults = tally->wrong + tally->failed;
  if (tally->right + faults + tally->late == 0) {
    doctor_add(self, RESULTS, model->name, DOCTOR_NOTED, "not verified",
               "this backend returns no results to compare; use the tests of the engine instead");
    return;
  }
  doctor_add(self, RESULTS, model->name, faults + tally->late > 0 ? DOCTOR_MISSED : DOCTOR_OK,
             found_of(self, tally),
             faults > 0 ? "see the operators above" : "allow more time with '--budget'");
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

/* Of a layer. */
static double weights_of(const CalibModel *model) {
  const double mlps = model->num_experts > 0 ? model->num_experts : 1;
  double weights = 0;
  for (CalibOp op = CALIB_GEMM_QKV; op <= CALIB_GEMM_DOWN; op++) {
    const CalibProduct product = calib_product(op);
    weights += (op >= CALIB_GEMM_UP ? mlps : 1) * (double)calib_tensor_columns(model, product.out) *
               (double)calib_tensor_columns(model, product.in);
  }
  return weights;
}

static bool is_large(const DoctorJob *job, const CalibModel *model, CalibOp op) {
  return calib_parts(op) & CALIB_PART_LINEAR && !job->backend->verify && job->backend->run &&
         weights_of(model) > MOST_WEIGHTS;
}

static int verify_model(Doctor *self, const DoctorJob *job, const CalibModel *model, Diag *diag) {
  const VerifyTarget target = {job->backend, job->state, model};
  Tally tally = {.right = 0};
  bool loaded = false;
  if (load(self, job, model, &loaded, diag)) return -1;
  for (int op = 0; loaded && op < CALIB_N_OPS; op++) {
    if (job->interrupted && *job->interrupted) return diag_interrupted(diag);
    if (is_large(job, model, (CalibOp)op))
      tally.large++;
    else if (doctor_is_late(job, SHARE))
      tally.late += calib_has_op(model, (CalibOp)op);
    else if (verify_one(self, job, &target, (CalibOp)op, &tally, diag))
      return -1;
  }
  if (loaded) add_tally(self, model, &tally);
  return 0;
}

int doctor_correct(Doctor *self, const DoctorJob *job, Diag *diag) {
  for (const CalibModel *const *other = job->others; other && *other; other++)
    if (verify_model(self, job, *other, diag)) return -1;
  return verify_model(self, job, job->model, diag);
}
