/* Pipes, deadlines and ends. */
#define _GNU_SOURCE // F_SETPIPE_SZ
#include "calib/process.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static const char PATIENCE[] = "TANDEM_BACKEND_TIMEOUT";
static const double PATIENCE_SECONDS = 600;
static const double GRACE_SECONDS = 5;  // to end by itself, or to answer after an interruption
static const double LOOK_SECONDS = 0.5; // between looks at an interruption

/* ---- Ends ---- */

static void close_pipes(Process *self) {
  if (self->to >= 0) close(self->to);
  if (self->from >= 0) close(self->from);
  self->to = self->from = -1;
}

/* Whether it has ended within `seconds`, and how. */
static bool wait_end(Process *self, double seconds, int *ret_status) {
  const double end = calib_seconds() + seconds;
  const struct timespec pause = {0, 2000000};
  *ret_status = 0;
  while (self->pid > 0) {
    const pid_t pid = waitpid(self->pid, ret_status, WNOHANG);
    if (pid == self->pid || (pid < 0 && errno != EINTR)) self->pid = 0;
    if (self->pid == 0 || calib_seconds() >= end) break;
    nanosleep(&pause, NULL);
  }
  return self->pid == 0;
}

static void kill_at_once(Process *self) {
  int status;
  if (self->pid > 0) kill(self->pid, SIGKILL);
  wait_end(self, GRACE_SECONDS, &status);
}

static CalibStatus give_up(Process *self, char *error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static CalibStatus give_up(Process *self, char *error, const char *format, ...) {
  va_list list;
  va_start(list, format);
  vsnprintf(self->why, sizeof self->why, format, list);
  va_end(list);
  self->is_over = true;
  close_pipes(self);
  kill_at_once(self);
  memcpy(error, self->why, sizeof self->why);
  return CALIB_ENVIRONMENT;
}

/* Its pipe is closed: says how it ended. */
static CalibStatus ended(Process *self, const char *call, char *error) {
  int status = 0;
  close_pipes(self);
  if (!wait_end(self, GRACE_SECONDS, &status))
    return give_up(self, error, "'%.200s' has closed its pipe at '%s'", self->path, call);
  if (WIFSIGNALED(status))
    return give_up(self, error, "'%.200s' was ended by signal %d (%s) at '%s'", self->path,
                   WTERMSIG(status), strsignal(WTERMSIG(status)), call);
  return give_up(self, error, "'%.200s' has ended with exit code %d at '%s'", self->path,
                 WEXITSTATUS(status), call);
}

CalibStatus process_refuse(Process *self, const char *call, const char *why, char *error) {
  return give_up(self, error, "'%.150s' gives no valid answer to '%s': %.250s", self->path, call,
                 why);
}

void process_end(Process *self) {
  int status;
  close_pipes(self);
  if (!wait_end(self, GRACE_SECONDS, &status)) kill_at_once(self);
  self->is_over = true;
  arena_done(&self->arena);
}

/* ---- Beginning ---- */

/* What is passed on is dup2'ed, so that nothing else of ours is open there. Where the system lets
 * it, the pipe holds a line of numbers: else both sides would wake each other for each part. */
static bool open_pipe(int ends[2]) {
  if (pipe(ends)) return false;
  for (int i = 0; i < 2; i++)
    fcntl(ends[i], F_SETFD, FD_CLOEXEC);
#ifdef F_SETPIPE_SZ
  fcntl(ends[1], F_SETPIPE_SZ, 8 * PROTOCOL_NUMBERS_MAX);
#endif
  return true;
}

static int spawn(Process *self, int in, int out) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  sigset_t blocked, usual;
  char *arguments[] = {(char *)self->path, NULL};
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGINT);
  sigemptyset(&usual);
  sigaddset(&usual, SIGTERM);
  sigaddset(&usual, SIGPIPE);
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  posix_spawnattr_setsigmask(&attributes, &blocked);
  posix_spawnattr_setsigdefault(&attributes, &usual);
  const int status = posix_spawn(&self->pid, self->path, &actions, &attributes, arguments, environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (status) self->pid = 0;
  return status;
}

static int cannot_start(const char *path, int reason, Diag *diag) {
  diag_environment(diag, place_of_file(path), "cannot start the backend: %s", strerror(reason));
  if (reason == EACCES)
    diag_hint(diag, "make the file executable: 'chmod +x'");
  else if (reason == ENOEXEC)
    diag_hint(
        diag,
        "the first line of a script must name its interpreter, such as '#!/usr/bin/env python3'");
  else if (reason == ENOENT && access(path, F_OK) == 0)
    diag_hint(diag, "the file exists, but the interpreter that its first line names does not");
  return -1;
}

static int read_patience(double *ret_seconds, Diag *diag) {
  const char *text = getenv(PATIENCE);
  char *end = NULL;
  *ret_seconds = PATIENCE_SECONDS;
  if (!text || *text == '\0') return 0;
  *ret_seconds = strtod(text, &end);
  if (end != text && *end == '\0' && *ret_seconds > 0 && *ret_seconds <= 1e9) return 0;
  return diag_error(diag, place_of_file(PATIENCE), "'%s' must be a number of seconds", text);
}

int process_start(Process *self, const char *path, const volatile sig_atomic_t *interrupted,
                  Diag *diag) {
  int request[2], answer[2];
  *self = (Process){.to = -1, .from = -1, .interrupted = interrupted};
  if (read_patience(&self->patience_seconds, diag)) return -1;
  if (!open_pipe(request)) return cannot_start(path, errno, diag);
  if (!open_pipe(answer)) {
    const int reason = errno;
    close(request[0]);
    close(request[1]);
    return cannot_start(path, reason, diag);
  }
  self->path = path;
  self->to = request[1];
  self->from = answer[0];
  const int reason = spawn(self, request[0], answer[1]);
  close(request[0]);
  close(answer[1]);
  if (reason) {
    close_pipes(self);
    return cannot_start(path, reason, diag);
  }
  fcntl(self->to, F_SETFL, O_NONBLOCK);
  fcntl(self->from, F_SETFL, O_NONBLOCK);
  arena_init(&self->arena);
  self->path = arena_copy(&self->arena, path, strlen(path));
  return 0;
}

/* ---- Asking ---- */

/* One request and its answer. */
typedef struct Exchange {
  const char *call;
  double until;
  bool is_interrupted;
  char *error;
} Exchange;

/* Waits until there is something to do on `file`. */
static CalibStatus wait_for(Process *self, Exchange *exchange, int file, short events) {
  struct pollfd on = {.fd = file, .events = events};
  for (;;) {
    if (!exchange->is_interrupted && self->interrupted && *self->interrupted) {
      exchange->is_interrupted = true;
      exchange->until = fmin(exchange->until, calib_seconds() + GRACE_SECONDS);
    }
    const double left = fmax(0, exchange->until - calib_seconds());
    const int ready = poll(&on, 1, (int)ceil(1e3 * fmin(left, LOOK_SECONDS)));
    if (ready > 0) return CALIB_OK;
    if (left > 0) continue;
    if (exchange->is_interrupted)
      return give_up(self, exchange->error, "interrupted while '%.200s' worked on '%s'", self->path,
                     exchange->call);
    return give_up(self, exchange->error,
                   "'%.200s' did not answer '%s' within %g s; %s=SECONDS sets another limit",
                   self->path, exchange->call, self->patience_seconds, PATIENCE);
  }
}

/* A reader that is gone is an error here, and no end of this process. */
static ssize_t write_quietly(int file, const char *text, size_t length) {
  sigset_t broken, before;
  const struct timespec at_once = {0, 0};
  sigemptyset(&broken);
  sigaddset(&broken, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &broken, &before);
  const ssize_t n = write(file, text, length);
  const int reason = errno;
  if (n < 0 && reason == EPIPE) sigtimedwait(&broken, NULL, &at_once);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  errno = reason;
  return n;
}

static CalibStatus send_line(Process *self, Exchange *exchange, const ProtocolLine *request) {
  for (size_t sent = 0; sent < request->length;) {
    const ssize_t n = write_quietly(self->to, request->text + sent, request->length - sent);
    if (n >= 0) {
      sent += (size_t)n;
    } else if (errno == EAGAIN) {
      const CalibStatus status = wait_for(self, exchange, self->to, POLLOUT);
      if (status) return status;
    } else if (errno != EINTR) {
      return ended(self, exchange->call, exchange->error);
    }
  }
  return CALIB_OK;
}

/* More of the answer, which has no end so far. */
static CalibStatus read_more(Process *self, Exchange *exchange) {
  enum { LEAST = 1 << 16 };
  char why[64];
  if (self->length > PROTOCOL_LINE_MAX) {
    snprintf(why, sizeof why, "the line is longer than %d MiB", PROTOCOL_LINE_MAX >> 20);
    return process_refuse(self, exchange->call, why, exchange->error);
  }
  if (self->length == self->capacity) {
    self->capacity = self->capacity > 0 ? 2 * self->capacity : LEAST;
    self->buffer = arena_resize(&self->arena, self->buffer, self->capacity);
  }
  const ssize_t n = read(self->from, self->buffer + self->length, self->capacity - self->length);
  if (n > 0) self->length += (size_t)n;
  if (n > 0 || (n < 0 && errno == EINTR)) return CALIB_OK;
  if (n < 0 && errno == EAGAIN) return wait_for(self, exchange, self->from, POLLIN);
  return ended(self, exchange->call, exchange->error);
}

static CalibStatus read_line(Process *self, Exchange *exchange, Line *ret_answer) {
  size_t seen = 0;
  for (self->length = 0;;) {
    const CalibStatus status = read_more(self, exchange);
    if (status) return status;
    if (seen == self->length) continue;
    const char *end = memchr(self->buffer + seen, '\n', self->length - seen);
    seen = self->length;
    if (!end) continue;
    if (end + 1 < self->buffer + self->length)
      return process_refuse(self, exchange->call, "more than one line", exchange->error);
    *ret_answer = (Line){
        .text = self->buffer, .length = (int)(end - self->buffer), .number = 1, .path = self->path};
    return CALIB_OK;
  }
}

CalibStatus process_ask(Process *self, const char *call, const ProtocolLine *request,
                        Line *ret_answer, char *error) {
  Exchange exchange = {
      .call = call, .until = calib_seconds() + self->patience_seconds, .error = error};
  if (self->is_over) {
    memcpy(error, self->why, sizeof self->why);
    return CALIB_ENVIRONMENT;
  }
  struct pollfd early = {.fd = self->from, .events = POLLIN};
  if (poll(&early, 1, 0) > 0 && early.revents & POLLIN)
    return process_refuse(self, call, "it spoke before it was asked", error);
  const CalibStatus status = send_line(self, &exchange, request);
  return status ? status : read_line(self, &exchange, ret_answer);
}
