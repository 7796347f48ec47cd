/* A fitted model as a file, and what the file records of its fit (perfmodel/README.md): the `fit`
 * block, which perfmodel_load passes over. */
#ifndef PERFMODEL_FIT_FILE_H
#define PERFMODEL_FIT_FILE_H
#include "perfmodel/fit.h"

/* Writes the model in the form that perfmodel_load reads, its curves in whole ticks and never
 * falling, with scores, points and the facts of the profile. A model that would not load, since its
 * times are beyond what a file may say, is an error instead. */
int fit_save(const FitResult *self, const Profile *profile, const char *path, Diag *diag);

/* The same as a text, in the arena of the profile. */
const char *fit_text(const FitResult *self, const Profile *profile, size_t *ret_length);

/* What a group's times are of, by the facts of its profile. */
PerfSetup fit_setup(const Profile *profile, const ProfileGroup *group);

/* Whether it is one of number formats that a name must say. */
bool fit_has_format(const PerfSetup *setup);

typedef struct FitRecord {
  const char *profile; // file name
  uint64_t digest;
  Place digest_at;
  FitPoint *points;
  int n_points;
} FitRecord;

/* Reads the record of a model file; one without is an error. */
int fit_record_load(FitRecord *self, const char *path, Arena *arena, Diag *diag);
/* An error where the file says its digest, unless `profile` has that one. */
int fit_record_check(const FitRecord *self, const Profile *profile, Diag *diag);
/* Seconds of a point by the compiled model, which must have rows for its sequences. */
double fit_record_eval(const PerfModel *model, const FitPoint *point);
#endif
