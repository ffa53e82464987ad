// Tests the hash table: it finds every number by its key, also if hashes are equal, and finds
// nothing for an unknown key.
#include "base/lookup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { COUNT = 10000 };

static bool is_same(const void *given, int number)
{
    return *(const int *)given == 3 * number;
}

static void every_number_is_found_by_its_key(void **state)
{
    (void)state;
    lookup l = {0};
    for (int n = 0; n < COUNT; n++) {
        const int key = 3 * n;
        assert_int_equal(lookup_find(&l, lookup_hash(&key, sizeof key), is_same, &key), -1);
        assert_int_equal(lookup_add(&l, lookup_hash(&key, sizeof key), n, NULL), OK);
    }
    for (int key = 0; key < 3 * COUNT; key++)
        assert_int_equal(lookup_find(&l, lookup_hash(&key, sizeof key), is_same, &key),
                         key % 3 ? -1 : key / 3);
    lookup_clear(&l);
}

static void keys_with_equal_hashes_are_distinguished(void **state)
{
    (void)state;
    lookup l = {0};
    for (int n = 0; n < 100; n++) assert_int_equal(lookup_add(&l, UINT64_MAX, n, NULL), OK);
    for (int key = 0; key < 300; key += 3)
        assert_int_equal(lookup_find(&l, UINT64_MAX, is_same, &key), key / 3);
    lookup_clear(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_number_is_found_by_its_key),
        cmocka_unit_test(keys_with_equal_hashes_are_distinguished),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
