/* Preloaded into an emulated program that starts itself anew, as Criterion's do for each test: a
 * kernel that knows of no emulator runs no file that is for another machine. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { ARGUMENTS_MAX = 1000 };

/* So that programs of this machine, started from here, are not asked to load it. */
__attribute__((constructor)) static void leave_environment(void) {
  unsetenv("LD_PRELOAD");
}

static bool is_emulated(const char *path) {
  Elf64_Ehdr head;
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  ssize_t size = read(file, &head, sizeof head);
  close(file);
  return size == (ssize_t)sizeof head && memcmp(head.e_ident, ELFMAG, SELFMAG) == 0 &&
         head.e_machine == EM_AARCH64;
}

/* In place of the C library's. EMULATOR takes argv[0] apart, as qemu does. */
int execve(const char *path, char *const argv[], char *const envp[]) {
  const char *all[ARGUMENTS_MAX + 5] = {EMULATOR, "-0", argv[0], path};
  if (!is_emulated(path)) return (int)syscall(SYS_execve, path, argv, envp);
  for (int i = 1; argv[0] && argv[i]; i++) {
    if (i > ARGUMENTS_MAX) {
      errno = E2BIG;
      return -1;
    }
    all[i + 3] = argv[i];
  }
  return (int)syscall(SYS_execve, EMULATOR, all, envp);
}
