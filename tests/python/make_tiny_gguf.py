#!/usr/bin/env python3
"""Writes a Llama of random fp16 weights as GGUF version 3, without a vocabulary, for tests.

    make_tiny_gguf.py FILE [--layers 2] [--hidden 128] [--heads 4] [--kv-heads 2] [--ffn 352]
                      [--vocab 512] [--context 4096] [--seed 0]
"""
import argparse
import random
import struct

UINT32, FLOAT32, STRING = 4, 6, 8
F32, F16 = 0, 1
ALIGNMENT = 32


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def pair(key, kind, value):
    packed = text(value) if kind == STRING else struct.pack("<I" if kind == UINT32 else "<f", value)
    return text(key) + struct.pack("<I", kind) + packed


def metadata(o):
    name = "llama."
    return [
        pair("general.architecture", STRING, "llama"),
        pair("general.file_type", UINT32, 1),
        pair(name + "context_length", UINT32, o.context),
        pair(name + "embedding_length", UINT32, o.hidden),
        pair(name + "block_count", UINT32, o.layers),
        pair(name + "feed_forward_length", UINT32, o.ffn),
        pair(name + "attention.head_count", UINT32, o.heads),
        pair(name + "attention.head_count_kv", UINT32, o.kv_heads),
        pair(name + "attention.layer_norm_rms_epsilon", FLOAT32, 1e-5),
        pair(name + "rope.dimension_count", UINT32, o.hidden // o.heads),
        pair(name + "vocab_size", UINT32, o.vocab),
        pair("tokenizer.ggml.model", STRING, "no_vocab"),
    ]


def tensors(o):
    """Name, dimensions from the innermost, type."""
    kv = o.hidden // o.heads * o.kv_heads
    yield "token_embd.weight", (o.hidden, o.vocab), F16
    yield "output.weight", (o.hidden, o.vocab), F16
    yield "output_norm.weight", (o.hidden,), F32
    for i in range(o.layers):
        layer = f"blk.{i}."
        yield layer + "attn_norm.weight", (o.hidden,), F32
        yield layer + "ffn_norm.weight", (o.hidden,), F32
        yield layer + "attn_q.weight", (o.hidden, o.hidden), F16
        yield layer + "attn_k.weight", (o.hidden, kv), F16
        yield layer + "attn_v.weight", (o.hidden, kv), F16
        yield layer + "attn_output.weight", (o.hidden, o.hidden), F16
        yield layer + "ffn_gate.weight", (o.hidden, o.ffn), F16
        yield layer + "ffn_up.weight", (o.hidden, o.ffn), F16
        yield layer + "ffn_down.weight", (o.ffn, o.hidden), F16


def count(dimensions):
    n = 1
    for d in dimensions:
        n *= d
    return n


def padding(size):
    return -size % ALIGNMENT


def values(kind, n, pool, rng):
    """Norms are ones; other weights begin anywhere in a pool of random numbers."""
    if kind == F32:
        return struct.pack("<f", 1.0) * n
    begin = 2 * rng.randrange(len(pool) // 2)
    return ((pool[begin:] + pool[:begin]) * (2 * n // len(pool) + 1))[: 2 * n]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file")
    sizes = {"layers": 2, "hidden": 128, "heads": 4, "kv-heads": 2, "ffn": 352, "vocab": 512,
             "context": 4096, "seed": 0}
    for key, fallback in sizes.items():
        parser.add_argument("--" + key, type=int, default=fallback)
    o = parser.parse_args()
    rng = random.Random(o.seed)
    pool = struct.pack("<65537e", *(rng.gauss(0, 0.02) for _ in range(65537)))  # a prime
    pairs, all_tensors, offset, infos = metadata(o), list(tensors(o)), 0, []
    for name, dimensions, kind in all_tensors:
        infos.append(text(name) + struct.pack(f"<I{len(dimensions)}QIQ", len(dimensions),
                                              *dimensions, kind, offset))
        size = count(dimensions) * (4 if kind == F32 else 2)
        offset += size + padding(size)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(infos), len(pairs)) + b"".join(pairs + infos)
    with open(o.file, "wb") as out:
        out.write(head + bytes(padding(len(head))))
        for _, dimensions, kind in all_tensors:
            data = values(kind, count(dimensions), pool, rng)
            out.write(data + bytes(padding(len(data))))


if __name__ == "__main__":
    main()
