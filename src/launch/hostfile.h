// hostfile.h -- the hosts of a run and their slots, as DeepSpeed's launcher and mpirun name them.
//
// A file has one host a line, `worker-0 slots=4`, with comments from # to the end of the line. A slot is one worker,
// and the number of its GPU. Called by cmd/run/deepspeed.c; nothing here starts anything.
#ifndef TRIREME_LAUNCH_HOSTFILE_H
#define TRIREME_LAUNCH_HOSTFILE_H

#include "net/address.h"

#include <stdbool.h>

enum { HOSTFILE_SLOTS = 1024, HOSTFILE_HOSTS = 4096 };

typedef struct hostfile_host {
    char name[NET_HOST_BYTES];
    int slots;
    bool takes[HOSTFILE_SLOTS]; // [slots]
} hostfile_host;

typedef struct hostfile {
    hostfile_host *hosts; // [count]
    int count;
    size_t room; // of the array
} hostfile;

// Reads a file; every slot is taken. The caller closes *out also after a failure. E_USAGE names the file, the line and
// what it holds.
status hostfile_read(const char *path, hostfile *out, err *e);
// One host, for a run without a file.
status hostfile_make(const char *name, int slots, hostfile *out, err *e);
// Takes only what the words name (`host:0,2@other`), or all but that. A host without slots stands for all of its
// slots. E_USAGE names what is unknown.
status hostfile_include(hostfile *f, const char *words, err *e);
status hostfile_exclude(hostfile *f, const char *words, err *e);
// Keeps the first `hosts`, and of each the first `slots` that are taken; -1: all. E_USAGE where there are fewer.
status hostfile_keep_first(hostfile *f, int64_t hosts, int64_t slots, err *e);
int hostfile_taken(const hostfile_host *h);
void hostfile_close(hostfile *f);

#endif
