"""What calib/backends/vllm_steps.py writes: of a scheduler with vLLM's interface, and of vLLM's own
where the package can be imported, step by step against what the scheduler decided; and that the
program reads it."""

import contextlib
import importlib.util
import io
import json
import os
import sys
import time
import types
import unittest

from steps_testing import Case

import vllm_steps


class Status:
    def __init__(self, name):
        self.name = name


class FakeRequest:
    def __init__(self, name, prompt, outputs):
        self.request_id, self.num_prompt_tokens, self.left = name, prompt, outputs
        self.num_tokens, self.num_output_tokens, self.num_computed_tokens = prompt, 0, 0
        self.arrival_time, self.status = time.time(), Status("RUNNING")


class FakeScheduler:
    """Prompts in chunks of at most `budget` tokens, decodes with them, as vLLM's has its fields."""

    budget = 8

    def __init__(self, vllm_config):
        self.requests, self.finished_req_ids = {}, set()

    def add_request(self, request):
        self.requests[request.request_id] = request

    def has_unfinished_requests(self):
        return bool(self.requests)

    def schedule(self):
        left, chosen = self.budget, {}
        for name, request in self.requests.items():
            new = min(left, request.num_tokens - request.num_computed_tokens)
            if new > 0:
                chosen[name] = new
                left -= new
                request.num_computed_tokens += new
        step = types.SimpleNamespace(
            num_scheduled_tokens=chosen,
            scheduled_spec_decode_tokens={},
            finished_req_ids=self.finished_req_ids,
        )
        self.finished_req_ids = set()
        return step

    def abort(self, name):
        self.requests.pop(name).status = Status("FINISHED_ABORTED")
        self.finished_req_ids.add(name)

    def update_from_output(self, step, output):
        for name in step.num_scheduled_tokens:
            request = self.requests.get(name)
            if request and request.num_computed_tokens == request.num_tokens:
                request.num_tokens += 1
                request.num_output_tokens += 1
                if request.num_output_tokens == request.left:
                    request.status = Status("FINISHED_LENGTH_CAPPED")
                    self.finished_req_ids.add(name)
                    del self.requests[name]
        return {}


def fake_config():
    return types.SimpleNamespace(
        model_config=types.SimpleNamespace(model="meta-llama/Llama-3.1-8B", dtype="torch.bfloat16"),
        parallel_config=types.SimpleNamespace(data_parallel_rank=0, tensor_parallel_size=2),
        cache_config=types.SimpleNamespace(cache_dtype="auto", block_size=16),
        scheduler_config=types.SimpleNamespace(max_num_batched_tokens=8, async_scheduling=True),
    )


class Fake(Case):
    def serve(self, pauses=()):
        scheduler = vllm_steps.recording(FakeScheduler)(fake_config())
        scheduler.add_request(FakeRequest("a", 12, 3))
        pauses = list(pauses)
        while scheduler.has_unfinished_requests():
            step = scheduler.schedule()
            time.sleep(pauses.pop(0) if pauses else 0)
            scheduler.update_from_output(step, None)
            if len(pauses) == 1:
                scheduler.add_request(FakeRequest("b", 5, 1))
        return scheduler

    def test_steps_are_what_was_scheduled(self):
        self.serve([0.02, 0.01, 0.01])
        head, steps, requests = self.lines()
        self.assertEqual(head["model"], "meta-llama/Llama-3.1-8B")
        self.assertEqual((head["dtype"], head["tensor_parallel_size"]), ("bfloat16", 2))
        self.assertEqual([step["prefill"] for step in steps], [[[8, 0]], [[4, 8]], [[5, 0]], []])
        self.assertEqual([step["decode_seqs"] for step in steps], [0, 0, 1, 1])
        self.assertEqual([step["context_tokens"] for step in steps], [0, 0, 13, 14])
        self.assertEqual([step["sampled"] for step in steps], [0, 1, 2, 1])
        self.assertGreaterEqual(steps[0]["us"], 20e3)
        self.assertEqual([r["prompt_tokens"] for r in requests], [5, 12])
        self.assertEqual([r["output_tokens"] for r in requests], [1, 3])
        b, a = requests
        self.assertEqual(b["first_token_us"], b["last_token_us"])
        # Steps without idling between them are as long as from one token to the next.
        gaps = a["last_token_us"] - a["first_token_us"]
        self.assertAlmostEqual(gaps, sum(step["us"] for step in steps[2:]), delta=3)

    def test_an_idle_engine_is_not_in_a_step(self):
        scheduler = self.serve()
        time.sleep(0.05)
        scheduler.add_request(FakeRequest("c", 2, 1))
        scheduler.update_from_output(scheduler.schedule(), None)
        _, steps, _ = self.lines()
        self.assertLess(steps[-1]["us"], 40e3)

    def test_steps_that_overlap_last_from_end_to_end(self):
        scheduler = vllm_steps.recording(FakeScheduler)(fake_config())
        scheduler.add_request(FakeRequest("a", 16, 1))
        first, second = scheduler.schedule(), scheduler.schedule()
        time.sleep(0.03)
        scheduler.update_from_output(first, None)
        time.sleep(0.02)
        scheduler.update_from_output(second, None)
        _, steps, _ = self.lines()
        self.assertEqual([step["prefill"] for step in steps], [[[8, 0]], [[8, 8]]])
        self.assertGreaterEqual(steps[0]["us"], 30e3)
        self.assertLess(steps[1]["us"], 30e3 + 15e3)

    def test_who_gives_up_is_not_served(self):
        scheduler = vllm_steps.recording(FakeScheduler)(fake_config())
        scheduler.add_request(FakeRequest("a", 4, 9))
        scheduler.add_request(FakeRequest("b", 4, 2))
        scheduler.update_from_output(scheduler.schedule(), None)
        scheduler.abort("a")
        while scheduler.has_unfinished_requests():
            scheduler.update_from_output(scheduler.schedule(), None)
        self.assertEqual([r["output_tokens"] for r in self.lines()[2]], [2])
        self.assertEqual(scheduler._open, {})

    def test_a_full_disk_stops_no_engine(self):
        for path in "/dev/full", "/no/such/folder/steps.jsonl":
            os.environ["TANDEM_STEPS"] = path
            with contextlib.redirect_stderr(io.StringIO()) as said:
                scheduler = self.serve()
                scheduler.add_request(FakeRequest("c", 2, 1))
                scheduler.update_from_output(scheduler.schedule(), None)
            self.assertEqual(said.getvalue().count(f"tandem: {path}: no more steps"), 1)

    def test_a_step_costs_little(self):
        FakeScheduler.budget, budget = 1024, FakeScheduler.budget
        self.addCleanup(setattr, FakeScheduler, "budget", budget)

        def seconds(make):
            scheduler = make(fake_config())
            for i in range(256):
                scheduler.add_request(FakeRequest(str(i), 1, 200))
            began = time.process_time()
            while scheduler.has_unfinished_requests():
                scheduler.update_from_output(scheduler.schedule(), None)
            return (time.process_time() - began) / 200

        added = min(
            seconds(vllm_steps.recording(FakeScheduler)) - seconds(FakeScheduler) for _ in range(3)
        )
        self.assertLess(added / 256, 2e-6, "seconds a sequence and step")
        print(f"{1e9 * added / 256:.0f} ns a sequence and step", file=sys.stderr)

    def test_the_program_reads_them(self):
        self.serve()
        text = self.imported()
        self.assertIn("# engine: vllm", text)
        self.assertIn("llama3.1-8b,h100-80gb,2,iteration,", text)


@unittest.skipUnless(importlib.util.find_spec("vllm"), "vLLM is not installed")
class Real(Case):
    """vLLM's own scheduler, of whichever version is there; the model's part is played by the test."""

    def scheduler(self, is_async):
        from vllm.config import CacheConfig, DeviceConfig, ModelConfig, SchedulerConfig, VllmConfig
        from vllm.v1.core.kv_cache_utils import init_none_hash
        from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
        from vllm.v1.structured_output import StructuredOutputManager
        import torch

        folder = self.path.parent / "model"
        folder.mkdir(exist_ok=True)
        shape = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2}
        shape |= {"num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 1000}
        shape |= {"model_type": "llama", "architectures": ["LlamaForCausalLM"]}
        (folder / "config.json").write_text(json.dumps(shape | {"max_position_embeddings": 4096}))
        model = ModelConfig(model=str(folder), skip_tokenizer_init=True, dtype="float16")
        cache = CacheConfig(block_size=16, enable_prefix_caching=True)
        cache.num_gpu_blocks = 2000
        chosen = SchedulerConfig(
            max_num_seqs=16,
            max_num_batched_tokens=64,
            max_model_len=4096,
            enable_chunked_prefill=True,
            is_encoder_decoder=False,
            async_scheduling=is_async,
            scheduler_cls="vllm_steps.Steps",
        )
        config = VllmConfig(
            model_config=model,
            cache_config=cache,
            scheduler_config=chosen,
            device_config=DeviceConfig(device="cpu"),
        )
        spec = FullAttentionSpec(block_size=16, num_kv_heads=2, head_size=16, dtype=torch.float16)
        blocks = KVCacheConfig(
            num_blocks=2000,
            kv_cache_tensors=[],
            kv_cache_groups=[KVCacheGroupSpec(["layer"], spec)],
        )
        init_none_hash(lambda value: repr(value).encode())
        return config.scheduler_config.get_scheduler_cls()(
            vllm_config=config,
            kv_cache_config=blocks,
            structured_output_manager=StructuredOutputManager(config),
            block_size=16,
            log_stats=True,
        )

    def serve(self, is_async):
        from vllm import SamplingParams
        from vllm.v1.outputs import ModelRunnerOutput
        from vllm.v1.request import Request

        scheduler = self.scheduler(is_async)
        for name, prompt, outputs in (("a", 100, 5), ("b", 30, 3), ("c", 7, 4)):
            parameters = SamplingParams(max_tokens=outputs, ignore_eos=True)
            scheduler.add_request(Request(name, list(range(prompt)), parameters, None))
        computed, want, queue = dict.fromkeys("abc", 0), [], []
        prompts = {"a": 100, "b": 30, "c": 7}
        while scheduler.has_unfinished_requests() or queue:
            if len(queue) < 1 + is_async and scheduler.has_unfinished_requests():
                step = scheduler.schedule()
                if step.num_scheduled_tokens:
                    want.append([])
                for name, new in step.num_scheduled_tokens.items():
                    want[-1].append((name, new, computed[name]))
                    computed[name] += new
                queue.append((step, dict(computed)))
                continue
            done, after = queue.pop(0)
            names = list(done.num_scheduled_tokens)
            output = ModelRunnerOutput(
                req_ids=names,
                req_id_to_index={name: i for i, name in enumerate(names)},
                sampled_token_ids=[[1] if after[name] >= prompts[name] else [] for name in names],
            )
            scheduler.update_from_output(done, output)
        return want, prompts

    def check(self, is_async):
        want, prompts = self.serve(is_async)
        head, steps, requests = self.lines()
        self.assertEqual(head["max_num_batched_tokens"], 64)
        self.assertEqual(len(steps), len(want))
        for step, chosen in zip(steps, want):
            decodes = [past + 1 for name, new, past in chosen if past >= prompts[name]]
            chunks = [[new, past] for name, new, past in chosen if past < prompts[name]]
            self.assertEqual(step["prefill"], chunks)
            self.assertEqual(step["decode_seqs"], len(decodes))
            self.assertEqual(step["context_tokens"], sum(decodes))
        served = {r["prompt_tokens"]: r["output_tokens"] for r in requests}
        self.assertEqual(served, {100: 5, 30: 3, 7: 4})

    def test_scheduled_one_step_ahead(self):
        self.check(True)

    def test_scheduled_step_by_step(self):
        self.check(False)


if __name__ == "__main__":
    unittest.main()
