"""Tables of pandas: the same rows, and the example as it stands."""

import runpy
import sys
import unittest
from unittest import mock

from testing import EXAMPLES, SKIPPED, SOURCE, Case, config, tandem

try:
    import pandas
except ImportError:
    print("pandas is not there")
    sys.exit(SKIPPED)


class Tables(Case):
    def test_results_are_the_rows(self):
        sweep = tandem.sweep(config(), "s.db", set={"sweep": {"pools.all.count": "1..3"}})
        table = tandem.results("s.db")
        self.assertEqual(table.to_dict("records"), sweep.points)
        self.assertTrue(table.equals(sweep.frame))
        self.assertEqual(table["ttft_p99_s"].dtype, float)
        one = tandem.results("s.db", "SELECT id, seed FROM run WHERE id = :run", set={"run": 2})
        self.assertEqual(one["id"].tolist(), [2])

    def test_no_rows_have_their_columns(self):
        tandem.run(config(), output="r.db")
        table = tandem.results("r.db", "failed")
        self.assertEqual((len(table), table.columns[0]), (0, "run"))
        self.assertGreater(len(table.columns), 1)

    def test_a_run_is_a_series(self):
        result = tandem.run(config())
        self.assertEqual(pandas.Series(result)["ttft_s.p99"], result["ttft.p99"])

    def test_without_pandas_it_says_so(self):
        with mock.patch.dict(sys.modules, {"pandas": None}):
            tandem.run(config(), output="r.db")
            with self.assertRaisesRegex(ImportError, "pip install pandas"):
                tandem.results("r.db", "summary")

    def test_the_example(self):
        found = runpy.run_path(str(SOURCE / "experiments" / "python" / "example.py"))
        self.assertEqual(found["table"].shape, (3, 3))
        self.assertTrue(found["result"].met)
        self.assertEqual(found["study"].best, "whole")
        shipped = tandem.run(EXAMPLES / "quickstart.yaml", set={"workload.duration": "60 s"})
        self.assertEqual(
            found["result"].data["pools"][0]["count"], shipped.data["pools"][0]["count"]
        )


if __name__ == "__main__":
    unittest.main()
