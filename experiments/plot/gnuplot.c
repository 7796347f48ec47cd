/* The process of gnuplot and the pipe to it. */
#include "experiments/plot/gnuplot.h"
#include "base/text.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NOT_FOUND = 127, END_MAX = 16 };

typedef struct Format {
  const char *extension, *terminal;
  const char *end; // what a whole picture has among its last bytes
} Format;

static const Format png = {".png", "pngcairo", "IEND"}, svg = {".svg", "svg", "</svg>"};

/* NULL: none that can be drawn. */
static const Format *format_of(const char *path) {
  return !path || text_ends_with(path, svg.extension) ? &svg
         : text_ends_with(path, png.extension)        ? &png
                                                      : NULL;
}

bool gnuplot_can_draw(const char *path) {
  return format_of(path) != NULL;
}

/* As a line of data, which gnuplot does not parse; the bar keeps it from being the line that ends
 * them. */
void gnuplot_set(Gnuplot *self, const char *name, const char *text) {
  fprintf(self->script, "$text << END\n|");
  text_put(self->script, text, strlen(text), ' ');
  fprintf(self->script, "\nEND\n%s = $text[1][2:*]\n", name);
}

void gnuplot_corner(Gnuplot *self, const char *corner, Arena *arena) {
  int n = 0;
  for (size_t length; *corner; corner += length + (corner[length] == '\n')) {
    length = strcspn(corner, "\n");
    gnuplot_set(self, arena_printf(arena, "corner%d", ++n), arena_copy(arena, corner, length));
  }
  fprintf(self->script, "n_corner = %d\n", n);
}

/* In the new process: gnuplot with the pipe as its input and the picture as its output. */
static void run_gnuplot(int script, int picture, const char *data_root) {
  if (chdir(data_root) == 0 && dup2(script, STDIN_FILENO) >= 0 && dup2(picture, STDOUT_FILENO) >= 0)
    execlp("gnuplot", "gnuplot", "-d", (char *)NULL); // -d: no start-up files
  _exit(errno == ENOENT ? NOT_FOUND : 1);
}

static int start(Gnuplot *self, const char *data_root) {
  int pipe_ends[2];
  if (pipe(pipe_ends)) return -1;
  fcntl(pipe_ends[1], F_SETFD, FD_CLOEXEC); // or it would wait for itself
  self->process = fork();
  if (self->process == 0) run_gnuplot(pipe_ends[0], fileno(self->drawn), data_root);
  const int error = errno;
  close(pipe_ends[0]);
  if (self->process > 0 && (self->script = fdopen(pipe_ends[1], "w"))) return 0;
  close(pipe_ends[1]);
  errno = error;
  return -1;
}

/* Ends without the picture, unless it is at its place. */
static void close_picture(Gnuplot *self) {
  if (self->drawn) fclose(self->drawn);
  output_drop(&self->picture);
}

int gnuplot_open(Gnuplot *self, const PlotPlace *place, const char *data_root, Arena *arena,
                 Diag *diag) {
  *self = (Gnuplot){.place = *place, .arena = arena, .process = -1};
  if (place->path && output_open(&self->picture, place->path, arena, diag)) return -1;
  signal(SIGPIPE, SIG_IGN); // its exit status says more
  self->drawn = tmpfile();
  if (!self->drawn || start(self, data_root)) {
    diag_environment(diag, place_of_file(place->path), "cannot run gnuplot: %s", strerror(errno));
    close_picture(self);
    return -1;
  }
  fprintf(self->script, "terminal = '%s'\ninline = %d\n", format_of(place->path)->terminal,
          !place->path);
  return 0;
}

/* Not when it has no end: gnuplot does not look at what writing gives. */
static bool is_whole(Gnuplot *self) {
  char end[END_MAX + 1] = "";
  const char *wanted = format_of(self->place.path)->end;
  const long length = fseek(self->drawn, 0, SEEK_END) ? 0 : ftell(self->drawn);
  if (fseek(self->drawn, length > END_MAX ? length - END_MAX : 0, SEEK_SET)) return false;
  const size_t n_end = fread(end, 1, END_MAX, self->drawn);
  bool whole = false;
  for (size_t at = 0; at + strlen(wanted) <= n_end; at++)
    whole |= memcmp(end + at, wanted, strlen(wanted)) == 0;
  return whole;
}

static int copy_picture(Gnuplot *self, const char *title, Diag *diag) {
  const PlotPlace *place = &self->place;
  const Place at = place_of_file(place->path);
  FILE *out = place->path ? self->picture.file : place->page;
  char bytes[BUFSIZ];
  if (!is_whole(self))
    return diag_environment(diag, at, "cannot write the whole file: the disk may be full");
  rewind(self->drawn);
  errno = 0;
  if (format_of(place->path) == &svg)
    svg_copy(self->drawn, title, place->path ? NULL : place->id, self->arena, out);
  else
    for (size_t got; (got = fread(bytes, 1, sizeof bytes, self->drawn)) > 0;)
      fwrite(bytes, 1, got, out);
  if (ferror(self->drawn) || ferror(out))
    return diag_environment(diag, at, "cannot write '%s': %s", place->path ? place->path : "it",
                            strerror(errno));
  return place->path ? output_commit(&self->picture, diag) : 0;
}

int gnuplot_draw(Gnuplot *self, const char *name, const char *title, Diag *diag) {
  const Place at = place_of_file(self->place.path);
  int status = 0, error = 0;
  fprintf(self->script, "load 'plots/%s.gp'\n", name);
  fclose(self->script);
  while (waitpid((pid_t)self->process, &status, 0) < 0 && errno == EINTR)
    continue;
  if (WIFEXITED(status) && WEXITSTATUS(status) == NOT_FOUND)
    error = diag_environment(diag, at, "'gnuplot' was not found: install it");
  else if (status != 0)
    error = diag_environment(diag, at, "gnuplot failed");
  else
    error = copy_picture(self, title, diag);
  close_picture(self);
  return error;
}
