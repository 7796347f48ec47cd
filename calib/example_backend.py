#!/usr/bin/env python3
"""A backend: an engine of whole iterations as calib/PROTOCOL.md has it, here one that is made up.

Each request is a JSON object on a line of standard input, each answer one on standard output. What
else is printed goes to standard error, because standard output is the pipe.
"""
import json
import os
import sys
import time

answers = os.fdopen(os.dup(1), 'w')
os.dup2(2, 1)


class Refused(Exception):
    """What cannot be run, but leaves everything else as it was."""


class Engine:
    """Replace this by your own: `load` a model, `run` a batch and say how long it took."""

    def __init__(self, options):
        if options['device'] != 0:
            raise OSError(f"there is no device {options['device']}")
        self.noise = options['seed']

    def load(self, model):
        if model['tensor_parallel_size'] != 1:
            raise Refused('this engine runs whole models: tensor_parallel_size 1')
        width = model['num_key_value_heads'] * model['head_dim']
        self.token_s = 2e-13 * model['num_hidden_layers'] * model['hidden_size'] ** 2
        self.context_s = 5e-12 * model['num_hidden_layers'] * width

    def run(self, sequences, n_prefills):
        tokens = sum(new for new, past in sequences)
        seen = sum(new * (past + new / 2) for new, past in sequences[:n_prefills])
        read = sum(past + 1 for new, past in sequences[n_prefills:])
        seconds = 3e-5 + self.token_s * tokens + self.context_s * (0.01 * seen + read)
        self.noise = (self.noise * 1103515245 + 12345) % 2**31  # a clock is never still
        time.sleep(float(os.environ.get('ENGINE_PACE', 0)))
        return seconds * (1 + 0.002 * (self.noise / 2**31 - 0.5))


def hello(request):
    return {'protocol': 1, 'name': 'example', 'help': 'an engine that is made up'}


def open_device(request):
    global engine
    engine = Engine(request)
    return {'name': 'Example device', 'gpu': 'example', 'library': 'example 1.0',
            'memory_bytes': 8 << 30}


def load(request):
    engine.load(request)
    return {}


def run_batch(request):
    return {'seconds': engine.run(request['sequences'], request['n_prefills'])}


calls = {'hello': hello, 'open': open_device, 'load': load, 'run_batch': run_batch}

for line in sys.stdin:
    request = json.loads(line)
    try:
        answer = calls[request['call']](request)
    except Refused as why:
        answer = {'status': 'rejected', 'error': str(why)}
    except MemoryError as why:
        answer = {'status': 'out_of_memory', 'error': str(why)}
    except OSError as why:
        answer = {'status': 'environment', 'error': str(why)}
    print(json.dumps(answer), file=answers, flush=True)
