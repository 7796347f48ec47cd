/* The pipe to gnuplot. */
#include "experiments/gnuplot.h"
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

static const char *terminal_of(const char *path) {
  static const struct {
    const char *extension, *terminal;
  } terminals[] = {{".png", "pngcairo"}, {".svg", "svg"}};
  const size_t length = strlen(path);
  for (size_t i = 0; i < sizeof terminals / sizeof *terminals; i++)
    if (length > 4 && strcmp(path + length - 4, terminals[i].extension) == 0)
      return terminals[i].terminal;
  return NULL;
}

bool gnuplot_can_draw(const char *path) {
  return terminal_of(path) != NULL;
}

/* As gnuplot's single quotes want it. */
static void write_quoted(FILE *out, const char *text) {
  putc('\'', out);
  for (; *text; text++) {
    if (*text == '\'') putc('\'', out);
    putc(*text, out);
  }
  putc('\'', out);
}

void gnuplot_set(Gnuplot *self, const char *name, const char *text) {
  fprintf(self->script, "%s = ", name);
  write_quoted(self->script, text);
  putc('\n', self->script);
}

int gnuplot_open(Gnuplot *self, const char *path, int width, int height, Diag *diag) {
  if (system("command -v gnuplot >/dev/null 2>&1") != 0)
    return diag_environment(diag, place_of_file(NULL), "'gnuplot' was not found: install it");
  signal(SIGPIPE, SIG_IGN); // its exit status says more
  *self = (Gnuplot){popen("gnuplot", "w"), path};
  if (!self->script)
    return diag_environment(diag, place_of_file(path), "cannot run gnuplot: %s", strerror(errno));
  fprintf(self->script, "set terminal %s noenhanced size %d,%d\nset output ", terminal_of(path),
          width, height);
  write_quoted(self->script, path);
  putc('\n', self->script);
  return 0;
}

int gnuplot_draw(Gnuplot *self, const char *name, const char *data_root, Arena *arena, Diag *diag) {
  fputs("load ", self->script);
  write_quoted(self->script, arena_printf(arena, "%s/plots/%s.gp", data_root, name));
  putc('\n', self->script);
  if (pclose(self->script) == 0) return 0;
  remove(self->path); // half a picture
  return diag_environment(diag, place_of_file(self->path), "gnuplot could not draw it");
}
