// Tests of the checks of memory, on files that look like those of a machine: each finds its fault, and is silent without it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "doctor_rig.h"

#define GIB (1LL << 30)

// Writes /proc/meminfo of a machine with 64 GiB, of which `available` GiB are left, and more lines.
static void write_memory(rig *r, int available, const char *more)
{
    char content[1024];
    snprintf(content, sizeof content,
             "MemTotal:       67108864 kB\nMemFree:         1000000 kB\nMemAvailable:   %d kB\n%s",
             available << 20, more);
    rig_write(r, "/proc/meminfo", content);
}

static void write_number(rig *r, const char *path, long long number)
{
    char line[32];
    snprintf(line, sizeof line, "%lld\n", number);
    rig_write(r, path, line);
}

// Two NUMA nodes with so many GiB of which so many are left.
static void write_nodes(rig *r, int total0, int left0, int total1, int left1)
{
    char content[512];
    const int total[] = {total0, total1}, left[] = {left0, left1};
    for (int i = 0; i < 2; i++) {
        char path[96];
        snprintf(path, sizeof path, "/sys/devices/system/node/node%d/cpulist", i);
        rig_write(r, path, i ? "4-7\n" : "0-3\n");
        snprintf(path, sizeof path, "/sys/devices/system/node/node%d/meminfo", i);
        // Half of what is left is free, and half are pages of files.
        snprintf(content, sizeof content,
                 "Node %d MemTotal:       %d kB\nNode %d MemFree:        %d kB\n"
                 "Node %d Active(file):   %d kB\nNode %d Inactive(file): %d kB\n",
                 i, total[i] << 20, i, left[i] << 19, i, left[i] << 18, i, left[i] << 18);
        rig_write(r, path, content);
    }
}

static void a_limit_below_the_memory_is_found(void **state)
{
    rig r;
    (void)state;
    rig_open(&r);
    write_memory(&r, 60, "");
    rig_write(&r, "/proc/self/cgroup", "0::/job/step\n");
    write_number(&r, "/sys/fs/cgroup/job/memory.max", 16 * GIB);
    write_number(&r, "/sys/fs/cgroup/job/memory.current", 4 * GIB);
    rig_write(&r, "/sys/fs/cgroup/job/memory.stat", "inactive_file 1073741824\nactive_file 0\n");
    rig_write(&r, "/sys/fs/cgroup/job/step/memory.max", "max\n");
    rig_expect_found(&r, "cgroup-memory",
                     "The control group /sys/fs/cgroup/job allows 16.00 GiB of the machine's 64.00 "
                     "GiB; 13.00 GiB is left");
    write_number(&r, "/sys/fs/cgroup/job/memory.max", 62 * GIB);
    rig_expect_passed(&r, "cgroup-memory");
    rig_write(&r, "/sys/fs/cgroup/job/memory.max", "max\n");
    rig_expect_skipped(&r, "cgroup-memory", "no control group limits the memory");
    rig_close(&r);
}

static void a_limit_of_version_1_is_found(void **state)
{
    rig r;
    (void)state;
    rig_open(&r);
    write_memory(&r, 60, "");
    rig_write(&r, "/proc/self/cgroup", "4:memory:/docker/ab12\n0::/\n");
    write_number(&r, "/sys/fs/cgroup/memory/memory.limit_in_bytes", 2 * GIB);
    write_number(&r, "/sys/fs/cgroup/memory/memory.usage_in_bytes", 1 * GIB);
    rig_expect_found(&r, "cgroup-memory",
                     "The control group /sys/fs/cgroup/memory allows 2.00 GiB of the machine's "
                     "64.00 GiB; 1.00 GiB is left");
    write_number(&r, "/sys/fs/cgroup/memory/memory.usage_in_bytes", GIB + GIB / 2);
    rig_expect_found_as(&r, "cgroup-memory", DOCTOR_WARNING,
                        "The control group /sys/fs/cgroup/memory allows 2.00 GiB of the machine's "
                        "64.00 GiB; 512.00 MiB is left");
    rig_write(&r, "/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    rig_expect_skipped(&r, "cgroup-memory", "no control group limits the memory");
    rig_close(&r);
}

static void a_limit_that_slows_down_is_found(void **state)
{
    rig r;
    (void)state;
    rig_open(&r);
    rig_write(&r, "/proc/self/cgroup", "0::/job\n");
    write_number(&r, "/sys/fs/cgroup/job/memory.max", 16 * GIB);
    write_number(&r, "/sys/fs/cgroup/job/memory.high", 8 * GIB);
    rig_expect_found(&r, "cgroup-memory-high",
                     "The control group /sys/fs/cgroup/job has memory.high at 8.00 GiB");
    write_number(&r, "/sys/fs/cgroup/job/memory.high", 16 * GIB);
    rig_expect_passed(&r, "cgroup-memory-high");
    rig_write(&r, "/sys/fs/cgroup/job/memory.high", "max\n");
    rig_expect_skipped(&r, "cgroup-memory-high", "no control group has memory.high");
    rig_close(&r);
}

static void kills_of_the_group_are_found(void **state)
{
    rig r;
    (void)state;
    rig_open(&r);
    rig_write(&r, "/proc/self/cgroup", "0::/job\n");
    rig_write(&r, "/sys/fs/cgroup/job/memory.events", "low 0\nhigh 0\nmax 7\noom 3\noom_kill 3\n");
    rig_expect_found(&r, "cgroup-oom",
                     "The memory limit of this control group was reached, and the kernel has "
                     "killed a process 3 times");
    rig_write(&r, "/sys/fs/cgroup/job/memory.events", "low 0\nhigh 0\nmax 7\noom 0\noom_kill 0\n");
    rig_expect_passed(&r, "cgroup-oom");
    rig_close(&r);
}

static void kills_of_the_machine_are_found(void **state)
{
    rig r;
    (void)state;
    rig_open(&r);
    rig_write(&r, "/proc/vmstat", "nr_free_pages 1000\noom_kill 1\n");
    rig_expect_found(
        &r, "machine-oom",
        "The kernel has killed a process for lack of memory 1 time since the machine started");
    rig_write(&r, "/proc/vmstat", "nr_free_pages 1000\noom_kill 0\n");
    rig_expect_passed(&r, "machine-oom");
    rig_close(&r);
}

static void little_memory_that_is_left_is_found(void **state)
{
    rig r;
    (void)state;
    rig_open(&r);
    write_memory(&r, 6, "");
    rig_expect_found(&r, "memory-available", "6.00 GiB of the 64.00 GiB of memory is available");
    write_memory(&r, 7, "");
    rig_expect_passed(&r, "memory-available");
    rig_write(&r, "/proc/self/cgroup", "0::/job\n");
    write_number(&r, "/sys/fs/cgroup/job/memory.max", 10 * GIB);
    write_number(&r, "/sys/fs/cgroup/job/memory.current", 9 * GIB + GIB / 2);
    rig_expect_found(&r, "memory-available", "512.00 MiB of the 10.00 GiB of memory is available");
    rig_remove(&r, "/proc/meminfo");
    rig_expect_blind(&r, "memory-available", "/proc/meminfo does not say how much memory there is");
    rig_close(&r);
}

static void little_memory_for_the_gpus_is_found(void **state)
{
    rig r;
    (void)state;
    rig_open(&r);
    write_memory(&r, 60, "");
    for (char path[] = "/dev/nvidia0"; path[11] < '5'; path[11]++) rig_write(&r, path, "");
    rig_expect_found(&r, "memory-per-gpu",
                     "64.00 GiB of memory for 5 GPUs is little; 80.00 GiB is usual");
    rig_remove(&r, "/dev/nvidia4");
    rig_expect_passed(&r, "memory-per-gpu");
    for (char path[] = "/dev/nvidia0"; path[11] < '4'; path[11]++) rig_remove(&r, path);
    rig_expect_skipped(&r, "memory-per-gpu", "there is no GPU");
    rig_close(&r);
}

static void waiting_for_memory_is_found(void **state)
{
    rig r;
    (void)state;
    rig_open(&r);
    rig_write(&r, "/proc/pressure/memory",
              "some avg10=90.00 avg60=40.00 avg300=9.00 total=1\n"
              "full avg10=70.00 avg60=30.12 avg300=7.00 total=1\n");
    rig_expect_found(&r, "memory-pressure",
                     "All processes waited for memory in 30 % of the last minute");
    rig_write(&r, "/proc/pressure/memory",
              "some avg10=90.00 avg60=40.00 avg300=9.00 total=1\n"
              "full avg10=70.00 avg60=4.90 avg300=7.00 total=1\n");
    rig_expect_passed(&r, "memory-pressure");
    rig_remove(&r, "/proc/pressure/memory");
    rig_expect_skipped(&r, "memory-pressure", "/proc/pressure/memory does not exist");
    rig_close(&r);
}

static void a_restart_for_lack_of_memory_is_found(void **state)
{
    rig r;
    (void)state;
    rig_open(&r);
    rig_write(&r, "/proc/sys/vm/panic_on_oom", "1\n");
    rig_expect_found(&r, "panic-on-oom",
                     "vm.panic_on_oom is 1: the machine restarts when memory runs out");
    rig_write(&r, "/proc/sys/vm/panic_on_oom", "0\n");
    rig_expect_passed(&r, "panic-on-oom");
    rig_close(&r);
}

static void refused_reservations_are_found(void **state)
{
    rig r;
    (void)state;
    rig_open(&r);
    write_memory(&r, 60, "CommitLimit:    33554432 kB\nCommitted_AS:    8388608 kB\n");
    rig_write(&r, "/proc/sys/vm/overcommit_memory", "2\n");
    rig_expect_found(&r, "overcommit-memory",
                     "vm.overcommit_memory is 2, so that processes may reserve 24.00 GiB more on a "
                     "machine with 64.00 GiB");
    rig_write(&r, "/proc/sys/vm/overcommit_memory", "0\n");
    rig_expect_passed(&r, "overcommit-memory");
    rig_close(&r);
}

static void swap_in_use_is_found(void **state)
{
    rig r;
    (void)state;
    rig_open(&r);
    write_memory(&r, 60, "SwapTotal:       8388608 kB\nSwapFree:        1048576 kB\n");
    rig_expect_found(&r, "swap-used", "7.00 GiB of 8.00 GiB of swap is in use");
    write_memory(&r, 60, "SwapTotal:       8388608 kB\nSwapFree:        8000000 kB\n");
    rig_expect_passed(&r, "swap-used");
    write_memory(&r, 60, "SwapTotal:             0 kB\nSwapFree:              0 kB\n");
    rig_expect_skipped(&r, "swap-used", "there is no swap");
    rig_close(&r);
}

static void a_kernel_that_likes_to_swap_is_found(void **state)
{
    static const char HEAD[] = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n";
    char swaps[256];
    rig r;
    (void)state;
    rig_open(&r);
    rig_write(&r, "/proc/sys/vm/swappiness", "100\n");
    snprintf(swaps, sizeof swaps,
             "%s/dev/zram0                              partition\t8388604\t0\t100\n", HEAD);
    rig_write(&r, "/proc/swaps", swaps);
    rig_expect_skipped(&r, "swappiness", "there is no swap on a disk");
    snprintf(swaps, sizeof swaps,
             "%s/dev/sda2                               partition\t8388604\t0\t-2\n", HEAD);
    rig_write(&r, "/proc/swaps", swaps);
    rig_expect_found(&r, "swappiness", "vm.swappiness is 100 with swap on /dev/sda2");
    rig_write(&r, "/proc/sys/vm/swappiness", "60\n");
    rig_expect_passed(&r, "swappiness");
    rig_close(&r);
}

static void huge_pages_that_are_off_are_found(void **state)
{
    rig r;
    (void)state;
    rig_open(&r);
    rig_write(&r, "/sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n");
    rig_expect_found(
        &r, "transparent-huge-pages",
        "Transparent huge pages are off: /sys/kernel/mm/transparent_hugepage/enabled says never");
    rig_write(&r, "/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
    rig_expect_passed(&r, "transparent-huge-pages");
    rig_close(&r);
}

static void huge_pages_that_nobody_uses_are_found(void **state)
{
    rig r;
    (void)state;
    rig_open(&r);
    write_memory(
        &r, 60,
        "HugePages_Total:   16384\nHugePages_Free:    15360\nHugepagesize:       2048 kB\n");
    rig_expect_found(&r, "huge-pages-unused",
                     "30.00 GiB of 64.00 GiB is set aside for huge pages, and nobody uses it");
    write_memory(
        &r, 60,
        "HugePages_Total:   16384\nHugePages_Free:        0\nHugepagesize:       2048 kB\n");
    rig_expect_passed(&r, "huge-pages-unused");
    rig_close(&r);
}

static void errors_of_memory_modules_are_found(void **state)
{
    rig r;
    (void)state;
    rig_open(&r);
    rig_write(&r, "/sys/devices/system/edac/mc/mc0/ce_count", "12\n");
    rig_write(&r, "/sys/devices/system/edac/mc/mc0/ue_count", "0\n");
    rig_write(&r, "/sys/devices/system/edac/mc/mc1/ce_count", "99\n");
    rig_write(&r, "/sys/devices/system/edac/mc/mc1/ue_count", "0\n");
    rig_expect_passed(&r, "memory-corrected");
    rig_expect_passed(&r, "memory-uncorrected");
    rig_write(&r, "/sys/devices/system/edac/mc/mc1/ce_count", "100\n");
    rig_expect_found(&r, "memory-corrected",
                     "Memory controller mc1 has corrected 100 errors since the machine started");
    rig_write(&r, "/sys/devices/system/edac/mc/mc0/ue_count", "1\n");
    rig_expect_found(&r, "memory-uncorrected",
                     "Memory controller mc0 has found 1 error that it could not correct");
    rig_remove(&r, "/sys/devices/system/edac/mc");
    rig_expect_skipped(&r, "memory-uncorrected",
                       "the kernel counts no errors of memory modules (EDAC)");
    rig_close(&r);
}

static void broken_memory_out_of_use_is_found(void **state)
{
    rig r;
    (void)state;
    rig_open(&r);
    write_memory(&r, 60, "HardwareCorrupted:    16 kB\n");
    rig_expect_found(&r, "memory-retired",
                     "The kernel has taken 16.00 KiB of broken memory out of use");
    write_memory(&r, 60, "HardwareCorrupted:     0 kB\n");
    rig_expect_passed(&r, "memory-retired");
    rig_close(&r);
}

static void settings_of_nodes_are_found(void **state)
{
    rig r;
    (void)state;
    rig_open(&r);
    write_nodes(&r, 32, 16, 32, 16);
    rig_write(&r, "/proc/sys/kernel/numa_balancing", "1\n");
    rig_write(&r, "/proc/sys/vm/zone_reclaim_mode", "1\n");
    rig_expect_found(&r, "numa-balancing", "kernel.numa_balancing is on");
    rig_expect_found(&r, "zone-reclaim", "vm.zone_reclaim_mode is 1");
    rig_write(&r, "/proc/sys/kernel/numa_balancing", "0\n");
    rig_write(&r, "/proc/sys/vm/zone_reclaim_mode", "0\n");
    rig_expect_passed(&r, "numa-balancing");
    rig_expect_passed(&r, "zone-reclaim");
    rig_remove(&r, "/sys/devices/system/node/node1");
    rig_expect_skipped(&r, "numa-balancing", "there is one NUMA node");
    rig_close(&r);
}

static void a_full_node_is_found(void **state)
{
    rig r;
    (void)state;
    rig_open(&r);
    write_nodes(&r, 32, 16, 32, 1);
    rig_expect_found(&r, "numa-memory-left",
                     "node1 has 1.00 GiB of 32.00 GiB left, and another node has much more");
    write_nodes(&r, 32, 16, 32, 2);
    rig_expect_passed(&r, "numa-memory-left");
    write_nodes(&r, 32, 1, 32, 1); // both are full: memory-available says so
    rig_expect_passed(&r, "numa-memory-left");
    rig_close(&r);
}

static void a_node_with_less_memory_is_found(void **state)
{
    rig r;
    (void)state;
    rig_open(&r);
    write_nodes(&r, 16, 8, 32, 8);
    rig_expect_found(&r, "numa-memory-size", "node0 has 16.00 GiB, and node1 has 32.00 GiB");
    write_nodes(&r, 31, 8, 32, 8);
    rig_expect_passed(&r, "numa-memory-size");
    // A node without cores is memory of a device.
    rig_write(&r, "/sys/devices/system/node/node2/cpulist", "\n");
    rig_write(&r, "/sys/devices/system/node/node2/meminfo", "Node 2 MemTotal:       1048576 kB\n");
    rig_expect_passed(&r, "numa-memory-size");
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_limit_below_the_memory_is_found),
        cmocka_unit_test(a_limit_of_version_1_is_found),
        cmocka_unit_test(a_limit_that_slows_down_is_found),
        cmocka_unit_test(kills_of_the_group_are_found),
        cmocka_unit_test(kills_of_the_machine_are_found),
        cmocka_unit_test(little_memory_that_is_left_is_found),
        cmocka_unit_test(little_memory_for_the_gpus_is_found),
        cmocka_unit_test(waiting_for_memory_is_found),
        cmocka_unit_test(a_restart_for_lack_of_memory_is_found),
        cmocka_unit_test(refused_reservations_are_found),
        cmocka_unit_test(swap_in_use_is_found),
        cmocka_unit_test(a_kernel_that_likes_to_swap_is_found),
        cmocka_unit_test(huge_pages_that_are_off_are_found),
        cmocka_unit_test(huge_pages_that_nobody_uses_are_found),
        cmocka_unit_test(errors_of_memory_modules_are_found),
        cmocka_unit_test(broken_memory_out_of_use_is_found),
        cmocka_unit_test(settings_of_nodes_are_found),
        cmocka_unit_test(a_full_node_is_found),
        cmocka_unit_test(a_node_with_less_memory_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
