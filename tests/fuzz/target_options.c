// The input is the command line of a job: each line is an argument.
#include "fuzz.h"

#include "base/text.h"
#include "config/job.h"

#include <stdlib.h>
#include <string.h>

enum { ARGS_MOST = 64 };

static bool run(const uint8_t *input, size_t bytes)
{
    char *copy = strndup((const char *)input, bytes), *argv[ARGS_MOST + 1], *rest = copy;
    int argc = 0;
    job *j = NULL;
    err e = {.code = OK};
    FUZZ_CLAIM(copy, "no memory");
    while (rest && argc < ARGS_MOST) argv[argc++] = strsep(&rest, "\n");
    argv[argc] = NULL;
    const status s = job_open(NULL, argc, argv, &j, &e);
    if (s == OK) {
        text yaml = {0};
        job_write_yaml(j, &yaml);
        FUZZ_CLAIM(yaml.bytes > 0, "an accepted job is written as nothing");
        text_clear(&yaml);
    } else {
        fuzz_refused(s, &e);
    }
    job_close(j);
    free(copy);
    return s == OK;
}

const fuzz_target fuzz_this = {.run = run};
