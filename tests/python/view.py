"""The Python view says what the program says: figures, errors, names of any kind, Ctrl-C."""

import importlib.util
import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
import unittest

from testing import EXAMPLES, SOURCE, Case, config, tandem


def printed(*arguments):
    done = subprocess.run([tandem.program(), *arguments], capture_output=True, check=True)
    return json.loads(done.stdout)


class Run(Case):
    def test_figures_are_those_of_the_program(self):
        result = tandem.run(EXAMPLES / "quickstart.yaml", set={"workload.duration": "20 s"})
        path = str(EXAMPLES / "quickstart.yaml")
        said = printed("run", path, "--set", "workload.duration=20 s", "--format", "json")
        self.assertEqual(result.digest, said["digest"])
        self.assertEqual(result.config, path)
        self.assertEqual(result["ttft_s.p99"], said["ttft_s"]["p99"])
        self.assertEqual(result["ttft.p99"], said["ttft_s"]["p99"])
        self.assertEqual(result["duration"], said["duration_s"])
        self.assertEqual(result["pool.serve.busy"], said["pools"][0]["busy_s"])
        self.assertEqual(
            result["pool.serve.batch_tokens.p50"], said["pools"][0]["batch_tokens"]["p50"]
        )
        self.assertTrue(math.isnan(result["session.p50"]))
        self.assertEqual(len(result), len(dict(result)))
        self.assertEqual(result.slo["tpot.p99"].margin, said["slo"][1]["margin"])
        self.assertEqual(result.slo["tpot.p99"].limit, 0.04)
        self.assertTrue(result.met)
        self.assertIn("vllm-0.24", result.notes)

    def test_a_figure_that_is_not_there_has_near_ones(self):
        result = tandem.run(config())
        self.assertNotIn("ttft.p98", result)
        with self.assertRaisesRegex(KeyError, "ttft_s.p99"):
            result["ttft.p98"]

    def test_a_limit_that_is_missed_is_no_error(self):
        result = tandem.run(config(), set={"slo": {"ttft.p99": "1 ms"}})
        self.assertFalse(result.met)
        self.assertLess(result.slo["ttft.p99"].margin, 0)

    def test_a_map_is_the_file(self):
        text = """
model: llama2-70b
workload:
  lengths: {prompt: {constant: 500}, output: {constant: 20}}
  arrivals: {process: fixed, rate: 4 /s}
  requests: 40
pools: {all: {role: mixed, machine: dgx-h100, count: 2}}
policies: {router: jsq}
slo: {ttft.p99: 1 s}
"""
        with open("c.yaml", "w") as file:
            file.write(text)
        digests = {tandem.run(c).digest for c in (config(), text, "c.yaml")}
        self.assertEqual(len(digests), 1)

    def test_settings_of_every_kind(self):
        made = tandem.run(
            config(),
            set={
                "policies.router": None,
                "pools.all.count": 3,
                "slo": {"goodput": {"share": 0.5, "ttft": "1 s"}},
            },
            seed=5,
        )
        self.assertEqual(made.data["pools"][0]["count"], 3)
        self.assertEqual(list(made.slo), ["goodput"])
        pool = {"role": "mixed", "machine": "dgx-h100"}
        lists = {"workload.lengths.prompt": [0.5, 1e-3, -2, True]}
        self.assertIn(
            "prompt=[0.5, 0.001, -2, true]", str(self.refused(3, tandem.run, config(), set=lists))
        )
        with self.assertRaisesRegex(TypeError, r"pools.*count is \{1\}"):
            tandem.run({**config(), "pools": {"all": {**pool, "count": {1}}}})
        with self.assertRaisesRegex(TypeError, "nan"):
            tandem.run(config(), set={"slo": [math.nan]})

    def test_names_that_yaml_could_take_for_something_else(self):
        names = [
            "a: b",
            "a #b",
            "- a",
            "-a",
            "?",
            "{a}",
            "a,b",
            "'a",
            '"',
            "&a",
            "é 漢",
            "null",
            "1",
            "~",
        ]
        pools = {n: {"role": "mixed", "machine": "dgx-h100", "count": 1} for n in names}
        result = tandem.run({**config(), "pools": pools})
        self.assertEqual([pool["name"] for pool in result.data["pools"]], names)

    def test_files_of_any_name(self):
        for name in "-c.yaml", "--help", "$(touch x); c", "a'b c":
            with open(name, "w") as file:
                file.write("nope: 1\n")
            self.assertIn(
                (name, 1), [d[2:4] for d in self.refused(3, tandem.run, name).diagnostics]
            )
        self.assertFalse(os.path.exists("x"))
        tandem.run(config(), output="-r.db", requests=True)
        self.assertEqual(tandem.query("-r.db", "SELECT count(*) AS n FROM request"), [{"n": 40}])


class Refused(Case):
    def test_diagnostics_have_their_places(self):
        wrong = config()
        wrong["pools"]["all"]["machine"] = "dgx-h10"
        wrong["nope"] = [1]
        error = self.refused(3, tandem.run, wrong)
        places = {d.message: (d.path, d.line, d.column, d.hint) for d in error.diagnostics}
        self.assertEqual(
            places["unknown machine 'dgx-h10'"], ("-", 15, 14, "did you mean 'dgx-h100'?")
        )
        self.assertEqual(places["unknown key 'nope'"][:3], ("-", 21, 1))
        self.assertIn("machine: dgx-h10", str(error))

    def test_files_usage_and_settings(self):
        (missing,) = self.refused(4, tandem.run, "none.yaml").diagnostics
        self.assertEqual((missing.path, missing.line), ("none.yaml", None))
        (unknown,) = self.refused(3, tandem.run, config(), set={"pools.all.cuont": 2}).diagnostics
        self.assertEqual((unknown.path, unknown.line), ("--set", 1))
        self.refused(2, tandem.run, config(), memory="much")
        self.refused(4, tandem.query, "none.db")

    def test_a_program_that_is_not_there_or_dies(self):
        self.addCleanup(os.environ.update, {"TANDEM": tandem.program()})
        os.environ["TANDEM"] = "./none"
        self.assertIn("./none", str(self.refused(None, tandem.run, config())))
        with open("dies", "w") as file:
            file.write("#!/bin/sh\nkill -6 $$\n")
        os.chmod("dies", 0o755)
        os.environ["TANDEM"] = "./dies"
        self.assertIn("signal 6", str(self.refused(-signal.SIGABRT, tandem.run, config())))


class Many(Case):
    def test_a_sweep_has_its_own_points(self):
        first = tandem.sweep(config(), "s.db", set={"sweep": {"pools.all.count": "1..3"}})
        self.assertEqual((len(first), first.simulated, first.found), (3, 3, 0))
        axes = {"pools.all.count": [2, 9], "workload.arrivals.rate": ["4 /s", "0 /s"]}
        second = tandem.sweep(config(), "s.db", set={"sweep": axes}, jobs=1)
        self.assertEqual((second.id, second.n_points, second.found, second.failed), (2, 4, 1, 2))
        values = [row["pools.all.count"] for row in second.points]
        self.assertEqual(values, ["2", "2", "9", "9"])
        again = tandem.run(config(), set={"pools.all.count": 9})
        self.assertEqual(second.points[2]["ttft_p99_s"], again["ttft.p99"])
        self.assertEqual(tandem.query("s.db", "points", set={"sweep": 2}), second.points)

    def test_a_study_says_what_to_buy(self):
        study = {"objective": "machines", "designs": {"whole": {"pools.all.count": "1..4"}}}
        found = tandem.provision({**config(), "provision": study})
        self.assertEqual(found.best, "whole")
        self.assertEqual(found.answers[0]["machines"], 1)
        none = tandem.provision({**config(), "provision": study}, set={"slo": {"ttft.p99": "1 us"}})
        self.assertIsNone(none.best)
        self.assertFalse(none.answers[0]["found"])
        self.assertIn("ttft.p99", none.designs["whole"]["why_not"])

    def test_a_plan_says_what_to_buy(self):
        question = {"isl": 500, "osl": 50, "rate": 2, "tp": 1, "split": "no", "seeds": 1}
        one = tandem.plan("llama3.1-8b", "h100", "ttft.p99<2s,tpot.p99<50ms", **question)
        self.assertEqual(one.best["gpus"], 1)
        self.assertLess(one.best["ttft.p99"], 2)
        self.assertIn(one.best["design"], one.study.designs)
        cheap = {"h200": 0.01, "h100": 2}
        two = tandem.plan(
            "llama3.1-8b", ["h100", "h200"], "ttft.p99<2s", price=cheap, sold="gpu", **question
        )
        self.assertEqual([row["machine"] for row in two.rows], ["dgx-h200", "dgx-h100"])
        self.assertEqual(two.best["cost_per_hour"], 0.01)
        none = tandem.plan("llama3.1-8b", "h100", "ttft.p99<1us", **question)
        self.assertIsNone(none.best)
        with self.assertRaises(tandem.Error) as refused:
            tandem.plan("llama3.1-8b", "h1000", "ttft.p99<2s", **question)
        self.assertIn("h1000", str(refused.exception))

    def test_a_tuning_says_what_to_set(self):
        batcher = {"policies": {"router": "jsq", "batcher": {"name": "mixed", "max_num_seqs": 8}}}
        slow = {**config(), **batcher, "slo": "none"}
        options = {"objective": "e2e_mean", "seeds": 2, "jobs": 1}
        found = tandem.tune(slow, knobs=["max_num_seqs"], **options)
        self.assertEqual([row["knob"] for row in found.knobs], ["max_num_seqs"])
        self.assertEqual(found.set == {}, found.current == found.best)
        self.assertEqual(found.current, found.data["together"]["from"])
        with self.assertRaises(tandem.Error) as refused:
            tandem.tune(slow, knobs="max_seqs", **options)
        self.assertIn("no knob 'max_seqs'", str(refused.exception))

    def test_why_and_compare(self):
        tandem.run(config(), output="r.db")
        tandem.run(config(), output="r.db", set={"workload.arrivals.rate": "8 /s"})
        because = tandem.why("r.db", 1, 7)
        total = sum(part["seconds"] for part in because["parts"])
        self.assertAlmostEqual(total, because["e2e_s"], 6)
        self.assertEqual(len(tandem.why("r.db", slowest=3)), 3)
        self.assertEqual(sum(band["requests"] for band in tandem.why("r.db", 1)), 40)
        sides = tandem.compare("r.db", 1, 2, figures=["e2e.p50"])
        self.assertEqual(sides["configuration"][0]["name"], "workload.arrivals.rate")
        self.assertEqual([figure["name"] for figure in sides["figures"]], ["e2e_s.p50"])

    def test_an_interrupt_keeps_what_has_ended(self):
        with open("pid", "w"), open("slow", "w") as slow:
            slow.write('#!/bin/sh\necho $$ >pid\nexec "$TANDEM_BINARY" "$@"\n')
        os.chmod("slow", 0o755)
        self.addCleanup(os.environ.update, {"TANDEM": tandem.program()})
        os.environ["TANDEM_BINARY"] = tandem.program()
        os.environ["TANDEM"] = "./slow"

        def interrupt():
            while not self.ended():
                time.sleep(0.02)
            os.kill(os.getpid(), signal.SIGINT)

        threading.Thread(target=interrupt, daemon=True).start()
        with self.assertRaises(KeyboardInterrupt):
            tandem.sweep(config(), "s.db", jobs=1, set={"sweep": {"workload.seed": "1..100000"}})
        with open("pid") as file, self.assertRaises(ProcessLookupError):
            os.kill(int(file.read()), 0)
        self.assertGreater(self.ended(), 0)

    def ended(self):
        """How many runs of the sweep are stored."""
        command = [os.environ["TANDEM_BINARY"], "query", "s.db", "--format", "json", "--sql"]
        done = subprocess.run([*command, "SELECT count(*) AS n FROM run"], capture_output=True)
        return json.loads(done.stdout)[0]["n"] if done.returncode == 0 else 0


class Types(Case):
    @unittest.skipUnless(importlib.util.find_spec("mypy"), "mypy is not there")
    def test_the_package_is_typed(self):
        os.chdir(SOURCE)
        check = [sys.executable, "-m", "mypy", "--cache-dir=/dev/null", "-p", "tandem"]
        done = subprocess.run(check, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
