// preference.c -- see preference.h.
#include "session/preference/preference.h"

#include "base/alloc.h"
#include "infer/evaluate.h"
#include "session/preference/prompts.h"
#include "session/preference/reference.h"

#include <stdlib.h>

// ---- The loss and its data

bool session_preference_estimates(const job *j)
{
    return j->train.loss == LOSS_KTO && j->kto.kind == 0;
}

kernel_preference session_preference(const job *j)
{
    const job_preference *p = j->train.loss == LOSS_DPO ? &j->dpo : &j->kto;
    if (j->train.loss == LOSS_ORPO)
        return (kernel_preference){.kind = PREFERENCE_ORPO, .beta = j->orpo.beta};
    if (j->train.loss != LOSS_DPO && j->train.loss != LOSS_KTO)
        return (kernel_preference){.kind = PREFERENCE_NONE};
    const kernel_preference_kind of_dpo = (kernel_preference_kind)(PREFERENCE_SIGMOID + p->kind);
    return (kernel_preference){.kind = j->train.loss == LOSS_KTO ? PREFERENCE_KTO : of_dpo,
                               .beta = p->beta,
                               .smoothing = p->smoothing,
                               .tau = p->tau,
                               .desirable = p->desirable,
                               .undesirable = p->undesirable};
}

static status check_data(const job *j, const dataset *d, const char *key, err *e)
{
    const bool mse = d->shape.label_type == F32;
    if (j->train.loss == LOSS_AUTO) return OK;
    if (j->train.loss <= LOSS_MSE)
        return mse == (j->train.loss == LOSS_MSE)
                   ? OK
                   : err_set(e, E_USAGE,
                             "train.loss: found %s, and the labels of %s are %s; valid: %s",
                             job_loss_name(j), key, mse ? "numbers" : "ids",
                             mse ? "mse" : "cross_entropy");
    if (!d->shape.documents || mse || d->read_own || d->shape.extras)
        return err_set(e, E_USAGE,
                       "train.loss: found %s, and %s has no pairs; valid: samples with chosen and "
                       "rejected answers, or packed documents, without weights",
                       job_loss_name(j), key);
    return OK;
}

status session_preference_open(const job *j, session_inputs *in, err *e)
{
    status result = OK;
    const kernel_preference p = session_preference(j);
    TRY(check_data(j, in->train, "data.train", e));
    if (in->valid) TRY(check_data(j, in->valid, "data.valid", e));
    if (p.kind == PREFERENCE_ORPO) TRY(prompts_wrap(&in->train, "data.train", e));
    if (p.kind == PREFERENCE_ORPO && in->valid) TRY(prompts_wrap(&in->valid, "data.valid", e));
    if (!kernel_preference_refers(&p)) goto done;
    if (session_preference_estimates(j) && j->train.global_batch < 2)
        FAIL(E_USAGE, "train.global_batch: found 1; valid: 2 or more, because kto compares with "
                      "other answers of the batch, or kto.loss_type apo_zero_unpaired");
    if (session_reference_folder(j) && j->lora.how.rank > 0)
        FAIL(E_USAGE,
             "%s.reference: found a folder, and the job trains adapters; valid: auto, which is "
             "their base",
             job_loss_name(j));
    if (session_reference_folder(j) && !j->model.has_weights)
        FAIL(E_USAGE,
             "%s.reference: found a folder, and the job's own weights are drawn; valid: "
             "auto, or a model.path with weights",
             job_loss_name(j));
    TRY(session_reference_wrap(&in->train, j, "data.train", "reference-train.bin", e));
    if (in->valid)
        TRY(session_reference_wrap(&in->valid, j, "data.valid", "reference-valid.bin", e));
done:
    return result;
}

// ---- The shared number
//
// The samples of a global batch follow from their order, so every rank lists all of them, and the number depends on no
// micro-batch and on no strategy.

static bool shares(const job *j)
{
    return j->train.loss == LOSS_ORPO || session_preference_estimates(j);
}

static status set_number(session_rank *r, dataset *data, const uint64_t *sample, uint64_t samples,
                         err *e)
{
    status result = OK;
    double number = 0;
    if (r->run->job->train.loss == LOSS_ORPO)
        number = prompts_share(data, sample, samples);
    else
        TRY(session_reference_divergence(r, data, sample, samples, &number, e));
    trainer_set_shared(r->session.trainer, number);
done:
    return result;
}

status session_preference_step(session_rank *r, err *e)
{
    status result = OK;
    const trainer_options *o = &r->session.options;
    const uint64_t count = (uint64_t)o->global_batch;
    dataset *data = r->run->inputs.train;
    uint64_t *sample = NULL;
    err within;
    if (!shares(r->run->job) || trainer_check_ended(r->session.trainer, "a step", &within) != OK)
        return OK;
    if (!r->order)
        TRY(sampler_open(o->order, data->samples, o->seed, 0, mesh_data_ranks(&o->mesh), &r->order,
                         e));
    TRY(alloc_array(&sample, count, sizeof *sample, "the samples of a step", e));
    for (uint64_t i = 0; i < count; i++)
        sample[i] =
            sampler_sample(r->order, (uint64_t)trainer_steps_done(r->session.trainer) * count + i);
    TRY(set_number(r, data, sample, count, e));
done:
    free(sample);
    return result;
}

status session_preference_evaluate(session_rank *r, int64_t batches, err *e)
{
    status result = OK;
    uint64_t *sample = NULL;
    dataset *data = r->run->inputs.valid;
    if (!shares(r->run->job) || !data) return OK;
    const uint64_t count = infer_evaluated_samples(r->session.trainer, batches);
    TRY(alloc_array(&sample, count, sizeof *sample, "the samples of an evaluation", e));
    for (uint64_t i = 0; i < count; i++) sample[i] = i;
    TRY(set_number(r, data, sample, count, e));
done:
    free(sample);
    return result;
}
