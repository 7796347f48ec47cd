/* A machine and a model whose times can be added up by hand. */
#ifndef TESTS_UNIT_SMALL_MODEL_H
#define TESTS_UNIT_SMALL_MODEL_H

/* 8 bytes a microsecond are reached of 10. */
static const char MACHINE[] = "gpu: slow\nsm: 90\nnum_gpus: 4\ngpu_memory_bytes: 1 GiB\n"
                              "dense_bf16_flops: 1e15\nhbm_bandwidth: 10 MB/s\n"
                              "nvlink_bandwidth: 1 GB/s\npcie_bandwidth: 1 GB/s\n"
                              "cpu_memory_bytes: 1 GiB\nnic_bandwidth: 1 GB/s\ngpu_tdp: 1 W\n";
static const char MODEL[] = "num_hidden_layers: 2\nhidden_size: 64\nnum_attention_heads: 4\n"
                            "num_key_value_heads: 2\nhead_dim: 16\nintermediate_size: 128\n"
                            "vocab_size: 100\nmax_position_embeddings: 4096\ngated_mlp: true\n"
                            "bias: false\ntie_word_embeddings: false\nlearned_positions: false\n"
                            "dtype_bytes: 2\n";
#endif
