/* SPDX-License-Identifier: MIT
 *
 * A QEMU plugin that counts the guest's instructions from one getppid() to the next and writes each count to standard
 * error. A system call ends a block of instructions, so the counts are exact. The functions are declared here as QEMU's
 * documentation of its plugin interface gives them: Debian ships no header for it.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define EXPORT __attribute__((visibility("default")))
#define GETPPID 173 /* of AArch64 */

typedef uint64_t plugin_id;
struct qemu_plugin_tb;
struct qemu_info;

typedef void on_translation(plugin_id id, struct qemu_plugin_tb *block);
typedef void on_execution(unsigned cpu, void *data);
typedef void on_syscall(plugin_id id, unsigned cpu, int64_t number, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                        uint64_t, uint64_t, uint64_t);

enum { NO_REGISTERS = 0 }; /* the callback reads none */
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *block);
void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id id, on_translation *call);
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *block, on_execution *call, int flags, void *data);
void qemu_plugin_register_vcpu_syscall_cb(plugin_id id, on_syscall *call);

EXPORT extern const int qemu_plugin_version;
EXPORT int qemu_plugin_install(plugin_id id, const struct qemu_info *info, int argc, char **argv);

const int qemu_plugin_version = 1;

static uint64_t instructions; /* the guest has one thread */

static void executed(unsigned cpu, void *data)
{
    (void)cpu;
    instructions += (uintptr_t)data;
}

static void translated(plugin_id id, struct qemu_plugin_tb *block)
{
    (void)id;
    qemu_plugin_register_vcpu_tb_exec_cb(block, executed, NO_REGISTERS, (void *)qemu_plugin_tb_n_insns(block));
}

static void called(plugin_id id, unsigned cpu, int64_t number, uint64_t a1, uint64_t a2, uint64_t a3, uint64_t a4,
                   uint64_t a5, uint64_t a6, uint64_t a7, uint64_t a8)
{
    (void)id, (void)cpu, (void)a1, (void)a2, (void)a3, (void)a4, (void)a5, (void)a6, (void)a7, (void)a8;
    if (number != GETPPID)
        return;
    fprintf(stderr, "%" PRIu64 "\n", instructions);
    instructions = 0;
}

int qemu_plugin_install(plugin_id id, const struct qemu_info *info, int argc, char **argv)
{
    (void)info, (void)argc, (void)argv;
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_vcpu_syscall_cb(id, called);
    return 0;
}
