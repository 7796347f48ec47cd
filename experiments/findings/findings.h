/* What a database of results says, as one page of HTML: for each study and sweep, and for the runs
 * of neither, the question, the answer and how sure it is, tables, figures, what was assumed and
 * how to repeat it. The page is a function of the database alone. Its texts may be anybody's. */
#ifndef EXPERIMENTS_FINDINGS_FINDINGS_H
#define EXPERIMENTS_FINDINGS_FINDINGS_H
#include "base/diag.h"
#include <stdio.h>

/* Writes the page of the database at `path`; -1 with entries. Where there is no gnuplot it says so
 * in place of figures. */
int findings_write(const char *path, FILE *out, Arena *arena, Diag *diag);
#endif
