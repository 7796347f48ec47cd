/* Pinned: a file is there whole or not at all, what was there before stays until then, and what is
 * no regular file is written in place. */
#include "base/output.h"
#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[] = "/var/tmp/tandem-output-XXXXXX";
static Arena arena;
static Diag diag;

static void set_up(void) {
  cr_assert_not_null(mkdtemp(folder));
  cr_assert_eq(chdir(folder), 0);
  arena_init(&arena);
  diag_init(&diag);
}

static void tear_down(void) {
  DIR *listing = opendir(".");
  for (const struct dirent *entry; listing && (entry = readdir(listing));)
    unlink(entry->d_name);
  closedir(listing);
  rmdir(folder);
  diag_done(&diag);
  arena_done(&arena);
}

TestSuite(output, .init = set_up, .fini = tear_down);

static int n_files(void) {
  int n = -2; // . and ..
  DIR *listing = opendir(".");
  while (readdir(listing))
    n++;
  closedir(listing);
  return n;
}

static void write_file(const char *path, const char *text) {
  FILE *out = fopen(path, "w");
  cr_assert_not_null(out);
  fputs(text, out);
  fclose(out);
}

static const char *content(const char *path) {
  char *text = arena_alloc(&arena, 256);
  FILE *in = fopen(path, "r");
  cr_assert_not_null(in, "%s", path);
  const size_t length = fread(text, 1, 255, in);
  cr_assert_lt(length, 255);
  fclose(in);
  return text;
}

Test(output, a_file_is_at_its_path_once_it_is_whole) {
  Output out;
  cr_assert_eq(output_open(&out, "a.csv", &arena, &diag), 0);
  fputs("new", out.file);
  fflush(out.file);
  cr_expect_neq(access("a.csv", F_OK), 0);
  cr_assert_eq(output_commit(&out, &diag), 0);
  cr_expect_str_eq(content("a.csv"), "new");
  cr_expect_eq(n_files(), 1);
  output_drop(&out); // nothing to do
  cr_expect_eq(n_files(), 1);
}

Test(output, what_is_dropped_leaves_what_was_there) {
  Output out;
  write_file("a.csv", "old");
  cr_assert_eq(output_open(&out, "a.csv", &arena, &diag), 0);
  fputs("new", out.file);
  output_drop(&out);
  cr_expect_str_eq(content("a.csv"), "old");
  cr_expect_eq(n_files(), 1);
}

Test(output, the_new_file_is_as_open_to_others_as_the_old_and_links_stay) {
  Output out;
  struct stat status;
  write_file("a.csv", "old");
  cr_assert_eq(chmod("a.csv", 0640), 0);
  cr_assert_eq(symlink("a.csv", "link.csv"), 0);
  cr_assert_eq(output_open(&out, "link.csv", &arena, &diag), 0);
  fputs("new", out.file);
  cr_assert_eq(output_commit(&out, &diag), 0);
  cr_expect_str_eq(content("a.csv"), "new");
  cr_assert_eq(lstat("link.csv", &status), 0);
  cr_expect(S_ISLNK(status.st_mode));
  cr_assert_eq(stat("a.csv", &status), 0);
  cr_expect_eq(status.st_mode & 0777, 0640);
}

static void write_and_die(const char *path) {
  const pid_t child = fork();
  Output out;
  int status;
  if (child == 0) {
    if (output_open(&out, path, &arena, &diag) == 0 && fputs("half", out.file) >= 0) raise(SIGKILL);
    _exit(1);
  }
  cr_assert_eq(waitpid(child, &status, 0), child);
  cr_assert(WIFSIGNALED(status));
}

Test(output, what_a_killed_process_left_is_taken_away) {
  Output out;
  write_file("a.csv", "old");
  write_and_die("a.csv");
  write_and_die("b.csv");
  cr_expect_leq(n_files(), 2);
  cr_assert_eq(output_open(&out, "c.csv", &arena, &diag), 0);
  cr_assert_eq(output_commit(&out, &diag), 0);
  cr_expect_str_eq(content("a.csv"), "old");
  cr_expect_str_eq(content("c.csv"), "");
  cr_expect_eq(n_files(), 2);
}

Test(output, several_at_once_are_left_alone) {
  Output outs[4], one;
  char name[16];
  for (int i = 0; i < 4; i++) {
    snprintf(name, sizeof name, "%d.csv", i);
    cr_assert_eq(output_open(&outs[i], arena_printf(&arena, "%s", name), &arena, &diag), 0);
    fprintf(outs[i].file, "%d", i);
  }
  const pid_t child = fork(); // another process
  if (child == 0) {
    if (output_open(&one, "0.csv", &arena, &diag) || output_commit(&one, &diag)) _exit(1);
    _exit(0);
  }
  int status;
  cr_assert_eq(waitpid(child, &status, 0), child);
  cr_assert_eq(status, 0);
  for (int i = 0; i < 4; i++) {
    cr_assert_eq(output_commit(&outs[i], &diag), 0);
    cr_expect_str_eq(content(outs[i].path), arena_printf(&arena, "%d", i));
  }
  cr_expect_eq(n_files(), 4);
}

Test(output, nothing_else_of_such_a_name_is_touched) {
  static const char *const names[] = {".tandem-1-2.new~", ".tandem-1-.new", ".tandem--1.new",
                                      ".tandem-x-1.new", ".tandem-1-2.old"};
  enum { N = sizeof names / sizeof *names };
  Output out;
  for (int i = 0; i < N; i++)
    write_file(names[i], "theirs");
  write_file("target", "theirs");
  cr_assert_eq(symlink("target", ".tandem-1-1.new"), 0);
  cr_assert_eq(mkfifo(".tandem-1-2.new", 0600), 0);
  cr_assert_eq(mkdir(".tandem-1-3.new", 0700), 0);
  cr_assert_eq(output_open(&out, "a.csv", &arena, &diag), 0);
  cr_assert_eq(output_commit(&out, &diag), 0);
  cr_expect_eq(n_files(), N + 5);
  cr_expect_str_eq(content("target"), "theirs");
  cr_assert_eq(rmdir(".tandem-1-3.new"), 0);
}

Test(output, a_name_may_be_as_long_as_any) {
  Output out;
  char name[256];
  memset(name, 'n', 255);
  name[255] = '\0';
  for (int i = 0; i < 2; i++) { // a new one, and in place of it
    cr_assert_eq(output_open(&out, name, &arena, &diag), 0);
    cr_assert_eq(output_commit(&out, &diag), 0);
  }
  cr_expect_eq(n_files(), 1);
}

Test(output, a_path_that_cannot_be_written_is_an_error_at_once) {
  static const char *const paths[] = {"absent/a.csv", ".", ""};
  for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
    Output out;
    cr_expect_eq(output_open(&out, paths[i], &arena, &diag), -1, "%s", paths[i]);
    cr_expect_eq(diag.entries[i].kind, DIAG_ENVIRONMENT);
    cr_expect_not_null(strstr(diag.entries[i].message, "cannot write '"));
  }
  cr_expect_eq(n_files(), 0);
}

Test(output, a_disk_that_fills_up_leaves_what_was_there) {
  Output out;
  const struct rlimit small = {.rlim_cur = 4096, .rlim_max = 4096};
  signal(SIGXFSZ, SIG_IGN);
  write_file("a.csv", "old");
  cr_assert_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
  cr_assert_eq(output_open(&out, "a.csv", &arena, &diag), 0);
  for (int i = 0; i < 10000; i++)
    fputs("line\n", out.file);
  cr_expect_eq(output_commit(&out, &diag), -1);
  cr_expect_eq(diag.n_entries, 1);
  cr_expect_str_eq(content("a.csv"), "old");
  cr_expect_eq(n_files(), 1);
}

Test(output, pipes_and_devices_are_written_in_place) {
  Output out;
  cr_assert_eq(mkfifo("pipe", 0600), 0);
  const int reader = open("pipe", O_RDONLY | O_NONBLOCK);
  cr_assert_geq(reader, 0);
  cr_assert_eq(output_open(&out, "pipe", &arena, &diag), 0);
  fputs("text", out.file);
  cr_assert_eq(output_commit(&out, &diag), 0);
  char text[8] = "";
  cr_expect_eq(read(reader, text, sizeof text - 1), 4);
  close(reader);
  struct stat status;
  cr_assert_eq(stat("pipe", &status), 0);
  cr_expect(S_ISFIFO(status.st_mode));
  cr_assert_eq(output_open(&out, "/dev/full", &arena, &diag), 0);
  fputs("text", out.file);
  cr_expect_eq(output_commit(&out, &diag), -1);
  cr_expect_not_null(strstr(diag.entries[0].message, "No space left"));
}

Test(output, standard_output_is_written_on_where_it_is) {
  Output out;
  write_file("a.txt", "before ");
  const int file = open("a.txt", O_WRONLY | O_APPEND), standard = dup(STDOUT_FILENO);
  dup2(file, STDOUT_FILENO);
  cr_assert_eq(output_open(&out, "/dev/stdout", &arena, &diag), 0);
  fputs("between ", out.file);
  cr_assert_eq(output_commit(&out, &diag), 0);
  cr_expect_eq(write(STDOUT_FILENO, "after", 5), 5);
  dup2(standard, STDOUT_FILENO);
  close(file);
  close(standard);
  cr_expect_str_eq(content("a.txt"), "before between after");
}

Test(output, an_input_is_not_written_over_under_any_of_its_names) {
  static const char *const inputs[] = {"absent", "a.csv", NULL};
  write_file("a.csv", "old");
  cr_assert_eq(symlink("a.csv", "link"), 0);
  cr_assert_eq(link("a.csv", "hard"), 0);
  cr_expect_eq(output_check("b.csv", inputs, &diag), 0);
  cr_expect_eq(output_check("a.csv", inputs, &diag), -1);
  cr_expect_eq(output_check("./a.csv", inputs, &diag), -1);
  cr_expect_eq(output_check("link", inputs, &diag), -1);
  cr_expect_eq(output_check("hard", inputs, &diag), -1);
  cr_expect_eq(diag.n_entries, 4);
}
