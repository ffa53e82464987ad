// The input is a job file. An accepted job is explained as JSON, and written as a job.yaml that reads
// again as the same job.
#include "fuzz.h"

#include "base/text.h"
#include "config/job.h"

#include <stdlib.h>
#include <string.h>

static void check_accepted(const job *j)
{
    text yaml = {0}, again = {0}, explained = {0};
    job *second = NULL;
    err e = {.code = OK};
    job_write_yaml(j, &yaml);
    job_explain(j, true, &explained);
    json_t *parsed = json_loads(explained.chars, 0, NULL);
    FUZZ_CLAIM(parsed, "the output of explain is no JSON: %.200s", explained.chars);
    json_decref(parsed);
    fuzz_put("again.yaml", yaml.chars, yaml.bytes);
    const status s = job_open(fuzz_path("again.yaml"), 0, NULL, &second, &e);
    FUZZ_CLAIM(s == OK, "job.yaml of an accepted job is refused: %s", e.text);
    job_write_yaml(second, &again);
    FUZZ_CLAIM(strcmp(yaml.chars, again.chars) == 0, "job.yaml reads as another job");
    job_close(second);
    text_clear(&yaml);
    text_clear(&again);
    text_clear(&explained);
}

static bool run(const uint8_t *input, size_t bytes)
{
    job *j = NULL;
    err e = {.code = OK};
    fuzz_put("job.yaml", input, bytes);
    const status s = job_open(fuzz_path("job.yaml"), 0, NULL, &j, &e);
    if (s == OK)
        check_accepted(j);
    else
        fuzz_refused(s, &e);
    job_close(j);
    return s == OK;
}

const fuzz_target fuzz_this = {.run = run};
