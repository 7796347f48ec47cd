/* See subject.h: the figures of plots/ that have something to draw here. */
#include "experiments/findings/subject.h"
#include "experiments/plot/plot.h"

/* In the order in which a reader wants them. */
static const struct {
  const char *name, *caption;
} figures[] = {
    {"load", "Latency over the load or another axis, with the limits."},
    {"pareto", "Cost and speed for one user, by run. No run is better in both than those on "
               "the line."},
    {"designs", "Objective of each design, with the range over seeds."},
    {"budgets", "The largest rate that a budget buys, by design."},
    {"heat", "One figure over two axes, and where all limits are met."},
    {"design-space", "Limits met, over the instances of both pools."},
    {"bars", "Runs side by side, with their 95% intervals."},
    {"cdf", "Share of requests served within a time."},
    {"requests", "Latency of each request over its arrival time."},
    {"hours", "By hour: load, instances, and requests that were not served in time."},
    {"timeline", "State of the cluster over time."},
};
enum { FIGURES = sizeof figures / sizeof *figures, FIGURES_MOST = 8 };

static void copy(FILE *from, FILE *to) {
  char buffer[1 << 16];
  rewind(from);
  for (size_t n; (n = fread(buffer, 1, sizeof buffer, from)) > 0;)
    fwrite(buffer, 1, n, to);
}

/* Draws into a file of its own first: a figure that cannot be drawn leaves nothing of it in the
 * page. Says why. */
static int put_figure(Telling *self, const char *name, const char *caption, Diag *unsaid) {
  Page *page = &self->page;
  FILE *drawn = tmpfile();
  if (!drawn)
    return diag_environment(unsaid, place_of_file(NULL), "cannot create a temporary file");
  const PlotPlace place = {.page = drawn, .id = name};
  const int status = plot_query(name, self->results.path, NULL, &place, self->arena, unsaid);
  if (status == 0) {
    page_raw(page, "<figure>\n");
    copy(drawn, page->out);
    page_element(page, "figcaption", NULL, "%s", caption);
    page_raw(page, "</figure>\n");
  }
  fclose(drawn);
  return status;
}

void put_figures(Telling *self) {
  Page *page = &self->page;
  Diag unsaid;
  diag_init(&unsaid);
  page_section(page, "figures", "Figures");
  int n = 0;
  for (size_t i = 0; i < FIGURES && n < FIGURES_MOST; i++)
    if (plot_fits(figures[i].name, self->results.path, NULL, self->arena))
      n += put_figure(self, figures[i].name, figures[i].caption, &unsaid) == 0;
  if (unsaid.n_entries > 0)
    page_element(page, "p", "soft", "%s here: %s.",
                 n > 0 ? "A figure is missing" : "There is no figure", unsaid.entries[0].message);
  else if (n == 0)
    page_element(page, "p", "soft", "No figure applies to these results; see tandem plot --help.");
  diag_done(&unsaid);
  page_section_end(page);
}
