/* Names as the driver reports them, checked against none but those of the H200: the others are the
 * vendor's published product names. */
#include "calib/gpu_name.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

typedef struct GpuName {
  const char *device_name;
  double most_gb; // of devices that share the name; 0: any
  const char *key;
} GpuName;

static const GpuName gpu_names[] = {
    {"NVIDIA A10", 0, "a10"},
    {"NVIDIA L4", 0, "l4"},
    {"NVIDIA A100-SXM4-40GB", 0, "a100-40gb"},
    {"NVIDIA A100-PCIE-40GB", 0, "a100-40gb-pcie"},
    {"NVIDIA A100-SXM4-80GB", 0, "a100-80gb"},
    {"NVIDIA A100 80GB PCIe", 0, "a100-80gb-pcie"},
    {"NVIDIA H100 80GB HBM3", 0, "h100-80gb"},
    {"NVIDIA H100 PCIe", 0, "h100-80gb-pcie"},
    {"NVIDIA H200", 0, "h200-141gb"},
    {"NVIDIA H20", 0, "h20-96gb"},
    {"NVIDIA H20-3e", 0, "h20-141gb"},
    {"NVIDIA GH200 480GB", 110, "gh200-96gb"},
    {"NVIDIA GH200 480GB", 0, "gh200-144gb"},
    {"NVIDIA GH200 144G HBM3e", 0, "gh200-144gb"},
    {"NVIDIA B200", 0, "b200-180gb"},
};

/* "NVIDIA RTX 6000 Ada" is rtx-6000-ada. */
static void join_words(const char *name, char *ret_key, size_t size) {
  size_t length = 0;
  if (strncmp(name, "NVIDIA ", 7) == 0) name += 7;
  for (; *name && length + 1 < size; name++) {
    if (isalnum((unsigned char)*name))
      ret_key[length++] = (char)tolower((unsigned char)*name);
    else if (length > 0 && ret_key[length - 1] != '-')
      ret_key[length++] = '-';
  }
  if (length > 0 && ret_key[length - 1] == '-') length--;
  ret_key[length] = '\0';
  if (length == 0) snprintf(ret_key, size, "gpu");
}

void gpu_key(const char *device_name, int64_t memory_bytes, char *ret_key, size_t size) {
  for (size_t i = 0; i < sizeof gpu_names / sizeof gpu_names[0]; i++) {
    const GpuName *name = &gpu_names[i];
    if (strcmp(name->device_name, device_name) != 0) continue;
    if (name->most_gb > 0 && (double)memory_bytes > name->most_gb * 1e9) continue;
    snprintf(ret_key, size, "%s", name->key);
    return;
  }
  join_words(device_name, ret_key, size);
}

uint64_t throttle_reasons(uint64_t nvml_reasons) {
  const uint64_t idle = 0x1, set_by_owner = 0x2, display = 0x100;
  return nvml_reasons & ~(idle | set_by_owner | display);
}
