/* See cases.h. */
#include "experiments/findings/cases.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Cases that differ in the load alone. */
typedef struct Design {
  const Case *most; // with the largest load that is kept; NULL: none is
  const Case *any;
  double load;
  bool is_best; // nothing that costs no more keeps as much
} Design;

enum { COST_PER_HOUR = 7, OPEN = 12 };

static int load_axis(const Cases *self) {
  for (int i = 0; i < (int)self->n_axes; i++) {
    const char *name = short_name(self->axes[i].name);
    if (strcmp(name, "rate") == 0 || strcmp(name, "concurrency") == 0) return i;
  }
  return -1;
}

static bool is_same(const Cases *self, const Case *one, const Case *other, int but) {
  for (int i = 0; i < (int)self->n_axes; i++)
    if (i != but && strcmp(one->values[i], other->values[i]) != 0) return false;
  return true;
}

static size_t find_designs(const Cases *self, int axis, Design *designs) {
  size_t n = 0;
  for (size_t i = 0; i < self->n_cases; i++) {
    const Case *one = &self->cases[i];
    size_t k = 0;
    while (k < n && !is_same(self, one, designs[k].any, axis))
      k++;
    if (k == ROWS_MOST) return n;
    if (k == n) designs[n++] = (Design){.any = one, .load = -1};
    const double load = strtod(one->values[axis], NULL);
    if (!case_keeps_all(one) || load <= designs[k].load) continue;
    designs[k].load = load;
    designs[k].most = one;
  }
  return n;
}

static double cost_of(const Design *self) {
  const Moments *cost = &self->any->figures[COST_PER_HOUR];
  return cost->n > 0 ? cost->mean : 0;
}

/* The cheapest first, of equal ones what keeps most. */
static int by_cost(const void *a, const void *b) {
  const Design *one = a, *other = b;
  const double difference = cost_of(one) - cost_of(other);
  if (difference != 0) return difference < 0 ? -1 : 1;
  return (one->load < other->load) - (one->load > other->load);
}

static void put_rows(const Cases *self, int axis, const Design *designs, size_t n) {
  static const PageColumn columns[] = {{.head = "configuration", .is_text = true},
                                       {.head = "largest load"},
                                       {.head = "cost per hour"},
                                       {.head = "TTFT p99 at that load"},
                                       {.head = "TPOT p99 at that load"},
                                       {.head = "binds", .is_text = true},
                                       {.head = "margin"}};
  Page *page = &self->of->of->page;
  Arena *arena = page->arena;
  page_table(page, columns, sizeof columns / sizeof *columns, NULL);
  for (size_t i = 0; i < n; i++) {
    const Case *most = designs[i].most;
    page_row(page, designs[i].is_best ? "best" : NULL);
    page_cell(page, true, "%s", place_words(self, designs[i].any, axis));
    page_cell(page, false, "%s", most ? most->values[axis] : "none");
    page_cell(page, false, "%s",
              cost_of(&designs[i]) > 0 ? shown(cost_of(&designs[i]), "$", arena) : "-");
    for (int f = 1; f <= 2; f++)
      page_cell(page, false, "%s", most ? shown(most->figures[f].mean, "s", arena) : "-");
    page_cell(page, true, "%s", most && most->binds ? most->binds : "-");
    page_cell(page, false, "%s", most ? case_margin(most, arena) : "-");
    page_row_end(page);
  }
  page_table_end(page);
}

void put_loads(const Cases *self) {
  Page *page = &self->of->of->page;
  const int axis = load_axis(self);
  if (axis < 0 || self->n_axes < 2 || self->n_met == 0) return;
  Design *designs = ARENA_ARRAY(page->arena, Design, ROWS_MOST + 1);
  const size_t n = find_designs(self, axis, designs), open = n < OPEN ? n : OPEN;
  if (n == self->n_cases) return;
  qsort(designs, n, sizeof *designs, by_cost);
  double most = -1;
  for (size_t i = 0; i < n; i++) {
    designs[i].is_best = designs[i].load > most;
    most = fmax(most, designs[i].load);
  }
  page_element(page, "h3", NULL, "Largest loads");
  page_element(page, "p", "soft",
               "The largest %s at which each configuration meets all limits, cheapest first. "
               "Bold rows exceed all cheaper ones.",
               short_name(self->axes[axis].name));
  put_rows(self, axis, designs, open);
  if (open == n) return;
  page_details(page, "%zu more", n - open);
  put_rows(self, axis, designs + open, n - open);
  page_details_end(page);
}
