"""What tests of the Python view share: the package of the source tree on the program that was
built, unless one is installed, and a folder to work in."""

import os
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(os.environ["TANDEM_SOURCE_DIR"])
EXAMPLES = SOURCE / "experiments" / "examples"
SKIPPED = 77

if "TANDEM_INSTALLED" not in os.environ:
    os.environ["TANDEM"] = os.environ["TANDEM_BINARY"]
    sys.path.insert(0, str(SOURCE / "experiments" / "python"))
sys.dont_write_bytecode = True

import tandem  # noqa: E402  (where it is has just been said)


def config():
    """Small and quick."""
    return {
        "model": "llama2-70b",
        "workload": {
            "lengths": {"prompt": {"constant": 500}, "output": {"constant": 20}},
            "arrivals": {"process": "fixed", "rate": "4 /s"},
            "requests": 40,
        },
        "pools": {"all": {"role": "mixed", "machine": "dgx-h100", "count": 2}},
        "policies": {"router": "jsq"},
        "slo": {"ttft.p99": "1 s"},
    }


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(folder.name)

    def refused(self, code, *arguments, **named):
        """The Error of a call."""
        with self.assertRaises(tandem.Error) as caught:
            arguments[0](*arguments[1:], **named)
        self.assertEqual(caught.exception.code, code)
        return caught.exception
