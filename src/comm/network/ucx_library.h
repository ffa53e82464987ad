// ucx_library.h -- the library UCX, loaded when a rank opens the communicator ucx.
//
// The program is not linked with it: UCX takes SIGHUP, SIGSEGV and other signals for itself as soon as it is loaded, and
// takes time at every start. A program that needs no network runs where UCX is not installed.
#ifndef TRIREME_COMM_UCX_LIBRARY_H
#define TRIREME_COMM_UCX_LIBRARY_H

#include "base/err.h"

#include <ucp/api/ucp.h>

// The functions that are used, without the prefix ucp_.
// clang-format off
#define UCX_FUNCTIONS(F) \
    F(am_send_nbx) F(cleanup) F(config_modify) F(config_read) \
    F(config_release) F(ep_close_nbx) F(ep_create) F(ep_flush_nbx) \
    F(ep_print_info) F(init_version) F(request_cancel) F(request_check_status) \
    F(request_free) F(tag_msg_recv_nbx) F(tag_probe_nb) F(tag_recv_nbx) \
    F(tag_send_nbx) F(worker_arm) F(worker_create) F(worker_destroy) \
    F(worker_flush_nbx) F(worker_get_address) F(worker_get_efd) F(worker_progress) \
    F(worker_release_address) F(worker_set_am_recv_handler) F(worker_signal)
// clang-format on

typedef struct ucx_api {
#define UCX_MEMBER(name) __typeof__(ucp_##name) *name;
    UCX_FUNCTIONS(UCX_MEMBER)
#undef UCX_MEMBER
    __typeof__(ucs_status_string) *status_string;
} ucx_api;

// Loads the library, and leaves the handlers of signals as they are. It stays until the process ends. E_USAGE where it is
// not there.
status ucx_library_open(ucx_api *out, err *e);

#endif
