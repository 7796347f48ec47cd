"""What tests of calib/backends/*_steps.py share: where these are, a file for the steps, its lines."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(os.environ["TANDEM_SOURCE_DIR"])
BACKENDS = SOURCE / "calib" / "backends"
sys.dont_write_bytecode = True
sys.path.insert(0, str(BACKENDS))


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name) / "steps.jsonl"
        os.environ["TANDEM_STEPS"] = str(self.path)

    def lines(self):
        lines = [json.loads(line) for line in self.path.read_text().splitlines() if line]
        return (
            lines[0],
            [line for line in lines if "us" in line],
            [line for line in lines if "arrived_us" in line],
        )

    def imported(self, *options):
        """The profile that the program makes of the steps."""
        profile = self.path.with_suffix(".csv")
        command = [os.environ["TANDEM_BINARY"], "import", "vllm-log", self.path, "-o", profile]
        command += ["--gpu", "h100-80gb", *options]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return profile.read_text()
