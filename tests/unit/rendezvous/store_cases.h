// store_cases.h -- what every store must do: values, numbers, comparisons, bad calls, waits and deadlines, many
// threads at once. A test of a store includes it and defines how the store is opened.
#ifndef TRIREME_TESTS_STORE_CASES_H
#define TRIREME_TESTS_STORE_CASES_H

#include "base/clock.h"
#include "patience.h"
#include "rendezvous/store.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { LONG_MS = TEST_PATIENCE_MS, SOON_S = 60 };

static comm_store *open_store(void);
static void close_store(comm_store *s);
// The same store for another rank.
static comm_store *open_again(comm_store *s);
static void close_again(comm_store *s);

static int64_t number_of(comm_store *s, const char *key)
{
    int64_t number = -1;
    assert_int_equal(comm_store_get(s, key, &number, sizeof number, NULL, LONG_MS, NULL), OK);
    return number;
}

static void test_a_value_is_read_as_it_was_set(void **state)
{
    (void)state;
    comm_store *s = open_store();
    char value[STORE_VALUE_BYTES], read[STORE_VALUE_BYTES];
    size_t bytes = 0;
    memset(value, 7, sizeof value);
    assert_int_equal(comm_store_set(s, "long", value, sizeof value, 0, NULL), OK);
    assert_int_equal(comm_store_set(s, "none", NULL, 0, 0, NULL), OK);
    assert_int_equal(comm_store_get(s, "long", read, sizeof read, &bytes, 0, NULL), OK);
    assert_int_equal(bytes, sizeof value);
    assert_memory_equal(read, value, sizeof value);
    assert_int_equal(comm_store_get(s, "none", NULL, 0, &bytes, 0, NULL), OK);
    assert_int_equal(bytes, 0);
    assert_int_equal(comm_store_set(s, "long", "new", 4, 0, NULL), OK);
    assert_int_equal(comm_store_get(s, "long", read, sizeof read, &bytes, 0, NULL), OK);
    assert_string_equal(read, "new");
    assert_int_equal(comm_store_wait(s, "none", 0, NULL), OK);
    close_store(s);
}

static void test_numbers_are_added(void **state)
{
    (void)state;
    comm_store *s = open_store();
    int64_t sum = 0;
    err e;
    assert_int_equal(comm_store_add(s, "n", 5, &sum, 0, NULL), OK);
    assert_int_equal(sum, 5);
    assert_int_equal(comm_store_add(s, "n", -7, &sum, 0, NULL), OK);
    assert_int_equal(sum, -2);
    assert_int_equal(number_of(s, "n"), -2);
    assert_int_equal(comm_store_set(s, "word", "abc", 3, 0, NULL), OK);
    assert_int_equal(comm_store_add(s, "word", 1, &sum, 0, &e), E_USAGE);
    assert_string_equal(e.text, "key word of a store: its value of 3 bytes is no number");
    close_store(s);
}

static void test_bad_calls_are_refused(void **state)
{
    (void)state;
    comm_store *s = open_store();
    char key[STORE_KEY_BYTES + 1], value[STORE_VALUE_BYTES + 1] = {0};
    err e;
    memset(key, 'k', sizeof key);
    key[STORE_KEY_BYTES] = 0;
    assert_int_equal(comm_store_set(s, key, "", 0, 0, &e), E_USAGE);
    assert_non_null(strstr(e.text, "valid are 1 to 63 printable characters, no space"));
    assert_int_equal(comm_store_wait(s, "", 0, &e), E_USAGE);
    assert_int_equal(comm_store_remove(s, "two words", 0, &e), E_USAGE);
    const store_value none = {0}, large = {value, STORE_VALUE_BYTES + 1};
    assert_int_equal(comm_store_get(s, key, value, sizeof value, NULL, 0, &e), E_USAGE);
    assert_int_equal(comm_store_add(s, key, 1, NULL, 0, &e), E_USAGE);
    assert_int_equal(comm_store_compare(s, key, none, none, value, sizeof value, NULL, 0, &e),
                     E_USAGE);
    assert_non_null(strstr(e.text, "valid are 1 to 63 printable characters, no space"));
    assert_int_equal(comm_store_compare(s, "k", large, none, value, sizeof value, NULL, 0, &e),
                     E_USAGE);
    assert_string_equal(e.text, "key k of a store: a value of 1025 bytes; valid are 0 to 1024");
    assert_int_equal(comm_store_compare(s, "k", none, large, value, sizeof value, NULL, 0, &e),
                     E_USAGE);
    assert_string_equal(e.text, "key k of a store: a value of 1025 bytes; valid are 0 to 1024");
    assert_int_equal(comm_store_compare(s, "k", none, none, value, sizeof value, NULL, -1, &e),
                     E_USAGE);
    assert_string_equal(e.text,
                        "key k of a store: a deadline of -1 ms; valid are 0 to 1000000000000");
    key[STORE_KEY_BYTES - 1] = 0;
    assert_int_equal(comm_store_set(s, key, value, STORE_VALUE_BYTES, 0, &e), OK);
    assert_int_equal(comm_store_set(s, "k", value, STORE_VALUE_BYTES + 1, 0, &e), E_USAGE);
    assert_string_equal(e.text, "key k of a store: a value of 1025 bytes; valid are 0 to 1024");
    assert_int_equal(comm_store_add(s, "k", 1, NULL, -1, &e), E_USAGE);
    assert_string_equal(e.text,
                        "key k of a store: a deadline of -1 ms; valid are 0 to 1000000000000");
    assert_int_equal(comm_store_set(s, "k", "value", 6, 0, &e), OK);
    assert_int_equal(comm_store_get(s, "k", value, 5, NULL, 0, &e), E_USAGE);
    assert_string_equal(e.text,
                        "key k of a store: its value has 6 bytes, the reader has room for 5");
    close_store(s);
}

static void test_a_wait_ends_at_its_deadline(void **state)
{
    (void)state;
    comm_store *s = open_store();
    err e;
    const double start = clock_seconds();
    assert_int_equal(comm_store_wait(s, "never", 0, &e), E_PEER);
    assert_int_equal(comm_store_get(s, "never", NULL, 0, NULL, 150, &e), E_PEER);
    assert_string_equal(e.text, "key never of a store: no rank set it within 150 ms");
    assert_true(clock_seconds() - start >= 0.15);
    assert_true(clock_seconds() - start < SOON_S);
    close_store(s);
}

typedef struct turn {
    comm_store *store;
    int rank, ranks, turns;
    bool ok;
} turn;

// Ranks pass a number around: each waits for the key of the rank before it. All count the turns.
static void *take_turns(void *arg)
{
    turn *t = arg;
    char mine[STORE_KEY_BYTES], before[STORE_KEY_BYTES];
    t->ok = true;
    for (int i = 0; i < t->turns; i++) {
        const bool first = i == 0 && t->rank == 0;
        int64_t number = -1;
        snprintf(mine, sizeof mine, "turn/%d/%d", i, t->rank);
        if (t->rank > 0)
            snprintf(before, sizeof before, "turn/%d/%d", i, t->rank - 1);
        else
            snprintf(before, sizeof before, "turn/%d/%d", i - 1, t->ranks - 1);
        if (!first) {
            t->ok = t->ok && comm_store_get(t->store, before, &number, sizeof number, NULL, LONG_MS,
                                            NULL) == OK;
            t->ok = t->ok && comm_store_remove(t->store, before, LONG_MS, NULL) == OK;
        }
        number++;
        t->ok = t->ok && number == i * t->ranks + t->rank;
        t->ok =
            t->ok && comm_store_set(t->store, mine, &number, sizeof number, LONG_MS, NULL) == OK;
        t->ok = t->ok && comm_store_add(t->store, "turns", 1, NULL, LONG_MS, NULL) == OK;
    }
    return NULL;
}

static void test_threads_wait_for_each_other(void **state)
{
    (void)state;
    enum { RANKS = 6, TURNS = 200 };
    comm_store *s = open_store();
    pthread_t threads[RANKS];
    turn turns[RANKS];
    for (int r = 0; r < RANKS; r++) {
        turns[r] = (turn){.store = open_again(s), .rank = r, .ranks = RANKS, .turns = TURNS};
        assert_int_equal(pthread_create(&threads[r], NULL, take_turns, &turns[r]), 0);
    }
    for (int r = 0; r < RANKS; r++) {
        pthread_join(threads[r], NULL);
        assert_true(turns[r].ok);
        close_again(turns[r].store);
    }
    assert_int_equal(number_of(s, "turns"), RANKS * TURNS);
    close_store(s);
}

static void test_one_of_many_that_compare_succeeds(void **state)
{
    (void)state;
    comm_store *s = open_store();
    const store_value none = {0}, one = {"one", 3}, two = {"two", 3};
    char now[8];
    size_t bytes = 9;
    err e;
    assert_int_equal(comm_store_compare(s, "k", one, two, now, sizeof now, &bytes, 0, NULL), OK);
    assert_int_equal(bytes, 0);
    assert_int_equal(comm_store_wait(s, "k", 0, NULL), E_PEER);
    assert_int_equal(comm_store_compare(s, "k", none, one, now, sizeof now, &bytes, 0, NULL), OK);
    assert_int_equal(bytes, 3);
    assert_memory_equal(now, "one", 3);
    assert_int_equal(comm_store_compare(s, "k", none, two, now, sizeof now, &bytes, 0, NULL), OK);
    assert_int_equal(bytes, 3);
    assert_memory_equal(now, "one", 3);
    assert_int_equal(comm_store_compare(s, "k", one, two, now, sizeof now, NULL, 0, NULL), OK);
    assert_memory_equal(now, "two", 3);
    assert_int_equal(comm_store_compare(s, "k", one, two, now, 2, NULL, 0, &e), E_USAGE);
    assert_string_equal(e.text,
                        "key k of a store: its value has 3 bytes, the reader has room for 2");
    close_store(s);
}

#define STORE_CASES                                                                                \
    cmocka_unit_test(test_a_value_is_read_as_it_was_set),                                          \
        cmocka_unit_test(test_numbers_are_added), cmocka_unit_test(test_bad_calls_are_refused),    \
        cmocka_unit_test(test_one_of_many_that_compare_succeeds),                                  \
        cmocka_unit_test(test_a_wait_ends_at_its_deadline),                                        \
        cmocka_unit_test(test_threads_wait_for_each_other)

#endif
