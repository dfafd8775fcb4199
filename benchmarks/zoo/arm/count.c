/* A plugin of qemu that counts a program's instructions and writes to a file how many there were,
 * and how many from the first to the last time that it asked for its priority, with which it marks
 * what is to be counted: QEMU_PLUGIN=file=count.so,out=FILE. What it needs of qemu's interface
 * (version 1) is declared here, for Debian ships no header of it. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

typedef struct qemu_plugin_tb block;

extern size_t qemu_plugin_tb_n_insns(const block *);
extern void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id, void (*translated)(uint64_t, block *));
extern void qemu_plugin_register_vcpu_tb_exec_inline(block *, int add, void *to, uint64_t number);
extern void qemu_plugin_register_vcpu_syscall_cb(uint64_t id,
                                                 void (*called)(uint64_t, unsigned, int64_t,
                                                                uint64_t, uint64_t, uint64_t,
                                                                uint64_t, uint64_t, uint64_t,
                                                                uint64_t, uint64_t));
extern void qemu_plugin_register_atexit_cb(uint64_t id, void (*ended)(uint64_t, void *), void *);

__attribute__((visibility("default"))) int qemu_plugin_version = 1;

enum { GETPRIORITY = 141 };

static uint64_t instructions, first_mark, last_mark;
static int marked;
static char out[4096];

static void count_block(uint64_t id, block *translated) {
  (void)id;
  uint64_t length = qemu_plugin_tb_n_insns(translated);
  qemu_plugin_register_vcpu_tb_exec_inline(translated, 0, &instructions, length);
}

static void mark(uint64_t id, unsigned cpu, int64_t number, uint64_t a, uint64_t b, uint64_t c,
                 uint64_t d, uint64_t e, uint64_t f, uint64_t g, uint64_t h) {
  (void)id, (void)cpu, (void)a, (void)b, (void)c, (void)d, (void)e, (void)f, (void)g, (void)h;
  if (number != GETPRIORITY) return;
  if (!marked) first_mark = instructions;
  marked = 1;
  last_mark = instructions;
}

static void write_count(uint64_t id, void *nothing) {
  (void)id, (void)nothing;
  FILE *file = fopen(out, "w");
  if (!file) return;
  fprintf(file, "%" PRIu64 " %" PRIu64 "\n", instructions, last_mark - first_mark);
  fclose(file);
}

__attribute__((visibility("default"))) int qemu_plugin_install(uint64_t id, const void *info,
                                                               int count, char **words) {
  (void)info;
  if (count != 1 || strncmp(words[0], "out=", 4) != 0) return 1;
  snprintf(out, sizeof out, "%s", words[0] + 4);
  qemu_plugin_register_vcpu_tb_trans_cb(id, count_block);
  qemu_plugin_register_vcpu_syscall_cb(id, mark);
  qemu_plugin_register_atexit_cb(id, write_count, NULL);
  return 0;
}
