"""A scheduler in Python: an object whose methods answer what batcher vllm asks of a proposal."""

from __future__ import annotations

import os
import threading
from types import TracebackType
from typing import Any, Callable, NamedTuple, Optional

TICKS_PER_SECOND = 10**12
"""Times that a proposal is given are whole numbers of ticks."""

HOOKS = "rank", "prefill_tokens", "prefill_seqs"


class View(NamedTuple):
    """The instance that decides."""

    now: int
    """Ticks."""
    block_size: int
    """Tokens in a KV block."""
    waiting: int
    """Requests that wait for prefill, with those whose prefill has begun."""
    free_blocks: int
    """KV blocks that nobody holds."""


class Waiting(NamedTuple):
    """A request that waits, and whose prefill has not begun."""

    arrived_at: int
    """Ticks."""
    prompt_tokens: int
    max_tokens: int
    """Output tokens that its client allows."""
    output_tokens: int
    """Output tokens that it will make, which no engine knows."""
    priority: int
    hit_blocks: int
    """KV blocks of its prompt that the prefix cache has."""


class Caller:
    """Answers the program's questions with an object, in a thread, while it is entered."""

    def __init__(self, proposal: Any) -> None:
        hooks = [name for name in HOOKS if callable(getattr(proposal, name, None))]
        if not hooks:
            raise TypeError(f"a proposal has one of the methods {', '.join(HOOKS)}")
        self.raised: Optional[BaseException] = None
        """What the object raised."""
        self._proposal = proposal
        asked, questions = os.pipe()
        answers, answered = os.pipe()
        self.pass_fds = answers, questions
        """For the program."""
        self.option = f"--proposal-caller={answers},{questions},{','.join(hooks)}"
        self._files = os.fdopen(asked), os.fdopen(answered, "w")
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Caller:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        for fd in self.pass_fds:
            os.close(fd)  # the program has ended: the thread finds the end of the questions
        self._thread.join()

    def _answer(self, line: str) -> str:
        hook, *texts = line.split()
        numbers = [int(text) for text in texts]
        method: Callable[..., Any] = getattr(self._proposal, hook)
        if hook == "rank":
            now, *request = numbers[:7]
            rank = method(View(now, *numbers[7:]), Waiting(*request))
            return repr(float(rank))
        return str(int(method(View(*numbers))))

    def _serve(self) -> None:
        asked, answered = self._files
        with asked, answered:
            for line in asked:
                try:
                    answer = self._answer(line)
                except BaseException as error:  # the run ends with it
                    self.raised = error
                    said = f"{type(error).__name__}: {error}".replace("\n", " ")
                    answer = f"!the proposal raised {said[:300]}"
                try:
                    print(answer, file=answered, flush=True)
                except OSError:
                    return
