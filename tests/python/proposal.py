"""A scheduler in Python decides what the same one in C does; what it gets wrong is an error; and it
can only be an object of the caller."""

import re
import unittest

from testing import SOURCE, Case, tandem

SECOND = tandem.TICKS_PER_SECOND


def config():
    """Prompts that wait: a few of them have a prefix in common."""
    return {
        "model": "llama3.1-8b",
        "engine": "vllm-0.24",
        "workload": {
            "lengths": {"prompt": {"uniform": [100, 4000]}, "output": {"uniform": [5, 40]}},
            "arrivals": {"process": "poisson", "rate": "60 /s"},
            "requests": 80,
        },
        "pools": {"serve": {"machine": "dgx-h100", "tensor_parallel_size": 1, "count": 1}},
        "policies": {"router": "jsq"},
    }


class Sjf:
    """sim/proposal/sjf.c"""

    def rank(self, view, request):
        waited = float(view.now - request.arrived_at)
        length = 0.5 / (1 + request.prompt_tokens / 32768.0)
        return -(length + 0.5 * waited / (5.0 * SECOND))


class ResidualSjf:
    """sim/proposal/residual_sjf.c"""

    def rank(self, view, request):
        if view.now - request.arrived_at >= 10 * SECOND:
            return -1
        return request.prompt_tokens // view.block_size - request.hit_blocks


class PrefillLimits:
    """sim/proposal/prefill_limits.c"""

    def prefill_tokens(self, view):
        return 700

    def prefill_seqs(self, view):
        return 1


def returning(hook, value):
    def answer(self, *arguments):
        return value

    return type("Returning", (), {hook: answer})()


class Proposals(Case):
    def in_c(self, proposal):
        return tandem.run(config(), set={"policies.batcher.proposal": proposal}).digest

    def test_the_same_in_both_languages(self):
        limits = {
            "name": "prefill_limits",
            "max_prefill_tokens_per_step": 700,
            "max_concurrent_prefills": 1,
        }
        digests = {tandem.run(config()).digest}
        for here, there in (Sjf(), "sjf"), (ResidualSjf(), "residual_sjf"), (PrefillLimits(), limits):
            digest = tandem.run(config(), proposal=here).digest
            self.assertEqual(digest, self.in_c(there))
            digests.add(digest)
        self.assertEqual(len(digests), 4, "a proposal changes nothing")

    def test_that_of_the_guide(self):
        page = SOURCE / "experiments" / "guide" / "policy-lab.md"
        block = re.search(r"^```python\n(.*?)^```$", page.read_text(), re.M | re.S)
        self.assertIsNotNone(block)
        names = {"tandem": tandem}
        code = block[1].replace('"experiments/examples/chat.yaml"', "CONFIG")
        self.assertIn("CONFIG", code)
        exec(code, {**names, "CONFIG": config()}, names)
        self.assertNotEqual(names["idea"].digest, names["baseline"].digest)
        again = tandem.run(config(), proposal=names["FewestOutputs"]())
        self.assertEqual(again.digest, names["idea"].digest)

    def test_what_it_raises_ends_the_run(self):
        class Raising:
            def rank(self, view, request):
                raise ValueError("no\nidea")

        error = self.refused(3, tandem.run, config(), proposal=Raising())
        self.assertIsInstance(error.__cause__, ValueError)
        self.assertEqual(error.diagnostics[-1].message, "the proposal raised ValueError: no idea")
        self.assertNotIn("interrupted", str(error))

    def test_answers_are_checked(self):
        for hook, value, wanted in (
            ("rank", float("nan"), "'rank' must return a number, not 'nan'"),
            ("prefill_tokens", 0, "'prefill_tokens' must return a whole number from 1, not '0'"),
            ("prefill_seqs", -3, "'prefill_seqs' must return a whole number from 1, not '-3'"),
            ("prefill_seqs", 10**30, "a whole number from 1"),
            ("rank", "first", "the proposal raised ValueError"),
            ("rank", None, "the proposal raised TypeError"),
        ):
            error = self.refused(3, tandem.run, config(), proposal=returning(hook, value))
            self.assertIn(wanted, error.diagnostics[-1].message)

    def test_no_file_and_no_database_can_name_one(self):
        error = self.refused(
            3, tandem.run, config(), set={"policies.batcher.proposal": {"name": "caller"}}
        )
        self.assertIn("unknown proposal 'caller'", str(error))
        self.refused(2, tandem.run, config(), proposal=Sjf(), output="a.db")
        with self.assertRaisesRegex(TypeError, "rank, prefill_tokens, prefill_seqs"):
            tandem.run(config(), proposal=lambda view: 1)
        self.assertIn("unknown proposal", str(self.refused(3, tandem.run, {
            **config(), "policies": {"batcher": {"name": "vllm", "proposal": "caller"}}
        })))


if __name__ == "__main__":
    unittest.main()
