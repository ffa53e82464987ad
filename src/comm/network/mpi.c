// mpi.c -- the transport of the communicator mpi (mpi.h): parts travel as messages of a private communicator of MPI. MPI
// tells nothing of ranks that are lost: the world knows them. A rank that leaves in good order tells the others.
// Opened by the registry.
#include "comm/network/mpi.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/text.h"
#include "comm/network/mpi_library.h"
#include "comm/network/network_private.h"

#include <stdlib.h>
#include <time.h>

// A message of MPI has at most PIECE bytes, because its counts are ints.
enum { PIECE = 1 << 30, NAP_NS = 50000 };
static const int64_t CANCEL_NS = 50000000;
// Bits of a tag: the group, the caller, and the number of the call, as much as tells apart those under way.
enum { TAG_GROUP = 10, TAG_CALLER = 8, TAG_LEFT = 0, TAG_FIRST = 1 };

// One message of a request.
typedef struct mpi_part {
    mpi_handle request;
    struct mpi_part *next;
} mpi_part;

typedef struct mpi_state {
    mpi_library mpi;
    mpi_handle comm;    // of all ranks, for this communicator alone
    int tag_most;       // the largest tag
    mpi_handle *leaves; // [size] receives, which end when the rank leaves
    bool *left;         // [size]
    int turn;           // the rank whose leaving is looked at next
    bool is_ready;      // all ranks have come
    char text[MPI_TEXT_BYTES];
} mpi_state;

static mpi_state *mpi_of(const network_rank *own)
{
    return own->state;
}

static const char *text_of(mpi_state *m, int code)
{
    int bytes = 0;
    if (m->mpi.error_string(code, m->text, &bytes) != MPI_SUCCESS) return "an unknown error of MPI";
    return m->text;
}

static status check(mpi_state *m, const char *what, int code, err *e)
{
    if (code == MPI_SUCCESS) return OK;
    return err_set(e, E_IO, "communicator mpi: cannot %s: %s", what, text_of(m, code));
}

// ---- Opening

// Has MPI's launcher started this rank and the others of the run? Otherwise MPI would wait, or start for one rank.
static bool is_started_by_mpi(const comm_options *o)
{
    static const char *const variables[][2] = {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                               {"PMI_RANK", "PMI_SIZE"},
                                               {"PMIX_RANK", "SLURM_STEP_NUM_TASKS"}};
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *rank = getenv(variables[i][0]), *size = getenv(variables[i][1]);
        int64_t r, n;
        if (rank && size && text_to_count(rank, &r) && text_to_count(size, &n) && r == o->rank &&
            n == o->size)
            return true;
    }
    return false;
}

static status start(mpi_state *m, err *e)
{
    status result = OK;
    int was = 0, level = 0;
    TRY(check(m, "start", m->mpi.initialized(&was), e));
    if (was) FAIL(E_USAGE, "communicator mpi: it was opened in this process before; valid is once");
    TRY(check(m, "start", m->mpi.init_thread(NULL, NULL, MPI_SERIALIZED, &level), e));
    if (level < MPI_SERIALIZED)
        FAIL(E_USAGE,
             "communicator mpi: this MPI has thread level %d; valid are %d "
             "(MPI_THREAD_SERIALIZED) and more",
             level, MPI_SERIALIZED);
done:
    return result;
}

static status open_comm(mpi_state *m, const network_rank *own, err *e)
{
    status result = OK;
    int rank = -1, size = 0, is_set = 0;
    const int *most = NULL;
    TRY(check(m, "tell its rank", m->mpi.comm_rank(m->mpi.world, &rank), e));
    TRY(check(m, "tell its size", m->mpi.comm_size(m->mpi.world, &size), e));
    if (rank != own->rank || size != own->size)
        FAIL(E_USAGE,
             "communicator mpi: rank %d of %d is rank %d of %d in MPI; valid: TRIREME_MPI, the "
             "library of the launcher",
             own->rank, own->size, rank, size);
    TRY(check(m, "tell its tags",
              m->mpi.comm_get_attr(m->mpi.world, m->mpi.tag_most_key, &most, &is_set), e));
    m->tag_most = is_set ? *most : INT16_MAX; // the least that MPI promises
    TRY(check(m, "open a communicator", m->mpi.comm_dup(m->mpi.world, &m->comm), e));
    TRY(check(m, "set its errors", m->mpi.comm_set_errhandler(m->comm, m->mpi.errors_return), e));
    for (int r = 0; r < size; r++)
        if (r != rank)
            TRY(check(m, "receive",
                      m->mpi.irecv(NULL, 0, m->mpi.byte, r, TAG_LEFT, m->comm, &m->leaves[r]), e));
done:
    return result;
}

static status open_mpi(network_rank *own, const comm_options *o, err *e)
{
    status result = OK;
    static const char what[] = "a communicator";
    const size_t size = (size_t)o->size;
    mpi_state *m;
    if (o->world->as_threads)
        FAIL(E_USAGE, "communicator mpi: ranks are threads; valid is launch.as: processes");
    if (!is_started_by_mpi(o))
        FAIL(E_USAGE,
             "communicator mpi: MPI has not started these %d ranks; valid: mpirun -n %d trireme "
             "train JOB --launch.comm mpi",
             o->size, o->size);
    TRY(alloc_zeroed(&m, 1, sizeof *m, what, e));
    own->state = m;
    TRY(alloc_zeroed(&m->leaves, size, sizeof *m->leaves, what, e));
    TRY(alloc_zeroed(&m->left, size, sizeof *m->left, what, e));
    TRY(mpi_library_open(&m->mpi, e));
    TRY(start(m, e));
    TRY(open_comm(m, own, e));
done:
    return result;
}

// MPI connects by itself.
static status connect_mpi(network_rank *own, int64_t deadline_ms, err *e)
{
    (void)deadline_ms;
    (void)e;
    mpi_of(own)->is_ready = true;
    return OK;
}

// ---- Parts

static int tag_of(const network_call *x)
{
    const int64_t tag = x->comm->rendezvous.group << TAG_GROUP | (int64_t)x->caller << TAG_CALLER |
                        (int64_t)(x->ticket & ((1 << TAG_CALLER) - 1));
    return tag + TAG_FIRST <= mpi_of(x->comm->own)->tag_most ? (int)tag + TAG_FIRST : -1;
}

static void release(mpi_part *p)
{
    for (mpi_part *next; p; p = next) {
        next = p->next;
        free(p);
    }
}

// One message of at most PIECE bytes.
static const char *post_piece(mpi_state *m, bool receives, void *data, size_t bytes, int rank,
                              int tag, mpi_part **out)
{
    err e;
    mpi_part *p;
    if (alloc_zeroed(&p, 1, sizeof *p, "a message", &e) != OK) return "no memory for a message";
    const int code =
        receives ? m->mpi.irecv(data, (int)bytes, m->mpi.byte, rank, tag, m->comm, &p->request)
                 : m->mpi.isend(data, (int)bytes, m->mpi.byte, rank, tag, m->comm, &p->request);
    *out = p;
    return code == MPI_SUCCESS ? NULL : text_of(m, code);
}

static const char *post(const network_call *x, int peer, bool receives, void *data, size_t bytes,
                        void **handle)
{
    mpi_state *m = mpi_of(x->comm->own);
    mpi_part *first = NULL, **next = &first;
    const int tag = tag_of(x);
    const char *why = tag < 0 ? "MPI has no tag for so many groups" : NULL;
    for (size_t done = 0; !why && (done == 0 || done < bytes); done += PIECE) {
        const size_t left = bytes - done;
        why = post_piece(m, receives, bytes ? (char *)data + done : NULL,
                         left < PIECE ? left : PIECE, x->comm->ranks[peer], tag, next);
        if (*next) next = &(*next)->next;
    }
    if (why)
        release(first);
    else
        *handle = first;
    return why;
}

// Is a message done? Then *why is NULL or says why it failed.
static bool test_piece(mpi_state *m, mpi_handle *request, const char **why)
{
    _Alignas(16) char ignored[MPI_STATUS_BYTES];
    int is_done = 0, class = 0;
    const int code = m->mpi.test(request, &is_done, ignored);
    *why = NULL;
    if (code == MPI_SUCCESS) return is_done != 0;
    m->mpi.error_class(code, &class);
    if (class != m->mpi.truncated) *why = text_of(m, code);
    return true;
}

static bool test(network_rank *own, void *handle, const char **why)
{
    *why = NULL;
    for (mpi_part *p = handle; p; p = p->next)
        if (!test_piece(mpi_of(own), &p->request, why))
            return false;
        else if (*why)
            break;
    release(handle);
    return true;
}

// Messages of a rank that is lost may never end: the process ends soon.
static void cancel(network_rank *own, const network_request *r, int rank, int64_t start)
{
    const char *why;
    (void)rank;
    for (mpi_part *p = r->handle; p; p = p->next) {
        if (r->receives) mpi_of(own)->mpi.cancel(&p->request);
        while (!test_piece(mpi_of(own), &p->request, &why) && clock_ns() < start + CANCEL_NS)
            continue;
    }
    release(r->handle);
}

// Looks whether a rank has left, one after the other. MPI makes progress in each of its tests.
static bool progress(network_rank *own)
{
    mpi_state *m = mpi_of(own);
    const char *why;
    const int r = m->turn = (m->turn + 1) % own->size;
    if (r != own->rank && !m->left[r] && test_piece(m, &m->leaves[r], &why)) {
        m->left[r] = true;
        own->lost[r] = why ? why : "it has left";
        return true;
    }
    return false;
}

// MPI has no events to sleep on.
static void nap(network_rank *own, int most_ms)
{
    (void)most_ms;
    pthread_mutex_unlock(&own->lock);
    nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
    pthread_mutex_lock(&own->lock);
}

// ---- Closing

static bool all_left(const network_rank *own)
{
    for (int r = 0; r < own->size; r++)
        if (r != own->rank && !mpi_of(own)->left[r]) return false;
    return true;
}

// Tells the others that this rank leaves, and waits until all do. Returns whether they did.
static bool leave(network_rank *own)
{
    mpi_state *m = mpi_of(own);
    const int64_t limit_ms = atomic_load(&own->world->watchdog->limit_ms),
                  until = limit_ms > 0 ? clock_ns() + limit_ms * 1000000 : INT64_MAX;
    mpi_part *first = NULL, **next = &first;
    const char *why = NULL;
    for (int r = 0; r < own->size && !why; r++) {
        if (r == own->rank) continue;
        why = post_piece(m, false, NULL, 0, r, TAG_LEFT, next);
        if (*next) next = &(*next)->next;
    }
    while (!why && !all_left(own) && clock_ns() < until && !comm_failure_known(own->world->failure))
        if (!progress(own)) nap(own, 0);
    const bool well = !why && all_left(own);
    for (mpi_part *p = first; well && p; p = p->next)
        while (!test_piece(m, &p->request, &why)) continue;
    release(first);
    return well;
}

static void close_mpi(network_rank *own, bool well)
{
    mpi_state *m = mpi_of(own);
    if (well && m->is_ready && leave(own)) {
        m->mpi.comm_free(&m->comm);
        m->mpi.finalize();
    }
    free(m->leaves);
    free(m->left);
    free(m);
}

static const network_transport mpi_transport = {
    .name = "mpi",
    .open = open_mpi,
    .connect = connect_mpi,
    .progress = progress,
    .post = post,
    .test = test,
    .cancel = cancel,
    .sleep = nap,
    .close = close_mpi,
};

status mpi_open(const comm_options *o, comm **out, err *e)
{
    return network_open(&mpi_transport, o, out, e);
}
