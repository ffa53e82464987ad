// test_storage.c -- faults of files, file systems and disks that `trireme doctor` must find, and healthy states.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "doctor_rig.h"

#include <sys/sysmacros.h>

#define DISK   "/dev/nvme0n1p2 / ext4 rw,relatime 0 0\n"
#define SERVER "server:/runs"

static void open_runs(rig *r)
{
    rig_open(r);
    rig_folder(r, "/runs");
    rig_folder(r, "/sys/block/nvme0n1/queue");
    rig_write(r, "/sys/block/nvme0n1/nvme0n1p2/size", "1000\n");
    r->context.folder = "/runs";
}

static void mount_runs(rig *r, const char *line)
{
    text t = {0};
    text_addf(&t, DISK "%s 0 0\n", line);
    rig_write(r, "/proc/mounts", t.chars);
    text_clear(&t);
}

static void expect_mount(const char *code, const char *healthy, const char *faulty,
                         const char *issue)
{
    rig r;
    open_runs(&r);
    mount_runs(&r, healthy);
    rig_expect_passed(&r, code);
    mount_runs(&r, faulty);
    rig_expect_found(&r, code, issue);
    rig_close(&r);
}

static void a_file_in_the_place_of_the_folder_is_found(void **state)
{
    (void)state;
    rig r;
    open_runs(&r);
    rig_expect_passed(&r, "folder-writable");
    r.context.folder = "/runs/new/deep";
    rig_expect_passed(&r, "folder-writable");
    rig_write(&r, "/runs/new", "");
    rig_expect_found(&r, "folder-writable",
                     "/runs/new is a file, not a folder, so train.out cannot be written");
    rig_close(&r);
}

static void a_mount_for_reading_is_found(void **state)
{
    (void)state;
    rig r;
    open_runs(&r);
    rig_expect_passed(&r, "folder-read-only");
    mount_runs(&r, "/dev/sdb1 /runs ext4 ro,relatime");
    rig_expect_found(&r, "folder-read-only", "/runs is on /runs, which is mounted read-only");
    rig_remove(&r, "/proc/mounts");
    rig_expect_blind(&r, "folder-read-only", "/proc/mounts does not name the mount of /runs");
    rig_close(&r);
}

static void another_run_in_the_folder_is_found(void **state)
{
    (void)state;
    rig r;
    struct stat info;
    char line[200];
    open_runs(&r);
    char *full = rig_full(&r, "/runs");
    assert_int_equal(stat(full, &info), 0);
    free(full);
    const unsigned a = major(info.st_dev), b = minor(info.st_dev);
    const unsigned long inode = (unsigned long)info.st_ino;
    (void)snprintf(line, sizeof line, "1: FLOCK  ADVISORY  WRITE 712 %02x:%02x:%lu 0 EOF\n", a, b,
                   inode + 1);
    rig_write(&r, "/proc/locks", line);
    rig_expect_passed(&r, "folder-in-use");
    (void)snprintf(line, sizeof line, "1: FLOCK  ADVISORY  WRITE 712 %02x:%02x:%lu 0 EOF\n", a, b,
                   inode);
    rig_write(&r, "/proc/locks", line);
    rig_expect_found(&r, "folder-in-use",
                     "process 712 holds /runs, because it writes a run into it");
    rig_close(&r);
}

static void a_full_file_system_is_found(void **state)
{
    (void)state;
    rig r;
    open_runs(&r);
    rig_expect_blind(&r, "disk-space", "statvfs does not answer for /runs");
    rig_write(&r, "/statvfs", "/ 1099511627776 107374182400 65536000 60000000\n");
    rig_expect_passed(&r, "disk-space");
    rig_expect_passed(&r, "disk-inodes");
    rig_write(&r, "/statvfs", "/ 1099511627776 2147483648 65536000 12\n");
    rig_expect_found(&r, "disk-space",
                     "/runs is on /, which has 2.00 GiB free of 1.00 TiB; wanted: 10.00 GiB");
    rig_expect_found(&r, "disk-inodes", "/runs is on /, which has 12 of 65536000 inodes left");
    rig_write(&r, "/statvfs", "/ 1099511627776 0 65536000 0\n");
    rig_expect_found_as(&r, "disk-space", DOCTOR_ERROR,
                        "/runs is on /, which has 0 B free of 1.00 TiB; wanted: 10.00 GiB");
    rig_expect_found_as(&r, "disk-inodes", DOCTOR_ERROR,
                        "/runs is on /, which has 0 of 65536000 inodes left");
    rig_write(&r, "/statvfs", "/ 1099511627776 107374182400 0 0\n");
    rig_expect_passed(&r, "disk-inodes");
    rig_close(&r);
}

static void file_systems_that_do_not_last_are_found(void **state)
{
    (void)state;
    const char *disk = "/dev/sdb1 /runs xfs rw";
    expect_mount("folder-in-memory", disk, "tmpfs /runs tmpfs rw",
                 "/runs is on /runs, which is in memory (tmpfs)");
    expect_mount(
        "folder-on-network", "a@tcp:/fs /runs lustre rw", "//server/runs /runs cifs rw",
        "/runs is on /runs (cifs of //server/runs), which may not lock files between hosts");
    expect_mount("folder-on-objects", "a@tcp:/fs /runs lustre rw", "s3 /runs fuse.mountpoint-s3 rw",
                 "/runs is on /runs, an object store (fuse.mountpoint-s3)");
}

static void options_of_nfs_are_found(void **state)
{
    (void)state;
    rig r;
    const char *healthy = SERVER " /runs nfs4 rw,hard,local_lock=none";
    expect_mount("nfs-soft", healthy, SERVER " /runs nfs4 rw,soft,timeo=600",
                 "/runs is on /runs, NFS of server:/runs with the option soft");
    expect_mount("nfs-locks", healthy, SERVER " /runs nfs rw,hard,local_lock=all",
                 "/runs is on /runs, NFS of server:/runs with the option local_lock=all");
    expect_mount("nfs-attributes", healthy, SERVER " /runs nfs rw,hard,noac",
                 "/runs is on /runs, NFS of server:/runs with the option noac");
    open_runs(&r);
    rig_expect_skipped(&r, "nfs-soft", "/runs is not on NFS");
    rig_close(&r);
}

static void options_of_mounts_are_found(void **state)
{
    (void)state;
    const char *healthy = "/dev/sdb1 /runs ext4 rw,async_x,relatime";
    expect_mount("mount-sync", healthy, "/dev/sdb1 /runs ext4 rw,sync",
                 "/runs is on /runs, which is mounted with sync");
    expect_mount("mount-barriers", healthy, "/dev/sdb1 /runs ext4 rw,barrier=0",
                 "/runs is on /runs, which is mounted with barrier=0");
}

static void the_longest_and_the_last_mount_hold_a_folder(void **state)
{
    (void)state;
    rig r;
    open_runs(&r);
    rig_folder(&r, "/runs/a b");
    rig_write(&r, "/proc/mounts",
              DISK "/dev/sdc1 /runs ext4 rw 0 0\ntmpfs /runs/a\\040b tmpfs rw 0 0\n"
                   "/dev/sdd1 /runs ext4 rw 0 0\n/dev/sde1 /run tmpfs ro 0 0\n");
    rig_expect_passed(&r, "folder-in-memory");
    r.context.folder = "/runs/a b/new";
    rig_expect_found(&r, "folder-in-memory",
                     "/runs/a b/new is on /runs/a b, which is in memory (tmpfs)");
    rig_close(&r);
}

static void settings_of_the_disk_are_found(void **state)
{
    (void)state;
    rig r;
    open_runs(&r);
    rig_write(&r, "/sys/block/nvme0n1/queue/rotational", "0\n");
    rig_write(&r, "/sys/block/nvme0n1/queue/scheduler", "[none] mq-deadline bfq\n");
    rig_write(&r, "/sys/block/nvme0n1/queue/read_ahead_kb", "128\n");
    rig_write(&r, "/sys/block/nvme0n1/queue/logical_block_size", "512\n");
    rig_expect_passed(&r, "disk-rotational");
    rig_expect_passed(&r, "disk-scheduler");
    rig_expect_passed(&r, "disk-read-ahead");
    rig_expect_passed(&r, "disk-sectors");
    rig_write(&r, "/sys/block/nvme0n1/queue/scheduler", "none mq-deadline [bfq]\n");
    rig_write(&r, "/sys/block/nvme0n1/queue/read_ahead_kb", "4\n");
    rig_write(&r, "/sys/block/nvme0n1/queue/logical_block_size", "16384\n");
    rig_expect_found(&r, "disk-scheduler", "nvme0n1 is flash and uses the scheduler bfq");
    rig_expect_found(&r, "disk-read-ahead", "nvme0n1 reads 4 KiB ahead; 128 is usual");
    rig_expect_found(&r, "disk-sectors",
                     "nvme0n1 has sectors of 16384 bytes; the file tier aligns to 4096");
    rig_write(&r, "/sys/block/nvme0n1/queue/rotational", "1\n");
    rig_expect_found(&r, "disk-rotational", "/runs is on nvme0n1, which rotates");
    rig_expect_passed(&r, "disk-scheduler");
    mount_runs(&r, SERVER " /runs nfs4 rw");
    rig_expect_skipped(&r, "disk-rotational", "/runs is on no disk of this machine (nfs4)");
    rig_close(&r);
}

static void a_volume_over_a_disk_is_followed(void **state)
{
    (void)state;
    rig r;
    open_runs(&r);
    mount_runs(&r, "/dev/mapper/vg-runs /runs ext4 rw");
    rig_write(&r, "/sys/block/dm-0/dm/name", "vg-runs\n");
    rig_write(&r, "/sys/block/dm-0/queue/rotational", "1\n");
    rig_expect_found(&r, "disk-rotational", "/runs is on dm-0, which rotates");
    mount_runs(&r, "/dev/vda /runs ext4 rw");
    rig_write(&r, "/sys/block/vda/queue/rotational", "1\n");
    rig_expect_passed(&r, "disk-rotational");
    rig_close(&r);
}

static void failing_drives_are_found(void **state)
{
    (void)state;
    rig r;
    open_runs(&r);
    rig_expect_skipped(&r, "nvme-state", "there is no NVMe drive");
    rig_write(&r, "/sys/fs/ext4/sda1/errors_count", "0\n");
    rig_write(&r, "/sys/class/nvme/nvme0/state", "live\n");
    rig_write(&r, "/sys/class/hwmon/hwmon2/name", "nvme\n");
    rig_write(&r, "/sys/class/hwmon/hwmon2/temp1_input", "41850\n");
    rig_write(&r, "/sys/class/hwmon/hwmon2/temp1_max", "81850\n");
    rig_expect_passed(&r, "disk-errors");
    rig_expect_passed(&r, "nvme-state");
    rig_expect_passed(&r, "disk-temperature");
    rig_write(&r, "/sys/fs/ext4/sda1/errors_count", "3\n");
    rig_write(&r, "/sys/class/nvme/nvme0/state", "resetting\n");
    rig_write(&r, "/sys/class/hwmon/hwmon2/temp1_input", "82850\n");
    rig_expect_found(&r, "disk-errors", "ext4 on sda1 has met 3 errors since it was last checked");
    rig_expect_found(&r, "nvme-state",
                     "nvme0 is in the state resetting; a drive that works is live");
    rig_expect_found(&r, "disk-temperature",
                     "a drive (hwmon2, nvme) has 82 degrees; its limit is 81");
    rig_close(&r);
}

static void arrays_that_lack_a_disk_are_found(void **state)
{
    (void)state;
    rig r;
    open_runs(&r);
    rig_expect_skipped(&r, "raid-degraded", "there is no software RAID");
    rig_write(&r, "/proc/mdstat",
              "Personalities : [raid1]\nmd0 : active raid1 sdb1[1] sda1[0]\n"
              "      976630464 blocks super 1.2 [2/2] [UU]\n\nunused devices: <none>\n");
    rig_expect_passed(&r, "raid-degraded");
    rig_expect_passed(&r, "raid-rebuilds");
    rig_write(&r, "/proc/mdstat",
              "Personalities : [raid1]\nmd0 : active raid1 sdb1[2] sda1[0]\n"
              "      976630464 blocks super 1.2 [2/1] [U_]\n"
              "      [==>.......]  recovery = 12.6% (37043392/292945152) finish=127.5min\n");
    rig_expect_found(&r, "raid-degraded", "the array md0 lacks a disk: [U_]");
    rig_expect_found(&r, "raid-rebuilds",
                     "the array md0 is busy with recovery, 12.6 % of which is done");
    rig_close(&r);
}

static void limits_of_the_kernel_are_found(void **state)
{
    (void)state;
    rig r;
    open_runs(&r);
    rig_write(&r, "/proc/sys/vm/memfd_noexec", "0\n");
    rig_write(
        &r, "/proc/pressure/io",
        "some avg10=9.00 avg60=50.00 avg300=1.14 total=1\nfull avg10=9.00 avg60=2.00 avg300=0 "
        "total=1\n");
    rig_write(&r, "/proc/sys/vm/dirty_ratio", "20\n");
    rig_expect_passed(&r, "memfd-noexec");
    rig_expect_passed(&r, "io-pressure");
    rig_expect_passed(&r, "dirty-pages");
    rig_write(&r, "/proc/sys/vm/memfd_noexec", "2\n");
    rig_write(&r, "/proc/pressure/io", "full avg10=9.00 avg60=42.40 avg300=0 total=1\n");
    rig_write(&r, "/proc/meminfo", "MemTotal:       2113929216 kB\n");
    rig_expect_found(&r, "memfd-noexec",
                     "vm.memfd_noexec is 2, so the kernel refuses memory that could hold programs");
    rig_expect_found(&r, "io-pressure",
                     "in the last minute, all programs waited for disks for 42 % of the time");
    rig_expect_found(&r, "dirty-pages",
                     "vm.dirty_ratio is 20, so 403.20 GiB may wait for the disk");
    rig_close(&r);
}

static void faults_of_data_are_found(void **state)
{
    (void)state;
    rig r;
    open_runs(&r);
    const char *const paths[] = {"/data/a.bin", "/data", NULL};
    rig_expect_skipped(&r, "data-missing", "no data files are given");
    r.context.paths = paths;
    rig_write(&r, "/data/a.bin", "x");
    rig_expect_passed(&r, "data-missing");
    rig_expect_passed(&r, "data-readable");
    rig_expect_passed(&r, "data-empty");
    rig_expect_passed(&r, "data-on-network");
    rig_write(&r, "/data/a.bin", "");
    rig_expect_found(&r, "data-empty", "/data/a.bin has 0 bytes");
    rig_remove(&r, "/data/a.bin");
    rig_expect_found(&r, "data-missing", "/data/a.bin does not exist");
    rig_link(&r, "/data/a.bin", "moved.bin");
    rig_expect_found(&r, "data-missing", "/data/a.bin is a link to something that does not exist");
    rig_link(&r, "/data/a.bin", "/dev/null");
    rig_expect_found(&r, "data-readable", "/data/a.bin is no regular file and no folder");
    rig_close(&r);
}

static void data_of_an_object_store_is_found(void **state)
{
    (void)state;
    rig r;
    open_runs(&r);
    const char *const paths[] = {"/data/a.bin", NULL};
    r.context.paths = paths;
    rig_write(&r, "/data/a.bin", "x");
    rig_expect_passed(&r, "data-on-network");
    mount_runs(&r, "bucket /data fuse.s3fs rw");
    rig_expect_found(&r, "data-on-network", "/data/a.bin is on /data (fuse.s3fs of bucket)");
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_in_the_place_of_the_folder_is_found),
        cmocka_unit_test(a_mount_for_reading_is_found),
        cmocka_unit_test(another_run_in_the_folder_is_found),
        cmocka_unit_test(a_full_file_system_is_found),
        cmocka_unit_test(file_systems_that_do_not_last_are_found),
        cmocka_unit_test(options_of_nfs_are_found),
        cmocka_unit_test(options_of_mounts_are_found),
        cmocka_unit_test(the_longest_and_the_last_mount_hold_a_folder),
        cmocka_unit_test(settings_of_the_disk_are_found),
        cmocka_unit_test(a_volume_over_a_disk_is_followed),
        cmocka_unit_test(failing_drives_are_found),
        cmocka_unit_test(arrays_that_lack_a_disk_are_found),
        cmocka_unit_test(limits_of_the_kernel_are_found),
        cmocka_unit_test(faults_of_data_are_found),
        cmocka_unit_test(data_of_an_object_store_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
