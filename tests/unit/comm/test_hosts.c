// Hosts that share no memory meet in a store: they hear what rank 0 tells, a failure of one becomes that of all, and one that
// is killed, missing or another one's double is named. Each host is a forked process with one rank. tests/cli/hosts.sh and
// namespaces.sh start programs.
#include "comm/hosts_private.h"
#include "comm/store_tcp.h"
#include "net/socket.h"
#include "patience.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xxhash.h>

#include <cmocka.h>

enum { HOSTS = 3, LONG_MS = TEST_PATIENCE_MS, SHORT_MS = 5000, LIMIT_S = 200, TOLD = 5000 };

typedef struct host {
    int first;
    const char *version;
    int64_t deadline_ms;
    bool is_absent, dies, fails; // after the hosts have met
    const char *damages;         // the record of the run, or (before) of this host, that it writes
    size_t damaged_bytes;        // of its bytes, which are no record
    bool stays;                  // until it hears of a failure
    status result;
    int failed; // the rank of the failure
    err why;
    pid_t pid;
} host;

static const net_secret SECRET = {.key = "of all hosts of the run"};

typedef struct run {
    char name[40];
    net_address address;
    int reserved;
    host *hosts; // [HOSTS] in memory that all share
} run;

static run start(const char *name)
{
    run r = {.reserved = -1};
    int port = 0;
    err e;
    snprintf(r.name, sizeof r.name, "%s-%d", name, (int)getpid());
    r.hosts =
        mmap(NULL, HOSTS * sizeof(host), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(r.hosts != MAP_FAILED);
    assert_int_equal(net_address_resolve("127.0.0.1", 0, &r.address, &e), OK);
    assert_int_equal(net_reserve_port(&r.address, &r.reserved, &port, &e), OK);
    net_address_set_port(&r.address, port);
    for (int i = 0; i < HOSTS; i++)
        r.hosts[i] = (host){.first = i, .version = "1", .deadline_ms = LONG_MS};
    alarm(LIMIT_S);
    return r;
}

static status exchange(world *w, err *e)
{
    status result = OK;
    char all[TOLD];
    void *heard = NULL;
    size_t bytes = 0;
    memset(all, 'x', sizeof all);
    all[TOLD - 1] = 'y';
    if (memcmp(&w->secret, &SECRET, sizeof SECRET) != 0) FAIL(E_INTERNAL, "another secret");
    if (w->first_rank == 0) return comm_hosts_tell(w, all, sizeof all, e);
    TRY(comm_hosts_hear(w, &heard, &bytes, e));
    if (bytes != sizeof all || memcmp(heard, all, bytes) != 0)
        FAIL(E_INTERNAL, "%zu bytes, or others", bytes);
    for (int r = 0; r < HOSTS; r++)
        if (!comm_hosts_name(w, r)) FAIL(E_INTERNAL, "rank %d has no host", r);
    if (comm_hosts_name(w, HOSTS)) FAIL(E_INTERNAL, "a rank too many has a host");
done:
    free(heard);
    return result;
}

// Writes bytes that are no record in the place of one, as another version might.
static void damage(const run *r, const host *h)
{
    char key[STORE_KEY_BYTES], bytes[STORE_VALUE_BYTES];
    comm_store *s = NULL;
    const comm_hosts of_run = {.run = XXH3_64bits(r->name, strlen(r->name))};
    memset(bytes, 0x11, sizeof bytes);
    comm_hosts_key(&of_run, h->damages, strcmp(h->damages, "host") == 0 ? h->first : 0, key);
    if (comm_store_tcp_open(&r->address, &SECRET, LONG_MS, &s, NULL) != OK ||
        comm_store_set(s, key, bytes, h->damaged_bytes, LONG_MS, NULL) != OK)
        _exit(1);
    comm_store_close(s);
}

// As launch/ does it.
static void live(const run *r, host *h)
{
    world *w = NULL;
    err *e = &h->why;
    store_process kept = {.alive = -1};
    const comm_meeting m = {.run = r->name,
                            .version = h->version,
                            .address = r->address,
                            .secret = SECRET,
                            .kept = &kept,
                            .deadline_ms = h->deadline_ms};
    status result = OK;
    if (h->damages && strcmp(h->damages, "host") == 0) {
        damage(r, h);
        _exit(0);
    }
    if (h->first == 0) result = store_process_open(&m.address, &m.secret, LONG_MS, &kept, e);
    if (result == OK) result = world_open(1, false, &w, e);
    if (result != OK) _exit(1);
    w->first_rank = h->first;
    w->all_ranks = HOSTS;
    result = comm_hosts_join(w, &m, e);
    if (result == OK) result = exchange(w, e);
    if (result == OK) result = comm_hosts_watch(w, e);
    if (result == OK && h->damages) damage(r, h);
    while (result == OK && h->stays && !comm_failure_known(w->failure)) usleep(1000);
    if (result == OK && h->dies) kill(getpid(), SIGKILL);
    if (result == OK && h->fails) result = err_set(e, E_IO, "the disk is full");
    if (result != OK) comm_failure_set(w->failure, h->first, e);
    comm_hosts_fail(w);
    while (!comm_hosts_leave(w)) usleep(1000);
    if (comm_failure_get(w->failure, &h->failed, e)) result = e->code;
    h->result = result;
    world_close(w);
    _exit(0);
}

static void wait_for_all(run *r)
{
    for (int i = 0; i < HOSTS; i++) {
        host *h = &r->hosts[i];
        if (h->is_absent) continue;
        const pid_t pid = fork();
        if (pid == 0) {
            alarm(LIMIT_S);
            live(r, h);
        }
        h->pid = pid;
    }
    for (int i = 0; i < HOSTS; i++) {
        int how = 0;
        if (r->hosts[i].is_absent) continue;
        assert_int_equal(waitpid(r->hosts[i].pid, &how, 0), r->hosts[i].pid);
        assert_int_equal(how, r->hosts[i].dies ? SIGKILL : 0);
    }
    close(r->reserved);
}

static void expect(const host *h, status result, int rank, const char *line)
{
    if (h->result != result || !strstr(h->why.text, line))
        fail_msg("host of rank %d: %d, %s", h->first, h->result, h->why.text);
    assert_int_equal(h->failed, rank);
}

static void test_hosts_meet_and_hear_rank_0(void **state)
{
    (void)state;
    run r = start("meet");
    wait_for_all(&r);
    for (int i = 0; i < HOSTS; i++)
        if (r.hosts[i].result != OK) fail_msg("host %d: %s", i, r.hosts[i].why.text);
    munmap(r.hosts, HOSTS * sizeof(host));
}

static void test_a_failure_of_one_is_that_of_all(void **state)
{
    (void)state;
    for (int failing = 0; failing < HOSTS; failing++) {
        run r = start("fail");
        r.hosts[failing].fails = true;
        wait_for_all(&r);
        char line[64];
        snprintf(line, sizeof line, "rank %d (host ", failing);
        expect(&r.hosts[failing], E_IO, failing, line);
        // Another host may have left in good order before; that of rank 0 waits for all.
        expect(&r.hosts[0], E_IO, failing, "): the disk is full");
        munmap(r.hosts, HOSTS * sizeof(host));
    }
}

static void test_a_host_that_is_killed_is_named(void **state)
{
    (void)state;
    for (int killed = 1; killed < HOSTS; killed++) {
        run r = start("kill");
        r.hosts[killed].dies = true;
        wait_for_all(&r);
        char line[64], pid[96];
        snprintf(line, sizeof line, "rank %d (host ", killed);
        snprintf(pid, sizeof pid,
                 "pid %d) was killed, was stopped or ended before its work was done",
                 (int)r.hosts[killed].pid);
        expect(&r.hosts[0], E_PEER, killed, line);
        expect(&r.hosts[0], E_PEER, killed, pid);
        munmap(r.hosts, HOSTS * sizeof(host));
    }
}

static void test_a_host_that_does_not_come_is_named(void **state)
{
    (void)state;
    run r = start("absent");
    r.hosts[1].is_absent = true;
    r.hosts[0].deadline_ms = SHORT_MS; // it tells host 2
    wait_for_all(&r);
    for (int i = 0; i < HOSTS; i += 2) {
        assert_int_equal(r.hosts[i].result, E_PEER);
        if (!strstr(r.hosts[i].why.text, "the host of rank 1 of 3 did not come within 5 s (absent"))
            fail_msg("host %d: %s", i, r.hosts[i].why.text);
    }
    munmap(r.hosts, HOSTS * sizeof(host));
}

static void test_hosts_that_differ_are_refused(void **state)
{
    (void)state;
    run r = start("version");
    r.hosts[2].version = "2";
    wait_for_all(&r);
    for (int i = 0; i < HOSTS; i++) {
        assert_int_equal(r.hosts[i].result, E_USAGE);
        assert_non_null(strstr(r.hosts[i].why.text, "; valid: one version"));
    }
    munmap(r.hosts, HOSTS * sizeof(host));
    // Two have rank 1, and nobody has rank 2: the second one leaves, and the others miss rank 2.
    r = start("double");
    r.hosts[2].first = 1;
    r.hosts[0].deadline_ms = SHORT_MS;
    wait_for_all(&r);
    const host *one = &r.hosts[1], *other = &r.hosts[2];
    if (one->result == E_USAGE) one = &r.hosts[2], other = &r.hosts[1];
    expect(other, E_USAGE, 1, "both have rank 1 of this run (double");
    assert_int_equal(one->result, E_PEER);
    assert_non_null(strstr(one->why.text, "the host of rank 2 of 3 did not come"));
    assert_int_equal(r.hosts[0].result, E_PEER);
    munmap(r.hosts, HOSTS * sizeof(host));
}

static void test_a_damaged_record_of_a_failure_is_a_failure(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 8, 12, sizeof(host_failure)};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        run r = start("damaged-failure");
        r.hosts[1].damages = "failure";
        r.hosts[1].damaged_bytes = sizes[i];
        for (int h = 0; h < HOSTS; h++) r.hosts[h].stays = true;
        wait_for_all(&r);
        for (int h = 0; h < HOSTS; h++)
            expect(&r.hosts[h], E_PEER, -1, "the record of its failure is damaged");
        munmap(r.hosts, HOSTS * sizeof(host));
    }
}

static void test_a_damaged_record_of_a_host_is_refused(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, sizeof(comm_host) - 1, sizeof(comm_host)};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        run r = start("damaged-host");
        r.hosts[1].damages = "host";
        r.hosts[1].damaged_bytes = sizes[i];
        wait_for_all(&r);
        // The host of rank 0 reads it first, and keeps the store: one that comes later finds none.
        if (r.hosts[0].result == OK ||
            !strstr(r.hosts[0].why.text, "of the host of rank 1 is damaged"))
            fail_msg("%d, %s", r.hosts[0].result, r.hosts[0].why.text);
        assert_int_not_equal(r.hosts[2].result, OK);
        munmap(r.hosts, HOSTS * sizeof(host));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_damaged_record_of_a_failure_is_a_failure),
        cmocka_unit_test(test_a_damaged_record_of_a_host_is_refused),
        cmocka_unit_test(test_hosts_meet_and_hear_rank_0),
        cmocka_unit_test(test_a_failure_of_one_is_that_of_all),
        cmocka_unit_test(test_a_host_that_is_killed_is_named),
        cmocka_unit_test(test_a_host_that_does_not_come_is_named),
        cmocka_unit_test(test_hosts_that_differ_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
