// test_hosts.c -- doctor on several hosts, without a network: the order of pairs, what is compared between hosts, and the
// measurement of a connection, with planted faults.
#include "doctor/hosts/compare.h"
#include "doctor/hosts/rounds.h"

#include "base/clock.h"
#include "net/socket.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

// ---- Rounds

static void each_pair_is_in_one_round(void **state)
{
    (void)state;
    for (int hosts = 0; hosts <= 17; hosts++) {
        int met[17][17] = {{0}}, pairs = 0;
        for (int round = 0; round < hosts_rounds(hosts); round++)
            for (int host = 0; host < hosts; host++) {
                const int partner = hosts_partner(hosts, round, host);
                assert_true(partner >= -1 && partner < hosts && partner != host);
                if (partner < 0) continue;
                assert_int_equal(hosts_partner(hosts, round, partner), host);
                met[host][partner]++;
            }
        for (int i = 0; i < hosts; i++)
            for (int j = 0; j < hosts; j++) {
                assert_int_equal(met[i][j], i != j);
                pairs += i < j;
            }
        assert_int_equal(pairs, hosts * (hosts - 1) / 2);
    }
    assert_int_equal(hosts_rounds(16), 15);
    assert_int_equal(hosts_rounds(3), 3);
}

// ---- Comparing

enum { HOSTS = 4 };

static const doctor_check DRIVER = {.code = "gpu-driver"};
static const doctor_check RATE = {.code = "matmul-rate"};

typedef struct cluster {
    doctor_report report[HOSTS];
    doctor_findings of[HOSTS][2];
    host_clock clock[HOSTS];
    host_lookup lookup[HOSTS * HOSTS];
    host_pair pair[HOSTS * (HOSTS - 1) / 2];
    hosts_input in;
} cluster;

// Four hosts a to d that have no fault.
static void open_cluster(cluster *c)
{
    static char *const NAMES[] = {"a", "b", "c", "d"};
    *c = (cluster){.in = {.count = HOSTS}};
    for (int i = 0; i < HOSTS; i++) {
        c->of[i][0].check = &DRIVER;
        c->of[i][1].check = &RATE;
        c->report[i] = (doctor_report){.host = NAMES[i], .of = c->of[i], .count = 2};
    }
    for (int i = 0; i < HOSTS * HOSTS; i++) c->lookup[i] = (host_lookup){.found = true};
    for (int i = 0, p = 0; i < HOSTS; i++)
        for (int j = i + 1; j < HOSTS; j++)
            c->pair[p++] = (host_pair){.from = i,
                                       .to = j,
                                       .state = PAIR_MEASURED,
                                       .link = {.latency_us = 30, .out = {9.4, 0}, .in = {9.5, 0}}};
    c->in.report = c->report;
    c->in.clock = c->clock;
    c->in.lookup = c->lookup;
    c->in.pair = c->pair;
    c->in.pairs = sizeof c->pair / sizeof *c->pair;
}

static void close_cluster(cluster *c)
{
    for (int i = 0; i < HOSTS; i++)
        for (int j = 0; j < 2; j++) doctor_findings_clear(&c->of[i][j]);
}

// Compares, and writes "CODE: ISSUE" of each finding, a line each.
static void compare(const cluster *c, char *out, size_t bytes)
{
    doctor_report r;
    err e = {.code = OK};
    *out = 0;
    assert_int_equal(hosts_compare(&c->in, &r, &e), OK);
    for (size_t i = 0; i < r.count; i++)
        for (size_t f = 0; f < r.of[i].count; f++) {
            const doctor_check *row = r.of[i].check;
            char *issue = NULL, *other = NULL;
            assert_int_equal(doctor_expand(row->issue, &r.of[i].finding[f], &issue, &e), OK);
            for (int k = 0; k < DOCTOR_REMEDIES && row->remedy[k]; k++) {
                assert_int_equal(doctor_expand(row->remedy[k], &r.of[i].finding[f], &other, &e),
                                 OK);
                free(other);
            }
            const size_t used = strlen(out);
            snprintf(out + used, bytes - used, "%s: %s\n", row->code, issue);
            free(issue);
        }
    doctor_report_clear(&r);
}

static void expect(cluster *c, const char *lines)
{
    char out[2048];
    compare(c, out, sizeof out);
    assert_string_equal(out, lines);
    close_cluster(c);
}

static void equal_hosts_have_no_findings(void **state)
{
    cluster c;
    (void)state;
    open_cluster(&c);
    for (int i = 0; i < HOSTS; i++) {
        doctor_fact(&c.of[i][0], "driver", "560.35");
        doctor_measure(&c.of[i][1], "matmul_fp32_gflops", 100 + i, "GFLOP/s", true);
        doctor_measure(&c.of[i][1], "free_gib", 10.0 * i, "GiB", false);
        c.clock[i] = (host_clock){.ahead_s = 0.2 * i, .error_s = 0.001};
    }
    expect(&c, "");
}

static void facts_that_differ_are_found(void **state)
{
    cluster c;
    (void)state;
    open_cluster(&c);
    for (int i = 0; i < HOSTS; i++) {
        doctor_fact(&c.of[i][0], "driver", i == 1 ? "550.54" : "560.35");
        if (i > 0) doctor_fact(&c.of[i][0], "kernel", i == 1 ? "6.1" : "6.8"); // a does not say it
    }
    expect(&c, "hosts-differ: host b has driver 550.54; 3 of 4 hosts have 560.35\n"
               "hosts-differ: host b has kernel 6.1; 2 of 3 hosts have 6.8\n");
    open_cluster(&c);
    for (int i = 0; i < HOSTS; i++) doctor_fact(&c.of[i][0], "driver", i < 2 ? "550" : "560");
    expect(&c, "hosts-differ: hosts c, d have driver 560; 2 of 4 hosts have 550\n");
}

static void slow_hosts_are_found(void **state)
{
    cluster c;
    (void)state;
    open_cluster(&c);
    for (int i = 0; i < HOSTS; i++)
        doctor_measure(&c.of[i][1], "matmul_fp32_gflops",
                       i == 2   ? 94
                       : i == 3 ? 96
                                : 100,
                       "GFLOP/s", true);
    expect(&c, "host-slower: c is 6 % slower: matmul_fp32_gflops is 94 GFLOP/s; the median of 4 "
               "hosts is 100 GFLOP/s\n");
    open_cluster(&c); // of two hosts, the slower one
    doctor_measure(&c.of[0][1], "disk_mb", 500, "MB/s", true);
    doctor_measure(&c.of[1][1], "disk_mb", 1000, "MB/s", true);
    expect(&c, "host-slower: a is 50 % slower: disk_mb is 500 MB/s; the median of 2 hosts is 1000 "
               "MB/s\n");
}

static void pairs_with_faults_are_found(void **state)
{
    cluster c;
    (void)state;
    open_cluster(&c);
    c.pair[4].link.in.gbits = 0.9; // b and d
    expect(&c, "pair-slow: between b and d: 0.9 Gb/s; the median of pairs is 9.4 Gb/s\n");
    open_cluster(&c);
    c.pair[0].link.out.gbits = 0.5; // b with all others
    c.pair[3].link.out.gbits = 0.7;
    c.pair[4].link.in.gbits = 0.6;
    expect(&c, "host-link: b has at most 0.7 Gb/s with each other host; the median of pairs is 9.4 "
               "Gb/s\n");
    open_cluster(&c); // of three hosts, one slow one has most of the pairs
    c.in.count = 3;
    c.in.lookup = NULL;
    c.in.pairs = 3;
    c.pair[2] = c.pair[3]; // b and c
    c.pair[1].link.out.gbits = 1;
    c.pair[2].link.out.gbits = 2;
    expect(&c, "host-link: c has at most 2 Gb/s with each other host; the best pair is 9.4 Gb/s\n");
    open_cluster(&c);
    c.pair[0].link.latency_us = 900; // a and b
    c.pair[1].link.latency_us = 200; // less than 200 us more
    expect(&c, "pair-latency: between a and b a message takes 900 us; the median of pairs is 30 "
               "us\n");
    open_cluster(&c);
    c.pair[5] = (host_pair){.from = 2, .to = 3, .state = PAIR_SEPARATE, .why = "nothing came back"};
    c.pair[3] = (host_pair){.from = 1, .to = 2, .state = PAIR_ONE_WAY, .why = "refused"};
    c.pair[2].state = PAIR_ONE_WAY_BACK; // a and d
    snprintf(c.pair[2].why, sizeof c.pair[2].why, "dropped");
    c.pair[1] = (host_pair){.from = 0, .to = 2, .state = PAIR_LOST, .why = "reset"};
    c.pair[0] = (host_pair){.from = 0, .to = 1, .why = "ended"};
    c.pair[4].link.in = (host_rate){.stalled = true}; // from d to b
    expect(&c, "pair-unreachable: c and d cannot connect to each other: nothing came back\n"
               "pair-one-way: d cannot connect to a, which can connect to d: dropped\n"
               "pair-one-way: b cannot connect to c, which can connect to b: refused\n"
               "pair-stall: from d to b small messages arrive, and large packets do not\n"
               "pair-lost: a could connect to c, and then lost the connection: reset\n"
               "pair-unmeasured: a and b were not measured: ended\n");
}

static void clocks_names_and_missing_hosts_are_found(void **state)
{
    static const char *const MISSING[] = {"e"};
    cluster c;
    (void)state;
    open_cluster(&c);
    c.clock[2] = (host_clock){.ahead_s = -312.25};
    c.clock[3] = (host_clock){.ahead_s = 1.5, .error_s = 1}; // not sure
    c.lookup[0 * HOSTS + 3].found = false;
    c.lookup[2 * HOSTS + 3].found = false;
    c.lookup[1 * HOSTS + 1].is_loopback = true; // its own name
    c.lookup[1 * HOSTS + 0].is_loopback = true;
    c.in.missing = MISSING;
    c.in.missing_count = 1;
    c.in.waited_s = 30;
    static const bool GONE[HOSTS] = {false, true};
    c.in.is_gone = GONE;
    expect(&c, "host-missing: e did not come within 30 s\n"
               "host-gone: b came, and ended or fell silent before it had reported\n"
               "clock-offset: the clock of c is 312.2 s behind of that of a\n"
               "host-lookup: the name a stands for the host itself on host b\n"
               "host-lookup: the name d is not known on hosts a, c\n");
}

// ---- Measuring a connection

static const host_link_times TIMES = {.send_ms = 20, .stall_ms = 300, .most_ms = 400};

static void *answer_all(void *arg)
{
    host_link unused;
    const int fd = *(int *)arg;
    (void)host_link_measure(fd, false, &TIMES, &unused, NULL);
    return NULL;
}

// Answers round trips of one byte, and then neither reads what comes nor sends: packets are lost on the way. It says what it
// has received, as a receiver does.
static void *answer_small(void *arg)
{
    const int fd = *(int *)arg;
    const uint64_t nothing[3] = {0};
    char word;
    const int64_t deadline_ns = clock_ns() + INT64_C(60000000000);
    for (int i = 0; i < 20; i++)
        if (net_read(fd, &word, 1, deadline_ns, NULL) != OK ||
            net_write(fd, &word, 1, deadline_ns, NULL) != OK)
            return NULL;
    (void)net_write(fd, nothing, sizeof nothing, deadline_ns, NULL);
    return NULL;
}

static status measure_with(void *(*other)(void *), host_link *out, err *e)
{
    int fds[2];
    pthread_t thread;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    assert_int_equal(pthread_create(&thread, NULL, other, &fds[1]), 0);
    const status got = host_link_measure(fds[0], true, &TIMES, out, e);
    assert_int_equal(pthread_join(thread, NULL), 0);
    close(fds[0]);
    close(fds[1]);
    return got;
}

static void a_link_is_measured_in_both_directions(void **state)
{
    host_link link = {0};
    err e = {.code = OK};
    (void)state;
    assert_int_equal(measure_with(answer_all, &link, &e), OK);
    assert_true(link.latency_us > 0);
    assert_true(link.out.gbits > 0 && !link.out.stalled);
    assert_true(link.in.gbits > 0 && !link.in.stalled);
}

static void a_stream_that_stalls_is_found(void **state)
{
    host_link link = {0};
    err e = {.code = OK};
    (void)state;
    assert_int_equal(measure_with(answer_small, &link, &e), OK);
    assert_true(link.latency_us > 0);
    assert_true(link.out.stalled && link.out.gbits == 0);
    assert_true(link.in.stalled && link.in.gbits == 0);
}

// ---- Ports and names

static void a_refused_port_is_told_from_one_that_answers(void **state)
{
    char why[200];
    int fd = -1;
    net_address a, bound;
    err e = {.code = OK};
    (void)state;
    assert_int_equal(net_address_resolve("127.0.0.1", 0, &a, &e), OK);
    assert_int_equal(net_listen(&a, &fd, &bound, &e), OK);
    assert_true(host_probe_port(&bound, 10000, why, sizeof why));
    assert_string_equal(why, "it answers");
    close(fd);
    assert_false(host_probe_port(&bound, 10000, why, sizeof why));
    assert_string_equal(why, "the connection was refused: the host is there, but nobody listens on "
                             "this port, or a firewall rejects it");
}

static void names_are_looked_up(void **state)
{
    static const char *const NAMES[] = {"127.0.0.1", "192.0.2.1", "not a name"};
    host_lookup found[3];
    err e = {.code = OK};
    (void)state;
    assert_int_equal(host_names_look_up(NAMES, 3, 60000, found, &e), OK);
    assert_true(found[0].found && found[0].is_loopback);
    assert_true(found[1].found && !found[1].is_loopback);
    assert_false(found[2].found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_pair_is_in_one_round),
        cmocka_unit_test(equal_hosts_have_no_findings),
        cmocka_unit_test(facts_that_differ_are_found),
        cmocka_unit_test(slow_hosts_are_found),
        cmocka_unit_test(pairs_with_faults_are_found),
        cmocka_unit_test(clocks_names_and_missing_hosts_are_found),
        cmocka_unit_test(a_link_is_measured_in_both_directions),
        cmocka_unit_test(a_stream_that_stalls_is_found),
        cmocka_unit_test(a_refused_port_is_told_from_one_that_answers),
        cmocka_unit_test(names_are_looked_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
