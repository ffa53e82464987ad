// deepspeed.h -- the flags of `trireme deepspeed`, as they were given. Private to cmd/: doctor starts itself on other hosts with
// parts of it.
#ifndef TRIREME_CMD_DEEPSPEED_H
#define TRIREME_CMD_DEEPSPEED_H

#include "base/text.h"
#include "cmd/run/run.h"
#include "launch/hostfile.h"
#include "net/secret.h"

#define DEEPSPEED_RANK_WORD "--local_rank=${local_rank}"
enum {
    DEEPSPEED_RESTARTS = 100, // of an elastic run, as DeepSpeed's
    DEEPSPEED_PORT = 29500,
};

// The options of ssh, which reaches the other hosts.
typedef struct deepspeed_ssh {
    const char *launcher, *launcher_args;
    int64_t port, node_rank; // -1: not given
    bool none;               // each host is started by itself, as node node_rank of the list
    bool no_check, pdsh;
} deepspeed_ssh;

typedef struct deepspeed_request {
    deepspeed_ssh ssh;
    const char *hostfile, *include, *exclude, *master_addr, *secret_file;
    const char *log_folder, *log_level, *core_list;
    int64_t nodes, slots, master_port, min_nodes, max_nodes; // -1: not given
    bool module, no_python, no_local_rank, force_multi, elastic, bind_cores, save_pid, quiet;
} deepspeed_request;

// The slots of a host that are taken: "0,2".
void deepspeed_add_slots(text *out, const hostfile_host *h);
// Parts of a command that ssh runs on another host, which doctor uses, too: a word in quotes, the variables that are passed
// on ("NCCL_DEBUG=INFO" and others), and a descriptor from which ssh reads the secret as a line.
void deepspeed_add_word(text *out, const char *word);
status deepspeed_add_environment(text *out, err *e);
status deepspeed_open_input(const net_secret *s, int *out, err *e);
// Starts the program `rest` [count] on the hosts, and returns the exit code. Prints what a user should know.
int deepspeed_start_remote(const deepspeed_request *q, const hostfile *f, char **rest, int count);

#endif
