// inputs.c -- what a job reads, opened and checked before anything starts; and the sizes that
// follow from it: batch, steps, memory. See session.h.
#include "base/file.h"
#include "session/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static status open_data(const job *j, const data_part *parts, size_t count, const char *key,
                        dataset **out, err *e)
{
    const model_config *c = &j->model.config;
    status s = dataset_open(parts, count, j->data.seq_len, (int32_t)c->vocab, j->train.seed,
                            (uint64_t)j->data.mock_samples, out, e);
    if (s != OK) {
        err_prefix(e, "%s: ", key);
        return s;
    }
    bool classes = (*out)->shape.input_type != I32 && (*out)->shape.label_type == I32;
    if (classes && (*out)->max_id >= c->vocab)
        return err_set(e, E_USAGE, "%s: a sample has class %d, the model has %lld classes", key,
                       (*out)->max_id, (long long)c->vocab);
    return OK;
}

// Bytes that this job may use on each rank.
static uint64_t memory_budget(const job *j, int ranks)
{
    if (j->memory.budget > 0) return (uint64_t)j->memory.budget;
    unsigned long long kib = 0;
    char line[128];
    FILE *f = fopen("/proc/meminfo", "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1) break;
    if (f) fclose(f);
    return kib * 1024 / (uint64_t)ranks;
}

static status plan_total(const job *j, const inputs *in, int ranks, text *breakdown,
                         uint64_t *bytes, err *e)
{
    status result = OK;
    trainer_options o;
    plan *p = NULL;
    schedule s = {0};
    uint64_t params;
    double flops;
    TRY(session_options(j, in, ranks, &o, e));
    TRY(trainer_plan(&o, &p, &s, &params, &flops, e));
    *bytes = plan_bytes(p);
    for (int c = 0; breakdown && c < CATEGORIES; c++) {
        char size[24];
        text_bytes(size, (double)p->bytes[c]);
        if (p->bytes[c] > 0)
            text_addf(breakdown, "%s%s %s", breakdown->bytes ? ", " : "",
                      category_name((category)c), size);
    }
done:
    plan_free(p);
    schedule_clear(&s);
    return result;
}

// The largest micro-batch that divides a rank's share of the global batch and fits.
static status choose_micro_batch(job *j, const inputs *in, int ranks, err *e)
{
    status result = OK;
    int64_t own = j->train.global_batch / ranks;
    for (int64_t micro = own; micro >= 1; micro--) {
        uint64_t bytes;
        if (own % micro) continue;
        j->train.micro_batch = micro;
        TRY(plan_total(j, in, ranks, NULL, &bytes, e));
        if (bytes <= memory_budget(j, ranks)) break;
    }
done:
    return result;
}

static status check_fit(job *j, const inputs *in, int ranks, err *e)
{
    status result = OK;
    text breakdown = {0};
    uint64_t bytes, budget = memory_budget(j, ranks);
    char need[24], have[24];
    TRY(plan_total(j, in, ranks, &breakdown, &bytes, e));
    text_bytes(need, (double)bytes);
    text_bytes(have, (double)budget);
    if (bytes > budget)
        FAIL(E_FIT, "the job needs %s on each of %d ranks (%s); memory.budget is %s%s", need, ranks,
             breakdown.at, have,
             j->train.micro_batch > 1 ? "; a smaller train.micro_batch needs less" : "");
done:
    text_clear(&breakdown);
    return result;
}

status inputs_open(job *j, inputs *out, err *e)
{
    status result = OK;
    int ranks = j->launch.ranks;
    *out = (inputs){0};
    bool choose = j->train.micro_batch == 0;
    TRY(job_solve_batch(j, ranks, INT64_MAX, e));
    TRY(open_data(j, j->data.train, j->data.trains, "data.train", &out->train, e));
    if (j->data.valids > 0)
        TRY(open_data(j, j->data.valid, j->data.valids, "data.valid", &out->valid, e));
    TRY(job_resolve_steps(j, out->train->samples, e));
    if (j->model.has_weights) {
        TRY(safetensors_open_folder(j->model.path, &out->weights, e));
        trainer_options o;
        model *m = NULL;
        TRY(session_options(j, out, ranks, &o, e));
        TRY(model_open(o.family, o.config, GRAPH_EVAL, F32, 1, o.seq_len, RECOMPUTE_NONE, &m, e));
        status s = param_check_all(m, out->weights, e);
        model_close(m);
        if (s != OK) {
            err_prefix(e, "%s: ", j->model.path);
            result = s;
            goto done;
        }
    }
    if (choose) TRY(choose_micro_batch(j, out, ranks, e));
    TRY(check_fit(j, out, ranks, e));
done:
    if (result != OK) inputs_close(out);
    return result;
}

void inputs_close(inputs *in)
{
    dataset_close(in->train);
    dataset_close(in->valid);
    safetensors_close(in->weights);
    free(in->tokenizer_folder);
    *in = (inputs){0};
}
