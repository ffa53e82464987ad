// make_run.c -- writes the folder of a made-up run (made_run.h) for the tests of the commands that read one:
//   make_run FOLDER ranks=4 steps=40 cause=compute slow_rank=2 slow_by=0.3
// Keys are the members of made_run.
#include "made_run.h"

#include <stddef.h>
#include <stdio.h>

typedef enum member_kind { MEMBER_INT, MEMBER_REAL, MEMBER_BOOL, MEMBER_CAUSE } member_kind;

static const struct {
    const char *name;
    member_kind kind;
    size_t offset;
} MEMBERS[] = {
#define MEMBER(name, kind)                                                                         \
    {                                                                                              \
#name, kind, offsetof(made_run, name)                                                      \
    }
    MEMBER(ranks, MEMBER_INT),         MEMBER(steps, MEMBER_INT),
    MEMBER(step_ms, MEMBER_REAL),      MEMBER(hosts, MEMBER_INT),
    MEMBER(micro, MEMBER_INT),         MEMBER(stages, MEMBER_INT),
    MEMBER(stage_by, MEMBER_REAL),     MEMBER(cause, MEMBER_CAUSE),
    MEMBER(slow_rank, MEMBER_INT),     MEMBER(slow_host, MEMBER_BOOL),
    MEMBER(slow_by, MEMBER_REAL),      MEMBER(slow_from, MEMBER_INT),
    MEMBER(slow_last, MEMBER_INT),     MEMBER(spike_every, MEMBER_INT),
    MEMBER(spike_by, MEMBER_REAL),     MEMBER(jitter, MEMBER_REAL),
    MEMBER(comm, MEMBER_REAL),         MEMBER(input, MEMBER_REAL),
    MEMBER(creep, MEMBER_REAL),        MEMBER(save_every, MEMBER_INT),
    MEMBER(save, MEMBER_REAL),         MEMBER(spike_step, MEMBER_INT),
    MEMBER(matmul_share, MEMBER_REAL), MEMBER(goes_on, MEMBER_BOOL),
};

static bool set_member(made_run *o, const char *word)
{
    static const char *const causes[] = {"nothing", "compute", "input", "link"};
    const size_t name = strcspn(word, "=");
    for (size_t i = 0; word[name] && i < sizeof MEMBERS / sizeof *MEMBERS; i++) {
        char *member = (char *)o + MEMBERS[i].offset;
        const char *value = word + name + 1;
        if (strlen(MEMBERS[i].name) != name || strncmp(MEMBERS[i].name, word, name) != 0) continue;
        if (MEMBERS[i].kind == MEMBER_INT) *(int *)(void *)member = atoi(value);
        if (MEMBERS[i].kind == MEMBER_REAL) *(double *)(void *)member = atof(value);
        if (MEMBERS[i].kind == MEMBER_BOOL) *(bool *)(void *)member = atoi(value) != 0;
        for (int c = 0; MEMBERS[i].kind == MEMBER_CAUSE && c < 4; c++)
            if (strcmp(causes[c], value) == 0) *(made_cause *)(void *)member = (made_cause)c;
        return true;
    }
    return false;
}

int main(int argc, char **argv)
{
    err e = {.code = OK};
    made_run o = {.ranks = 0};
    for (int i = 2; i < argc; i++) {
        if (set_member(&o, argv[i])) continue;
        fprintf(stderr, "make_run: %s: not a member of made_run\n", argv[i]);
        return 2;
    }
    if (argc < 2 || made_run_write(argv[1], &o, &e) != OK) {
        fprintf(stderr, "make_run: %s\n", argc < 2 ? "give a folder" : e.text);
        return 1;
    }
    return 0;
}
