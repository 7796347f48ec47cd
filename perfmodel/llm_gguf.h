/* The private part of llm.h that reads the head of a GGUF file (llama.cpp's container, versions 2
 * and 3, little-endian): a model's shape by its metadata and by which tensors there are.
 *
 * Weights count by the bytes that are there; windows of attention are not told apart, because
 * llama.cpp keeps all of the KV where sequences are cut. Refused: parts of a split model, latent
 * attention, heads or widths that differ between layers. A file of strangers: every length is held
 * against the size of the file, and messages say the byte. */
#ifndef PERFMODEL_LLM_GGUF_H
#define PERFMODEL_LLM_GGUF_H
#include "perfmodel/llm.h"

/* Fills the shape as the file says it; what follows from the rest is left 0 or LLM_UNSAID. −1 with
 * an entry; a file that cannot be read is DIAG_ENVIRONMENT. */
int llm_gguf_read(Llm *self, const char *path, Arena *arena, Diag *diag);
#endif
