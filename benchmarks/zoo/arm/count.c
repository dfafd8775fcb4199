/* A plugin of qemu that counts a program's instructions and writes their number to a file:
 * QEMU_PLUGIN=file=count.so,out=FILE. What it needs of qemu's interface (version 1) is declared
 * here, for Debian ships no header of it. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

typedef struct qemu_plugin_tb block;

extern size_t qemu_plugin_tb_n_insns(const block *);
extern void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id, void (*translated)(uint64_t, block *));
extern void qemu_plugin_register_vcpu_tb_exec_inline(block *, int add, void *to, uint64_t number);
extern void qemu_plugin_register_atexit_cb(uint64_t id, void (*ended)(uint64_t, void *), void *);

__attribute__((visibility("default"))) int qemu_plugin_version = 1;

static uint64_t instructions;
static char out[4096];

static void count_block(uint64_t id, block *translated) {
  (void)id;
  uint64_t length = qemu_plugin_tb_n_insns(translated);
  qemu_plugin_register_vcpu_tb_exec_inline(translated, 0, &instructions, length);
}

static void write_count(uint64_t id, void *nothing) {
  (void)id, (void)nothing;
  FILE *file = fopen(out, "w");
  if (!file) return;
  fprintf(file, "%" PRIu64 "\n", instructions);
  fclose(file);
}

__attribute__((visibility("default"))) int qemu_plugin_install(uint64_t id, const void *info,
                                                               int count, char **words) {
  (void)info;
  if (count != 1 || strncmp(words[0], "out=", 4) != 0) return 1;
  snprintf(out, sizeof out, "%s", words[0] + 4);
  qemu_plugin_register_vcpu_tb_trans_cb(id, count_block);
  qemu_plugin_register_atexit_cb(id, write_count, NULL);
  return 0;
}
