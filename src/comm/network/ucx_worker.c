// ucx_worker.c -- the worker of a rank in the communicator ucx, and its endpoints to all other ranks. Ranks
// tell each other the addresses of their workers in the store. An endpoint is connected before a call uses
// it, so a rank that is lost is noticed by all that wait for it. Called through the table of ucx.c.
#include "comm/network/ucx_private.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/size.h"
#include "net/interface.h"
#include "rendezvous/hosts.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// CLOSE_NS bounds the flush of what was sent when a rank closes.
static const int64_t CLOSE_NS = 5000000000;
enum { NAP_US = 200 };

static status ucx_error(const network_rank *own, const char *what, ucs_status_t how, err *e)
{
    return err_set(e, E_IO, "communicator ucx: cannot %s: %s", what,
                   ucx_of(own)->status_string(how));
}

// ---- What UCX calls, in progress

static void peer_lost(void *arg, ucp_ep_h endpoint, ucs_status_t how)
{
    ucx_peer *p = arg;
    (void)endpoint;
    *p->lost = p->api->status_string(how);
}

// Another rank tells of the failure. Its line is full, with the rank's number.
static ucs_status_t failure_received(void *arg, const void *header, size_t header_bytes, void *data,
                                     size_t bytes, const ucp_am_recv_param_t *param)
{
    const network_rank *own = arg;
    err why = {0};
    int rank = -1;
    if (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) return UCS_OK; // no line is so long
    if (header_bytes == sizeof rank) memcpy(&rank, header, sizeof rank);
    err_set(&why, E_PEER, "%.*s", (int)size_min((int64_t)bytes, (int64_t)sizeof why.text - 1),
            (const char *)data);
    comm_failure_set_described(own->world->failure, rank, &why);
    return UCS_OK;
}

// A rank of this machine leaves in good order. All that it sent has come before.
static ucs_status_t rank_left(void *arg, const void *header, size_t header_bytes, void *data,
                              size_t bytes, const ucp_am_recv_param_t *param)
{
    const network_rank *own = arg;
    int rank;
    (void)data;
    (void)bytes;
    (void)param;
    if (header_bytes != sizeof rank) return UCS_OK;
    memcpy(&rank, header, sizeof rank);
    if (rank >= 0 && rank < own->size)
        own->lost[rank] = ucx_of(own)->status_string(UCS_ERR_CONNECTION_RESET);
    return UCS_OK;
}

// ---- Opening

// With UCX's own choice, 8 KiB, an all_reduce of 64 KiB over TCP takes several times as long.
static ucs_status_t widen_segments(const ucx_api *api, ucp_config_t *config)
{
    static const char *const keys[][2] = {{"UCX_TCP_TX_SEG_SIZE", "TX_SEG_SIZE"},
                                          {"UCX_TCP_RX_SEG_SIZE", "RX_SEG_SIZE"}};
    ucs_status_t how = UCS_OK;
    for (int i = 0; i < 2 && how == UCS_OK; i++)
        if (!getenv(keys[i][0])) how = api->config_modify(config, keys[i][1], "64k");
    return how;
}

// The size from which sends that may be eager (ucx.c: post) are not: none.
static ucs_status_t allow_eager(const ucx_api *api, ucp_config_t *config, bool *copies)
{
    text devices = {0};
    net_interface_list_rdma(NET_RDMA_DEVICES, &devices);
    *copies = devices.bytes == 0 && !devices.failed;
    text_clear(&devices);
    if (!*copies || getenv("UCX_RNDV_SEND_NBR_THRESH")) return UCS_OK;
    return api->config_modify(config, "RNDV_SEND_NBR_THRESH", "inf");
}

// Ranks whose hosts met on loopback, and ranks of one machine, reach each other there.
static bool is_on_loopback(const network_rank *own)
{
    const char *variable;
    return !net_interface_rule(&variable) && comm_hosts_on_loopback(own->world);
}

// Interfaces and RDMA devices by NCCL's variables. UCX's setting is of the network alone: ranks of one machine keep their
// shared memory.
static status choose_interfaces(network_rank *own, ucp_config_t *config, err *e)
{
    status result = OK;
    text names = {0};
    own->open_ports = true;
    if (getenv("UCX_NET_DEVICES")) return OK;
    if (is_on_loopback(own)) {
        own->open_ports = false;
        text_add(&names, "lo");
    } else {
        result = net_interface_list_allowed(NET_RDMA_DEVICES, &names, e);
        if (result != OK) err_prefix(e, "communicator ucx: ");
        TRY(result);
    }
    TRY(text_check(&names, e));
    const ucs_status_t how =
        names.bytes ? ucx_of(own)->config_modify(config, "NET_DEVICES", names.chars) : UCS_OK;
    if (how != UCS_OK) result = ucx_error(own, "choose its interfaces", how, e);
done:
    text_clear(&names);
    return result;
}

static status open_context(network_rank *own, err *e)
{
    status result = OK;
    const ucp_params_t params = {.field_mask =
                                     UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS,
                                 .features = UCP_FEATURE_TAG | UCP_FEATURE_AM | UCP_FEATURE_WAKEUP,
                                 .estimated_num_eps = (size_t)own->size};
    ucp_config_t *config = NULL;
    ucs_status_t how = ucx_of(own)->config_read(NULL, NULL, &config);
    if (how != UCS_OK) return ucx_error(own, "read its settings", how, e);
    TRY(choose_interfaces(own, config, e));
    how = widen_segments(ucx_of(own), config);
    if (how == UCS_OK) how = allow_eager(ucx_of(own), config, &ucx_worker_of(own)->copies);
    if (how == UCS_OK)
        how = ucx_of(own)->init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config,
                                        &ucx_worker_of(own)->context);
    if (how != UCS_OK) result = ucx_error(own, "start", how, e);
done:
    ucx_of(own)->config_release(config);
    return result;
}

static status open_worker(network_rank *own, err *e)
{
    // After a failure sends to ranks of this machine stay open, and UCX need not say so.
    const ucp_worker_params_t params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE |
                                                      UCP_WORKER_PARAM_FIELD_FLAGS,
                                        .thread_mode = UCS_THREAD_MODE_SERIALIZED,
                                        .flags = UCP_WORKER_FLAG_IGNORE_REQUEST_LEAK};
    ucp_am_handler_param_t handler = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID |
                                                    UCP_AM_HANDLER_PARAM_FIELD_CB |
                                                    UCP_AM_HANDLER_PARAM_FIELD_ARG,
                                      .id = UCX_FAILURE_TOLD,
                                      .cb = failure_received,
                                      .arg = own};
    ucs_status_t how = ucx_of(own)->worker_create(ucx_worker_of(own)->context, &params,
                                                  &ucx_worker_of(own)->worker);
    if (how != UCS_OK) return ucx_error(own, "open a worker", how, e);
    how = ucx_of(own)->worker_get_efd(ucx_worker_of(own)->worker, &ucx_worker_of(own)->fd);
    if (how != UCS_OK) return ucx_error(own, "wait for events with this transport", how, e);
    how = ucx_of(own)->worker_set_am_recv_handler(ucx_worker_of(own)->worker, &handler);
    handler.id = UCX_RANK_LEFT;
    handler.cb = rank_left;
    if (how == UCS_OK)
        how = ucx_of(own)->worker_set_am_recv_handler(ucx_worker_of(own)->worker, &handler);
    return how == UCS_OK ? OK : ucx_error(own, "take messages", how, e);
}

static status open_endpoint(network_rank *own, int rank, const void *address, err *e)
{
    ucx_peer *p = &ucx_worker_of(own)->peer[rank];
    const ucp_ep_params_t params = {
        .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER,
        .address = address,
        .err_mode = p->is_near ? UCP_ERR_HANDLING_MODE_NONE : UCP_ERR_HANDLING_MODE_PEER,
        .err_handler = {.cb = peer_lost, .arg = p}};
    const ucs_status_t how =
        ucx_of(own)->ep_create(ucx_worker_of(own)->worker, &params, &p->endpoint);
    if (how == UCS_OK) return OK;
    p->endpoint = NULL;
    return err_set(e, E_IO, "communicator ucx: cannot reach rank %d: %s", rank,
                   ucx_of(own)->status_string(how));
}

// UCX_TLS may leave out the transports of shared memory.
static bool has_shared_memory(void)
{
    static const char *const names[] = {"all",  "sm",  "shm",   "mm",  "posix",
                                        "sysv", "cma", "xpmem", "knem"};
    const char *word = getenv("UCX_TLS");
    if (!word || *word == '^') return true;
    for (size_t bytes; *word; word += bytes + (word[bytes] == ',')) {
        bytes = strcspn(word, ",");
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            if (strlen(names[i]) == bytes && memcmp(word, names[i], bytes) == 0) return true;
    }
    return false;
}

// Transports of shared memory notice no lost rank, so UCX takes them only where it need not notice one.
static bool is_near(const network_rank *own, int rank)
{
    const int first = own->rank - own->local_rank;
    return rank >= first && rank < first + own->local_size && has_shared_memory();
}

// Every rank tells the address of its worker, in blocks of one size that hold the longest one.
static status open_endpoints(network_rank *own, const comm_options *o, err *e)
{
    status result = OK;
    const comm_rendezvous rendezvous = {
        .store = o->store, .failure = o->world->failure, .rank = o->rank, .size = o->size};
    ucp_address_t *address = NULL;
    char *all = NULL;
    size_t bytes = 0;
    const ucs_status_t how =
        ucx_of(own)->worker_get_address(ucx_worker_of(own)->worker, &address, &bytes);
    if (how != UCS_OK) return ucx_error(own, "tell its address", how, e);
    TRY(comm_rendezvous_all_gather(&rendezvous, address, bytes, o->deadline_ms, &all, &bytes, e));
    for (int r = 0; r < own->size; r++) ucx_worker_of(own)->peer[r].is_near = is_near(own, r);
    for (int r = 0; r < own->size; r++)
        if (r != own->rank) TRY(open_endpoint(own, r, all + (size_t)r * bytes, e));
done:
    free(all);
    ucx_of(own)->worker_release_address(ucx_worker_of(own)->worker, address);
    return result;
}

// Waits until the endpoint is connected, and all that was queued has left.
static status connect_endpoint(network_rank *own, int rank, int64_t until, err *e)
{
    const ucx_peer *p = &ucx_worker_of(own)->peer[rank];
    ucs_status_t how = UCS_OK;
    void *flush = ucx_of(own)->ep_flush_nbx(p->endpoint, &(ucp_request_param_t){0});
    if (UCS_PTR_IS_PTR(flush)) {
        while ((how = ucx_of(own)->request_check_status(flush)) == UCS_INPROGRESS &&
               (until == 0 || clock_ns() < until) && !comm_failure_known(own->world->failure))
            if (!ucx_of(own)->worker_progress(ucx_worker_of(own)->worker)) usleep(NAP_US);
        ucx_of(own)->request_free(flush);
    } else {
        how = UCS_PTR_STATUS(flush);
    }
    if (comm_failure_known(own->world->failure)) return comm_failure_error(own->world->failure, e);
    if (how == UCS_OK) return OK;
    return err_set(e, E_PEER, "communicator ucx: cannot connect to rank %d: %s", rank,
                   how == UCS_INPROGRESS ? "it did not answer in time"
                                         : ucx_of(own)->status_string(how));
}

status ucx_worker_open(network_rank *own, const comm_options *o, err *e)
{
    status result = OK;
    static const char what[] = "a communicator";
    ucx_worker *w;
    TRY(alloc_zeroed(&w, 1, sizeof *w, what, e));
    own->state = w;
    TRY(alloc_zeroed(&w->peer, (size_t)o->size, sizeof *w->peer, what, e));
    for (int r = 0; r < o->size; r++)
        w->peer[r] = (ucx_peer){.lost = &own->lost[r], .api = &w->api};
    TRY(ucx_library_open(&w->api, e));
    TRY(open_context(own, e));
    TRY(open_worker(own, e));
    TRY(open_endpoints(own, o, e));
done:
    return result;
}

status ucx_worker_connect(network_rank *own, int64_t deadline_ms, err *e)
{
    status result = OK;
    const int64_t until = deadline_ms > 0 ? clock_ns() + deadline_ms * 1000000 : 0;
    for (int r = 0; r < own->size; r++)
        if (r != own->rank) TRY(connect_endpoint(own, r, until, e));
done:
    return result;
}

// ---- Closing

// Ranks of other machines see that an endpoint is closed.
static void tell_leaving(network_rank *own, const ucx_peer *p)
{
    const ucp_request_param_t eager = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                       .flags = UCP_AM_SEND_FLAG_EAGER};
    if (!p->is_near) return;
    void *handle = ucx_of(own)->am_send_nbx(p->endpoint, UCX_RANK_LEFT, &own->rank,
                                            sizeof own->rank, NULL, 0, &eager);
    if (UCS_PTR_IS_PTR(handle))
        ucx_of(own)->request_free(handle); // it ends before the endpoint does
}

// Closes the endpoints when what was sent has left.
static void flush_endpoints(network_rank *own)
{
    const int64_t until = clock_ns() + CLOSE_NS;
    const ucp_request_param_t gently = {0}, force = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                                     .flags = UCP_EP_CLOSE_FLAG_FORCE};
    for (int r = 0; r < own->size; r++) {
        ucx_peer *p = &ucx_worker_of(own)->peer[r];
        if (!p->endpoint) continue;
        tell_leaving(own, p);
        void *handle =
            ucx_of(own)->ep_close_nbx(p->endpoint, p->is_near || !*p->lost ? &gently : &force);
        p->endpoint = NULL;
        if (!UCS_PTR_IS_PTR(handle)) continue;
        while (ucx_of(own)->request_check_status(handle) == UCS_INPROGRESS && clock_ns() < until)
            if (!ucx_of(own)->worker_progress(ucx_worker_of(own)->worker)) usleep(NAP_US);
        ucx_of(own)->request_free(handle);
    }
}

// UCX warns of messages that came and were not received, as after a failure.
static void drop_messages(network_rank *own)
{
    ucp_tag_recv_info_t info;
    ucp_tag_message_h message;
    const ucp_request_param_t plain = {0};
    while ((message = ucx_of(own)->tag_probe_nb(ucx_worker_of(own)->worker, 0, 0, 1, &info))) {
        void *handle =
            ucx_of(own)->tag_msg_recv_nbx(ucx_worker_of(own)->worker, &info, 0, message, &plain);
        if (UCS_PTR_IS_PTR(handle)) ucx_of(own)->request_free(handle);
    }
}

void ucx_worker_close(network_rank *own, bool well)
{
    ucx_worker *w = ucx_worker_of(own);
    if (w->worker) {
        if (well) flush_endpoints(own);
        drop_messages(own);
        ucx_of(own)->worker_destroy(w->worker);
    }
    if (w->context) ucx_of(own)->cleanup(w->context);
    free(w->peer);
    free(w);
}
