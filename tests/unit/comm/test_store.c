// The store of one machine: values, waits and deadlines, many ranks at once, and ranks that are killed
// in the middle of a call. The linker replaces comm_lock_give, so that a process can be killed while
// it holds the lock (tests/CMakeLists.txt).
#include "base/clock.h"
#include "comm/lock.h"
#include "comm/store.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { KEYS = 64, LONG_MS = 120000, SOON_S = 60 };

void __real_comm_lock_give(comm_lock *l);
void __wrap_comm_lock_give(comm_lock *l);

static _Thread_local bool dies_with_the_lock;

void __wrap_comm_lock_give(comm_lock *l)
{
    if (dies_with_the_lock) kill(getpid(), SIGKILL);
    __real_comm_lock_give(l);
}

static comm_store *open_store(int keys)
{
    comm_store *s = NULL;
    err e;
    alarm(200);
    if (comm_store_page_open(keys, &s, &e) != OK) fail_msg("%s", e.text);
    return s;
}

static int64_t number_of(comm_store *s, const char *key)
{
    int64_t number = -1;
    assert_int_equal(comm_store_get(s, key, &number, sizeof number, NULL, LONG_MS, NULL), OK);
    return number;
}

static void test_a_value_is_read_as_it_was_set(void **state)
{
    (void)state;
    comm_store *s = open_store(KEYS);
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
    comm_store_close(s);
}

static void test_numbers_are_added(void **state)
{
    (void)state;
    comm_store *s = open_store(KEYS);
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
    comm_store_close(s);
}

static void test_bad_calls_are_refused(void **state)
{
    (void)state;
    comm_store *s = open_store(KEYS);
    char key[STORE_KEY_BYTES + 1], value[STORE_VALUE_BYTES + 1] = {0};
    err e;
    memset(key, 'k', sizeof key);
    key[STORE_KEY_BYTES] = 0;
    assert_int_equal(comm_store_set(s, key, "", 0, 0, &e), E_USAGE);
    assert_non_null(strstr(e.text, "valid are 1 to 63 printable characters, no space"));
    assert_int_equal(comm_store_wait(s, "", 0, &e), E_USAGE);
    assert_int_equal(comm_store_remove(s, "two words", 0, &e), E_USAGE);
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
    comm_store_close(s);
}

static void test_a_full_store_refuses_new_keys_only(void **state)
{
    (void)state;
    comm_store *s = open_store(KEYS);
    char key[STORE_KEY_BYTES];
    err e;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < KEYS; i++) {
            snprintf(key, sizeof key, "key%d/%d", round, i);
            assert_int_equal(comm_store_add(s, key, i, NULL, 0, NULL), OK);
        }
        assert_int_equal(comm_store_set(s, "more", "", 0, 0, &e), E_FIT);
        assert_string_equal(e.text, "key more of a store: it is full; valid are up to 64 keys");
        assert_int_equal(comm_store_add(s, "more", 1, NULL, 0, &e), E_FIT);
        assert_int_equal(comm_store_add(s, key, 1, NULL, 0, NULL), OK);
        for (int i = 0; i < KEYS; i++) {
            snprintf(key, sizeof key, "key%d/%d", round, i);
            assert_int_equal(number_of(s, key), i == KEYS - 1 ? KEYS : i);
            assert_int_equal(comm_store_remove(s, key, 0, NULL), OK);
            assert_int_equal(comm_store_remove(s, key, 0, NULL), OK);
            assert_int_equal(comm_store_wait(s, key, 0, NULL), E_PEER);
        }
    }
    comm_store_close(s);
}

static void test_a_wait_ends_at_its_deadline(void **state)
{
    (void)state;
    comm_store *s = open_store(KEYS);
    err e;
    const double start = clock_seconds();
    assert_int_equal(comm_store_wait(s, "never", 0, &e), E_PEER);
    assert_int_equal(comm_store_get(s, "never", NULL, 0, NULL, 150, &e), E_PEER);
    assert_string_equal(e.text, "key never of a store: no rank set it within 150 ms");
    assert_true(clock_seconds() - start >= 0.15);
    assert_true(clock_seconds() - start < SOON_S);
    comm_store_close(s);
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
    comm_store *s = open_store(KEYS);
    pthread_t threads[RANKS];
    turn turns[RANKS];
    for (int r = 0; r < RANKS; r++) {
        turns[r] = (turn){.store = s, .rank = r, .ranks = RANKS, .turns = TURNS};
        assert_int_equal(pthread_create(&threads[r], NULL, take_turns, &turns[r]), 0);
    }
    for (int r = 0; r < RANKS; r++) {
        pthread_join(threads[r], NULL);
        assert_true(turns[r].ok);
    }
    assert_int_equal(number_of(s, "turns"), RANKS * TURNS);
    comm_store_close(s);
}

static void test_processes_wait_for_each_other(void **state)
{
    (void)state;
    enum { RANKS = 4, TURNS = 200 };
    comm_store *s = open_store(KEYS);
    pid_t pids[RANKS];
    for (int r = 0; r < RANKS; r++) {
        pids[r] = fork();
        if (pids[r] == 0) {
            turn t = {.store = s, .rank = r, .ranks = RANKS, .turns = TURNS};
            alarm(200);
            take_turns(&t);
            _exit(t.ok ? 0 : 1);
        }
    }
    for (int r = 0; r < RANKS; r++) {
        int how = 0;
        assert_int_equal(waitpid(pids[r], &how, 0), pids[r]);
        assert_int_equal(how, 0);
    }
    assert_int_equal(number_of(s, "turns"), RANKS * TURNS);
    comm_store_close(s);
}

static void reap_killed(pid_t pid)
{
    int how = 0;
    assert_int_equal(waitpid(pid, &how, 0), pid);
    assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL);
}

static void test_a_rank_that_dies_with_the_lock_does_not_keep_it(void **state)
{
    (void)state;
    comm_store *s = open_store(KEYS);
    assert_int_equal(comm_store_set(s, "before", "x", 1, 0, NULL), OK);
    for (int i = 0; i < 10; i++) {
        const pid_t pid = fork();
        if (pid == 0) {
            alarm(200);
            dies_with_the_lock = true;
            if (i % 3 == 0) comm_store_add(s, "n", 1, NULL, LONG_MS, NULL);
            if (i % 3 == 1) comm_store_get(s, "before", NULL, 0, NULL, LONG_MS, NULL);
            comm_store_remove(s, "n", LONG_MS, NULL);
            _exit(0);
        }
        reap_killed(pid);
        // The call of the dead rank has happened completely.
        assert_int_equal(comm_store_wait(s, "n", 0, NULL), i % 3 == 2 ? E_PEER : OK);
        assert_int_equal(comm_store_add(s, "n", 1, NULL, 0, NULL), OK);
    }
    comm_store_close(s);
}

static void leave_with_the_lock(int signal_number)
{
    (void)signal_number;
    _exit(9);
}

// A process dies in the copy of a value, of which the second half cannot be read.
static void test_a_rank_that_dies_in_a_copy_leaves_the_old_value(void **state)
{
    (void)state;
    enum { PAGE = 4096 };
    comm_store *s = open_store(KEYS);
    char read[STORE_VALUE_BYTES];
    size_t bytes = 0;
    char *pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(pages != MAP_FAILED);
    assert_int_equal(mprotect(pages + PAGE, PAGE, PROT_NONE), 0);
    assert_int_equal(comm_store_set(s, "key", "old", 4, 0, NULL), OK);
    for (int is_new = 0; is_new < 2; is_new++) {
        const pid_t pid = fork();
        if (pid == 0) {
            signal(SIGSEGV, leave_with_the_lock);
            comm_store_set(s, is_new ? "new" : "key", pages + PAGE - STORE_VALUE_BYTES / 2,
                           STORE_VALUE_BYTES, LONG_MS, NULL);
            _exit(0);
        }
        int how = 0;
        assert_int_equal(waitpid(pid, &how, 0), pid);
        assert_int_equal(WEXITSTATUS(how), 9);
        assert_int_equal(comm_store_get(s, "key", read, sizeof read, &bytes, 0, NULL), OK);
        assert_int_equal(bytes, 4);
        assert_string_equal(read, "old");
        assert_int_equal(comm_store_wait(s, "new", 0, NULL), E_PEER);
    }
    munmap(pages, 2 * PAGE);
    comm_store_close(s);
}

// A process changes the store without end, until it is killed at any place.
static _Noreturn void change_for_ever(comm_store *s, int seed)
{
    char value[STORE_VALUE_BYTES];
    char key[STORE_KEY_BYTES];
    alarm(200);
    for (unsigned i = (unsigned)seed;; i++) {
        memset(value, (int)(i % 251), sizeof value);
        snprintf(key, sizeof key, "k%u", i * 7 % 20);
        comm_store_set(s, key, value, sizeof value, LONG_MS, NULL);
        comm_store_add(s, "count", 1, NULL, LONG_MS, NULL);
        snprintf(key, sizeof key, "k%u", i * 11 % 20);
        comm_store_remove(s, key, LONG_MS, NULL);
    }
}

// Every value is one that was set: all of its bytes are equal.
static void check_values(comm_store *s)
{
    char value[STORE_VALUE_BYTES], key[STORE_KEY_BYTES];
    for (int k = 0; k < 20; k++) {
        size_t bytes = 0;
        snprintf(key, sizeof key, "k%d", k);
        const status got = comm_store_get(s, key, value, sizeof value, &bytes, 0, NULL);
        assert_true(got == OK || got == E_PEER);
        if (got != OK) continue;
        assert_int_equal(bytes, sizeof value);
        for (size_t i = 1; i < bytes; i++) assert_int_equal(value[i], value[0]);
    }
}

static void test_ranks_killed_anywhere_leave_whole_values(void **state)
{
    (void)state;
    enum { KILLS = 60 };
    comm_store *s = open_store(KEYS + KILLS); // a death may cost one free entry
    int64_t before = 0;
    assert_int_equal(comm_store_add(s, "count", 0, NULL, 0, NULL), OK);
    for (int i = 0; i < KILLS; i++) {
        const pid_t pid = fork();
        if (pid == 0) change_for_ever(s, i);
        while (number_of(s, "count") == before) usleep(100); // it has begun
        usleep((useconds_t)(i * 37 % 400));
        kill(pid, SIGKILL);
        reap_killed(pid);
        check_values(s);
        before = number_of(s, "count");
    }
    comm_store_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_value_is_read_as_it_was_set),
        cmocka_unit_test(test_numbers_are_added),
        cmocka_unit_test(test_bad_calls_are_refused),
        cmocka_unit_test(test_a_full_store_refuses_new_keys_only),
        cmocka_unit_test(test_a_wait_ends_at_its_deadline),
        cmocka_unit_test(test_threads_wait_for_each_other),
        cmocka_unit_test(test_processes_wait_for_each_other),
        cmocka_unit_test(test_a_rank_that_dies_with_the_lock_does_not_keep_it),
        cmocka_unit_test(test_a_rank_that_dies_in_a_copy_leaves_the_old_value),
        cmocka_unit_test(test_ranks_killed_anywhere_leave_whole_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
