/* See subject.h: the figures of plots/ that have something to draw here. */
#include "experiments/findings/subject.h"
#include "experiments/plot/plot.h"

/* In the order in which a reader wants them. */
static const struct {
  const char *name, *caption;
} figures[] = {
    {"load", "Latency over the load, or what else varies, beside the limits."},
    {"pareto", "What each run costs and how fast it is for one user: no other is better in both "
               "than those on the line."},
    {"designs", "What each design takes, with the range over seeds."},
    {"budgets", "The largest rate that a budget buys, by design."},
    {"heat", "One figure over two of the axes, and where all limits are kept."},
    {"design-space", "Limits kept, over the counts of both pools."},
    {"bars", "Runs side by side, with their 95% intervals."},
    {"cdf", "The share of requests served within a time."},
    {"requests", "Each request: its time over when it came."},
    {"hours",
     "Hour by hour: what was asked for, the instances for it, and who was not served in time."},
    {"timeline", "What the cluster did over time."},
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
  if (!drawn) return diag_environment(unsaid, place_of_file(NULL), "no room for a figure");
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
                 n > 0 ? "A figure is not" : "There is no figure", unsaid.entries[0].message);
  else if (n == 0)
    page_element(page, "p", "soft", "Nothing here makes a figure; tandem plot --help has all.");
  diag_done(&unsaid);
  page_section_end(page);
}
