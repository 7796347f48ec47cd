/* Algorithms of products, kept from run to run: chosen by time once, and then what was chosen, also
 * where another would be faster now; chosen anew where the file is another device's, damaged, or
 * names what cuBLASLt does not accept. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/gemm.h"
#include "tests/kernels/cublaslt_fake.h"
#include "tests/kernels/cuda_runtime_fake.h"
#include "tests/kernels/kernel_testing.h"

static const GemmShape SHAPE = {3, 16, 24, CALIB_BF16, GEMM_BIAS, CALIB_WEIGHTS_PLAIN};
static const CalibDevice DEVICE = {.name = "NVIDIA H200",
                                   .driver = "580.1",
                                   .runtime = "CUDA 13.0",
                                   .library = "cuBLASLt 13.0.0",
                                   .n_units = 132};
static char folder[64], path[256];
static char note[160];

/* The one file in the folder. */
static void find_file(void) {
  DIR *open = opendir(folder);
  path[0] = '\0';
  for (struct dirent *entry; open && (entry = readdir(open));)
    if (entry->d_name[0] != '.') {
      expect_true(path[0] == '\0', "one file");
      snprintf(path, sizeof path, "%s/%.180s", folder, entry->d_name);
    }
  if (open) closedir(open);
}

/* A run of one product with what the folder has; what it ran by. */
static const char *run(const CalibDevice *device) {
  static char algorithm[GEMM_ALGORITHM_SIZE];
  static uint16_t a[3 * 24], w[16 * 24], bias[16], c[3 * 16];
  static uint32_t flush[1024], workspace[64];
  char error[GEMM_ERROR_SIZE] = "";
  Gemm *gemm = NULL;
  GemmChoices *choices = gemm_choices_open(folder, device, note, sizeof note);
  const GemmMemory memory = {.workspace = workspace,
                             .workspace_bytes = sizeof workspace,
                             .flush = flush,
                             .flush_bytes = sizeof flush,
                             .choices = choices};
  expect_true(gemm_open(&gemm, &memory, error) == 0, "open: %s", error);
  expect_true(gemm_run(gemm, NULL, &SHAPE, c, a, w, bias, error) == 0, "run: %s", error);
  snprintf(algorithm, sizeof algorithm, "%s", gemm_algorithm(gemm, &SHAPE));
  gemm_close(gemm);
  gemm_choices_close(choices);
  return algorithm;
}

static void expect_run(const char *algorithm, int64_t proposals, const char *says,
                       const CalibDevice *device) {
  fake_blas_take_proposals();
  const char *ran = run(device);
  expect_true(strstr(ran, algorithm) != NULL, "it runs by '%s', not '%s'", ran, algorithm);
  const int64_t asked = fake_blas_take_proposals();
  expect_true(asked == proposals, "asked %d times, not %d", (int)asked, (int)proposals);
  expect_true(*says ? strstr(note, says) != NULL : *note == '\0', "note '%s'", note);
}

static void write_file(const char *text) {
  FILE *file = fopen(path, "w");
  if (!file) exit(1);
  fputs(text, file);
  fclose(file);
}

static char *read_file(void) {
  static char text[2048];
  FILE *file = fopen(path, "r");
  if (!file) exit(1);
  text[fread(text, 1, sizeof text - 1, file)] = '\0';
  fclose(file);
  return text;
}

static void test_kept(void) {
  fake_blas_set_fastest(8);
  expect_run("algo 8 tile 21 ", 1, "", &DEVICE);
  find_file();
  fake_blas_set_fastest(9); // and yet
  expect_run("algo 8 tile 21 ", 0, "", &DEVICE);
  expect_run("best of 3", 0, "", &DEVICE);
  CalibDevice other = DEVICE; // its file is another
  snprintf(other.driver, sizeof other.driver, "590.1");
  expect_run("algo 9 tile 22 ", 1, "", &other);
  expect_run("algo 9 tile 22 ", 0, "", &other);
  expect_run("algo 8 tile 21 ", 0, "", &DEVICE);
}

/* What cuBLASLt does not accept is measured, and kept in its place. */
static void test_refused(void) {
  static const char *const numbers[] = {"5 18 0 0 0 0 0 0 0", "8 20 0 0 0 0 0 0 0",
                                        "8 21 0 70000 0 0 0 0 0", "4294967295 0 0 0 0 0 0 0 0",
                                        "8 21 0 0 0 2 0 0 0"}; // more workspace than there is
  char text[2048], good[2048];
  snprintf(good, sizeof good, "%s", read_file());
  const int head = (int)(strstr(good, "\n3 16 24") + 1 - good);
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    snprintf(text, sizeof text, "%.*s3 16 24 0 1 0 %s 3\n", head, good, numbers[i]);
    write_file(text);
    fake_blas_set_fastest(7);
    expect_run("algo 7 tile 20 ", 1, "", &DEVICE);
    expect_run("algo 7 tile 20 ", 0, "", &DEVICE);
  }
  write_file(good);
}

static void test_strange_files(void) {
  static const char *const lines[] = {"3 16 24 0 1 0 8 21 0 0 0 0 0 0 0",
                                      "3 16 24 0 1 0 8 21 0 0 0 0 0 0 0 3 4",
                                      "3 16 24 0 1 0 8 21 0 0 0 0 0 0 0  3",
                                      "3 16 24 0 9 0 8 21 0 0 0 0 0 0 0 3",
                                      "3 16 24 2 1 0 8 21 0 0 0 0 0 0 0 3",
                                      "3 16 24 0 1 3 8 21 0 0 0 0 0 0 0 3",
                                      "0 16 24 0 1 0 8 21 0 0 0 0 0 0 0 3",
                                      "-3 16 24 0 1 0 8 21 0 0 0 0 0 0 0 3",
                                      "3 99999999999 24 0 1 0 8 21 0 0 0 0 0 0 0 3",
                                      "",
                                      "$(reboot)"};
  char text[2048], good[2048];
  snprintf(good, sizeof good, "%s", read_file());
  const int head = (int)(strstr(good, "\n3 16 24") + 1 - good);
  fake_blas_set_fastest(9);
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
    snprintf(text, sizeof text, "%.*s%s\n", head, good, lines[i]);
    write_file(text);
    expect_run("algo 9 tile 22 ", 1, "is damaged", &DEVICE);
    expect_run("algo 9 tile 22 ", 0, "", &DEVICE);
  }
  snprintf(text, sizeof text, "%.*s3 16 24 0 1 0 8 21", head, good); // cut short
  write_file(text);
  expect_run("algo 9 tile 22 ", 1, "ends within a line", &DEVICE);
  write_file("");
  expect_run("algo 9 tile 22 ", 1, "of this version", &DEVICE);
  write_file("# tandem: algorithms of products, 1\n# NVIDIA A100\n");
  expect_run("algo 9 tile 22 ", 1, "another driver, library or device", &DEVICE);
  remove(path);
  mkdir(path, 0777); // what is no file is none
  expect_run("algo 9 tile 22 ", 1, "cannot be read", &DEVICE);
  rmdir(path);
}

/* Without a folder that can be written nothing is kept, and all else is as it was. */
static void test_no_folder(void) {
  char kept[sizeof folder];
  snprintf(kept, sizeof kept, "%s", folder);
  snprintf(folder, sizeof folder, "/proc/none/tandem");
  expect_run("algo 9 tile 22 ", 1, "are not saved", &DEVICE);
  snprintf(folder, sizeof folder, "%s", kept);
  GemmChoices *choices = gemm_choices_open(NULL, &DEVICE, note, sizeof note);
  GemmChoice choice = {.shape = SHAPE, .candidates = 1};
  gemm_choices_add(choices, &choice);
  expect_true(*note == '\0' && gemm_choices_find(choices, &SHAPE, &choice), "within the run");
  gemm_choices_close(choices);
}

/* The folders that were made, and the files in them. */
static void remove_all(const char *made) {
  DIR *open = opendir(folder);
  for (struct dirent *entry; open && (entry = readdir(open));) {
    snprintf(path, sizeof path, "%s/%.180s", folder, entry->d_name);
    if (entry->d_name[0] != '.') remove(path);
  }
  if (open) closedir(open);
  rmdir(folder);
  snprintf(path, sizeof path, "%s/new", made);
  rmdir(path);
  rmdir(made);
}

int main(void) {
  kernel_testing_begin("gemm_choices");
  char made[] = "/tmp/choices-XXXXXX";
  if (!mkdtemp(made)) return 1;
  fake_gpu_set((FakeGpu){.n_devices = 1, .has_driver = true, .memory_bytes = 1 << 20});
  snprintf(folder, sizeof folder, "%s/new/tandem", made); // neither is there
  test_kept();
  test_refused();
  test_strange_files();
  test_no_folder();
  remove_all(made);
  return kernel_testing_end();
}
