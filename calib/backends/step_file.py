"""What vllm_steps.py and sglang_steps.py write to: a line of JSON for each step of an engine and for
each request that it served. calib/README.md describes them; times are ns of one clock."""

import json
import os
import sys
from contextlib import suppress


class StepFile:
    """$TANDEM_STEPS (steps.jsonl); of data-parallel ranks after the first, with the rank in its name.
    What cannot be written is said once and stops no engine."""

    def __init__(self, head, rank):
        name, ending = os.path.splitext(os.environ.get("TANDEM_STEPS", "steps.jsonl"))
        self._path = f"{name}.{rank}{ending}" if rank else name + ending
        self._out, self._lines, self._written = None, [head], 0
        try:
            self._out = open(self._path, "w")
        except OSError as error:
            self._give_up(error)

    def step(self, began, ended, prefill, decodes, context, drafted, sampled):
        line = {"prefill": prefill, "decode_seqs": decodes, "context_tokens": context}
        line |= {"drafted": drafted, "us": (ended - began) / 1000, "sampled": sampled}
        self._lines.append(line)

    def request(self, arrived, first, last, prompt, cached, output):
        line = {"prompt_tokens": prompt, "cached_tokens": cached, "output_tokens": output}
        line |= {"arrived_us": arrived // 1000, "first_token_us": first // 1000}
        self._lines.append(line | {"last_token_us": last // 1000})

    def write(self, now, is_idle):
        """What has been added, if the engine is idle or a second has passed."""
        if not self._lines or not (is_idle or now - self._written > 1e9):
            return
        if self._out:
            try:
                print(*map(json.dumps, self._lines), sep="\n", file=self._out, flush=True)
            except OSError as error:
                self._give_up(error)
        self._lines, self._written = [], now

    def _give_up(self, error):
        """For good: behind a line that was cut short nothing could be read."""
        print(f"tandem: {self._path}: no more steps: {error}", file=sys.stderr, flush=True)
        out, self._out = self._out, None
        with suppress(OSError):
            out and out.close()
