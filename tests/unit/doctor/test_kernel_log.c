// test_kernel_log.c -- the checks of doctor/kernel_log/: each is silent over the messages of a healthy start, and finds the
// message that is planted.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "doctor/kernel_log/xid.h"
#include "doctor_rig.h"

// A start without faults, in which the words of faults occur.
static const char HEALTHY[] =
    "5,0,0,-;Linux version 6.1.0-18-amd64 (debian-kernel@lists.debian.org)\n"
    "6,310,1002345,-;pcieport 0000:00:01.0: AER: enabled with IRQ 122\n"
    " SUBSYSTEM=pci\n"
    " DEVICE=+pci:0000:00:01.0;Out of memory: Killed process 9\n"
    "6,402,1402345,-;nvme nvme0: Shutdown timeout set to 10 seconds\n"
    "6,403,1402355,-;nvme nvme0: 8/0/0 default/read/poll queues\n"
    "6,404,1402365,-;EXT4-fs (nvme0n1p2): mounted filesystem with ordered data mode\n"
    "6,405,1402375,-;MCE: In-kernel MCE decoding enabled.\n"
    "6,406,1402385,-;EDAC MC0: Giving out device to module skx_edac controller Skylake\n"
    "4,500,2102345,-;NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.54.15\n"
    "6,501,2202345,-;mlx5_core 0000:18:00.0 eth2: Link up\n"
    "6,502,2302345,-;DMAR: Intel(R) Virtualization Technology for Directed I/O\n"
    "6,503,2402345,-;hung_task: khungtaskd started\n";

static void open_log(rig *r)
{
    rig_open(r);
    rig_write(r, "/dev/kmsg", HEALTHY);
}

// Adds a message, as the kernel writes it.
static void plant(rig *r, const char *message)
{
    char *full = rig_full(r, "/dev/kmsg");
    FILE *f = fopen(full, "a");
    assert_non_null(f);
    assert_true(fprintf(f, "4,900,9002345,-;%s\n", message) > 0);
    assert_int_equal(fclose(f), 0);
    free(full);
}

static void check_message(rig *r, const char *code, const char *message, const char *issue)
{
    plant(r, message);
    rig_expect_found(r, code, issue);
    rig_write(r, "/dev/kmsg", HEALTHY);
}

// ---- Where the log is

static void test_a_log_that_is_not_there_is_said(void **state)
{
    (void)state;
    rig r;
    rig_open(&r);
    rig_expect_blind(&r, "kernel-oom", "there is no kernel log (/dev/kmsg, /var/log/kern.log)");
    rig_expect_blind(&r, "gpu-xid", "there is no kernel log (/dev/kmsg, /var/log/kern.log)");
    rig_close(&r);
}

static void test_of_a_file_the_last_start_counts(void **state)
{
    (void)state;
    rig r;
    rig_open(&r);
    rig_write(&r, "/var/log/kern.log",
              "Nov 27 10:00:00 host kernel: [    0.0] Linux version 6.1.0-17-amd64\n"
              "Nov 27 11:00:00 host kernel: [ 3600.0] Out of memory: Killed process 1 (old)\n"
              "Nov 28 10:00:00 host kernel: [    0.0] Linux version 6.1.0-18-amd64\n");
    rig_expect_passed(&r, "kernel-oom");
    rig_write(&r, "/var/log/kern.log",
              "Nov 28 10:00:00 host kernel: [    0.0] Linux version 6.1.0-18-amd64\n"
              "Nov 28 11:00:00 host kernel: [ 3600.0] Out of memory: Killed process 7 (new)\n");
    rig_expect_found(&r, "kernel-oom",
                     "The kernel has killed 1 processes for lack of memory; the last: Nov 28 "
                     "11:00:00 host kernel: [ 3600.0] Out of memory: Killed process 7 (new)");
    rig_close(&r);
}

// ---- NVIDIA

static void test_xid(void **state)
{
    (void)state;
    rig r;
    open_log(&r);
    rig_expect_passed(&r, "gpu-xid");
    plant(&r, "NVRM: Xid (PCI:0000:1b:00): 79, pid=4711, GPU has fallen off the bus.");
    rig_expect_found_as(&r, "gpu-xid", DOCTOR_ERROR,
                        "GPU 0000:1b:00: Xid 79, the GPU has fallen off the bus (1 times); most "
                        "often caused by the hardware of the GPU");
    rig_write(&r, "/dev/kmsg", HEALTHY);
    plant(&r, "NVRM: Xid (PCI:0000:43:00): 31, pid=12, name=trireme, Ch 00000008, intr 00000000");
    plant(&r, "NVRM: Xid (PCI:0000:43:00): 31, pid=12, name=trireme, Ch 00000009, intr 00000000");
    rig_expect_found(&r, "gpu-xid",
                     "GPU 0000:43:00: Xid 31, a kernel used memory that is not mapped (page fault) "
                     "(2 times); most often caused by the application");
    rig_write(&r, "/dev/kmsg", HEALTHY);
    plant(&r, "NVRM: Xid (0000:03:00): 999, something new");
    rig_expect_found(&r, "gpu-xid",
                     "GPU 0000:03:00: Xid 999, a fault that Trireme does not know (1 times); most "
                     "often caused by something unknown");
    rig_close(&r);
}

static void test_sxid(void **state)
{
    (void)state;
    rig r;
    open_log(&r);
    rig_expect_passed(&r, "gpu-sxid");
    plant(&r, "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 12028, Non-fatal, Link 32 egress error");
    rig_expect_found(&r, "gpu-sxid", "NVSwitch 0000:c1:00.0: SXid 12028, not fatal (1 times)");
    rig_write(&r, "/dev/kmsg", HEALTHY);
    plant(&r, "nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30 LTSSM Fault Up");
    rig_expect_found_as(&r, "gpu-sxid", DOCTOR_ERROR,
                        "NVSwitch 0000:c1:00.0: SXid 20034, fatal (1 times)");
    rig_close(&r);
}

static void test_nvrm(void **state)
{
    (void)state;
    rig r;
    open_log(&r);
    rig_expect_passed(&r, "kernel-nvrm");
    check_message(&r, "kernel-nvrm",
                  "NVRM: GPU 0000:1b:00.0: RmInitAdapter failed! (0x22:0x56:762)",
                  "1 messages of a GPU that did not start; the last: NVRM: GPU 0000:1b:00.0: "
                  "RmInitAdapter failed! (0x22:0x56:762)");
    check_message(
        &r, "kernel-nvrm", "NVRM: API mismatch: the client has the version 570.86.15",
        "1 messages of a GPU that did not start; the last: NVRM: API mismatch: the client "
        "has the version 570.86.15");
    rig_close(&r);
}

static void test_the_table_of_xids_is_sound(void **state)
{
    (void)state;
    static const int known[] = {13, 31, 32, 38, 43, 45,  48,  61,  62,  63,  64,  68, 69,
                                74, 79, 92, 94, 95, 109, 119, 120, 140, 143, 145, 154};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!xid_find(known[i])) fail_msg("Xid %d is not in the table", known[i]);
    assert_null(xid_find(0));
    assert_null(xid_find(1));
    assert_null(xid_find(1000));
    int last = 0;
    for (int n = 0; n < 200; n++) {
        const xid_row *row = xid_find(n);
        if (!row || row->first != n) continue;
        assert_true(row->first > last && row->last >= row->first);
        last = row->last;
    }
    assert_int_equal(xid_find(13)->cause, XID_APPLICATION);
    assert_int_equal(xid_find(79)->severity, DOCTOR_ERROR);
    assert_int_equal(xid_find(45)->severity, DOCTOR_NOTE);
}

static void test_lines_of_xids(void **state)
{
    (void)state;
    char address[32];
    assert_int_equal(xid_of_line("NVRM: Xid (PCI:0000:05:00): 79, x", address, 32), 79);
    assert_string_equal(address, "0000:05:00");
    assert_int_equal(xid_of_line("[1.0] NVRM: Xid (0000:03:00): 14, Channel 1", address, 32), 14);
    assert_string_equal(address, "0000:03:00");
    assert_int_equal(xid_of_line("NVRM: loading", address, 32), -1);
    assert_int_equal(xid_of_line("NVRM: Xid (PCI:0000:05:00): no number", address, 32), -1);
    assert_int_equal(xid_of_line("NVRM: Xid (PCI:0000:05:00", address, 32), -1);
    assert_int_equal(xid_of_line("NVRM: Xid (PCI:0000:05:00): 79, x", address, 8), -1);
    assert_int_equal(sxid_of_line("SXid (PCI:0000:c1:00.0): 20034, Fatal", address, 32), 20034);
}

// ---- The machine

static void test_memory_and_processor(void **state)
{
    (void)state;
    rig r;
    open_log(&r);
    rig_expect_passed(&r, "kernel-oom");
    check_message(
        &r, "kernel-oom", "Memory cgroup out of memory: Killed process 4711 (trireme) total-vm:1kB",
        "The kernel has killed 1 processes for lack of memory; the last: Memory cgroup out "
        "of memory: Killed process 4711 (trireme) total-vm:1kB");
    rig_expect_passed(&r, "kernel-mce");
    check_message(&r, "kernel-mce", "mce: [Hardware Error]: Machine check: CPU 3: Bank 7",
                  "1 messages of faults of the hardware; the last: mce: [Hardware Error]: Machine "
                  "check: CPU 3: Bank 7");
    rig_expect_passed(&r, "kernel-hot");
    check_message(&r, "kernel-hot",
                  "CPU3: Core temperature above threshold, cpu clock throttled (total events = 1)",
                  "1 times a processor slowed down because it was hot; the last: CPU3: Core "
                  "temperature above threshold, cpu clock throttled (total events = 1)");
    rig_expect_passed(&r, "kernel-lockup");
    check_message(
        &r, "kernel-lockup", "watchdog: BUG: soft lockup - CPU#3 stuck for 23s! [trireme:7]",
        "1 times a processor was stuck in the kernel; the last: watchdog: BUG: soft lockup "
        "- CPU#3 stuck for 23s! [trireme:7]");
    rig_expect_passed(&r, "kernel-hung-task");
    check_message(
        &r, "kernel-hung-task", "INFO: task trireme:77 blocked for more than 120 seconds.",
        "1 times a process hung in the kernel for minutes; the last: INFO: task trireme:77 "
        "blocked for more than 120 seconds.");
    rig_expect_passed(&r, "kernel-segfault");
    plant(&r, "firefox[9]: segfault at 0 ip 0 sp 0 error 4 in libxul.so[1000]");
    rig_expect_passed(&r, "kernel-segfault");
    check_message(
        &r, "kernel-segfault",
        "trireme[77]: segfault at 8 ip 55d0 sp 7ffc error 4 in trireme[55d0+1000]",
        "1 crashes of trireme; the last: trireme[77]: segfault at 8 ip 55d0 sp 7ffc error 4 "
        "in trireme[55d0+1000]");
    rig_close(&r);
}

static void test_disks(void **state)
{
    (void)state;
    rig r;
    open_log(&r);
    rig_expect_passed(&r, "kernel-nvme");
    check_message(
        &r, "kernel-nvme", "nvme nvme0: I/O 385 QID 3 timeout, aborting",
        "1 messages of an NVMe disk that did not answer; the last: nvme nvme0: I/O 385 QID "
        "3 timeout, aborting");
    rig_expect_passed(&r, "kernel-disk");
    plant(&r, "blk_update_request: I/O error, dev fd0, sector 0");
    rig_expect_passed(&r, "kernel-disk");
    check_message(&r, "kernel-disk", "I/O error, dev sda, sector 2048 op 0x0:(READ)",
                  "1 errors of disks; the last: I/O error, dev sda, sector 2048 op 0x0:(READ)");
    rig_expect_passed(&r, "kernel-filesystem");
    check_message(&r, "kernel-filesystem",
                  "EXT4-fs error (device sda1): ext4_find_entry:1455: inode #2: comm trireme",
                  "1 errors of file systems; the last: EXT4-fs error (device sda1): "
                  "ext4_find_entry:1455: inode #2: comm trireme");
    rig_expect_passed(&r, "kernel-nfs");
    check_message(&r, "kernel-nfs", "nfs: server filer not responding, still trying",
                  "1 times an NFS server did not answer; the last: nfs: server filer not "
                  "responding, still trying");
    rig_close(&r);
}

static void test_devices(void **state)
{
    (void)state;
    rig r;
    open_log(&r);
    rig_expect_passed(&r, "kernel-pcie");
    check_message(&r, "kernel-pcie",
                  "pcieport 0000:00:01.0: AER: Corrected error received: 0000:1b:00.0",
                  "1 messages of errors of PCIe links; the last: pcieport 0000:00:01.0: AER: "
                  "Corrected error received: 0000:1b:00.0");
    rig_expect_passed(&r, "kernel-link-down");
    plant(&r, "mlx5_core 0000:18:00.0 eth2: Link down");
    plant(&r, "mlx5_core 0000:18:00.0 eth2: Link down");
    rig_expect_passed(&r, "kernel-link-down"); // a start takes a link down once or twice
    check_message(&r, "kernel-link-down", "mlx5_core 0000:18:00.0 eth2: Link down",
                  "Network links went down 3 times; the last: mlx5_core 0000:18:00.0 eth2: Link "
                  "down");
    rig_expect_passed(&r, "kernel-net-watchdog");
    check_message(
        &r, "kernel-net-watchdog", "NETDEV WATCHDOG: eth0 (ixgbe): transmit queue 3 timed out",
        "1 times a network card did not send for seconds; the last: NETDEV WATCHDOG: eth0 "
        "(ixgbe): transmit queue 3 timed out");
    rig_expect_passed(&r, "kernel-iommu");
    check_message(&r, "kernel-iommu",
                  "DMAR: [DMA Write NO_PASID] Request device [1b:00.0] fault addr 0x7f00",
                  "The IOMMU refused 1 accesses of devices; the last: DMAR: [DMA Write NO_PASID] "
                  "Request device [1b:00.0] fault addr 0x7f00");
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_log_that_is_not_there_is_said),
        cmocka_unit_test(test_of_a_file_the_last_start_counts),
        cmocka_unit_test(test_xid),
        cmocka_unit_test(test_sxid),
        cmocka_unit_test(test_nvrm),
        cmocka_unit_test(test_the_table_of_xids_is_sound),
        cmocka_unit_test(test_lines_of_xids),
        cmocka_unit_test(test_memory_and_processor),
        cmocka_unit_test(test_disks),
        cmocka_unit_test(test_devices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
