/* Facts of the GPU that a row of a profile names, from whichever machine has it. */
#ifndef PERFMODEL_GPU_FACTS_H
#define PERFMODEL_GPU_FACTS_H
#include "perfmodel/hardware.h"

/* The first machine of data_dir/machines/, in order of names, whose `gpu` this is. False when there
 * is none; nothing is reported. */
bool gpu_facts_find(Hardware *ret_hardware, const char *gpu, const char *data_dir, Arena *arena);
/* Whether a GPU is called by a word: "h100-80gb" is an h100. */
bool gpu_is_called(const char *gpu, const char *word);
/* Tandem's name for the GPU that a driver calls so: "h100-80gb" for "NVIDIA H100 80GB HBM3", words
 * joined by dashes for one that it does not know. */
const char *gpu_facts_name(const char *device, Arena *arena);
#endif
