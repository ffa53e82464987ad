// test_store_table.c -- the keys of the TCP store's server: a key that nobody needs any more gives its place to
// another one, also under somebody who waited for it and left.
#include "rendezvous/store_table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { KEYS = 3 };

static store_table *open_table(void)
{
    store_table *t = NULL;
    err e = {0};
    if (store_table_open(KEYS, &t, &e) != OK) fail_msg("%s", e.text);
    return t;
}

static status set(store_table *t, const char *key, const char *word, store_waiter **woken, err *e)
{
    return store_table_set(t, key, (store_value){word, strlen(word)}, woken, e);
}

static void fill(store_table *t, int round)
{
    char key[STORE_KEY_BYTES];
    store_waiter *woken;
    for (int i = 0; i < KEYS; i++) {
        snprintf(key, sizeof key, "key%d/%d", round, i);
        assert_int_equal(set(t, key, "word", &woken, NULL), OK);
        assert_null(woken);
    }
}

static void expect_full(store_table *t)
{
    store_waiter w = {.link = NULL}, *woken;
    err e = {0};
    assert_int_equal(set(t, "more", "word", &woken, &e), E_FIT);
    assert_string_equal(e.text, "key more of a store: it is full; valid are up to 3 keys");
    assert_int_equal(store_table_wait(t, "more", &w, &e), E_FIT);
}

static void removed_keys_give_their_places_to_others(void **state)
{
    (void)state;
    store_table *t = open_table();
    char key[STORE_KEY_BYTES];
    for (int round = 0; round < 3; round++) {
        fill(t, round);
        fill(t, round); // the same keys need no place
        expect_full(t);
        for (int i = 0; i < KEYS; i++) {
            snprintf(key, sizeof key, "key%d/%d", round, i);
            store_table_remove(t, key);
            store_table_remove(t, key);
        }
    }
    store_table_close(t);
}

static void those_who_wait_hold_a_place_until_they_leave(void **state)
{
    (void)state;
    store_table *t = open_table();
    store_value v;
    for (int round = 0; round < 3; round++) {
        store_waiter w[KEYS + 1] = {{.link = NULL}};
        char key[STORE_KEY_BYTES];
        for (int i = 0; i < KEYS; i++) {
            snprintf(key, sizeof key, "awaited%d/%d", round, i);
            assert_int_equal(store_table_wait(t, key, &w[i], NULL), OK);
            assert_false(store_table_get(t, key, &v));
        }
        assert_int_equal(store_table_wait(t, key, &w[KEYS], NULL), OK); // the last one, twice
        expect_full(t);
        for (int i = 0; i <= KEYS; i++) {
            store_table_leave(t, &w[i]);
            store_table_leave(t, &w[i]);
        }
    }
    store_table_close(t);
}

static void a_value_wakes_all_who_wait_for_it_and_nobody_else(void **state)
{
    (void)state;
    store_table *t = open_table();
    store_waiter first, second, third, other, *woken = NULL;
    store_value v = {0};
    assert_int_equal(store_table_wait(t, "key", &first, NULL), OK);
    assert_int_equal(store_table_wait(t, "key", &second, NULL), OK);
    assert_int_equal(store_table_wait(t, "key", &third, NULL), OK);
    assert_int_equal(store_table_wait(t, "other", &other, NULL), OK);
    store_table_leave(t, &second); // the middle of the list
    assert_int_equal(set(t, "key", "word", &woken, NULL), OK);
    assert_ptr_equal(woken, &third);
    assert_ptr_equal(woken->next, &first);
    assert_null(first.next);
    assert_null(first.link);
    assert_null(third.link);
    assert_non_null(other.link);
    assert_true(store_table_get(t, "key", &v));
    assert_int_equal(v.bytes, 4);
    assert_memory_equal(v.data, "word", 4);
    store_table_remove(t, "key");
    assert_false(store_table_get(t, "key", &v));
    store_table_leave(t, &other);
    store_table_close(t);
}

static void those_who_have_left_are_not_woken(void **state)
{
    (void)state;
    store_table *t = open_table();
    store_waiter w[3], *woken = NULL;
    for (int i = 0; i < 3; i++) assert_int_equal(store_table_wait(t, "key", &w[i], NULL), OK);
    store_table_leave(t, &w[1]);
    store_table_leave(t, &w[0]);
    assert_int_equal(set(t, "key", "word", &woken, NULL), OK);
    assert_ptr_equal(woken, &w[2]);
    assert_null(w[2].next);
    store_table_close(t);
}

static void a_removed_value_leaves_those_who_wait(void **state)
{
    (void)state;
    store_table *t = open_table();
    store_waiter w, *woken = NULL;
    assert_int_equal(store_table_wait(t, "key", &w, NULL), OK);
    store_table_remove(t, "key"); // it has no value yet
    assert_int_equal(set(t, "key", "word", &woken, NULL), OK);
    assert_ptr_equal(woken, &w);
    store_table_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(removed_keys_give_their_places_to_others),
        cmocka_unit_test(those_who_wait_hold_a_place_until_they_leave),
        cmocka_unit_test(a_value_wakes_all_who_wait_for_it_and_nobody_else),
        cmocka_unit_test(those_who_have_left_are_not_woken),
        cmocka_unit_test(a_removed_value_leaves_those_who_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
