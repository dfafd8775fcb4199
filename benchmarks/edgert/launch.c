/* Runs a command and prints how long it lived, in seconds, and the most memory it had, in bytes.
 *
 *     launch COMMAND...
 *
 * A small program does this because a process counts what its parent had when it was forked: a
 * Python that starts it would be measured, too. */
#define _XOPEN_SOURCE 700
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

int main(int count, char **arguments) {
  if (count < 2) return 2;
  double start = now();
  pid_t child = fork();
  if (child < 0) return 3;
  if (child == 0) {
    int nothing = open("/dev/null", O_WRONLY);
    if (nothing >= 0) dup2(nothing, 1);
    execvp(arguments[1], arguments + 1);
    _exit(127);
  }
  int status;
  if (waitpid(child, &status, 0) != child) return 3;
  double seconds = now() - start;
  struct rusage usage;
  getrusage(RUSAGE_CHILDREN, &usage);
#if defined(__APPLE__)
  double unit = 1;
#else
  double unit = 1024;
#endif
  printf("%.9f %.0f\n", seconds, unit * (double)usage.ru_maxrss);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 4;
}
