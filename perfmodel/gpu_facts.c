/* Machines by GPU: there are few, so each is loaded until one has it. */
#include "perfmodel/gpu_facts.h"
#include "perfmodel/datafile.h"
#include <ctype.h>
#include <string.h>

bool gpu_facts_find(Hardware *ret_hardware, const char *gpu, const char *data_dir, Arena *arena) {
  bool found = false;
  Diag diag;
  diag_init(&diag);
  const char *const *names = datafile_names(data_dir, "machines", arena);
  for (; *names && !found; names++)
    found = hardware_load(ret_hardware, *names, data_dir, place_of_file(NULL), arena, &diag) == 0 &&
            strcmp(ret_hardware->gpu, gpu) == 0;
  diag_done(&diag);
  return found;
}

bool gpu_is_called(const char *gpu, const char *word) {
  const size_t length = strlen(word);
  return strncmp(gpu, word, length) == 0 && (gpu[length] == '\0' || gpu[length] == '-');
}

/* As drivers say it, and the key. */
static const char *const names[][2] = {
    {"NVIDIA A10", "a10"},
    {"NVIDIA L4", "l4"},
    {"NVIDIA L40S", "l40s-48gb"},
    {"NVIDIA A100-SXM4-40GB", "a100-40gb"},
    {"NVIDIA A100-PCIE-40GB", "a100-40gb-pcie"},
    {"NVIDIA A100-SXM4-80GB", "a100-80gb"},
    {"NVIDIA A100 80GB PCIe", "a100-80gb-pcie"},
    {"NVIDIA H100 80GB HBM3", "h100-80gb"},
    {"NVIDIA H100 PCIe", "h100-80gb-pcie"},
    {"NVIDIA H200", "h200-141gb"},
    {"NVIDIA H20", "h20-96gb"},
    {"NVIDIA H20-3e", "h20-141gb"},
    {"NVIDIA GH200 144G HBM3e", "gh200-144gb"},
    {"NVIDIA B200", "b200-180gb"},
    {"NVIDIA B300 SXM6 AC", "b300-288gb"},
    {"NVIDIA GeForce RTX 4090", "rtx-4090-24gb"},
    {"NVIDIA RTX PRO 6000 Blackwell Server Edition", "rtx-pro-6000-96gb"},
    {"NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "rtx-pro-6000-96gb"},
};

const char *gpu_facts_name(const char *device, Arena *arena) {
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(names[i][0], device) == 0) return names[i][1];
  if (strncmp(device, "NVIDIA ", 7) == 0) device += 7;
  char *name = arena_copy(arena, device, strlen(device)), *end = name;
  for (const char *at = device; *at; at++) {
    if (isalnum((unsigned char)*at))
      *end++ = (char)tolower((unsigned char)*at);
    else if (end > name && end[-1] != '-')
      *end++ = '-';
  }
  while (end > name && end[-1] == '-')
    end--;
  *end = '\0';
  return name;
}
