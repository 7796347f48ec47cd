"""What sglang_steps.py writes of an SGLang scheduler: its batches, when they ended, and the requests."""

import time
import weakref
from collections import deque
from contextlib import suppress

from step_file import StepFile


def pen_of(scheduler):
    """The first of a data-parallel rank has one. 0.5.10 knows ranks itself, 0.5.14 as `ps`."""
    if not hasattr(ranks := getattr(scheduler, "ps", scheduler), "attn_tp_rank"):
        from sglang.srt.runtime_context import get_parallel

        ranks = get_parallel()
    return Pen(scheduler, ranks) if ranks.attn_tp_rank == ranks.attn_cp_rank == 0 else None


def head(scheduler, ranks):
    """What the steps are of, as far as this version of SGLang says it."""
    args, model = scheduler.server_args, scheduler.model_config
    says = {"engine": "sglang", "model": args.model_path, "dtype": str(model.dtype).split(".")[-1]}
    says |= {"quantization": model.quantization, "tensor_parallel_size": ranks.attn_tp_size}
    says["data_parallel_size"] = getattr(ranks, "num_dp_ranks", None) or ranks.dp_size
    keys = "page_size chunked_prefill_size max_total_num_tokens enable_overlap is_mixed_chunk"
    says |= {key: getattr(scheduler, key, None) for key in keys.split()}
    with suppress(Exception):  # the steps can do without
        import sglang
        import torch

        says["engine_version"] = sglang.__version__
        says["cache_dtype"] = str(scheduler.tp_worker.model_runner.kv_cache_dtype).split(".")[-1]
        says["gpu"] = torch.cuda.get_device_name()
    return {key: value for key, value in says.items() if isinstance(value, (str, int))}


class Pen:
    def __init__(self, scheduler, ranks):
        rank = max(ranks.dp_rank or 0, ranks.attn_dp_rank or 0)
        self._file = StepFile(head(scheduler, ranks), rank)
        self._drafts = scheduler.server_args.speculative_num_draft_tokens or 1
        self._running = deque(maxlen=16)  # results with what they are of, as they were launched
        self._open = weakref.WeakKeyDictionary()  # requests: their first token, their hits
        self._began, self._asked = 0, True

    def ask(self):
        """What to run next. If nothing runs, and last time nothing was found, the engine is idle."""
        if self._asked and not self._running:
            self._began = time.perf_counter_ns()
            self._file.write(self._began, True)
        self._asked = True

    def decide(self, batch):
        """What a batch is of, before it runs and when much of it may change."""
        chunks, decodes, context = [], 0, 0
        if batch.forward_mode.is_extend():
            chunks = list(zip(batch.reqs, batch.extend_lens, batch.prefix_lens))
            decodes = len(batch.decoding_reqs or ())  # they come last
            cut = len(chunks) - decodes
            context = sum(past + 1 for _, _, past in chunks[cut:])
            chunks = [chunk for chunk in chunks[:cut] if chunk[1] > 0]
        elif batch.forward_mode.is_decode():
            decodes, lengths = len(batch.reqs), batch.seq_lens_cpu
            context = sum(r.seqlen for r in batch.reqs) if lengths is None else int(lengths.sum())
        drafted = 0 if batch.spec_algorithm.is_none() else decodes * self._drafts
        sampled = decodes + sum(past + new >= request.seqlen for request, new, past in chunks)
        return list(batch.reqs), chunks, (decodes, context, drafted, sampled)

    def launch(self, result, decided):
        self._asked = False
        self._running.append((result, decided))

    def end(self, result):
        began, self._began = self._began, (now := time.perf_counter_ns())
        while self._running:
            of, (requests, chunks, counts) = self._running.popleft()
            if of is result:
                self._write(began, now, requests, chunks, counts)
                break
        self._file.write(now, False)

    def _write(self, began, now, requests, chunks, counts):
        if chunks or counts[0]:
            self._file.step(began, now, [[new, past] for _, new, past in chunks], *counts)
        for request, _, past in chunks:
            known = self._open.setdefault(request, [None, past])
            known[0] = known[0] or (now if len(request.output_ids) else None)
        for request in requests:
            if request.finished() and (known := self._open.pop(request, None)):
                self._serve(request, *known, now)

    def _serve(self, request, first, hits, last):
        is_probe, stats = request.rid.startswith("HEALTH_CHECK"), request.time_stats
        if not first or is_probe or request.finished_reason.to_json()["type"] == "abort":
            return
        at = int(1e9 * (stats.created_time or stats.scheduler_recv_time))
        prompt, output = len(request.origin_input_ids), len(request.output_ids_through_stop)
        self._file.request(min(at, first), first, last, prompt, hits, output)
