// Tests that maps_describe_lost names the file that is mapped at an address.
#include "base/maps.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

static void a_mapped_file_is_found_by_address(void **state)
{
    (void)state;
    char folder[] = "/tmp/test_maps.XXXXXX", path[64], line[MAPS_LINE_BYTES], *maps[3];
    assert_non_null(mkdtemp(folder));
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/file %d", folder, i);
        const int fd = open(path, O_RDWR | O_CREAT, 0600);
        assert_int_equal(ftruncate(fd, 20000), 0);
        maps[i] = mmap(NULL, 20000, PROT_READ, MAP_SHARED, fd, 0);
        assert_true(maps[i] != MAP_FAILED);
        close(fd);
    }
    for (int i = 0; i < 3; i++) {
        char expected[128];
        snprintf(expected, sizeof expected, "%s/file %d: the file was cut off while it was in use",
                 folder, i);
        assert_true(maps_describe_lost(maps[i], line, sizeof line));
        assert_string_equal(line, expected);
        assert_true(maps_describe_lost(maps[i] + 19999, line, sizeof line));
        assert_string_equal(line, expected);
        munmap(maps[i], 20000);
        assert_false(maps_describe_lost(maps[i], line, sizeof line));
        snprintf(path, sizeof path, "%s/file %d", folder, i);
        unlink(path);
    }
    rmdir(folder);
}

static void an_address_in_shared_memory_is_not_reported_as_a_file(void **state)
{
    (void)state;
    char line[MAPS_LINE_BYTES];
    void *shared = mmap(NULL, 4096, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(maps_describe_lost(shared, line, sizeof line));
    assert_string_equal(line, "shared memory has run out");
    munmap(shared, 4096);
    assert_false(maps_describe_lost(NULL, line, sizeof line));
    assert_false(maps_describe_lost(&line, line, sizeof line)); // an address on the stack
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_mapped_file_is_found_by_address),
        cmocka_unit_test(an_address_in_shared_memory_is_not_reported_as_a_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
