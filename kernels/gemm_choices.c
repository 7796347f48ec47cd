/* One line of numbers per choice, after a head of two lines. The later of two of a shape counts. */
#include "kernels/gemm_choices.h"
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_BYTES = 1 << 22 };
enum {
  PATH_SIZE = 1024,
  LINE_SIZE = 256,
  HEAD_SIZE = 512,
  N_SHAPE = 6,
  N_FIELDS = N_SHAPE + GEMM_CHOICE_NUMBERS + 1
};
static const char TITLE[] = "# tandem: algorithms of products, 1";

struct GemmChoices {
  char path[PATH_SIZE], head[HEAD_SIZE];
  int file; // −1: none is written
  GemmChoice *choices;
  size_t n, capacity;
};

bool gemm_shape_same(const GemmShape *a, const GemmShape *b) {
  return a->m == b->m && a->n == b->n && a->k == b->k && a->dtype == b->dtype &&
         a->epilogue == b->epilogue && a->weights == b->weights;
}

/* ---- What is known ---- */

static GemmChoice *find(const GemmChoices *self, const GemmShape *shape) {
  for (size_t i = 0; i < self->n; i++)
    if (gemm_shape_same(&self->choices[i].shape, shape)) return &self->choices[i];
  return NULL;
}

static bool put(GemmChoices *self, const GemmChoice *choice) {
  GemmChoice *there = find(self, &choice->shape);
  if (there) {
    *there = *choice;
    return true;
  }
  if (self->n == GEMM_CHOICES_MOST) return false;
  if (self->n == self->capacity) {
    self->capacity = self->capacity ? 2 * self->capacity : 64;
    self->choices = realloc(self->choices, self->capacity * sizeof *self->choices);
    if (!self->choices) abort();
  }
  self->choices[self->n++] = *choice;
  return true;
}

bool gemm_choices_find(const GemmChoices *self, const GemmShape *shape, GemmChoice *ret_choice) {
  const GemmChoice *there = find(self, shape);
  if (there) *ret_choice = *there;
  return there != NULL;
}

/* ---- Lines ---- */

static int write_choice(const GemmChoice *choice, char *line) {
  const GemmShape *s = &choice->shape;
  int used = snprintf(line, LINE_SIZE, "%d %d %d %d %d %d", (int)s->m, (int)s->n, (int)s->k,
                      (int)s->dtype, (int)s->epilogue, (int)s->weights);
  for (int i = 0; i < GEMM_CHOICE_NUMBERS; i++)
    used += snprintf(line + used, (size_t)(LINE_SIZE - used), " %u", (unsigned)choice->numbers[i]);
  return used +
         snprintf(line + used, (size_t)(LINE_SIZE - used), " %u\n", (unsigned)choice->candidates);
}

/* Numbers with one space between them, and no more than there should be. */
static bool read_choice(const char *line, GemmChoice *ret_choice) {
  uint32_t fields[N_FIELDS];
  for (int i = 0; i < N_FIELDS; i++) {
    char *end = NULL;
    if (!isdigit((unsigned char)*line)) return false;
    errno = 0;
    const unsigned long long value = strtoull(line, &end, 10);
    if (errno || value > UINT32_MAX || *end != (i + 1 < N_FIELDS ? ' ' : '\0')) return false;
    fields[i] = (uint32_t)value;
    line = end + (i + 1 < N_FIELDS);
  }
  for (int i = 0; i < 3; i++)
    if (fields[i] < 1 || fields[i] > INT32_MAX) return false;
  if (fields[3] > CALIB_FP16 || fields[4] > GEMM_BIAS_RELU || fields[5] > CALIB_FP8_BLOCK)
    return false;
  *ret_choice = (GemmChoice){.shape = {(int32_t)fields[0], (int32_t)fields[1], (int32_t)fields[2],
                                       (CalibDtype)fields[3], (GemmEpilogue)fields[4],
                                       (CalibWeights)fields[5]},
                             .candidates = fields[N_FIELDS - 1]};
  memcpy(ret_choice->numbers, fields + N_SHAPE, sizeof ret_choice->numbers);
  return true;
}

/* A line without its end; false at the end of the file, and of a line that is cut short or too
 * long, which *ret_whole tells. */
static bool read_line(FILE *file, char *line, size_t size, bool *ret_whole) {
  *ret_whole = true;
  if (!fgets(line, (int)size, file)) return false;
  const size_t length = strcspn(line, "\n");
  *ret_whole = line[length] == '\n';
  line[length] = '\0';
  return *ret_whole;
}

/* NULL, or why the file cannot be gone on with. */
static const char *read_file(GemmChoices *self, FILE *file) {
  char line[HEAD_SIZE];
  bool is_whole;
  GemmChoice choice;
  if (!read_line(file, line, sizeof line, &is_whole) || strcmp(line, TITLE) != 0)
    return "is none of this version";
  if (!read_line(file, line, sizeof line, &is_whole) || strcmp(line, self->head) != 0)
    return "is of another driver, library or device";
  while (read_line(file, line, sizeof line, &is_whole))
    if (!read_choice(line, &choice) || !put(self, &choice)) return "is damaged";
  return is_whole ? NULL : "ends within a line";
}

/* ---- Files ---- */

/* Of the parts that make another file, without what a path or a line cannot hold. */
static void set_names(GemmChoices *self, const char *folder, const CalibDevice *device) {
  uint64_t hash = 14695981039346656037u; // FNV-1a
  snprintf(self->head, sizeof self->head, "# %s, %d units, driver %s, runtime %s, %s", device->name,
           (int)device->n_units, device->driver, device->runtime, device->library);
  for (char *at = self->head; *at; at++) {
    if ((unsigned char)*at < ' ') *at = ' ';
    hash = (hash ^ (unsigned char)*at) * 1099511628211u;
  }
  const int length = snprintf(self->path, sizeof self->path, "%s/products-%016llx.txt", folder,
                              (unsigned long long)hash);
  if (length >= (int)sizeof self->path) self->path[0] = '\0';
}

static bool write_all(int file, const char *text, size_t length) {
  const ssize_t n = write(file, text, length);
  return n == (ssize_t)length;
}

/* The folder and the one that it is in, which a new user has neither of. */
static void make_folders(const char *path) {
  char folder[PATH_SIZE];
  snprintf(folder, sizeof folder, "%s", path);
  char *last = strrchr(folder, '/');
  *last = '\0';
  char *before = strrchr(folder, '/');
  if (before && before != folder) {
    *before = '\0';
    mkdir(folder, 0777);
    *before = '/';
  }
  mkdir(folder, 0777);
}

/* Beside the file and then in its place, so that whoever reads it meanwhile has the old one. */
static void write_anew(GemmChoices *self) {
  char beside[PATH_SIZE + 32], text[HEAD_SIZE + sizeof TITLE + 2];
  snprintf(beside, sizeof beside, "%s.%ld", self->path, (long)getpid());
  make_folders(self->path);
  unlink(beside); // of a process that was killed
  self->file = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
  if (self->file < 0) return;
  const int length = snprintf(text, sizeof text, "%s\n%s\n", TITLE, self->head);
  if (write_all(self->file, text, (size_t)length) && rename(beside, self->path) == 0) return;
  unlink(beside);
  close(self->file);
  self->file = -1;
}

static void open_file(GemmChoices *self, char *ret_note, size_t note_size) {
  struct stat status;
  const bool is_there = stat(self->path, &status) == 0;
  FILE *file = is_there && S_ISREG(status.st_mode) && status.st_size <= MOST_BYTES
                   ? fopen(self->path, "r")
                   : NULL;
  const char *why = file ? read_file(self, file) : is_there ? "cannot be read" : NULL;
  if (file) fclose(file);
  if (why) {
    self->n = 0;
    snprintf(ret_note, note_size, "the file of algorithms %s: they are chosen again", why);
  }
  if (is_there && !why)
    self->file = open(self->path, O_WRONLY | O_APPEND | O_CLOEXEC);
  else
    write_anew(self);
  if (self->file < 0 && !why)
    snprintf(ret_note, note_size, "the algorithms of products are not saved: %s", strerror(errno));
}

GemmChoices *gemm_choices_open(const char *folder, const CalibDevice *device, char *ret_note,
                               size_t note_size) {
  GemmChoices *self = calloc(1, sizeof *self);
  if (!self) abort();
  self->file = -1;
  *ret_note = '\0';
  if (!folder) return self;
  set_names(self, folder, device);
  if (self->path[0]) open_file(self, ret_note, note_size);
  return self;
}

void gemm_choices_close(GemmChoices *self) {
  if (!self) return;
  if (self->file >= 0) close(self->file);
  free(self->choices);
  free(self);
}

void gemm_choices_add(GemmChoices *self, const GemmChoice *choice) {
  char line[LINE_SIZE];
  if (!put(self, choice) || self->file < 0) return;
  if (write_all(self->file, line, (size_t)write_choice(choice, line))) return;
  close(self->file); // a full disk: the next run finds a line cut short, and begins anew
  self->file = -1;
}
