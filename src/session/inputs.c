// inputs.c -- opens and checks a job's inputs before any rank starts, and resolves the sizes that
// follow from them: batch, steps, memory (fit.c). See session.h.
#include "base/alloc.h"
#include "base/file.h"
#include "ckpt/ckpt.h"
#include "session/adapter.h"
#include "session/checked.h"
#include "session/groups.h"
#include "session/plan/fit.h"
#include "session/preference/preference.h"
#include "session/samples.h"
#include "session/session.h"
#include "session/stages.h"
#include "session/tokenizers.h"
#include "store/safetensors_nf4.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void note_wrapper(const job *j, const safetensors *weights, session_inputs *in)
{
    int bytes;
    const char *wrapper = safetensors_wrapper(weights, &bytes);
    if (wrapper)
        text_addf(&in->warnings,
                  "all tensors of %s begin with %.*s, as a wrapped module's do; they are loaded, "
                  "and saved, without it\n",
                  file_shown(j->model.path), bytes, wrapper);
}

// Packed rows keep the bytes of a folder that bitsandbytes has quantised where they can.
static void note_packed_anew(const job *j, const safetensors *weights, session_inputs *in)
{
    size_t quantised = 0, fit = 0;
    for (size_t i = 0; i < safetensors_count(weights); i++) {
        quantised += safetensors_get(weights, i)->nf4 != NULL;
        fit += safetensors_nf4_fits(safetensors_get(weights, i));
    }
    if (j->model.storage == STORAGE_NF4 && fit < quantised)
        text_addf(
            &in->warnings,
            "%zu of %zu quantised tensors of %s are packed anew, which changes them: they are "
            "not in blocks of %d elements with double quantisation in groups of %d\n",
            quantised - fit, quantised, file_shown(j->model.path), NF4_BLOCK, NF4_GROUP);
}

// Traces the model once to get its limits of ids, and checks the weights against it.
static status open_model(const job *j, session_inputs *in, model_limits *limits, err *e)
{
    status result = OK;
    model *m = NULL;
    safetensors *weights = NULL;
    const model_options once = session_once(j);
    TRY(model_open(in->family, in->config, &once, &m, e));
    *limits = model_get_limits(m);
    TRY(session_check_groups(j, m, &in->warnings, e));
    TRY(session_adapter_prepare(j, m, &in->adapter, e));
    if (!j->model.has_weights) goto done;
    TRY(safetensors_open_weights(j->model.path, &weights, e));
    note_wrapper(j, weights, in);
    note_packed_anew(j, weights, in);
    result = model_folder_open(j->model.path, m, weights, &in->folder, e);
    if (result != OK) err_prefix(e, "%s: ", j->model.path);
    if (result == OK && in->adapter.config)
        TRY(session_adapter_check_base(j, weights, &in->adapter, e));
done:
    safetensors_close(weights);
    model_close(m);
    return result;
}

static status open_data(const job *j, const dataset_source *parts, size_t count, const char *key,
                        dataset *own, model_limits limits, dataset **out, err *e)
{
    int32_t vocab = limits.tokens < limits.classes ? limits.tokens : limits.classes;
    if (own) return checked_dataset_open(own, key, limits.tokens, limits.classes, out, e);
    status s = dataset_open(parts, count, j->data.seq_len, vocab, j->train.seed,
                            (uint64_t)j->data.mock_samples, out, e);
    if (s != OK) err_prefix(e, "%s: ", key);
    return s;
}

static status open_all_data(const job *j, const session_own_inputs *own, session_inputs *in,
                            model_limits limits, err *e)
{
    status result = OK;
    const bool valid = own->valid || j->data.valids > 0;
    const int32_t vocab = limits.tokens < limits.classes ? limits.tokens : limits.classes;
    if (session_has_samples(j))
        TRY(session_open_samples(j, in, vocab, !own->train, valid && !own->valid, e));
    if (!in->train)
        TRY(open_data(j, j->data.train, j->data.trains, "data.train", own->train, limits,
                      &in->train, e));
    if (valid && !in->valid)
        TRY(open_data(j, j->data.valid, j->data.valids, "data.valid", own->valid, limits,
                      &in->valid, e));
    TRY(session_preference_open(j, in, e));
    bool sequences = own->train || in->train->shape.input_type == I32;
    in->seq_len = sequences ? j->data.seq_len : 1;
done:
    return result;
}

// Warns of a batch that holds a sample several times, which is seldom meant.
static void warn_of_epochs(const job *j, session_inputs *in)
{
    uint64_t samples = in->train->samples, batch = (uint64_t)j->train.global_batch;
    if (samples == 0 || samples >= batch) return; // 0: their number is not known
    text_addf(&in->train_warnings,
              "data.train has %llu samples, and a step takes train.global_batch = %llu of them: "
              "every step is %.1f epochs\n",
              (unsigned long long)samples, (unsigned long long)batch,
              (double)batch / (double)samples);
}

// Warns of a warm-up that fills the run.
static void warn_of_warmup(const job *j, session_inputs *in)
{
    const int64_t warmup = lr_warmup_length(&j->lr), steps = j->train.steps;
    if (warmup == 0 || warmup < steps) return;
    text_addf(&in->train_warnings,
              "%s is %lld, and the run has %lld steps: the learning rate rises to the end of the "
              "run\n",
              j->lr.name < LR_RANGE_TEST  ? "lr_schedule.warmup_steps"
              : j->lr.name == LR_MEGATRON ? "lr_schedule.lr_warmup_steps"
                                          : "lr_schedule.warmup_num_steps",
              (long long)warmup, (long long)steps);
}

enum { LOOKED_SAMPLES = 32 };

// Counts the labels of a few samples, from the first one to the last. A sample that cannot be read is an error of the step
// that needs it.
static status count_labels(session_inputs *in, err *e)
{
    status result = OK;
    dataset *d = in->train;
    const dataset_shape *s = &d->shape;
    int32_t *inputs = NULL, *labels = NULL;
    int64_t found = 0, all = 0;
    if (s->label_type != I32 || !(s->documents || s->unlabelled) || d->samples == 0) return OK;
    TRY(alloc_array(&inputs, (size_t)s->inputs, sizeof *inputs, "data.train", e));
    TRY(alloc_array(&labels, (size_t)dataset_label_elements(s), sizeof *labels, "data.train", e));
    const uint64_t step = (d->samples + LOOKED_SAMPLES - 1) / LOOKED_SAMPLES;
    for (uint64_t i = 0; i < d->samples; i += step, all += s->labels) {
        if (d->read(d, i, inputs, labels, NULL) != OK) goto done;
        for (int64_t k = 0; k < s->labels; k++) found += labels[k] >= 0;
    }
    in->labelled = (double)found / (double)all;
done:
    free(inputs);
    free(labels);
    return result;
}

// Opens the inputs without the checks of memory and schedule. An unsolved micro-batch becomes the
// largest that the batch rule allows.
static status open_all(job *j, const session_own_inputs *own, session_inputs *out, err *e)
{
    status result = OK;
    model_limits limits;
    device_description described;
    *out = (session_inputs){.family = own->family ? own->family : j->model.config.family,
                            .config = own->family ? own->config : &j->model.config,
                            .predicts = own->predicts};
    TRY(job_describe_device(j, NULL, &described, e));
    j->strategy.offload.host_is_apart = !described.is_host_memory;
    out->needs = described.needs;
    TRY(job_solve_batch(j, j->launch.ranks, INT64_MAX, e));
    TRY(open_model(j, out, &limits, e));
    TRY(open_all_data(j, own, out, limits, e));
    TRY(session_inputs_check_tokenizers(j, out, e));
    warn_of_epochs(j, out);
    TRY(job_resolve_steps(j, out->train->samples, e));
    if (j->data.order == ORDER_MEGATRON)
        TRY(dataset_order_as_megatron(out->train, j->train.seed,
                                      (uint64_t)j->train.steps * (uint64_t)j->train.global_batch,
                                      e));
    warn_of_warmup(j, out);
    if (!own->train) TRY(count_labels(out, e));
done:
    return result;
}

static status open_ready(job *j, const session_own_inputs *own, session_inputs *out, err *e)
{
    status result = OK;
    const bool choose = j->train.micro_batch == 0;
    TRY(open_all(j, own, out, e));
    TRY(fit_job(j, out, choose, &out->fit, e));
    TRY(session_verify(j, out, j->launch.ranks, e));
done:
    if (result != OK) session_inputs_close(out);
    return result;
}

status session_inputs_open_own(job *j, const session_own_inputs *own, session_inputs *out, err *e)
{
    status result = OK;
    *out = (session_inputs){.family = NULL};
    TRY(job_check_local(j, e));
    TRY(open_ready(j, own, out, e));
done:
    return result;
}

status session_inputs_open_to_explain(job *j, session_inputs *out, err *e)
{
    return open_ready(j, &(session_own_inputs){.family = NULL}, out, e);
}

status session_inputs_open_to_plan(job *j, const session_own_inputs *own, session_inputs *out,
                                   err *e)
{
    status result = OK;
    const bool choose = j->train.micro_batch == 0;
    TRY(open_all(j, own ? own : &(session_own_inputs){.family = NULL}, out, e));
    if (choose) TRY(fit_micro_batch(j, out, e));
done:
    if (result != OK) session_inputs_close(out);
    return result;
}

status session_inputs_open(job *j, session_inputs *out, err *e)
{
    return session_inputs_open_own(j, &(session_own_inputs){.family = NULL}, out, e);
}

void session_inputs_close(session_inputs *in)
{
    dataset_close(in->train);
    dataset_close(in->valid);
    model_folder_close(in->folder);
    free(in->tokenizer_folder);
    free(in->data_tokenizer);
    free(in->adapter.config);
    ckpt_fence_close(&in->fence);
    text_clear(&in->warnings);
    text_clear(&in->train_warnings);
    text_clear(&in->samples_notes);
    free(in->fit);
    *in = (session_inputs){0};
}
