/* An engine's steps, millions of them, as rows of a profile.
 *
 * Steps whose numbers are all within a fraction of an octave of one another are a cell, and a cell
 * is a row: the mean batch and the mean time of the half of its steps that is neither its fastest
 * quarter nor its slowest. So a pause of the host moves no row, and where times are linear in a
 * cell, which is what a model is made of, the means are a point of the line. Cells are as small as
 * gives at most STEP_ROWS_MAX rows. A cell of one step is that step. */
#ifndef PERFMODEL_IMPORT_STEP_CELLS_H
#define PERFMODEL_IMPORT_STEP_CELLS_H
#include "perfmodel/profile.h"

enum {
  STEPS_MAX = 1 << 23, // of an import: a day at a hundred a second
  STEP_ROWS_MAX = 500, // so many are fitted in seconds
};

typedef struct Step {
  BatchShape batch; // not empty
  double us;
  uint64_t cell; // private
} Step;

/* Adds the rows of n >= 1 steps, which it sorts, each a copy of `row` with its batch, time and
 * number of samples. */
void step_cells_add(Profile *profile, const ProfileRow *row, Step *steps, size_t n);
#endif
