/* Private to experiments/measured: what a reader of a set has and makes. */
#ifndef EXPERIMENTS_MEASURED_SET_H
#define EXPERIMENTS_MEASURED_SET_H
#include "base/csv.h"
#include "experiments/measured/measured.h"

typedef struct MeasuredSet {
  const char *name;
  const char *file; // below the folder of measurements
  /* Adds the points of the file `path`, all of `set`. */
  int (*load)(Measured *self, const struct MeasuredSet *set, const char *path, Diag *diag);
} MeasuredSet;

/* Fills a new point of a set from a row of its table. */
typedef void MeasuredTake(Measured *self, MeasuredPoint *point, const void *row);
/* A point for each row of the table `path`, which `row`, zeroed, is filled from in turn. 0, or −1
 * with entries; columns beside these are passed over. */
int measured_add_rows(Measured *self, const MeasuredSet *set, const char *path,
                      const CsvColumn *columns, void *row, MeasuredTake *take, Diag *diag);
/* The first reason why it cannot be simulated stays, and the first that makes it odd. */
void measured_refuse(MeasuredPoint *point, const char *why);
void measured_note_odd(MeasuredPoint *point, const char *odd);

/* A number of a cell in [low, high]. False, with the reason in the point, when it is none; an empty
 * cell is `absent`, unless that is NAN. `*ret` is then `absent`. */
bool measured_number(Measured *self, MeasuredPoint *point, const char *column, const char *text,
                     double low, double high, double absent, double *ret);
/* The same, whole. */
bool measured_count(Measured *self, MeasuredPoint *point, const char *column, const char *text,
                    int64_t most, int64_t absent, int64_t *ret);

/* Lengths between these shares of what is written, at least a token. */
void measured_draw(MeasuredRange *tokens, double least, double most);

enum { MEASURED_CLIENTS_MAX = 65536, MEASURED_TOKENS_MAX = 1 << 20, MEASURED_DEGREE_MAX = 1024 };

/* Output tokens per second and GPU of a closed loop, by the means of TTFT and TPOT. */
double measured_loop_throughput(const MeasuredPoint *point, const double figures[]);
/* Its place among the sets. */
int measured_set_index(const char *name);

/* A group grows by points and then has its means. */
void measured_group_add(MeasuredGroup *group, const MeasuredPoint *point, Arena *arena);
void measured_group_end(MeasuredGroup *group);

/* Of the sizes of its errors, which it sorts; NAN: it has none. */
double measured_median(MeasuredErrors *errors);
/* Whether both are in one group without detail. */
bool measured_same_group(const MeasuredPoint *a, const MeasuredPoint *b);

/* The one that people look at first. */
MeasuredFigure measured_main_figure(const MeasuredGroup *group);

/* A text and how many points have it. */
typedef struct MeasuredCount {
  const char *text;
  int n;
} MeasuredCount;

/* What is said of points, the most frequent first; ended by one without text. Of those that have
 * a prediction what was fitted to them, where their numbers of instances are from, what is assumed
 * of them or odd about them, of others why they have none. */
typedef enum MeasuredSaid {
  MEASURED_FITTED,
  MEASURED_SOLVED,
  MEASURED_ASSUMED,
  MEASURED_ODD,
  MEASURED_WHY
} MeasuredSaid;
MeasuredCount *measured_counts(const Measured *self, MeasuredSaid said, Arena *arena);

/* ---- names.c: `root` has models/ and machines/ ---- */

/* Tandem's name for what others call so; NULL: it has none. Of models, llm_name_of. */
const char *measured_machine_name(const char *gpu);
/* What Tandem's `model` is converted to, by `precision`: "" nothing; NULL: unknown, or entries. */
const char *measured_quantization(const char *model, const char *precision, const char *root,
                                  Arena *arena, Diag *diag);

/* ---- config.c ---- */

/* Puts the point down as YAML, unless it has a reason not to. */
void measured_write_config(MeasuredPoint *point, const MeasuredOptions *options, Arena *arena,
                           Diag *diag);
#endif
