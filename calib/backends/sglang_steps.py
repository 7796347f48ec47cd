"""Writes each step of an SGLang engine as a line of JSON while it serves: calib/README.md says how.

SGLang's server takes as an argument what its scheduler processes run: this runs SGLang's own there, on
its Scheduler with a pen. A step lasts from the end of the one before, or from its decision if the
engine was idle then, until its tokens are on their way: SGLang waits for the output of a step, the
next one launched or not, and hands it on within the same call, process_batch_result."""

import os
import sys
from contextlib import suppress
from functools import partial

import sglang_pen

# Of others steps overlap, or are parts of a batch, or come from servers of another kind.
TAKEN = {"pp_size": 1, "disaggregation_mode": "null", "enable_pdmux": False, "dllm_algorithm": None}
TAKEN |= dict.fromkeys(("encoder_only", "grpc_mode", "smg_grpc_mode", "use_ray"), False)


def recording(base):
    class Recording(base):
        _tandem = None

        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self._tandem = self._note(sglang_pen.pen_of, self)

        def _note(self, act, *args):
            """In a version unlike those known this fails, and serving goes on."""
            try:
                return act(*args)
            except Exception as error:
                print(f"tandem: no more steps: {error!r}", file=sys.stderr, flush=True)
                self._tandem = None

        def get_next_batch_to_run(self, *args, **kwargs):
            self._tandem and self._note(self._tandem.ask)
            return super().get_next_batch_to_run(*args, **kwargs)

        def run_batch(self, batch, *args, **kwargs):
            decided = self._tandem and self._note(self._tandem.decide, batch)
            result = super().run_batch(batch, *args, **kwargs)
            self._tandem and self._tandem.launch(result, decided)
            return result

        def process_batch_result(self, batch, result, *args, **kwargs):
            done = super().process_batch_result(batch, result, *args, **kwargs)
            self._tandem and self._note(self._tandem.end, result)
            return done

    return Recording


def run(*args, **kwargs):
    """A process of the engine."""
    from sglang.srt.managers import scheduler

    scheduler.Scheduler = recording(scheduler.Scheduler)
    scheduler.run_scheduler_process(*args, **kwargs)


def send_arrivals():
    """When the server had a request. Its schedulers look for some between two steps only; they have
    a place for the time, but it is not sent."""
    with suppress(ImportError, AttributeError):
        from sglang.srt.observability import req_time_stats as stats

        for sender in (stats.APIServerReqTimeStats, stats.DPControllerReqTimeStats):

            def state(self, sends=sender.__getstate__):
                return sends(self) | {"created_time": self.created_time}

            sender.__getstate__ = state


def main():
    from sglang import launch_server
    from sglang.srt.entrypoints import http_server

    with suppress(ImportError):  # of versions that have none
        from sglang.srt.plugins import load_plugins

        load_plugins()
    args = launch_server.prepare_server_args(sys.argv[1:])
    for name, taken in TAKEN.items():
        if (getattr(args, name, taken) or taken) != taken:
            sys.exit(f"sglang_steps: --{name.replace('_', '-')}: steps of such a server are not supported")
    http_server.launch_server = partial(http_server.launch_server, run_scheduler_process_func=run)
    try:
        launch_server.run_server(args)
    finally:
        launch_server.kill_process_tree(os.getpid(), include_parent=False)


if __name__ in ("__main__", "__mp_main__"):  # of the server, and in all that it spawns
    send_arrivals()
if __name__ == "__main__":
    main()
