/* The tables that Vidur and its descendants write: one CSV of linear operators, one of attention,
 * one of collectives, told apart by their columns. Times are ms of one layer on one GPU. */
#ifndef PERFMODEL_IMPORT_VIDUR_TABLES_H
#define PERFMODEL_IMPORT_VIDUR_TABLES_H
#include "perfmodel/import/import.h"

/* Reads the files of the input, at most one of each table, into rows. */
int vidur_tables_read(const ImportInput *input, Profile *profile, Diag *diag);
#endif
