// Tests of the checks of containers, on files that look like those of a machine: each finds its fault, and is silent without
// it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "doctor_rig.h"

static const char NO_CONTAINER[] = "this is no container";

static void write_status(rig *r, const char *capabilities, int seccomp)
{
    char content[256];
    snprintf(content, sizeof content, "Name:\ttrireme\nCapEff:\t%s\nCapBnd:\t%s\nSeccomp:\t%d\n",
             capabilities, capabilities, seccomp);
    rig_write(r, "/proc/self/status", content);
}

static void open_docker(rig *r)
{
    rig_open(r);
    rig_write(r, "/.dockerenv", "");
}

static void an_ipc_namespace_of_its_own_is_found(void **state)
{
    rig r;
    (void)state;
    rig_open(&r);
    rig_link(&r, "/proc/self/ns/ipc", "ipc:[4026533001]");
    rig_expect_skipped(&r, "container-ipc", NO_CONTAINER);
    rig_write(&r, "/run/.containerenv", "engine=podman\n");
    rig_expect_found(&r, "container-ipc", "This podman container has an IPC namespace of its own");
    rig_link(&r, "/proc/self/ns/ipc", "ipc:[4026531839]");
    rig_expect_passed(&r, "container-ipc");
    rig_remove(&r, "/proc/self/ns/ipc");
    rig_expect_blind(&r, "container-ipc", "/proc/self/ns/ipc cannot be read");
    rig_close(&r);
}

static void a_container_without_debuggers_is_found(void **state)
{
    rig r;
    (void)state;
    open_docker(&r);
    rig_variable(&r, "KUBERNETES_SERVICE_HOST=10.0.0.1");
    write_status(&r, "00000000a80425fb", 2);   // Docker's usual set
    rig_expect_passed(&r, "container-ptrace"); // the kernel lets users trace their own processes
    rig_write(&r, "/proc/sys/kernel/yama/ptrace_scope", "1\n");
    rig_expect_found(&r, "container-ptrace",
                     "This kubernetes container lacks the capability SYS_PTRACE, and "
                     "kernel.yama.ptrace_scope is 1");
    rig_write(&r, "/proc/sys/kernel/yama/ptrace_scope", "2\n"); // another check's matter
    rig_expect_passed(&r, "container-ptrace");
    rig_write(&r, "/proc/sys/kernel/yama/ptrace_scope", "1\n");
    write_status(&r, "0000000000080000", 2);
    rig_expect_passed(&r, "container-ptrace");
    rig_close(&r);
}

static void a_container_that_cannot_place_memory_is_found(void **state)
{
    rig r;
    (void)state;
    open_docker(&r);
    rig_write(&r, "/sys/devices/system/node/node0/cpulist", "0-3\n");
    rig_write(&r, "/sys/devices/system/node/node1/cpulist", "4-7\n");
    write_status(&r, "00000000a80425fb", 2);
    rig_expect_found(
        &r, "container-numa",
        "This docker container filters system calls and lacks the capability SYS_NICE");
    write_status(&r, "0000000000800000", 2);
    rig_expect_passed(&r, "container-numa");
    write_status(&r, "00000000a80425fb", 0);
    rig_expect_passed(&r, "container-numa");
    rig_remove(&r, "/sys/devices/system/node/node1");
    rig_expect_skipped(&r, "container-numa", "there is one NUMA node");
    rig_close(&r);
}

static void other_users_of_the_host_are_found(void **state)
{
    rig r;
    (void)state;
    rig_open(&r);
    rig_variable(&r, "container=lxc");
    rig_write(&r, "/proc/self/uid_map", "         0     100000      65536\n");
    rig_expect_found(&r, "container-user", "User 0 of this container is user 100000 of the host");
    rig_write(&r, "/proc/self/uid_map", "         0          0 4294967295\n");
    rig_expect_passed(&r, "container-user");
    rig_close(&r);
}

static void a_driver_without_cuda_is_found(void **state)
{
    rig r;
    (void)state;
    open_docker(&r);
    rig_variable(&r, "NVIDIA_DRIVER_CAPABILITIES=utility");
    rig_expect_skipped(&r, "container-driver-capabilities", "there is no GPU");
    rig_write(&r, "/dev/nvidia0", "");
    rig_expect_found(&r, "container-driver-capabilities",
                     "NVIDIA_DRIVER_CAPABILITIES is utility, without compute");
    rig_variable(&r, "NVIDIA_DRIVER_CAPABILITIES=compute,utility");
    rig_expect_passed(&r, "container-driver-capabilities");
    rig_variable(&r, "NVIDIA_DRIVER_CAPABILITIES=all");
    rig_expect_passed(&r, "container-driver-capabilities");
    rig_close(&r);
}

static void windows_beneath_linux_is_found(void **state)
{
    rig r;
    (void)state;
    rig_open(&r);
    rig_write(&r, "/proc/sys/kernel/osrelease", "5.15.153.1-microsoft-standard-WSL2\n");
    rig_expect_found(
        &r, "windows-subsystem",
        "The kernel 5.15.153.1-microsoft-standard-WSL2 is that of the Windows Subsystem for Linux");
    rig_write(&r, "/proc/sys/kernel/osrelease", "6.1.0-18-amd64\n");
    rig_expect_passed(&r, "windows-subsystem");
    rig_close(&r);
}

static void folders_of_sys_that_are_hidden_are_found(void **state)
{
    rig r;
    (void)state;
    rig_open(&r);
    rig_write(&r, "/sys/class/net/eth0/mtu", "1500\n");
    rig_write(&r, "/sys/devices/system/cpu/online", "0-7\n");
    rig_remove(&r, "/sys/bus");
    rig_expect_passed(&r, "sys-hidden");
    rig_write(&r, "/dev/nvidia0", "");
    rig_expect_found(&r, "sys-hidden", "/sys/bus/pci/devices is missing or empty");
    rig_write(&r, "/sys/bus/pci/devices/0000:01:00.0/vendor", "0x10de\n");
    rig_remove(&r, "/sys/class/net/eth0");
    rig_expect_found(&r, "sys-hidden", "/sys/class/net is missing or empty");
    rig_close(&r);
}

// A card at so many PCI addresses.
static void write_card(rig *r, int bus, const char *vendor, const char *class)
{
    char path[96];
    snprintf(path, sizeof path, "/sys/bus/pci/devices/0000:%02d:00.0/vendor", bus);
    rig_write(r, path, vendor);
    snprintf(path, sizeof path, "/sys/bus/pci/devices/0000:%02d:00.0/class", bus);
    rig_write(r, path, class);
}

static void gpus_that_are_hidden_are_found(void **state)
{
    rig r;
    (void)state;
    open_docker(&r);
    write_card(&r, 1, "0x10de\n", "0x030200\n");
    write_card(&r, 2, "0x10de\n", "0x030200\n");
    write_card(&r, 3, "0x10de\n", "0x068000\n"); // a switch of NVLink
    write_card(&r, 4, "0x1a03\n", "0x030000\n"); // the screen of another maker
    rig_expect_found(&r, "container-gpu-hidden",
                     "The host has 2 GPUs of NVIDIA, and /dev has files of 0");
    rig_write(&r, "/dev/nvidia0", "");
    rig_expect_found_as(&r, "container-gpu-hidden", DOCTOR_NOTE,
                        "The host has 2 GPUs of NVIDIA, and /dev has files of 1");
    rig_write(&r, "/dev/nvidia1", "");
    rig_expect_passed(&r, "container-gpu-hidden");
    rig_close(&r);
}

static void cards_that_are_hidden_are_found(void **state)
{
    rig r;
    (void)state;
    open_docker(&r);
    rig_expect_skipped(&r, "container-rdma-hidden", "there is no InfiniBand or RoCE device");
    rig_write(&r, "/sys/class/infiniband/mlx5_0/node_type", "1: CA\n");
    rig_write(&r, "/dev/infiniband/rdma_cm", "");
    rig_expect_found(&r, "container-rdma-hidden",
                     "The host has 1 RDMA card, and /dev/infiniband has no file uverbs*");
    rig_write(&r, "/dev/infiniband/uverbs0", "");
    rig_expect_passed(&r, "container-rdma-hidden");
    rig_close(&r);
}

static void containers_are_not_looked_for_on_a_host(void **state)
{
    static const char *const CODES[] = {
        "container-ipc",
        "container-ptrace",
        "container-numa",
        "container-user",
        "container-driver-capabilities",
        "container-gpu-hidden",
        "container-rdma-hidden",
    };
    rig r;
    (void)state;
    rig_open(&r);
    rig_link(&r, "/proc/self/ns/ipc", "ipc:[4026533001]");
    write_status(&r, "0000000000000000", 2);
    rig_write(&r, "/sys/devices/system/node/node0/cpulist", "0-3\n");
    rig_write(&r, "/sys/devices/system/node/node1/cpulist", "4-7\n");
    rig_write(&r, "/proc/sys/kernel/yama/ptrace_scope", "1\n");
    rig_write(&r, "/proc/self/uid_map", "0 100000 65536\n");
    rig_write(&r, "/dev/nvidia0", "");
    rig_variable(&r, "NVIDIA_DRIVER_CAPABILITIES=utility");
    write_card(&r, 1, "0x10de\n", "0x030200\n");
    write_card(&r, 2, "0x10de\n", "0x030200\n");
    rig_write(&r, "/sys/class/infiniband/mlx5_0/node_type", "1: CA\n");
    for (size_t i = 0; i < sizeof CODES / sizeof *CODES; i++)
        rig_expect_skipped(&r, CODES[i], NO_CONTAINER);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_ipc_namespace_of_its_own_is_found),
        cmocka_unit_test(a_container_without_debuggers_is_found),
        cmocka_unit_test(a_container_that_cannot_place_memory_is_found),
        cmocka_unit_test(other_users_of_the_host_are_found),
        cmocka_unit_test(a_driver_without_cuda_is_found),
        cmocka_unit_test(windows_beneath_linux_is_found),
        cmocka_unit_test(folders_of_sys_that_are_hidden_are_found),
        cmocka_unit_test(gpus_that_are_hidden_are_found),
        cmocka_unit_test(cards_that_are_hidden_are_found),
        cmocka_unit_test(containers_are_not_looked_for_on_a_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
