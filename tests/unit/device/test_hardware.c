// test_hardware.c -- hardware is found by its vendor on the PCI bus or by a node in /dev, below a folder of the test.
#include "base/file.h"
#include "device/hardware.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void put(const char *folder, const char *name, const char *content)
{
    char path[256];
    assert_int_equal(file_make_directories(folder, NULL), OK);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(file_replace(path, content, strlen(content), NULL), OK);
}

static void hardware_of_nvidia_is_found_by_its_vendor_or_its_node(void **state)
{
    char folder[] = "/tmp/trireme-test-XXXXXX";
    (void)state;
    assert_non_null(mkdtemp(folder));
    assert_int_equal(chdir(folder), 0);
    put("none/sys/bus/pci/devices/0000:00:01.0", "vendor", "0x8086\n");
    put("none/dev", "nvme0", "");
    put("none/dev", "nvidiactl", ""); // the driver's own node does not say that there is a GPU
    assert_false(hardware_has_nvidia("none"));
    assert_false(hardware_has_nvidia("no-such-folder"));
    put("bus/sys/bus/pci/devices/0000:00:01.0", "vendor", "0x8086\n");
    put("bus/sys/bus/pci/devices/0000:65:00.0", "vendor", "0x10de\n");
    assert_true(hardware_has_nvidia("bus"));
    put("node/dev", "nvidia3", "");
    assert_true(hardware_has_nvidia("node"));
    assert_int_equal(chdir("/"), 0);
    assert_int_equal(file_remove_tree(folder, NULL), OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hardware_of_nvidia_is_found_by_its_vendor_or_its_node),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
