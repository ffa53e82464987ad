// Team: starts threads, runs one function on each, joins. Called by tokens_check and prepare.
// It deliberately does not know what the work is: the work claims its own pieces, so that fewer
// threads than asked for only take longer. Plain threads, because ThreadSanitizer follows them.
#define _GNU_SOURCE // sched_getaffinity, CPU_COUNT
#include "data/workers.h"

#include <pthread.h>
#include <sched.h>

enum { MEMBERS_MAX = 256 };

typedef struct member {
    pthread_t thread;
    team_work work;
    void *arg;
    int number;
} member;

int team_default_size(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
    int n = CPU_COUNT(&set);
    return n < 1 ? 1 : n;
}

static void *member_main(void *p)
{
    member *m = p;
    m->work(m->arg, m->number);
    return NULL;
}

void team_run(int size, team_work work, void *arg)
{
    member members[MEMBERS_MAX];
    int started = 0;
    if (size > MEMBERS_MAX) size = MEMBERS_MAX;
    for (int i = 1; i < size; i++) {
        member *m = &members[started];
        *m = (member){.work = work, .arg = arg, .number = i};
        if (pthread_create(&m->thread, NULL, member_main, m) != 0) break;
        started++;
    }
    work(arg, 0);
    for (int i = 0; i < started; i++) pthread_join(members[i].thread, NULL);
}
