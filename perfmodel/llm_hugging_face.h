/* The private part of llm.h that reads Hugging Face's config.json: which of its many keys say what,
 * for families of models as rows of a table (llm_families.c).
 *
 * Of a file with towers for pictures or sound the language model is taken, as where it is served
 * for text alone. Recurrent layers are refused by name, except those of known families. What it
 * says of number formats, or an hf_quant_config.json beside it, is read by llm_quantization.c. */
#ifndef PERFMODEL_LLM_HUGGING_FACE_H
#define PERFMODEL_LLM_HUGGING_FACE_H
#include "perfmodel/llm.h"

/* What the architecture says that no key of its config.json may. */
typedef struct LlmFamily {
  const char *model_type;   // without _vl and _text
  Llm facts;                // what counts unless a key says otherwise
  int64_t mlp_factor;       // intermediate_size is so many times hidden_size; 0: a key says it
  int64_t n_shared_experts; // unless a key says it
  int64_t full_every; // each so many-th layer sees all tokens, the others a window; 0: all have one
  bool wide_experts;  // intermediate_size is that of an expert
  bool mlp_halved;    // intermediate_size is of gate and up together
  bool linear;        // some layers have linear attention, of the kind of `facts`
  bool parallel_mlp;  // the MLP of a layer stands beside its experts: a shared expert
} LlmFamily;

/* Ended by a row without a name. */
extern const LlmFamily llm_families[];

/* Binds the shape; fields that the file leaves open stay 0. */
int llm_hugging_face_bind(Llm *self, const Node *root, Arena *arena, Diag *diag);
/* Number formats of a shape that is complete; where there are none they stay LLM_UNSAID. */
int llm_hugging_face_formats(Llm *self, const Node *root, Arena *arena, Diag *diag);
/* The value of a key, NULL when it is absent or null. */
const Node *llm_find_set(const Node *map, const char *key);
/* The `quantization` of the hf_quant_config.json that lies beside `path` under the same prefix;
 * *ret_node stays as it is when there is none. */
int llm_quantization_beside(const char *path, const Node **ret_node, Arena *arena, Diag *diag);
/* Dtypes and part_bytes of a complete shape by a quantization_config. */
int llm_quantization_bind(Llm *self, const Node *config, bool parallel_mlp, Arena *arena,
                          Diag *diag);

/* The rows of our own form, which limit numbers here, too. */
extern const OptionSpec llm_options[];
#endif
