// Tests of the checks of limits of processes, on files that look like those of a machine: each finds its fault, and is silent
// without it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "doctor_rig.h"

// Writes /proc/self/limits with one line that differs.
static void write_limit(rig *r, const char *name, const char *soft, const char *hard)
{
    char content[512];
    snprintf(content, sizeof content,
             "Limit                     Soft Limit           Hard Limit           Units     \n"
             "%-25s %-20s %-20s units     \n",
             name, soft, hard);
    rig_write(r, "/proc/self/limits", content);
}

static void write_user(rig *r, int user, const char *capabilities)
{
    char content[256];
    snprintf(content, sizeof content,
             "Name:\ttrireme\nUid:\t%d\t%d\t%d\t%d\nCapEff:\t%s\nSeccomp:\t0\n"
             "Cpus_allowed_list:\t0-7\n",
             user, user, user, user, capabilities);
    rig_write(r, "/proc/self/status", content);
}

static void write_memory(rig *r)
{
    rig_write(r, "/proc/meminfo", "MemTotal:       67108864 kB\nMemAvailable:   60000000 kB\n");
}

static void shm_needs_room_for_the_ranks(void **state)
{
    rig r;
    (void)state;
    rig_open(&r);
    rig_expect_passed(&r, "shm-size");
    rig_write(&r, "/proc/mounts", "shm /dev/shm tmpfs rw,nosuid,nodev,noexec,size=65536k 0 0\n");
    rig_expect_found(&r, "shm-size", "/dev/shm has 64.00 MiB, and the ranks may need 128.00 MiB");
    rig_write(
        &r, "/proc/mounts",
        "tmpfs /dev/shm tmpfs rw,size=8388608k 0 0\ntmpfs /dev/shm tmpfs rw,size=524288k 0 0\n");
    rig_expect_passed(&r, "shm-size");
    r.context.ranks = 8;
    rig_expect_found(&r, "shm-size", "/dev/shm has 512.00 MiB, and the ranks may need 1.00 GiB");
    rig_write(&r, "/proc/mounts",
              "tmpfs /dev/shm tmpfs rw,nosuid,nodev 0 0\n"); // half of the memory
    rig_expect_passed(&r, "shm-size");
    rig_write(&r, "/proc/meminfo", "MemTotal:        1048576 kB\n");
    rig_expect_found(&r, "shm-size", "/dev/shm has 512.00 MiB, and the ranks may need 1.00 GiB");
    rig_remove(&r, "/proc/meminfo");
    rig_expect_blind(&r, "shm-size",
                     "neither /proc/mounts nor /proc/meminfo has the size of /dev/shm");
    rig_write(&r, "/proc/mounts", "/dev/sda1 / ext4 rw 0 0\n");
    rig_expect_skipped(&r, "shm-size", "no file system is mounted at /dev/shm");
    rig_close(&r);
}

static void shm_must_be_mounted(void **state)
{
    rig r;
    (void)state;
    rig_open(&r);
    rig_write(&r, "/proc/mounts", "/dev/sda1 / ext4 rw 0 0\ndevtmpfs /dev devtmpfs rw 0 0\n");
    rig_expect_found(&r, "shm-missing", "/dev/shm is not mounted");
    rig_write(&r, "/proc/mounts", "/dev/sda1 / ext4 rw 0 0\ntmpfs /dev/shm tmpfs rw,size=8g 0 0\n");
    rig_expect_passed(&r, "shm-missing");
    rig_write(&r, "/proc/mounts", "/dev/sda1 / ext4 rw 0 0\n");
    rig_write(&r, "/dev/nvidia0", "");
    rig_write(&r, "/dev/nvidia1", ""); // NCCL needs it
    rig_expect_found_as(&r, "shm-missing", DOCTOR_ERROR, "/dev/shm is not mounted");
    rig_close(&r);
}

static void cards_need_locked_memory(void **state)
{
    rig r;
    (void)state;
    rig_open(&r);
    write_memory(&r);
    write_user(&r, 1000, "0000000000000000");
    rig_write(&r, "/sys/class/infiniband/mlx5_0/node_type", "1: CA\n");
    write_limit(&r, "Max locked memory", "65536", "65536");
    rig_expect_found(&r, "memlock-limit",
                     "The limit of locked memory is 64.00 KiB on a machine with 64.00 GiB and an "
                     "RDMA network card");
    r.context.peer = "10.0.0.2"; // a run over the cards
    rig_expect_found_as(&r, "memlock-limit", DOCTOR_ERROR,
                        "The limit of locked memory is 64.00 KiB on a machine with 64.00 GiB and "
                        "an RDMA network card");
    write_limit(&r, "Max locked memory", "34359738367", "34359738367"); // less than half
    rig_expect_found_as(
        &r, "memlock-limit", DOCTOR_ERROR,
        "The limit of locked memory is 32.00 GiB on a machine with 64.00 GiB and an "
        "RDMA network card");
    write_limit(&r, "Max locked memory", "34359738368", "34359738368");
    rig_expect_passed(&r, "memlock-limit");
    write_limit(&r, "Max locked memory", "unlimited", "unlimited");
    rig_expect_passed(&r, "memlock-limit");
    write_limit(&r, "Max locked memory", "65536", "65536");
    write_user(&r, 0, "0000000000004000"); // the limit does not count for CAP_IPC_LOCK
    rig_expect_passed(&r, "memlock-limit");
    rig_close(&r);
}

static void locked_memory_does_not_matter_without_cards(void **state)
{
    rig r;
    (void)state;
    rig_open(&r);
    write_memory(&r);
    write_user(&r, 1000, "0000000000000000");
    write_limit(&r, "Max locked memory", "65536", "65536");
    rig_remove(&r, "/sys/class/infiniband");
    rig_expect_skipped(&r, "memlock-limit", "there is no InfiniBand or RoCE device");
    rig_close(&r);
}

static void ranks_need_open_files(void **state)
{
    rig r;
    (void)state;
    rig_open(&r);
    r.context.ranks = 8;
    write_limit(&r, "Max open files", "1024", "1024");
    rig_expect_found(&r, "nofile-limit",
                     "The hard limit of open files is 1024; the ranks of this host need 1536");
    write_limit(&r, "Max open files", "1024", "4096"); // a run raises its own limit
    rig_expect_passed(&r, "nofile-limit");
    rig_remove(&r, "/proc/self/limits");
    rig_expect_blind(&r, "nofile-limit", "/proc/self/limits has no line \"Max open files\"");
    rig_close(&r);
}

static void a_huge_limit_of_files_is_found(void **state)
{
    rig r;
    (void)state;
    rig_open(&r);
    write_limit(&r, "Max open files", "1073741816", "1073741816");
    rig_expect_found(&r, "nofile-huge", "The limit of open files is 1073741816");
    write_limit(&r, "Max open files", "unlimited", "unlimited");
    rig_expect_found(&r, "nofile-huge", "The limit of open files is unlimited");
    write_limit(&r, "Max open files", "1048576", "1048576");
    rig_expect_passed(&r, "nofile-huge");
    rig_close(&r);
}

static void ranks_need_threads(void **state)
{
    rig r;
    (void)state;
    rig_open(&r);
    r.context.ranks = 4;
    write_user(&r, 1000, "0000000000000000");
    write_limit(&r, "Max processes", "512", "4096");
    rig_expect_found(&r, "nproc-limit",
                     "This user may have 512 threads; the ranks of this host need up to 776");
    write_limit(&r, "Max processes", "776", "776");
    rig_expect_passed(&r, "nproc-limit");
    write_user(&r, 0, "000001ffffffffff");
    write_limit(&r, "Max processes", "512", "512");
    rig_expect_skipped(&r, "nproc-limit", "the limit does not count for user 0");
    rig_close(&r);
}

static void control_groups_limit_threads(void **state)
{
    rig r;
    (void)state;
    rig_open(&r);
    r.context.ranks = 2;
    write_user(&r, 1000, "0000000000000000");
    rig_write(&r, "/proc/self/cgroup", "0::/job/step\n");
    rig_write(&r, "/sys/fs/cgroup/job/pids.max", "200\n");
    rig_write(&r, "/sys/fs/cgroup/job/pids.current", "80\n");
    rig_write(&r, "/sys/fs/cgroup/job/step/pids.max", "max\n");
    rig_expect_found(&r, "pids-limit",
                     "The control group /sys/fs/cgroup/job allows 200 threads, of which 120 are "
                     "left; the ranks of this host need up to 136");
    rig_write(&r, "/sys/fs/cgroup/job/pids.max", "216\n");
    rig_expect_passed(&r, "pids-limit");
    rig_write(&r, "/sys/fs/cgroup/job/pids.max", "max\n");
    rig_expect_skipped(&r, "pids-limit", "no control group limits the number of threads");
    rig_close(&r);
}

static void stacks_are_not_small(void **state)
{
    rig r;
    (void)state;
    rig_open(&r);
    write_limit(&r, "Max stack size", "1048576", "unlimited");
    rig_expect_found(&r, "stack-limit", "The limit of the stack is 1.00 MiB");
    write_limit(&r, "Max stack size", "8388608", "unlimited");
    rig_expect_passed(&r, "stack-limit");
    rig_close(&r);
}

static void address_spaces_are_not_limited(void **state)
{
    rig r;
    (void)state;
    rig_open(&r);
    write_memory(&r);
    write_limit(&r, "Max address space", "34359738368", "34359738368");
    rig_expect_found(&r, "address-space-limit",
                     "The limit of the address space is 32.00 GiB on a machine with 64.00 GiB");
    write_limit(&r, "Max address space", "1099511627776", "1099511627776");
    rig_expect_passed(&r, "address-space-limit");
    rig_write(&r, "/dev/nvidia0", "");
    rig_expect_found_as(&r, "address-space-limit", DOCTOR_ERROR,
                        "The limit of the address space is 1.00 TiB on a machine with 64.00 GiB");
    write_limit(&r, "Max address space", "unlimited", "unlimited");
    rig_expect_passed(&r, "address-space-limit");
    rig_close(&r);
}

static void files_may_be_as_large_as_checkpoints(void **state)
{
    rig r;
    (void)state;
    rig_open(&r);
    write_limit(&r, "Max file size", "2147483648", "2147483648");
    rig_expect_found(&r, "file-size-limit", "The limit of the size of a file is 2.00 GiB");
    write_limit(&r, "Max file size", "unlimited", "unlimited");
    rig_expect_passed(&r, "file-size-limit");
    rig_close(&r);
}

static void core_files_may_fill_the_disk(void **state)
{
    rig r;
    (void)state;
    rig_open(&r);
    write_limit(&r, "Max core file size", "unlimited", "unlimited");
    rig_write(&r, "/proc/sys/kernel/core_pattern", "core.%p\n");
    rig_expect_found(
        &r, "core-size",
        "Each rank that crashes may write its memory (limit: unlimited) to the file core.%p");
    rig_write(&r, "/proc/sys/kernel/core_pattern", "|/usr/lib/systemd/systemd-coredump %P\n");
    rig_expect_passed(&r, "core-size");
    rig_write(&r, "/proc/sys/kernel/core_pattern", "core\n");
    write_limit(&r, "Max core file size", "0", "unlimited");
    rig_expect_passed(&r, "core-size");
    rig_close(&r);
}

static void few_areas_of_memory_are_found(void **state)
{
    rig r;
    (void)state;
    rig_open(&r);
    rig_write(&r, "/proc/sys/vm/max_map_count", "4096\n");
    rig_expect_found(&r, "max-map-count",
                     "vm.max_map_count is 4096; the kernel's default is 65530");
    rig_write(&r, "/proc/sys/vm/max_map_count", "65530\n");
    rig_expect_passed(&r, "max-map-count");
    rig_close(&r);
}

static void processes_that_are_killed_first_are_found(void **state)
{
    rig r;
    (void)state;
    rig_open(&r);
    rig_write(&r, "/proc/self/oom_score_adj", "1000\n");
    rig_expect_found(&r, "oom-score",
                     "/proc/self/oom_score_adj is 1000: where memory runs out, the kernel kills "
                     "the processes of this shell before others");
    rig_write(&r, "/proc/self/oom_score_adj", "-100\n");
    rig_expect_passed(&r, "oom-score");
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shm_needs_room_for_the_ranks),
        cmocka_unit_test(shm_must_be_mounted),
        cmocka_unit_test(cards_need_locked_memory),
        cmocka_unit_test(locked_memory_does_not_matter_without_cards),
        cmocka_unit_test(ranks_need_open_files),
        cmocka_unit_test(a_huge_limit_of_files_is_found),
        cmocka_unit_test(ranks_need_threads),
        cmocka_unit_test(control_groups_limit_threads),
        cmocka_unit_test(stacks_are_not_small),
        cmocka_unit_test(address_spaces_are_not_limited),
        cmocka_unit_test(files_may_be_as_large_as_checkpoints),
        cmocka_unit_test(core_files_may_fill_the_disk),
        cmocka_unit_test(few_areas_of_memory_are_found),
        cmocka_unit_test(processes_that_are_killed_first_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
