// test_agent_records.c -- records that agents read from their store: one that is damaged, as that of another version might be,
// never becomes a line about a node or a rank that is not there.
#include "launch/agent_watch.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { LONG_MS = 100000 };

static const char *const DAMAGED[] = {
    "",
    "?",
    "{}",
    "DONE",
    "{\"rank\":0}",
    // no host, a node and ranks that cannot be, a host that is a number
    "{\"rank\":0,\"local_rank\":0,\"node\":0,\"host\":\"\",\"pid\":9,\"exit_code\":1,\"time\":1,"
    "\"what\":\"\","
    "\"error_file\":\"\"}",
    "{\"rank\":-1,\"local_rank\":-1,\"node\":-1,\"host\":\"a\",\"pid\":9,\"exit_code\":1,\"time\":"
    "1,\"what\":\"\","
    "\"error_file\":\"\"}",
    "{\"rank\":-2,\"local_rank\":0,\"node\":0,\"host\":\"a\",\"pid\":9,\"exit_code\":1,\"time\":1,"
    "\"what\":\"\","
    "\"error_file\":\"\"}",
    "{\"rank\":1,\"local_rank\":2,\"node\":0,\"host\":\"a\",\"pid\":9,\"exit_code\":1,\"time\":1,"
    "\"what\":\"\","
    "\"error_file\":\"\"}",
    "{\"rank\":1,\"local_rank\":0,\"node\":0,\"host\":\"a\",\"pid\":9,\"exit_code\":-9999,\"time\":"
    "1,\"what\":\"\","
    "\"error_file\":\"\"}",
    "{\"rank\":1,\"local_rank\":0,\"node\":0,\"host\":7,\"pid\":9,\"exit_code\":1,\"time\":1,"
    "\"what\":\"\","
    "\"error_file\":\"\"}",
};
enum { RECORDS = sizeof DAMAGED / sizeof *DAMAGED };

static void test_damaged_failures_are_refused(void **state)
{
    (void)state;
    for (int i = 0; i < RECORDS; i++) {
        worker_failure f;
        err e;
        if (worker_failure_unpack(DAMAGED[i], strlen(DAMAGED[i]), &f, &e) != E_IO)
            fail_msg("taken: %s", DAMAGED[i]);
        assert_non_null(strstr(e.text, "whose record is damaged"));
    }
}

static void test_a_failure_is_read_as_it_was_written(void **state)
{
    (void)state;
    const worker_failure f = {.rank = 5,
                              .local_rank = 1,
                              .node = 2,
                              .host = "n2",
                              .pid = 12,
                              .exit_code = -9,
                              .time_s = 77,
                              .what = "no such layer"};
    worker_failure found;
    char packed[STORE_VALUE_BYTES];
    size_t bytes = 0;
    assert_int_equal(worker_failure_pack(&f, packed, &bytes, NULL), OK);
    assert_int_equal(worker_failure_unpack(packed, bytes, &found, NULL), OK);
    text line = {0};
    worker_failure_line(&found, &line);
    assert_string_equal(line.chars, "rank 5 (host n2, local rank 1, pid 12) was killed by signal 9 "
                                    "(Killed): no such layer");
    text_clear(&line);
}

static void test_a_damaged_end_names_this_node(void **state)
{
    (void)state;
    const net_secret secret = {.key = "of the agents"};
    const agent_rendezvous m = {.id = "", .silent_ms = LONG_MS};
    net_address local;
    store_server *server = NULL;
    comm_store *other = NULL;
    err e;
    alarm(200);
    assert_int_equal(net_address_resolve("127.0.0.1", 0, &local, &e), OK);
    agent_group g = {.rendezvous = &m, .secret = secret, .host = "here"};
    assert_int_equal(store_server_open(&local, &secret, &server, &g.address, &e), OK);
    for (int i = 0; i < RECORDS; i++) {
        // A round of its own: the end of the last connection writes into that of its round, some time later.
        const agent_round r = {.number = 3 + i, .node = 1, .nodes = 2};
        agent_watch w;
        char key[STORE_KEY_BYTES];
        text line = {0};
        agent_group_end_key(&r, key);
        if (agent_watch_open(&g, &r, &w, &e) != OK) fail_msg("%s", e.text);
        assert_int_equal(comm_store_tcp_open(&g.address, &secret, LONG_MS, &other, &e), OK);
        assert_int_equal(comm_store_set(other, key, DAMAGED[i], strlen(DAMAGED[i]), LONG_MS, &e),
                         OK);
        assert_int_equal(poll(&(struct pollfd){.fd = w.ended, .events = POLLIN}, 1, LONG_MS), 1);
        agent_watch_close(&w);
        assert_int_equal(comm_store_remove(other, key, LONG_MS, &e), OK);
        comm_store_close(other);
        assert_false(w.done || w.joins);
        worker_failure_line(&w.failure, &line);
        assert_string_equal(
            line.chars, "node 1 (host here): a failure on another host, whose record is damaged");
        text_clear(&line);
    }
    store_server_close(server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_damaged_failures_are_refused),
        cmocka_unit_test(test_a_failure_is_read_as_it_was_written),
        cmocka_unit_test(test_a_damaged_end_names_this_node),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
