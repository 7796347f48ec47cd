/* See subject.h: the figures of plots/ that have something to draw here. */
#include "experiments/findings/subject.h"
#include "experiments/plot/plot.h"

/* In the order in which a reader wants them; those with a question answer a study. */
static const struct {
  const char *name, *question, *caption;
} figures[] = {
    {"curve", "Up to which rate do the limits hold?",
     "Share of the requests within all limits, and those per second, against the rate."},
    {"front", "What does a faster answer cost?",
     "Cost and speed for one user of each design, at several shares of the load."},
    {"designs", "What does each design take, and how much does it leave?",
     "Objective of each design, with the range over seeds, and the margin of its tightest limit."},
    {"parts", "Where does the time of a request go?",
     "Mean time of a request at the load that was asked, by what it is spent on."},
    {"load", NULL, "Latency over the load or another axis, with the limits."},
    {"pareto", NULL,
     "Cost and speed for one user, by run. No run is better in both than those on the line."},
    {"budgets", NULL, "The largest rate that a budget buys, by design."},
    {"heat", NULL, "One figure over two axes, and where all limits are met."},
    {"design-space", NULL, "Limits met, over the instances of both pools."},
    {"bars", NULL, "Runs side by side, with their 95% intervals."},
    {"cdf", NULL, "Share of requests served within a time."},
    {"requests", NULL, "Latency of each request over its arrival time."},
    {"hours", NULL, "By hour: load, instances, and requests that were not served in time."},
    {"timeline", NULL, "State of the cluster over time."},
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
static int put_figure(Telling *self, size_t i, Diag *unsaid) {
  const char *name = figures[i].name;
  Page *page = &self->page;
  FILE *drawn = tmpfile();
  if (!drawn)
    return diag_environment(unsaid, place_of_file(NULL), "cannot create a temporary file");
  const PlotPlace place = {.page = drawn, .id = name};
  const int status = plot_query(name, self->results.path, NULL, &place, self->arena, unsaid);
  if (status == 0) {
    if (figures[i].question) page_element(page, "h3", NULL, "%s", figures[i].question);
    page_raw(page, "<figure>\n");
    copy(drawn, page->out);
    page_element(page, "figcaption", NULL, "%s", figures[i].caption);
    page_raw(page, "</figure>\n");
  }
  fclose(drawn);
  return status;
}

static bool is_in(size_t i, FigureSet set) {
  return set == FIGURES_ALL || (set == FIGURES_OF_ANSWER) == (figures[i].question != NULL);
}

/* What a plan could have said beside. */
static void put_missing(Telling *self, int n) {
  if (n > 0 && !plot_fits("curve", self->results.path, NULL, self->arena) &&
      plot_fits("front", self->results.path, NULL, self->arena))
    page_element(&self->page, "p", "soft",
                 "tandem plan --curve also shows up to which rate the limits hold.");
}

void put_figures(Telling *self, FigureSet set) {
  static const char *const ids[] = {"figures", "figures", "appendix"};
  static const char *const headings[] = {"Figures", "Figures", "Appendix: other figures"};
  Page *page = &self->page;
  Diag unsaid;
  diag_init(&unsaid);
  page_section(page, ids[set], headings[set]);
  if (set == FIGURES_APPENDIX) page_details(page, "Runs and clusters that were tried");
  int n = 0;
  for (size_t i = 0; i < FIGURES && n < FIGURES_MOST; i++)
    if (is_in(i, set) && plot_fits(figures[i].name, self->results.path, NULL, self->arena))
      n += put_figure(self, i, &unsaid) == 0;
  if (set == FIGURES_OF_ANSWER) put_missing(self, n);
  if (unsaid.n_entries > 0)
    page_element(page, "p", "soft", "%s here: %s.",
                 n > 0 ? "A figure is missing" : "There is no figure", unsaid.entries[0].message);
  else if (n == 0)
    page_element(page, "p", "soft", "No figure applies to these results; see tandem plot --help.");
  if (set == FIGURES_APPENDIX) page_details_end(page);
  diag_done(&unsaid);
  page_section_end(page);
}
