/* The process that compiles: started once, asked by messages over two pipes.
 *
 * A message is a count of parts (8 bytes), and each part's size (8 bytes) and bytes, in this
 * machine's order. The process ends when its input does, and so with this one.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "plugin.h"

#define COMPILER_MAX_WORDS 16
#define COMPILER_PATIENCE 200 /* hundredths of a second */
#define COMPILER_MAX_PARTS 100000
#define COMPILER_MAX_BYTES ((uint64_t)1 << 34)

extern char **environ;

/* --- starting and stopping -------------------------------------------------------------------- */

/* A pipe whose ends no other child inherits. */
static int make_pipe(int ends[2]) {
  if (pipe(ends)) return -1;
  fcntl(ends[0], F_SETFD, FD_CLOEXEC);
  fcntl(ends[1], F_SETFD, FD_CLOEXEC);
  return 0;
}

/* Start `words`, reading from `input` and writing to `output`; 0 or an `errno`. */
static int spawn(char *const *words, int input, int output, pid_t *out_process) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_adddup2(&actions, input, 0);
  posix_spawn_file_actions_adddup2(&actions, output, 1);
  /* A group of its own: what the terminal sends is the program's to answer. */
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  int failed = posix_spawnp(out_process, words[0], &actions, &attributes, words, environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return failed;
}

static pjrt_error *compiler_start(pjrt_compiler *self) {
  if (self->process) return NULL;
  char *text = strdup(self->command);
  if (!text) return pjrt_out_of_memory();
  char *words[COMPILER_MAX_WORDS + 1], *rest;
  size_t count = 0;
  for (char *word = strtok_r(text, "\n", &rest); word && count < COMPILER_MAX_WORDS;
       word = strtok_r(NULL, "\n", &rest))
    words[count++] = word;
  words[count] = NULL;
  int jobs[2] = {-1, -1}, answers[2] = {-1, -1};
  int failed = EINVAL;
  pid_t process = 0;
  if (count) failed = make_pipe(jobs) || make_pipe(answers) ? errno : 0;
  if (!failed) failed = spawn(words, jobs[0], answers[1], &process);
  if (jobs[0] >= 0) close(jobs[0]);
  if (answers[1] >= 0) close(answers[1]);
  pjrt_error *error = NULL;
  if (failed) {
    if (jobs[1] >= 0) close(jobs[1]);
    if (answers[0] >= 0) close(answers[0]);
    error = pjrt_fail(PJRT_UNAVAILABLE, "edgec's compiler cannot be started (%s): %s",
                      count ? words[0] : "no command", strerror(failed));
  } else {
    self->process = (int)process;
    self->jobs = jobs[1];
    self->answers = answers[0];
  }
  free(text);
  return error;
}

pjrt_error *pjrt_compiler_start(pjrt_compiler *compiler) {
  pthread_mutex_lock(&compiler->lock);
  pjrt_error *failed = compiler_start(compiler);
  pthread_mutex_unlock(&compiler->lock);
  return failed;
}

/* How the process ended, as a caller of `waitpid` is told; -1: unknown. One that does not end by
 * itself, now that its input has, is ended. */
static int compiler_end(pjrt_compiler *self) {
  int status = -1;
  if (!self->process) return status;
  close(self->jobs);
  close(self->answers);
  pid_t ended = 0;
  for (int i = 0; i < COMPILER_PATIENCE && !ended; ++i) {
    ended = waitpid((pid_t)self->process, &status, WNOHANG);
    if (!ended) nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
  }
  if (!ended) {
    kill((pid_t)self->process, SIGKILL);
    while (waitpid((pid_t)self->process, &status, 0) < 0 && errno == EINTR) {
    }
  }
  self->process = 0;
  self->jobs = self->answers = -1;
  return status;
}

void pjrt_compiler_stop(pjrt_compiler *compiler) {
  pthread_mutex_lock(&compiler->lock);
  compiler_end(compiler);
  pthread_mutex_unlock(&compiler->lock);
}

/* --- messages --------------------------------------------------------------------------------- */

static bool write_all(int file, const void *data, size_t size) {
  for (const char *at = data; size;) {
    ssize_t done = write(file, at, size);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    at += done;
    size -= (size_t)done;
  }
  return true;
}

static bool read_all(int file, void *data, size_t size) {
  for (char *at = data; size;) {
    ssize_t done = read(file, at, size);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    at += done;
    size -= (size_t)done;
  }
  return true;
}

static bool send_parts(int file, const pjrt_part *parts, size_t count) {
  uint64_t number = count;
  if (!write_all(file, &number, sizeof number)) return false;
  for (size_t i = 0; i < count; ++i) {
    uint64_t size = parts[i].size;
    if (!write_all(file, &size, sizeof size) || !write_all(file, parts[i].data, parts[i].size))
      return false;
  }
  return true;
}

static bool receive_parts(int file, pjrt_answer *out) {
  uint64_t count, size;
  size_t used = 0;
  if (!read_all(file, &count, sizeof count) || count > COMPILER_MAX_PARTS) return false;
  out->parts = calloc((size_t)count + 1, sizeof *out->parts);
  if (!out->parts) return false;
  for (size_t i = 0; i < count; ++i) {
    if (!read_all(file, &size, sizeof size) || size > COMPILER_MAX_BYTES) return false;
    char *memory = realloc(out->memory, used + (size_t)size + 1);
    if (!memory) return false;
    out->memory = memory;
    if (!read_all(file, memory + used, (size_t)size)) return false;
    memory[used + (size_t)size] = 0;
    out->parts[i].size = (size_t)size;
    used += (size_t)size + 1;
  }
  out->count = (size_t)count;
  for (size_t i = 0, at = 0; i < out->count; at += out->parts[i++].size + 1)
    out->parts[i].data = out->memory + at;
  return true;
}

void pjrt_answer_release(pjrt_answer *answer) {
  free(answer->memory);
  free(answer->parts);
  *answer = (pjrt_answer){0};
}

/* Send and receive with nobody told of a pipe that has ended but by what `write` gives. */
static bool exchange(pjrt_compiler *self, const pjrt_part *parts, size_t count,
                     pjrt_answer *out_answer) {
  sigset_t broken, before, pending;
  sigemptyset(&broken);
  sigaddset(&broken, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &broken, &before);
  bool done = send_parts(self->jobs, parts, count) && receive_parts(self->answers, out_answer);
  if (!done && !sigpending(&pending) && sigismember(&pending, SIGPIPE)) {
    int number;
    sigwait(&broken, &number);
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return done;
}

pjrt_error *pjrt_compiler_ask(pjrt_compiler *compiler, const pjrt_part *parts, size_t count,
                              pjrt_answer *out_answer, bool *out_died) {
  *out_answer = (pjrt_answer){0};
  *out_died = false;
  pthread_mutex_lock(&compiler->lock);
  pjrt_error *failed = compiler_start(compiler);
  if (!failed && !exchange(compiler, parts, count, out_answer)) {
    pjrt_answer_release(out_answer);
    *out_died = true;
    int status = compiler_end(compiler);
    failed = WIFSIGNALED(status)
                 ? pjrt_fail(PJRT_INTERNAL, "edgec's compiler died of signal %d", WTERMSIG(status))
                 : pjrt_fail(PJRT_INTERNAL,
                             "edgec's compiler ended with exit code %d and no answer: what it "
                             "printed says why",
                             WIFEXITED(status) ? WEXITSTATUS(status) : status);
  }
  pthread_mutex_unlock(&compiler->lock);
  return failed;
}
