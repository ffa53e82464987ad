// Tests of the checks of memory and limits, on made-up machines.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "doctor_rig.h"

static void shm_size(void **state)
{
    (void)state;
    rig r;
    rig_open(&r);
    rig_expect_passed(&r, "shm-size");
    rig_write(&r, "/proc/mounts", "shm /dev/shm tmpfs rw,nosuid,nodev,noexec,size=65536k 0 0\n");
    rig_expect_found(&r, "shm-size", "/dev/shm has 64.00 MiB, and the ranks may need 128.00 MiB");
    // Without a size, it has half of the memory.
    rig_write(&r, "/proc/mounts", "tmpfs /dev/shm tmpfs rw,nosuid,nodev 0 0\n");
    r.context.ranks = 8;
    rig_expect_passed(&r, "shm-size");
    rig_write(&r, "/proc/meminfo", "MemTotal: 1048576 kB\n");
    rig_expect_found(&r, "shm-size", "/dev/shm has 512.00 MiB, and the ranks may need 1.00 GiB");
    rig_remove(&r, "/proc/meminfo");
    rig_expect_blind(&r, "shm-size",
                     "neither /proc/mounts nor /proc/meminfo has the size of /dev/shm");
    rig_write(&r, "/proc/mounts", "/dev/sda1 / ext4 rw 0 0\n");
    rig_expect_skipped(&r, "shm-size", "no file system is mounted at /dev/shm");
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(shm_size)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
