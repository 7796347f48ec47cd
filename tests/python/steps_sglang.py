"""What calib/backends/sglang_steps.py writes: of a scheduler with SGLang's interface and its two event
loops, of a server that is started as SGLang's is, and of SGLang's own, which serves a model of random
weights on the processor, where the package can be imported; and that the program reads it."""

import contextlib
import importlib.util
import io
import json
import os
import socket
import subprocess
import sys
import threading
import time
import unittest
import urllib.request
from collections import deque
from types import SimpleNamespace

from steps_testing import BACKENDS, Case

import sglang_steps

STARTING_S, STAND_IN_S = 240, 60


class Finish:
    def __init__(self, kind):
        self.kind = kind

    def to_json(self):
        return {"type": self.kind}


class Lengths(list):
    def sum(self):
        return sum(self)


class FakeReq:
    def __init__(self, rid, prompt, outputs):
        self.rid, self.origin_input_ids, self.output_ids = rid, [1] * prompt, []
        self.outputs, self.done, self.finished_reason = outputs, 0, None
        now = time.perf_counter()
        self.time_stats = SimpleNamespace(created_time=now, scheduler_recv_time=now + 1)

    seqlen = property(lambda self: len(self.origin_input_ids) + len(self.output_ids))
    output_ids_through_stop = property(lambda self: self.output_ids)

    def finished(self):
        return self.finished_reason is not None


def batch(mode, reqs, **fields):
    given = {"decoding_reqs": None, "extend_lens": None, "prefix_lens": None, "seq_lens_cpu": None}
    said = SimpleNamespace(is_extend=lambda: mode == "extend", is_decode=lambda: mode == "decode")
    fields = given | {"spec_algorithm": SimpleNamespace(is_none=lambda: True)} | fields
    return SimpleNamespace(reqs=reqs, forward_mode=said, **fields)


class FakeScheduler:
    """Prompts first, in chunks of `budget` tokens, as SGLang's has its fields; a device that runs one
    batch after the other, each for `times` or no time."""

    budget, is_mixed, attn_cp_rank, attn_dp_rank, attn_tp_size, dp_size = 8, False, 0, 0, 2, 2

    def __init__(self, tp_rank=0, dp_rank=None, times=(), **args):
        given = {"model_path": "meta-llama/Llama-3.1-8B", "speculative_num_draft_tokens": None}
        self.server_args = SimpleNamespace(**given | args)
        self.model_config = SimpleNamespace(dtype="torch.bfloat16", quantization=None)
        self.attn_tp_rank, self.dp_rank, self.chunked_prefill_size = tp_rank, dp_rank, self.budget
        self.waiting, self.running, self.times, self.free = [], [], deque(times), 0

    def get_next_batch_to_run(self):
        left, chosen = self.budget, []
        self.running = [req for req in self.running if not req.finished()]
        for req in list(self.waiting):
            new = min(left, len(req.origin_input_ids) - req.done)
            if new > 0:
                chosen.append((req, new, req.done))
                req.done, left = req.done + new, left - new
        mixed = self.running if self.is_mixed and chosen else []
        for req in mixed or self.running if mixed or not chosen else []:
            req.done += 1
        if not chosen:
            lengths = Lengths(req.done for req in self.running)
            return batch("decode", self.running, seq_lens_cpu=lengths) if self.running else None
        ended = [r for r in self.waiting if r.done == len(r.origin_input_ids)]
        self.waiting = [r for r in self.waiting if r not in ended]
        self.running = self.running + ended
        chosen += [(req, 1, req.done - 1) for req in mixed]
        reqs, lens, pasts = (list(each) for each in zip(*chosen))
        return batch("extend", reqs, extend_lens=lens, prefix_lens=pasts, decoding_reqs=mixed)

    def run_batch(self, batch):
        self.free = max(self.free, time.monotonic()) + (self.times.popleft() if self.times else 0)
        batch.samples = [req for req in batch.reqs if req not in self.waiting]
        return SimpleNamespace(ends=self.free)

    def process_batch_result(self, batch, result):
        time.sleep(max(0, result.ends - time.monotonic()))
        for req in batch.samples:
            if not req.finished():
                req.output_ids.append(1)
                if len(req.output_ids) == req.outputs:
                    req.finished_reason = Finish("length")

    def loop(self, overlap=False):
        """Until all is served and nothing was left to do twice."""
        queue, idle = deque(), 0
        while idle < 2:
            batch = self.get_next_batch_to_run()
            if batch:
                copy = SimpleNamespace(**vars(batch))
                copy.reqs = list(batch.reqs)
                result = self.run_batch(batch)
                copy.samples = batch.samples
                queue.append((copy, result))
            if queue and (not overlap or not batch or len(queue) > 1):
                self.process_batch_result(*queue.popleft())
            idle = 0 if batch or queue else idle + 1


class Fake(Case):
    def scheduler(self, *requests, base=FakeScheduler, **args):
        scheduler = sglang_steps.recording(base)(**args)
        scheduler.waiting += requests
        return scheduler

    def test_steps_are_what_was_run(self):
        scheduler = self.scheduler(FakeReq("a", 12, 3))
        scheduler.loop()
        scheduler.waiting.append(FakeReq("b", 5, 1))
        scheduler.loop()
        head, steps, requests = self.lines()
        self.assertEqual((head["engine"], head["model"]), ("sglang", "meta-llama/Llama-3.1-8B"))
        self.assertEqual((head["dtype"], head["tensor_parallel_size"]), ("bfloat16", 2))
        self.assertEqual(head["chunked_prefill_size"], 8)
        self.assertEqual([s["prefill"] for s in steps], [[[8, 0]], [[4, 8]], [], [], [[5, 0]]])
        self.assertEqual([s["decode_seqs"] for s in steps], [0, 0, 1, 1, 0])
        self.assertEqual([s["context_tokens"] for s in steps], [0, 0, 13, 14, 0])
        self.assertEqual([s["sampled"] for s in steps], [0, 1, 1, 1, 1])
        self.assertEqual([r["output_tokens"] for r in requests], [3, 1])
        a, b = requests
        self.assertEqual((a["prompt_tokens"], a["cached_tokens"]), (12, 0))
        self.assertEqual(b["first_token_us"], b["last_token_us"])
        self.assertLess(a["arrived_us"], a["first_token_us"])
        gap = a["last_token_us"] - a["first_token_us"]
        self.assertAlmostEqual(gap, sum(step["us"] for step in steps[2:4]), delta=3)

    def test_decodes_beside_prompts(self):
        mixed = type("Mixed", (FakeScheduler,), {"is_mixed": True})
        scheduler = self.scheduler(FakeReq("a", 6, 4), FakeReq("b", 9, 2), base=mixed)
        scheduler.loop()
        _, steps, _ = self.lines()
        self.assertEqual([s["prefill"] for s in steps], [[[6, 0], [2, 0]], [[7, 2]], [], []])
        self.assertEqual([s["decode_seqs"] for s in steps], [0, 1, 2, 1])
        self.assertEqual([s["context_tokens"] for s in steps], [0, 7, 8 + 10, 9])
        self.assertEqual([s["sampled"] for s in steps], [1, 2, 2, 1])

    def test_overlapping_steps_last_from_end_to_end(self):
        scheduler = self.scheduler(FakeReq("a", 16, 3), times=[0.06, 0.03, 0.05, 0.04])
        scheduler.loop(overlap=True)
        _, steps, (a,) = self.lines()
        # The last is one that was launched before the request was known to have ended.
        self.assertEqual([s["prefill"] for s in steps], [[[8, 0]], [[8, 8]], [], [], []])
        self.assertEqual([s["context_tokens"] for s in steps], [0, 0, 17, 18, 19])
        ended = [sum(step["us"] for step in steps[: i + 1]) for i in range(4)]
        for at, least in zip(ended, [60e3, 90e3, 140e3, 180e3]):
            self.assertGreaterEqual(at, least)
        self.assertLess(ended[3], 280e3)  # from their launches on it would be 320 ms
        gap = a["last_token_us"] - a["first_token_us"]
        self.assertAlmostEqual(gap, steps[2]["us"] + steps[3]["us"], delta=3)

    def test_an_idle_engine_is_not_in_a_step(self):
        for overlap in False, True:
            scheduler = self.scheduler(FakeReq("a", 4, 1))
            scheduler.loop(overlap)
            time.sleep(0.05)
            scheduler.waiting.append(FakeReq("b", 4, 1))
            scheduler.loop(overlap)
            self.assertLess(max(step["us"] for step in self.lines()[1]), 40e3)

    def test_who_gives_up_or_probes_is_not_served(self):
        gone = FakeReq("a", 4, 9)
        scheduler = self.scheduler(gone, FakeReq("HEALTH_CHECK_1", 1, 1), FakeReq("b", 3, 2))
        gone.finished_reason = Finish("abort")
        scheduler.loop()
        self.assertEqual([r["output_tokens"] for r in self.lines()[2]], [2])

    def test_speculation_is_said(self):
        scheduler = self.scheduler(speculative_num_draft_tokens=4)
        reqs = [FakeReq("a", 5, 1), FakeReq("b", 7, 1)]
        spec = SimpleNamespace(is_none=lambda: False)
        run = batch("decode", reqs, spec_algorithm=spec)
        scheduler.process_batch_result(run, scheduler.run_batch(run))
        scheduler.loop()
        (step,) = self.lines()[1]
        self.assertEqual((step["drafted"], step["context_tokens"]), (8, 12))

    def test_one_file_of_each_data_parallel_rank(self):
        for tp_rank, dp_rank in (0, 0), (1, 0), (0, 1), (1, 1):
            self.scheduler(FakeReq("a", 4, 1), tp_rank=tp_rank, dp_rank=dp_rank).loop()
        names = sorted(path.name for path in self.path.parent.iterdir())
        self.assertEqual(names, ["steps.1.jsonl", "steps.jsonl"])

    def test_a_version_unlike_those_known_serves(self):
        class Bare(FakeScheduler):
            def get_next_batch_to_run(self):
                batch = super().get_next_batch_to_run()
                batch and delattr(batch, "prefix_lens")
                return batch

        bare, plain = FakeReq("a", 12, 3), FakeReq("a", 12, 3)
        del bare.time_stats
        for request, base, args in (
            (plain, Bare, {}),
            (bare, FakeScheduler, {}),
            (FakeReq("a", 12, 3), type("Rankless", (FakeScheduler,), {"attn_tp_size": None}), {}),
            (FakeReq("a", 12, 3), FakeScheduler, {"dp_rank": "none"}),
        ):
            with contextlib.redirect_stderr(io.StringIO()) as said:
                self.scheduler(request, base=base, **args).loop()
            self.assertEqual(len(request.output_ids), 3)
            lines = said.getvalue().count("tandem: no more steps")
            self.assertEqual(lines, 0 if base.attn_tp_size is None else 1)

    def test_a_full_disk_stops_no_engine(self):
        os.environ["TANDEM_STEPS"], request = "/dev/full", FakeReq("b", 4, 1)
        with contextlib.redirect_stderr(io.StringIO()) as said:
            scheduler = self.scheduler(FakeReq("a", 4, 1))
            scheduler.loop()
            scheduler.waiting.append(request)
            scheduler.loop()
        self.assertTrue(request.finished())
        self.assertEqual(said.getvalue().count("/dev/full: no more steps"), 1)

    def test_a_step_costs_little(self):
        wide = type("Wide", (FakeScheduler,), {"budget": 1024})

        def seconds(make):
            scheduler = make(wide)()
            scheduler.waiting += [FakeReq(str(i), 1, 200) for i in range(256)]
            began = time.process_time()
            scheduler.loop(overlap=True)
            return (time.process_time() - began) / 200

        added = min(seconds(sglang_steps.recording) - seconds(lambda base: base) for _ in range(3))
        self.assertLess(added / 256, 2e-6, "seconds a sequence and step")
        print(f"{1e9 * added / 256:.0f} ns a sequence and step", file=sys.stderr)

    def test_the_program_reads_them(self):
        self.scheduler(FakeReq("a", 12, 3)).loop(overlap=True)
        text = self.imported()
        self.assertIn("# engine: sglang", text)
        self.assertIn("llama3.1-8b,h100-80gb,2,iteration,", text)


STAND_IN = {
    "__init__": "",
    "srt/__init__": "",
    "launch_server": """
from argparse import ArgumentParser

def prepare_server_args(words):
    parser = ArgumentParser()
    parser.add_argument("--pp-size", type=int, default=1)
    parser.add_argument("--use-ray", action="store_true")
    parser.add_argument("--disaggregation-mode", default="null")
    return parser.parse_args(words)

def run_server(args):
    from sglang.srt.entrypoints.http_server import launch_server
    launch_server(args)

def kill_process_tree(pid, include_parent):
    print("swept", flush=True)
""",
    "srt/entrypoints/__init__": "",
    "srt/entrypoints/http_server": """
import multiprocessing
from sglang.srt.managers.scheduler import run_scheduler_process
from sglang.srt.observability.req_time_stats import APIServerReqTimeStats, between

def launch_server(server_args, run_scheduler_process_func=run_scheduler_process):
    context = multiprocessing.get_context("spawn")
    stats = APIServerReqTimeStats()
    children = [
        context.Process(target=run_scheduler_process_func, args=(server_args, stats)),
        context.Process(target=between, args=(run_scheduler_process_func, server_args, stats)),
    ]
    for child in children:
        child.start()
        child.join()
        print("ended", child.exitcode, flush=True)
""",
    "srt/managers/__init__": "",
    "srt/managers/scheduler": """
class Scheduler:
    def __init__(self, created):
        self.created = created

def run_scheduler_process(server_args, stats):
    print(Scheduler.__name__, Scheduler(stats.created_time).created, flush=True)
""",
    "srt/observability/__init__": "",
    "srt/observability/req_time_stats": """
import multiprocessing

class APIServerReqTimeStats:
    created_time = 0.0
    def __init__(self):
        self.created_time = 12.5
    def __getstate__(self):
        return {"enable_metrics": False}

class DPControllerReqTimeStats(APIServerReqTimeStats):
    def __init__(self, stats):
        self.created_time = stats.created_time
    def __getstate__(self):
        return {"enable_metrics": False}

def between(run, server_args, stats):
    args = server_args, DPControllerReqTimeStats(stats)
    child = multiprocessing.get_context("spawn").Process(target=run, args=args)
    child.start()
    child.join()
""",
}


class Launched(Case):
    """A package that starts processes where SGLang does."""

    def launch(self, *words):
        folder = self.path.parent / "stand_in"
        for name, text in STAND_IN.items():
            file = folder / "sglang" / (name + ".py")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        paths = os.pathsep.join((str(BACKENDS), str(folder)))
        return subprocess.run(
            [sys.executable, "-m", "sglang_steps", *words],
            env=os.environ | {"PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            timeout=STAND_IN_S,
        )

    def test_schedulers_have_pens_and_arrivals(self):
        done = self.launch()
        # Its scheduler has no ranks: that is said, by the process that a controller starts as well.
        self.assertEqual(done.stdout.split("\n")[:4], ["Recording 12.5", "ended 0"] * 2, done.stderr)
        self.assertEqual(done.stdout.split("\n")[4], "swept")
        self.assertEqual(done.stderr.count("tandem: no more steps"), 2)

    def test_what_is_refused(self):
        for words in ("--pp-size=2",), ("--use-ray",), ("--disaggregation-mode=prefill",):
            done = self.launch(*words)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            option = words[0].split("=")[0]
            self.assertIn(f"sglang_steps: {option}: steps of such a server", done.stderr)


def free_port():
    for port in range(20000 + os.getpid() % 1000, 50000, 1000):  # 0.5.14 takes one 10,000 above, too
        with socket.socket() as free, contextlib.suppress(OSError):
            free.bind(("127.0.0.1", port))
            return port


@unittest.skipUnless(importlib.util.find_spec("sglang"), "SGLang is not installed")
class Real(Case):
    """SGLang of whichever version is there, all of it but for the tokenizer."""

    OPTIONS = """--device cpu --load-format dummy --skip-tokenizer-init --mem-fraction-static 0.2
        --attention-backend torch_native --disable-cuda-graph --max-total-tokens 20000
        --context-length 2048 --chunked-prefill-size 64 --skip-server-warmup"""

    def start(self, *options):
        folder = self.path.parent
        shape = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2}
        shape |= {"num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 1000}
        shape |= {"head_dim": 16, "rms_norm_eps": 1e-5, "rope_theta": 1e4, "hidden_act": "silu"}
        shape |= {"model_type": "llama", "architectures": ["LlamaForCausalLM"]}
        shape |= {"torch_dtype": "bfloat16", "bos_token_id": 1, "eos_token_id": 2}
        (folder / "config.json").write_text(json.dumps(shape | {"max_position_embeddings": 4096}))
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        command = [sys.executable, "-m", "sglang_steps", "--model-path", str(folder)]
        command += [*self.OPTIONS.split(), "--port", str(port), *options]
        paths = os.pathsep.join((str(BACKENDS), os.environ.get("PYTHONPATH", "")))
        log = open(folder / "log", "w")
        self.addCleanup(log.close)
        server = subprocess.Popen(
            command, env=os.environ | {"PYTHONPATH": paths}, stdout=log, stderr=log
        )
        self.addCleanup(server.wait, 60)
        self.addCleanup(server.terminate)
        for _ in range(STARTING_S):
            with contextlib.suppress(OSError):
                return urllib.request.urlopen(self.url + "/health", timeout=9).close()
            if server.poll() is not None:
                break
            time.sleep(1)
        self.fail((folder / "log").read_text()[-3000:])

    def ask(self, ids, outputs):
        """When it was asked and answered, in microseconds of the schedulers' clock."""
        sampling = {"max_new_tokens": outputs, "ignore_eos": True}
        body = json.dumps({"input_ids": ids, "sampling_params": sampling}).encode()
        headers, asked = {"Content-Type": "application/json"}, time.perf_counter()
        request = urllib.request.Request(self.url + "/generate", body, headers)
        with urllib.request.urlopen(request, timeout=120) as answer:
            self.assertEqual(len(json.load(answer)["output_ids"]), outputs)
        return 1e6 * asked, 1e6 * time.perf_counter()

    def serve(self, *options):
        """One request, one that finds it in the cache, and five at once; without probes' steps."""
        self.start(*options)
        asked = [self.ask(list(range(10, 160)), 5), self.ask(list(range(10, 160)) + [7] * 20, 3)]
        crowd = [
            threading.Thread(target=self.ask, args=([100 + i] * (30 + 40 * i), 10 + 5 * i))
            for i in range(5)
        ]
        for thread in crowd:
            thread.start()
        for thread in crowd:
            thread.join()
        time.sleep(1)
        head, steps, requests = self.lines()
        self.assertEqual((head["engine"], head["chunked_prefill_size"]), ("sglang", 64))
        probes = [[[1, 0]], 0], [[], 2]  # and what was launched beside their end
        steps = [s for s in steps if [s["prefill"], s["context_tokens"]] not in probes]
        first, second = steps[:7], steps[7:]
        chunks = [[[64, 0]], [[64, 64]], [[22, 128]], [], [], [], []]
        self.assertEqual([step["prefill"] for step in first], chunks)
        contexts = [0, 0, 0, 151, 152, 153, 154]
        self.assertEqual([step["context_tokens"] for step in first], contexts)
        self.assertEqual([step["sampled"] for step in first], [0, 0, 1, 1, 1, 1, 1])
        self.assertIn([[20, 150]], [step["prefill"] for step in second[:2]])
        for request, (at, answered) in zip(requests, asked):
            self.assertLessEqual(at, request["arrived_us"] + 1e3)
            self.assertLessEqual(request["last_token_us"], answered + 100e3)  # sent before that
        served = {r["prompt_tokens"]: (r["cached_tokens"], r["output_tokens"]) for r in requests}
        want = {30 + 40 * i: (0, 10 + 5 * i) for i in range(1, 5)} | {30: (0, 10)}
        self.assertEqual(served, want | {150: (0, 25), 170: (150, 3)})
        self.assertEqual(len(requests), 7)  # two of 150 tokens
        prefilled = sum(new for step in steps for new, _ in step["prefill"])
        self.assertEqual(prefilled, 150 + 20 + 30 + 70 + 110 + 150 + 190)
        self.assertIn("# engine: sglang", self.imported("--model", "llama3.1-8b"))
        return steps, requests

    def test_overlapping(self):
        steps, _ = self.serve()
        self.assertGreaterEqual(sum(s["decode_seqs"] for s in steps), 4 + 2 + 9 + 14 + 19 + 24 + 29)

    def test_step_by_step(self):
        steps, requests = self.serve("--disable-overlap-schedule", "--enable-mixed-chunk")
        self.assertEqual(sum(s["decode_seqs"] for s in steps), 4 + 2 + 9 + 14 + 19 + 24 + 29)
        self.assertEqual(sum(s["sampled"] for s in steps), 5 + 3 + 10 + 15 + 20 + 25 + 30)
        gap = requests[0]["last_token_us"] - requests[0]["first_token_us"]
        self.assertAlmostEqual(gap, sum(step["us"] for step in steps[3:7]), delta=5)


if __name__ == "__main__":
    unittest.main()
