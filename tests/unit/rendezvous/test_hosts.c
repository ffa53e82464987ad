// Hosts that share no memory meet in a store: they hear what rank 0 tells, a failure of one becomes that of all, and one that
// is killed, missing or another one's double is named. Each host is a forked process with one rank. tests/cli/hosts.sh and
// namespaces.sh start programs.
#include "net/socket.h"
#include "patience.h"
#include "rendezvous/hosts_private.h"
#include "rendezvous/store_tcp.h"

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

enum { HOSTS = 3, LONG_MS = TEST_PATIENCE_MS, SHORT_MS = 2000, LIMIT_S = 200, TOLD = 5000 };

typedef struct host {
    int first;
    const char *version;
    int64_t deadline_ms;
    bool is_absent, dies, fails; // after the hosts have met
    const char *damages;         // the record of the run, or (before) of this host, that it writes
    size_t damaged_bytes;        // of its bytes, which are no record
    bool blames_none;            // its failure is that of no rank
    bool stays;                  // until it hears of a failure
    bool lasts;                  // until all other hosts have counted their ends
    int awaited; // the first rank of a host that must be there before this one; 0: none
    int64_t watchdog_ms, silent_ms; // of its ranks; of the last will that it left with the store
    _Atomic bool has_ended;
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
    if (w->first_rank == 0) return comm_hosts_broadcast(w, all, sizeof all, e);
    TRY(comm_hosts_receive(w, &heard, &bytes, e));
    if (bytes != sizeof all || memcmp(heard, all, bytes) != 0)
        FAIL(E_INTERNAL, "%zu bytes, or others", bytes);
    for (int r = 0; r < HOSTS; r++)
        if (!comm_hosts_name(w, r)) FAIL(E_INTERNAL, "rank %d has no host", r);
    if (comm_hosts_name(w, HOSTS)) FAIL(E_INTERNAL, "a rank too many has a host");
done:
    free(heard);
    return result;
}

static comm_store *connect_store(const run *r)
{
    comm_store *s = NULL;
    if (comm_store_tcp_open(&r->address, &SECRET, LONG_MS, &s, NULL) != OK) _exit(1);
    return s;
}

static void name_key(const run *r, const char *what, int64_t i, char key[STORE_KEY_BYTES])
{
    const comm_hosts of_run = {.run = XXH3_64bits(r->name, strlen(r->name))};
    comm_hosts_key(&of_run, what, i, key);
}

// Writes bytes that are no record in the place of one, as another version might.
static void damage(const run *r, const host *h)
{
    char key[STORE_KEY_BYTES], bytes[STORE_VALUE_BYTES];
    comm_store *s = connect_store(r);
    memset(bytes, 0x11, sizeof bytes);
    name_key(r, h->damages, strcmp(h->damages, "host") == 0 ? h->first : 0, key);
    if (comm_store_set(s, key, bytes, h->damaged_bytes, LONG_MS, NULL) != OK) _exit(1);
    comm_store_close(s);
}

static void await_host(const run *r, int first)
{
    char key[STORE_KEY_BYTES];
    comm_store *s = connect_store(r);
    name_key(r, "host", first, key);
    if (comm_store_wait(s, key, LONG_MS, NULL) != OK) _exit(1);
    comm_store_close(s);
}

// Returns when all other hosts have counted their ends. A host that counts itself twice has the time for it.
static void outlast(const run *r)
{
    char key[STORE_KEY_BYTES];
    int64_t ended = 0;
    comm_store *s = connect_store(r);
    name_key(r, "ended", 0, key);
    while (ended < HOSTS - 1) {
        if (comm_store_add(s, key, 0, &ended, LONG_MS, NULL) != OK) _exit(1);
        usleep(1000);
    }
    usleep(5 * HOSTS_SLICE_MS * 1000);
    comm_store_close(s);
}

// The store ends with the process of rank 0, and a host may come late, or hear of a failure late.
static void keep_store(const run *r)
{
    for (int i = 1; i < HOSTS; i++) {
        const host *h = &r->hosts[i];
        while (!h->is_absent && !h->dies && !h->has_ended) usleep(1000);
    }
}

// Notes the silence that a host allows itself.
static host *living;
status __real_comm_store_tcp_set_on_disconnect(comm_store *s, const char *key, store_value value,
                                               int64_t silent_ms, err *e);
status __wrap_comm_store_tcp_set_on_disconnect(comm_store *s, const char *key, store_value value,
                                               int64_t silent_ms, err *e);
status __wrap_comm_store_tcp_set_on_disconnect(comm_store *s, const char *key, store_value value,
                                               int64_t silent_ms, err *e)
{
    if (value.bytes) living->silent_ms = silent_ms;
    return __real_comm_store_tcp_set_on_disconnect(s, key, value, silent_ms, e);
}

// Hosts that are one machine have one clock.
static status check_clock(world *w, err *e)
{
    store_clock c = {-1, -1};
    const status result = comm_hosts_clock(w, &c, e);
    if (result != OK || (c.offset_ns == 0 && c.error_ns == 0)) return result;
    return err_set(e, E_INTERNAL, "a clock that is %lld ns off", (long long)c.offset_ns);
}

// As launch/ does it.
static void live(const run *r, host *h)
{
    world *w = NULL;
    err *e = &h->why;
    store_process kept = {.alive = -1};
    const comm_hosts_options m = {.run = r->name,
                                  .version = h->version,
                                  .address = r->address,
                                  .secret = SECRET,
                                  .kept = &kept,
                                  .deadline_ms = h->deadline_ms};
    status result = OK;
    if (h->damages && strcmp(h->damages, "host") == 0) {
        damage(r, h);
        h->has_ended = true;
        _exit(0);
    }
    if (h->first == 0) result = store_process_open(&m.address, &m.secret, LONG_MS, &kept, e);
    if (result == OK) result = world_open(1, false, &w, e);
    if (result != OK) _exit(1);
    if (h->awaited) await_host(r, h->awaited);
    living = h;
    comm_watchdog_set(w->watchdog, h->watchdog_ms);
    w->first_rank = h->first;
    w->all_ranks = HOSTS;
    result = comm_hosts_join(w, &m, e);
    if (result == OK) result = exchange(w, e);
    if (result == OK) result = check_clock(w, e);
    if (result == OK) result = comm_hosts_watch(w, e);
    if (result == OK && h->damages) damage(r, h);
    while (result == OK && h->stays && !comm_failure_known(w->failure)) usleep(1000);
    if (result == OK && h->lasts) outlast(r);
    if (result == OK && h->dies) kill(getpid(), SIGKILL);
    if (result == OK && h->fails) result = err_set(e, E_IO, "the disk is full");
    if (result != OK) comm_failure_set(w->failure, h->blames_none ? -1 : h->first, e);
    comm_hosts_fail(w);
    while (!comm_hosts_leave(w)) usleep(1000);
    if (comm_failure_get(w->failure, &h->failed, e)) result = e->code;
    h->result = result;
    if (h->first == 0) keep_store(r);
    world_close(w);
    h->has_ended = true;
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
    for (int i = 1; i < HOSTS; i++) r.hosts[i].watchdog_ms = i * INT64_C(600000);
    wait_for_all(&r);
    for (int i = 0; i < HOSTS; i++)
        if (r.hosts[i].result != OK) fail_msg("host %d: %s", i, r.hosts[i].why.text);
    // Without a watchdog a host may be silent for as long as it likes.
    for (int i = 0; i < HOSTS; i++)
        assert_int_equal(r.hosts[i].silent_ms, i ? r.hosts[i].watchdog_ms + 5000 : 0);
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

// A wait that was too long is nobody's, for example.
static void test_a_failure_of_no_rank_is_that_of_all(void **state)
{
    (void)state;
    run r = start("nobody");
    r.hosts[2].fails = r.hosts[2].blames_none = true;
    wait_for_all(&r);
    expect(&r.hosts[0], E_IO, -1, "the disk is full");
    expect(&r.hosts[2], E_IO, -1, "the disk is full");
    munmap(r.hosts, HOSTS * sizeof(host));
}

static void test_the_host_of_rank_0_waits_for_each_host(void **state)
{
    (void)state;
    run r = start("last");
    r.hosts[2].lasts = r.hosts[2].fails = true;
    wait_for_all(&r);
    expect(&r.hosts[0], E_IO, 2, "): the disk is full");
    assert_int_equal(r.hosts[1].result, OK); // it had left
    munmap(r.hosts, HOSTS * sizeof(host));
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
        if (!strstr(r.hosts[i].why.text, "the host of rank 1 of 3 did not come within 2 s (absent"))
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
    r.hosts[0].awaited = 1;
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
        for (int h = 0; h < HOSTS; h += 2)
            if (r.hosts[h].result != E_USAGE ||
                !strstr(r.hosts[h].why.text, "of the host of rank 1 is damaged"))
                fail_msg("host %d: %d, %s", h, r.hosts[h].result, r.hosts[h].why.text);
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
        cmocka_unit_test(test_a_failure_of_no_rank_is_that_of_all),
        cmocka_unit_test(test_the_host_of_rank_0_waits_for_each_host),
        cmocka_unit_test(test_a_host_that_is_killed_is_named),
        cmocka_unit_test(test_a_host_that_does_not_come_is_named),
        cmocka_unit_test(test_hosts_that_differ_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
