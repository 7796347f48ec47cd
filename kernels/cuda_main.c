/* tandem-calib-cuda: the backend, or as `--rank` the process of another GPU of its group. */
#include "calib/serve.h"
#include "kernels/cuda_rank.h"
#include <string.h>

extern const Backend backend_cuda;

int main(int argc, char **argv) {
  if (argc == 2 && strcmp(argv[1], "--rank") == 0) return rank_serve(RANK_SOCKET);
  return serve(&backend_cuda);
}
