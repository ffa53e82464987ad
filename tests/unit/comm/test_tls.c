// The communicator tls: the cases of every network, parts that come before their receives, and ranks of another secret.
#define COMMUNICATOR "tls"
#include "network_cases.h"

#include "attack/attack.h"

// ---- Parts that come before their receives

// Rank 0 sends long messages, which ask first, and short ones, which are kept; rank 1 receives those of the other
// communicator first. So parts of one communicator are in the way of the other's.
static status cross(const test_rank *s, err *e)
{
    status result = OK;
    enum { LONG = 300000, SHORT = 8000, TURNS = 5 };
    comm *other = NULL;
    device_stream *second = NULL;
    float *a = malloc(LONG * 4), *b = malloc(LONG * 4), *want = malloc(LONG * 4);
    TRY(comm_split(s->comm, 0, s->comm->rank, &other, e));
    TRY(s->device->ops->stream_open(s->device, STREAM_COMM, false, &second, e));
    for (int turn = 0; turn < TURNS; turn++) {
        const size_t count = turn % 2 ? SHORT : LONG;
        fill(want, F32, turn, LONG);
        memset(a, 0, LONG * 4);
        memset(b, 0, LONG * 4);
        if (s->comm->rank == 0) {
            const comm_message m[] = {comm_message_to(s->comm, want, count * 4, 1),
                                      comm_message_to(other, want, count * 4, 1)};
            TRY(comm_issue_group(m, 2, s->stream, e));
        } else {
            TRY(comm_recv(other, b, count * 4, 0, second, e));
            TRY(comm_recv(s->comm, a, count * 4, 0, s->stream, e));
        }
        TRY(s->device->ops->sync(s->stream, e));
        TRY(s->device->ops->sync(second, e));
        if (s->comm->rank == 1 && (memcmp(a, want, count * 4) || memcmp(b, want, count * 4)))
            FAIL(E_INTERNAL, "a message differs in turn %d", turn);
    }
done:
    if (second) s->device->ops->stream_close(second);
    comm_close(other);
    free(a);
    free(b);
    free(want);
    return result;
}

static void test_parts_of_groups_pass_each_other(void **state)
{
    (void)state;
    run(2, false, false, cross);
    run(2, true, true, cross);
}

// The last message of a rank that has left is there.
static status leave_early(const test_rank *s, err *e)
{
    status result = OK;
    char x[9000] = {0};
    if (s->comm->rank == 0) {
        memset(x, 7, sizeof x);
        return comm_send(s->comm, x, sizeof x, 1, s->stream, e);
    }
    usleep(300000); // most often rank 0 has left by then; the result is the same where it has not
    TRY(comm_recv(s->comm, x, sizeof x, 0, s->stream, e));
    TRY(s->device->ops->sync(s->stream, e));
    for (size_t i = 0; i < sizeof x; i++)
        if (x[i] != 7) FAIL(E_INTERNAL, "byte %zu differs", i);
done:
    return result;
}

static void test_the_last_message_of_a_rank_that_left_is_received(void **state)
{
    (void)state;
    far_ranks f = {.communicator = COMMUNICATOR,
                   .ranks = 2,
                   .killed = -1,
                   .patience_ms = PATIENCE_MS,
                   .fn = leave_early};
    fork_far(&f);
    expect_ok(&f);
}

// ---- Clients that have not authenticated, while the ports are open

enum { SILENT = 400, FRAMES = 1500 };

static int silent[2 * SILENT], silents; // that the test holds open while the ranks connect

// More clients than there are places, which say nothing, and others that send frames which are nearly right.
static void attack_ranks(const pid_t *pid, int ranks)
{
    unsigned char hello[ATTACK_FRAME], frame[ATTACK_FRAME];
    const size_t bytes = attack_client_hello(hello);
    uint32_t seed = 20261123;
    attack_allow_files();
    for (int r = 0; r < ranks - 1; r++) {
        struct sockaddr_in port[ATTACK_PORTS];
        while (attack_ports(pid[r], port) == 0) poll(NULL, 0, 1); // alarm() ends it
        assert_int_equal(attack_ports(pid[r], port), 1);
        assert_int_equal(port[0].sin_addr.s_addr, htonl(INADDR_LOOPBACK));
        for (int i = 0; i < SILENT; i++) {
            silent[silents] = attack_connect(&port[0]);
            assert_true(silent[silents++] >= 0);
        }
        for (int i = 0; i < FRAMES; i++) {
            const int fd = attack_connect(&port[0]);
            assert_true(fd >= 0);
            assert_true(
                send(fd, frame, attack_make_frame(&seed, hello, bytes, frame), MSG_NOSIGNAL) > 0);
            close(fd);
        }
    }
}

static void test_clients_without_the_secret_keep_no_rank_away(void **state)
{
    (void)state;
    far_ranks f = {.communicator = COMMUNICATOR,
                   .ranks = 3,
                   .killed = -1,
                   .patience_ms = PATIENCE_MS,
                   .before_last = attack_ranks,
                   .fn = far_everything};
    silents = 0;
    fork_far(&f);
    for (int i = 0; i < silents; i++) close(silent[i]);
    expect_ok(&f);
}

// The ranks' ports are closed when all have connected.
static status has_no_port(const test_rank *s, err *e)
{
    struct sockaddr_in ports[ATTACK_PORTS];
    status result = comm_barrier(s->comm, e);
    if (result == OK && attack_ports(getpid(), ports) != 0)
        return err_set(e, E_INTERNAL, "port %d is open", ntohs(ports[0].sin_port));
    return result == OK ? comm_barrier(s->comm, e) : result;
}

static void test_a_run_has_no_open_port(void **state)
{
    (void)state;
    far_ranks f = {.communicator = COMMUNICATOR,
                   .ranks = 3,
                   .killed = -1,
                   .patience_ms = PATIENCE_MS,
                   .fn = has_no_port};
    fork_far(&f);
    expect_ok(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls_leave_the_lock), // before the tests that would wait for it
        cmocka_unit_test(test_the_last_message_of_a_rank_that_left_is_received),
        cmocka_unit_test(test_clients_without_the_secret_keep_no_rank_away),
        cmocka_unit_test(test_a_run_has_no_open_port),
        NETWORK_CASES,
        cmocka_unit_test(test_parts_of_groups_pass_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
