/* Claims of a paper: what is made for them, each once. What is printed: tests/cli/claims.sh. */
#include "experiments/claims/claims.h"
#include "tests/unit/testing.h"

static int n_runs; // that the last evaluation made

static void begin(void) {
  setup_folder();
  write_file(in_folder("paper.yaml"), "title: A paper\ntandem: {config: base.yaml}\n");
  write_file(in_folder("base.yaml"),
             "model: llama2-70b\n"
             "workload:\n"
             "  lengths: {prompt: {constant: 500}, output: {constant: 20}}\n"
             "  arrivals: {process: fixed, rate: 4 /s}\n"
             "  requests: 40\n"
             "pools:\n"
             "  all: {role: mixed, machine: dgx-h100, count: 2}\n"
             "slo: none\n");
}

TestSuite(claims, .init = begin, .fini = teardown_folder);

static void count(int done, int all) {
  (void)done;
  n_runs = all;
}

/* The paper whose one claim this is. */
static void evaluate(Paper *paper, bool sensitivity, const char *claim) {
  write_file(in_folder("P-1.yaml"), claim);
  n_runs = 0;
  cr_assert_eq(paper_load(paper, folder, NULL, &arena, &diag), 0);
  cr_assert_eq(paper_eval(paper, 1, sensitivity, count, &arena, &diag), 0);
}

#define CLAIM                                                                                      \
  "claim: what it says\n"                                                                          \
  "where: here\n"                                                                                  \
  "runs: {base: {}, same: {}, other: {set: {seed: 5}}}\n"                                          \
  "figures:\n"                                                                                     \
  "  - {what: off, value: base.completed + same.completed, paper: 40, tolerance: 0}\n"             \
  "  - {what: right, value: other.completed, paper: 40, tolerance: 0}\n"

Test(claims, equal_sources_are_made_once_at_points_too) {
  static const char claim[] = CLAIM "sensitivity:\n"
                                    "  - {why: a, sweep: {workload.requests: [10, 20]}}\n"
                                    "  - {why: b, sweep: {workload.requests: [20, 30]}}\n"
                                    "  - {why: c, sweep: {n: {few: {workload.requests: 10}}}}\n"
                                    "  - {why: d, sweep: {n: {few: {workload.requests: 15}}}}\n";
  Paper paper;
  evaluate(&paper, false, claim);
  cr_expect_eq(n_runs, 2, "base with same, and other, are %d runs", n_runs);
  cr_expect_eq(paper.n_points, 0);
  paper_done(&paper);
  evaluate(&paper, true, claim);
  cr_expect_eq(n_runs, 2 + 2 * 4, "both with 10, 15, 20 and 30 requests: %d", n_runs);
  SensitivityRange range;
  cr_expect(claim_sensitivity(&paper.claims[0], 0, 1, &range, &arena));
  cr_expect_eq(range.low, 40);
  cr_expect_eq(range.high, 60);
  cr_expect_str_eq(range.inside, "20");
  cr_expect(claim_sensitivity(&paper.claims[0], 0, 3, &range, &arena));
  cr_expect_eq(range.low, 30, "not what is called the same");
  cr_expect_not(claim_sensitivity(&paper.claims[0], 1, 0, &range, &arena), "what is right");
  paper_done(&paper);
}

Test(claims, what_is_not_moved_is_the_claims_own_and_seeds_are_means) {
  static const char claim[] =
      "claim: what it says\n"
      "where: here\n"
      "seeds: 3\n"
      "runs: {base: {set: {workload.arrivals.process: poisson}}, fixed: {}}\n"
      "figures:\n"
      "  - {what: off, value: base.ttft_s.mean / fixed.ttft_s.mean, paper: 0, tolerance: 0}\n"
      "sensitivity:\n"
      "  - {why: a, sources: [base], sweep: {workload.arrivals.rate: [4 /s, 30 /s]}}\n";
  Paper paper;
  evaluate(&paper, true, claim);
  cr_expect_eq(n_runs, 2 * 3 + 2 * 3, "%d runs", n_runs);
  SensitivityRange range;
  cr_expect(claim_sensitivity(&paper.claims[0], 0, 0, &range, &arena));
  cr_expect_eq(range.low, paper.claims[0].figures[0].values[COLUMN_TANDEM],
               "at the rate that it has, it is what it is");
  cr_expect_gt(range.high, range.low);
  cr_expect_str_eq(range.inside, "");
  paper_done(&paper);
}
