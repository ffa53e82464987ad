// inputs.c -- what a job reads, opened and checked before anything starts; and the sizes that
// follow from it: batch, steps, memory. See session.h.
#include "base/file.h"
#include "base/proc.h"
#include "session/checked.h"
#include "session/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Traces the model once, for what does not depend on the data, and checks the weights against it.
static status open_model(const job *j, inputs *in, model_limits *limits, err *e)
{
    status result = OK;
    model *m = NULL;
    const model_options once = {.mode = GRAPH_EVAL, .type = F32, .batch = 1, .seq = 1};
    TRY(model_open(in->family, in->config, &once, &m, e));
    *limits = model_get_limits(m);
    if (!j->model.has_weights) goto done;
    TRY(safetensors_open_folder(j->model.path, &in->weights, e));
    result = param_check_all(m, in->weights, e);
    if (result != OK) err_prefix(e, "%s: ", j->model.path);
done:
    model_close(m);
    return result;
}

static status open_data(const job *j, const data_part *parts, size_t count, const char *key,
                        dataset *own, model_limits limits, dataset **out, err *e)
{
    int32_t vocab = limits.tokens < limits.classes ? limits.tokens : limits.classes;
    if (own) return checked_dataset_open(own, key, limits.tokens, limits.classes, out, e);
    status s = dataset_open(parts, count, j->data.seq_len, vocab, j->train.seed,
                            (uint64_t)j->data.mock_samples, out, e);
    if (s != OK) err_prefix(e, "%s: ", key);
    return s;
}

static status open_all_data(const job *j, const own_inputs *own, inputs *in, model_limits limits,
                            err *e)
{
    status result = OK;
    TRY(open_data(j, j->data.train, j->data.trains, "data.train", own->train, limits, &in->train,
                  e));
    if (own->valid || j->data.valids > 0)
        TRY(open_data(j, j->data.valid, j->data.valids, "data.valid", own->valid, limits,
                      &in->valid, e));
    bool sequences = own->train || in->train->shape.input_type == I32;
    in->seq_len = sequences ? j->data.seq_len : 1;
done:
    return result;
}

// Bytes that this job may use on each rank.
static uint64_t memory_budget(const job *j, int ranks)
{
    if (j->memory.budget > 0) return (uint64_t)j->memory.budget;
    return proc_bytes("/proc/meminfo", "MemAvailable:") / (uint64_t)ranks;
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

// The largest micro-batch that fits, of those that the batch rule allows.
static status choose_micro_batch(job *j, const inputs *in, int ranks, err *e)
{
    status result = OK;
    for (;;) {
        uint64_t bytes;
        TRY(plan_total(j, in, ranks, NULL, &bytes, e));
        if (bytes <= memory_budget(j, ranks) || j->train.micro_batch == 1) break;
        int64_t limit = j->train.micro_batch - 1;
        j->train.micro_batch = 0;
        TRY(job_solve_batch(j, ranks, limit, e));
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

status inputs_open_own(job *j, const own_inputs *own, inputs *out, err *e)
{
    status result = OK;
    int ranks = j->launch.ranks;
    bool choose = j->train.micro_batch == 0;
    model_limits limits;
    *out = (inputs){.family = own->family ? own->family : family_find(j->model.config.family),
                    .config = own->family ? own->config : &j->model.config};
    TRY(device_check(j->launch.device, &(device_options){0}, e));
    TRY(job_solve_batch(j, ranks, INT64_MAX, e));
    TRY(open_model(j, out, &limits, e));
    TRY(open_all_data(j, own, out, limits, e));
    TRY(job_resolve_steps(j, out->train->samples, e));
    if (choose) TRY(choose_micro_batch(j, out, ranks, e));
    TRY(check_fit(j, out, ranks, e));
    TRY(session_prove(j, out, ranks, e));
done:
    if (result != OK) inputs_close(out);
    return result;
}

status inputs_open(job *j, inputs *out, err *e)
{
    return inputs_open_own(j, &(own_inputs){.family = NULL}, out, e);
}

void inputs_close(inputs *in)
{
    dataset_close(in->train);
    dataset_close(in->valid);
    safetensors_close(in->weights);
    free(in->tokenizer_folder);
    *in = (inputs){0};
}
