/* What to measure of one shard of a model on one device, and in which order.
 *
 * Points come class by class (calib/grid.h), so that a run that is cut short has the most important
 * ones, and inside a class in an order shuffled by the seed, so that a slow drift of the machine is
 * not taken for an effect of size. A point's `configuration` is its number in the unshuffled plan,
 * from 1: the same in every run of the plan, and so the key by which one is resumed. */
#ifndef CALIB_PLAN_H
#define CALIB_PLAN_H
#include "calib/grid.h"
#include "calib/statistics.h"
#include "perfmodel/hardware.h"
#include "perfmodel/perfmodel.h"
#include "perfmodel/profile.h"

/* In the column `stop`: the device was not steady while the row was measured, by the anchors around
 * it or by its own clock (perfmodel/profile_clock.h). */
#define PLAN_DRIFT "drift"
#define PLAN_CLOCK "clock"

/* Of a point of PLAN_SUSTAINED: until power and clocks have settled, and then measured. */
enum { PLAN_LEAD_SECONDS = 2, PLAN_MEASURED_SECONDS = 5 };
enum { PLAN_SUSTAINED_SECONDS = PLAN_LEAD_SECONDS + PLAN_MEASURED_SECONDS };

typedef struct PlanPoint {
  CalibPoint point;
  BatchShape shape; // of it
  PlanClass class;
  int64_t configuration;
  const char *waived; // NULL, or why it is not measured
  int readings;       // in the file already
  int drifted;        // those of them at which the device was not steady
} PlanPoint;

typedef struct Plan {
  PlanPoint *points;
  size_t n, capacity;
  uint64_t digest; // of all points and of the model's shape
} Plan;

typedef struct PlanOptions {
  const GridRow *grid; // NULL: by the device, grid_cpu where sm is 0
  const bool *only;    // [CALIB_N_OPS], NULL: all operators
  uint64_t seed;
} PlanOptions;

/* Points that a model cannot run at all, because its learned positions end, are waived here; those
 * that a backend cannot, by plan_waive. `model` and `device` are used during the call only. */
void plan_init(Plan *self, const CalibModel *model, const CalibDevice *device,
               const PlanOptions *options, Arena *arena);
/* Asks the backend, whose model is loaded, about each point; reasons are copied. */
void plan_waive(Plan *self, const Backend *backend, void *state, Arena *arena);
/* Counts the readings that a profile has of the points, whose group is `group`. */
void plan_go_on(Plan *self, const Profile *profile, const ProfileGroup *group);
/* Points that are neither waived nor measured. */
size_t plan_left(const Plan *self);

/* Rates per second: of products, of memory, of the links to the host and to other GPUs; and seconds
 * that a point takes before it runs. */
typedef struct PlanRates {
  double flops, memory, host_link, gpu_link, preparing;
} PlanRates;

/* Of a point, before its samples; and points after which the anchors come back in any case. */
enum { PLAN_PREPARING_RUNS = 3, PLAN_ANCHOR_POINTS = 100 };

/* Peaks of a machine for a model of these weights, which nothing can be faster than. */
PlanRates plan_peaks(const Hardware *hardware, CalibWeights weights);
/* Rates to guess times with: those that a machine reaches, rough ones where `hardware` is NULL. */
PlanRates plan_rates(const Hardware *hardware, const CalibDevice *device);
/* Whether an operator's bytes go to the host or to another GPU. */
bool plan_crosses_link(CalibOp op);
/* The least seconds of one run at these rates. */
double plan_run_seconds(const CalibModel *model, const CalibPoint *point, const PlanRates *rates);
/* A guess at how long the points that are left take to measure. */
double plan_seconds(const Plan *self, const CalibModel *model, const PlanRates *rates,
                    const SampleLimits *limits);
/* The limits, or as much of them as lets the points that are left end in time: points become
 * shorter before points are left out. */
SampleLimits plan_limits(const Plan *self, const CalibModel *model, const PlanRates *rates,
                         const SampleLimits *limits, double seconds);
#endif
