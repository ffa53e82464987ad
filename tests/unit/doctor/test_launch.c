// test_launch.c -- faults of ports, processes, the kernel and Python that `trireme doctor` must find, and healthy states.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "doctor_rig.h"

#define TCP_HEAD "  sl  local_address rem_address   st tx_queue rx_queue\n"

static void a_port_that_is_taken_is_found(void **state)
{
    (void)state;
    rig r;
    rig_open(&r);
    rig_expect_blind(&r, "port-in-use", "/proc/net/tcp cannot be read");
    // 733C is 29500; the first is connected (01), the second listens (0A) on another port.
    rig_write(&r, "/proc/net/tcp",
              TCP_HEAD "   0: 0100007F:733C 0100007F:A001 01 00000000:00000000\n"
                       "   1: 00000000:0016 00000000:0000 0A 00000000:00000000\n");
    rig_expect_passed(&r, "port-in-use");
    rig_write(&r, "/proc/net/tcp6",
              TCP_HEAD "   0: 00000000000000000000000000000000:733C "
                       "00000000000000000000000000000000:0000 0A 00000000:00000000\n");
    rig_expect_found(&r, "port-in-use",
                     "a process of this host listens on port 29500, at which ranks meet");
    rig_close(&r);
}

static void a_port_of_connections_is_found(void **state)
{
    (void)state;
    rig r;
    rig_open(&r);
    rig_write(&r, "/proc/sys/net/ipv4/ip_local_port_range", "32768\t60999\n");
    rig_expect_passed(&r, "port-ephemeral");
    r.context.port = 40000;
    rig_expect_found(&r, "port-ephemeral",
                     "port 40000, at which ranks meet, is one of 32768 to 60999, which the kernel "
                     "gives to connections");
    rig_write(&r, "/proc/sys/net/ipv4/ip_local_reserved_ports", "33000,39990-40010\n");
    rig_expect_passed(&r, "port-ephemeral");
    rig_close(&r);
}

static void a_port_of_root_is_found(void **state)
{
    (void)state;
    rig r;
    rig_open(&r);
    r.context.port = 443;
    rig_write(&r, "/proc/self/status", "Name:\tx\nCapEff:\t000001ffffffffff\n");
    rig_expect_passed(&r, "port-privileged");
    rig_write(&r, "/proc/self/status", "Name:\tx\nCapEff:\t0000000000000000\n");
    rig_expect_found(&r, "port-privileged",
                     "port 443, at which ranks meet, is below 1024, where only root may listen");
    rig_write(&r, "/proc/sys/net/ipv4/ip_unprivileged_port_start", "0\n");
    rig_expect_passed(&r, "port-privileged");
    rig_close(&r);
}

static void processes_of_earlier_runs_are_found(void **state)
{
    (void)state;
    rig r;
    rig_open(&r);
    rig_write(&r, "/proc/700/stat", "700 (bash) S 1 700 700 0\n");
    rig_write(&r, "/proc/712/stat", "712 (trireme) S 700 712 700 0\n");
    rig_expect_passed(&r, "orphaned-ranks");
    rig_expect_passed(&r, "stopped-ranks");
    rig_write(&r, "/proc/712/stat", "712 (trireme) T 1 712 700 0\n");
    rig_expect_found(&r, "orphaned-ranks",
                     "process 712 (trireme) runs without the program that started it");
    rig_expect_found(&r, "stopped-ranks",
                     "process 712 (trireme) is stopped by a signal or a debugger");
    rig_close(&r);
}

static void limits_of_the_system_are_found(void **state)
{
    (void)state;
    rig r;
    rig_open(&r);
    rig_write(&r, "/proc/sys/net/core/somaxconn", "4096\n");
    rig_write(&r, "/proc/sys/fs/file-nr", "1173\t0\t100000\n");
    rig_write(&r, "/proc/loadavg", "0.50 0.40 0.30 2/512 712\n");
    rig_write(&r, "/proc/sys/kernel/pid_max", "32768\n");
    rig_write(&r, "/proc/sys/kernel/yama/ptrace_scope", "1\n");
    rig_expect_passed(&r, "listen-backlog");
    rig_expect_passed(&r, "open-files-system");
    rig_expect_passed(&r, "process-ids");
    rig_expect_passed(&r, "ptrace");
    rig_expect_passed(&r, "kernel-version");
    rig_write(&r, "/proc/sys/net/core/somaxconn", "128\n");
    rig_write(&r, "/proc/sys/fs/file-nr", "99000\t0\t100000\n");
    rig_write(&r, "/proc/loadavg", "0.50 0.40 0.30 2/32000 712\n");
    rig_write(&r, "/proc/sys/kernel/yama/ptrace_scope", "3\n");
    rig_write(&r, "/proc/sys/kernel/osrelease", "4.18.0-553.el8.x86_64\n");
    rig_expect_found(&r, "listen-backlog", "net.core.somaxconn is 128; 4096 is usual");
    rig_expect_found(&r, "open-files-system", "99000 of 100000 files of the machine are open");
    rig_expect_found(&r, "process-ids", "32000 of 32768 process ids are in use");
    rig_expect_found(&r, "ptrace", "kernel.yama.ptrace_scope is 3: nobody may attach a debugger");
    rig_expect_found(&r, "kernel-version",
                     "the kernel is 4.18.0-553.el8.x86_64; the file tier wants 5.6 or newer");
    rig_close(&r);
}

static void services_that_are_missing_are_found(void **state)
{
    (void)state;
    rig r;
    rig_open(&r);
    rig_write(&r, "/proc/sys/kernel/core_pattern", "core\n");
    rig_expect_passed(&r, "core-program");
    rig_write(&r, "/proc/sys/kernel/core_pattern", "|/usr/share/apport/apport -p%p\n");
    rig_expect_found(&r, "core-program",
                     "core files go to /usr/share/apport/apport, which does not exist here");
    rig_write(&r, "/etc/systemd/logind.conf", "[Login]\n#KillUserProcesses=yes\n");
    rig_expect_passed(&r, "logout-ends-runs");
    rig_write(&r, "/etc/systemd/logind.conf", "[Login]\nKillUserProcesses=yes\n");
    rig_expect_found(&r, "logout-ends-runs",
                     "logind has KillUserProcesses=yes, so a logout ends a run in the background");
    rig_expect_skipped(&r, "clock-service",
                       "no systemd runs here, so the clock is the host's or has another keeper");
    rig_folder(&r, "/run/systemd/system");
    rig_expect_found(&r, "clock-service",
                     "no service that sets the clock by the network has done so");
    rig_write(&r, "/run/systemd/timesync/synchronized", "");
    rig_expect_passed(&r, "clock-service");
    rig_expect_passed(&r, "reboot-required");
    rig_write(&r, "/run/reboot-required", "");
    rig_expect_found(&r, "reboot-required",
                     "/run/reboot-required says that updates wait for a restart of the machine");
    rig_close(&r);
}

static void add_program(rig *r, const char *path)
{
    rig_write(r, path, "");
    char *full = rig_full(r, path);
    assert_int_equal(chmod(full, 0755), 0);
    free(full);
}

static void programs_that_are_missing_are_found(void **state)
{
    (void)state;
    rig r;
    rig_open(&r);
    rig_expect_skipped(&r, "ssh-client", "no other host is named");
    rig_expect_skipped(&r, "python-missing", "Python is looked at with --python");
    r.context.peer = "node1";
    r.context.python = true;
    rig_expect_found(&r, "ssh-client", "no folder of PATH has the program ssh");
    rig_expect_found(&r, "python-missing", "no folder of PATH has the program python3");
    add_program(&r, "/bin/ssh");
    add_program(&r, "/usr/bin/python3");
    rig_expect_passed(&r, "ssh-client");
    rig_expect_passed(&r, "python-missing");
    rig_close(&r);
}

static void a_pytorch_that_does_not_fit_is_found(void **state)
{
    (void)state;
    rig r;
    rig_open(&r);
    r.context.python = true;
    add_program(&r, "/usr/bin/python3");
    rig_expect_skipped(&r, "torch-numpy", "the python3 of PATH has no PyTorch");
    rig_folder(&r, "/usr/lib/python3.11/dist-packages/torch-2.5.1+cpu.dist-info");
    rig_folder(&r, "/usr/lib/python3.11/dist-packages/numpy-2.1.3.dist-info");
    rig_folder(&r, "/usr/lib/python3.11/dist-packages/nvidia_nccl_cu12-2.21.5.dist-info");
    rig_expect_passed(&r, "torch-without-cuda");
    rig_expect_passed(&r, "torch-numpy");
    rig_expect_passed(&r, "torch-cuda-mixed");
    rig_folder(&r, "/proc/driver/nvidia/gpus/0000:01:00.0");
    rig_expect_found(&r, "torch-without-cuda",
                     "PyTorch of /usr/bin/python3 is 2.5.1+cpu, which is built for the CPU alone");
    rig_folder(&r, "/usr/lib/python3.11/dist-packages/nvidia_cublas_cu11-11.10.3.dist-info");
    rig_expect_found(&r, "torch-cuda-mixed",
                     "/usr/bin/python3 has packages of NVIDIA for cu11 and for cu12");
    rig_remove(&r, "/usr/lib/python3.11/dist-packages/torch-2.5.1+cpu.dist-info");
    rig_folder(&r, "/usr/lib/python3.11/dist-packages/torch-2.2.0.dist-info");
    rig_expect_found(
        &r, "torch-numpy",
        "/usr/bin/python3 has PyTorch 2.2.0 with NumPy 2.1.3; PyTorch before 2.3 wants "
        "NumPy 1");
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_port_that_is_taken_is_found),
        cmocka_unit_test(a_port_of_connections_is_found),
        cmocka_unit_test(a_port_of_root_is_found),
        cmocka_unit_test(processes_of_earlier_runs_are_found),
        cmocka_unit_test(limits_of_the_system_are_found),
        cmocka_unit_test(services_that_are_missing_are_found),
        cmocka_unit_test(programs_that_are_missing_are_found),
        cmocka_unit_test(a_pytorch_that_does_not_fit_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
