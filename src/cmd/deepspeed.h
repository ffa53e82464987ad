// deepspeed.h -- the flags of `trireme deepspeed`, as they were given. Private to deepspeed.c and deepspeed_hosts.c.
#ifndef TRIREME_CMD_DEEPSPEED_H
#define TRIREME_CMD_DEEPSPEED_H

#include "cmd/run.h"
#include "launch/hostfile.h"

#define DEEPSPEED_RANK_WORD "--local_rank=${local_rank}"
enum {
    DEEPSPEED_RESTARTS = 100, // of an elastic run, as DeepSpeed's
    DEEPSPEED_PORT = 29500,
};

typedef struct deepspeed_request {
    const char *hostfile, *include, *exclude, *launcher, *launcher_args, *master_addr, *secret_file;
    const char *log_folder, *log_level, *core_list;
    int64_t nodes, slots, node_rank, master_port, ssh_port, min_nodes, max_nodes; // -1: not given
    bool module, no_python, no_local_rank, force_multi, elastic, bind_cores;
    bool no_ssh, no_ssh_check, save_pid, quiet;
    bool pdsh; // the launcher
} deepspeed_request;

// The slots of a host that are taken: "0,2".
void deepspeed_add_slots(text *out, const hostfile_host *h);
// Starts the program `rest` [count] on the hosts, and returns the exit code. Prints what a user should know.
int deepspeed_start_there(const deepspeed_request *q, const hostfile *f, char **rest, int count);

#endif
