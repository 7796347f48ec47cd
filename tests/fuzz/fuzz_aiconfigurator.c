/* Tables of AIConfigurator of any bytes: the first says which table ('0' the first of FILES), the
 * rest is the file, and the others are sound. Those of experts and of latent attention are for a
 * model that has both, its experts spread over two GPUs; those of whole layers and of the head are
 * Tandem's. What is refused has an entry, what is not has none; what is composed has positive
 * times. */
#include "perfmodel/import/import.h"
#include "tests/fuzz/files.h"
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ATTENTION "kv_cache_dtype,head_dim,num_heads,num_key_value_heads,batch_size,isl,step,"

#define LATENT "kv_cache_dtype,num_heads,"

static const struct {
  const char *name, *sound;
} FILES[] = {
    {"gemm.csv", "gemm_dtype,m,n,k,latency_us\nbfloat16,1,64,64,1e3\nbfloat16,64,4096,4096,2e3\n"},
    {"context_attention.csv", ATTENTION "latency_us\nbfloat16,128,32,4,1,16,0,10\n"},
    {"generation_attention.csv", ATTENTION "latency_us\nbfloat16,128,32,4,1,1,7,10\n"},
    {"custom_allreduce.csv", "variant,num_gpus,message_size,latency_us\nvllm_graph,2,128,5\n"},
    {"moe.csv", "moe_dtype,hidden_size,inter_size,topk,num_experts,moe_tp_size,moe_ep_size,"
                "distribution,num_tokens,latency_us\n"
                "bfloat16,64,32,2,8,1,2,balanced,1,10\nbfloat16,64,32,2,8,1,2,balanced,64,20\n"},
    {"context_mla.csv", LATENT "batch_size,isl,latency_us\nbfloat16,2,1,16,10\n"},
    {"generation_mla.csv", LATENT "batch_size,isl,step,latency_us\nbfloat16,2,1,1,7,10\n"},
    {"mla_bmm.csv", "op_name,bmm_dtype,num_heads,num_tokens,latency_us\n"
                    "mla_gen_pre,bfloat16,2,1,1\nmla_gen_post,bfloat16,2,1,1\n"},
    {"linear.csv", "gemm_dtype,hidden_size,num_heads,num_key_value_heads,head_dim,inter_size,gated,"
                   "num_tokens=1,num_tokens=64\nbfloat16,8192,32,4,128,14336,1,100,200\n"},
    {"head.csv", "gemm_dtype,hidden_size,vocab_size,num_tokens=1\nbfloat16,8192,64128,300\n"},
};
enum { N_FILES = sizeof FILES / sizeof *FILES, KINDS = 16, FIRST_LATENT = 4, FIRST_WHOLE = 8 };

static const char MODEL[] =
    "num_hidden_layers: 2\nhidden_size: 64\nnum_attention_heads: 4\nvocab_size: 100\n"
    "intermediate_size: 128\nmax_position_embeddings: 4096\ngated_mlp: true\n"
    "kv_lora_rank: 16\nqk_nope_head_dim: 8\nqk_rope_head_dim: 8\nv_head_dim: 8\n"
    "num_experts: 8\nnum_experts_per_tok: 2\nmoe_intermediate_size: 32\nnum_dense_layers: 1\n"
    "shared_expert_intermediate_size: 32\n";

static void import_folder(int kind, Arena *arena) {
  const bool latent = kind >= FIRST_LATENT && kind < FIRST_WHOLE;
  const char *source = getenv("TANDEM_SOURCE_DIR");
  const ImportInput input = {
      .path = fuzz_folder(),
      .model = latent ? fuzz_file("model.yaml", MODEL, sizeof MODEL - 1) : "llama3-70b",
      .machine = "dgx-h100",
      .engine = kind < FIRST_WHOLE ? "vllm" : "tandem-1.0",
      .tensor_parallel_size = 2,
      .expert_parallel_size = latent ? 2 : 1,
      .data_dir = arena_printf(arena, "%s/perfmodel", source ? source : "."),
  };
  Diag diag;
  Profile profile;
  diag_init(&diag);
  profile_init(&profile, input.path, arena);
  const int status = import_profile(importer_find("aiconfigurator"), &input, &profile, &diag);
  assert((status < 0) == (diag.n_entries > 0));
  for (size_t i = 0; status == 0 && i < profile.n_rows; i++) {
    const ProfileRow *row = &profile.rows[i];
    assert(row->median_us > 0 && isfinite(row->median_us) && row->configuration >= 1);
    assert(row->batch.prefill_area2 >= 0 && row->batch.context_tokens >= 0);
  }
  diag_done(&diag);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0) return 0;
  const int kind = data[0] % KINDS; // of those beyond FILES all are sound
  for (int i = 0; i < N_FILES; i++)
    if (i == kind)
      fuzz_file(FILES[i].name, data + 1, size - 1);
    else
      fuzz_file(FILES[i].name, FILES[i].sound, strlen(FILES[i].sound));
  Arena arena;
  arena_init(&arena);
  import_folder(kind, &arena);
  arena_done(&arena);
  return 0;
}
