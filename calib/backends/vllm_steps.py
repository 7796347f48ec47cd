"""Writes each step of a vLLM engine as a line of JSON while it serves: calib/README.md says how.

Its stat loggers see sums; what a step computes, only the scheduler: this is that of vLLM, with a
pen. A step lasts from the end of the one before, or from its decision if the engine was idle then,
until its output is there: the time of the host is in it, as between the tokens that users get."""

import time
from contextlib import suppress

from step_file import StepFile


def head(config):
    """What the steps are of, as far as this version of vLLM says it."""
    says = {"engine": "vllm", "dtype": str(config.model_config.dtype).split(".")[-1]}
    with suppress(Exception):  # some platforms have no name, and the steps can do without
        import vllm.platforms

        says["engine_version"] = vllm.__version__
        says["gpu"] = vllm.platforms.current_platform.get_device_name()
    for part, keys in {
        "model": "model quantization",
        "parallel": "tensor_parallel_size pipeline_parallel_size data_parallel_size",
        "cache": "cache_dtype block_size num_gpu_blocks enable_prefix_caching",
        "scheduler": "max_num_seqs max_num_batched_tokens async_scheduling",
    }.items():
        found = {key: getattr(getattr(config, part + "_config"), key, None) for key in keys.split()}
        says |= {key: value for key, value in found.items() if isinstance(value, (str, int))}
    return says


def recording(base):
    class Recording(base):
        def __init__(self, vllm_config, *args, **kwargs):
            super().__init__(vllm_config, *args, **kwargs)
            rank = vllm_config.parallel_config.data_parallel_rank
            self._file, self._decided, self._open = StepFile(head(vllm_config), rank), {}, {}
            self._ended = self._busy = 0

        def add_request(self, request, *args, **kwargs):
            waited = time.time() - getattr(request, "arrival_time", 0)  # since the server has it
            at = time.monotonic_ns() - int(1e9 * waited if 0 < waited < 60 else 0)
            self._open[request.request_id] = [request, at, None, None]  # first token, hits
            return super().add_request(request, *args, **kwargs)

        def schedule(self, *args, **kwargs):
            began, prompts, decodes, context = time.monotonic_ns(), [], 0, 0
            step = super().schedule(*args, **kwargs)
            for name, new in step.num_scheduled_tokens.items():
                request = self.requests[name]
                past = request.num_computed_tokens - new
                if new == 1 and past >= request.num_prompt_tokens:
                    decodes, context = decodes + 1, context + past + 1
                else:
                    prompts.append((name, new, past, past + new >= request.num_tokens))
            drafted = sum(map(len, step.scheduled_spec_decode_tokens.values()))
            self._decided[id(step)] = began, prompts, decodes, context, drafted
            for name in step.finished_req_ids:  # of clients that gave up
                self._open.pop(name, None)
            return step

        def update_from_output(self, step, *args, **kwargs):
            now = time.monotonic_ns()
            decided = self._decided.pop(id(step), (now, [], 0, 0, 0))
            began, prompts, decodes, context, drafted = decided
            outputs = super().update_from_output(step, *args, **kwargs)
            began = self._ended if self._busy else max(began, self._ended)
            if prompts or decodes:
                chunks, sampled = [p[1:3] for p in prompts], decodes + sum(p[3] for p in prompts)
                self._file.step(began, now, chunks, decodes, context, drafted, sampled)
            for name, _, past, is_last in prompts:
                if (known := self._open.get(name)) and known[2] is None:
                    known[2:] = now if is_last else None, past if known[3] is None else known[3]
            for name in self.finished_req_ids & self._open.keys():
                request, at, first, hits = self._open.pop(name)
                if first and request.status.name in ("FINISHED_STOPPED", "FINISHED_LENGTH_CAPPED"):
                    prompt, output = request.num_prompt_tokens, request.num_output_tokens
                    self._file.request(at, first, now, prompt, hits, output)
            self._ended, self._busy = now, self.has_unfinished_requests()
            self._file.write(now, not self._busy)
            return outputs

    return Recording


def Steps(vllm_config, *args, **kwargs):
    if getattr(vllm_config.scheduler_config, "async_scheduling", False):
        from vllm.v1.core.sched.async_scheduler import AsyncScheduler as base
    else:
        from vllm.v1.core.sched.scheduler import Scheduler as base
    return recording(base)(vllm_config, *args, **kwargs)
