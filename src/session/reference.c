// reference.c -- see reference.h.
#include "session/reference.h"

#include "base/alloc.h"
#include "base/file.h"
#include "infer/documents.h"
#include "train/batches/batches.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

// A data set with the reference's numbers. Ranks that are threads share it.
typedef struct reference_data {
    dataset base;
    dataset *source; // owned
    const char *key; // "data.train"
    const char *file;
    uint64_t *first; // [samples + 1] number of the sample's first document among all
    uint64_t hash;   // of all samples
    pthread_mutex_t lock;
    double *logp; // [first[samples]] NULL: not known yet, and read as 0
} reference_data;

// ---- The data set

static status reference_read(dataset *base, uint64_t sample, void *inputs, void *labels, err *e)
{
    reference_data *d = (reference_data *)base;
    const int64_t length = base->shape.labels;
    float *high = (float *)labels + length, *low = high + length;
    const status result = d->source->read(d->source, sample, inputs, labels, e);
    if (result != OK) return result;
    const int32_t *start = (const int32_t *)inputs + length;
    uint64_t document = d->first[sample];
    pthread_mutex_lock(&d->lock);
    for (int64_t i = 0; i < length; i++) {
        if (i > 0 && start[i] == i) document++;
        const double logp = d->logp ? d->logp[document] : 0;
        high[i] = (float)logp;
        low[i] = (float)(logp - (double)high[i]);
    }
    pthread_mutex_unlock(&d->lock);
    return OK;
}

static void reference_close(dataset *base)
{
    reference_data *d = (reference_data *)base;
    dataset_close(d->source);
    pthread_mutex_destroy(&d->lock);
    free(d->first);
    free(d->logp);
    free(d);
}

// Takes ownership of `logp`. Ranks compute equal numbers; the first one's stay.
static void set_numbers(reference_data *d, double *logp)
{
    pthread_mutex_lock(&d->lock);
    if (!d->logp) {
        d->logp = logp;
        logp = NULL;
    }
    pthread_mutex_unlock(&d->lock);
    free(logp);
}

// Counts the documents of each sample, and hashes the samples.
static status scan(reference_data *d, err *e)
{
    status result = OK;
    const int64_t length = d->base.shape.labels;
    int32_t *inputs = NULL, *labels = NULL;
    TRY(alloc_zeroed(&d->first, d->base.samples + 1, sizeof *d->first, d->key, e));
    TRY(alloc_array(&inputs, 2 * (size_t)length, sizeof *inputs, d->key, e));
    TRY(alloc_array(&labels, (size_t)length, sizeof *labels, d->key, e));
    for (uint64_t s = 0; s < d->base.samples; s++) {
        uint64_t documents = 1;
        TRY(d->source->read(d->source, s, inputs, labels, e));
        for (int64_t i = 1; i < length; i++) documents += inputs[length + i] == i;
        d->first[s + 1] = d->first[s] + documents;
        d->hash = XXH3_64bits_withSeed(inputs, 2 * (size_t)length * sizeof *inputs, d->hash);
        d->hash = XXH3_64bits_withSeed(labels, (size_t)length * sizeof *labels, d->hash);
    }
done:
    free(inputs);
    free(labels);
    return result;
}

static status wrap(dataset **data, const char *key, const char *file, err *e)
{
    status result = OK;
    reference_data *d = NULL;
    TRY(alloc_zeroed(&d, 1, sizeof *d, key, e));
    pthread_mutex_init(&d->lock, NULL);
    d->base = **data;
    d->source = *data;
    d->key = key, d->file = file;
    TRY(scan(d, e));
    d->base.shape.extras = 2;
    d->base.read = reference_read;
    d->base.close = reference_close;
    *data = &d->base;
    d = NULL;
done:
    if (d) {
        d->source = NULL;
        reference_close(&d->base);
    }
    return result;
}

// ---- The job's loss

kernel_preference session_preference(const job *j)
{
    static const kernel_preference_kind kinds[] = {PREFERENCE_SIGMOID, PREFERENCE_HINGE,
                                                   PREFERENCE_IPO};
    const job_preference *p = j->train.loss == LOSS_DPO ? &j->dpo : &j->kto;
    if (j->train.loss == LOSS_ORPO)
        return (kernel_preference){.kind = PREFERENCE_ORPO, .beta = j->orpo.beta};
    if (j->train.loss != LOSS_DPO && j->train.loss != LOSS_KTO)
        return (kernel_preference){.kind = PREFERENCE_NONE};
    return (kernel_preference){.kind = j->train.loss == LOSS_KTO ? PREFERENCE_KTO : kinds[p->kind],
                               .beta = p->beta,
                               .smoothing = p->smoothing,
                               .desirable = p->desirable,
                               .undesirable = p->undesirable};
}

static const char *reference_folder(const job *j)
{
    return j->train.loss == LOSS_KTO ? j->kto.reference : j->dpo.reference;
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
    if (!kernel_preference_refers(&p)) goto done;
    if (reference_folder(j) && j->lora.how.rank > 0)
        FAIL(E_USAGE,
             "%s.reference: found a folder, and the job trains adapters; valid: auto, which is "
             "their base",
             job_loss_name(j));
    if (reference_folder(j) && !j->model.has_weights)
        FAIL(E_USAGE,
             "%s.reference: found a folder, and the job's own weights are drawn; valid: "
             "auto, or a model.path with weights",
             job_loss_name(j));
    TRY(wrap(&in->train, "data.train", "reference-train.bin", e));
    if (in->valid) TRY(wrap(&in->valid, "data.valid", "reference-valid.bin", e));
done:
    return result;
}

// ---- The file

// The start of a file; the numbers follow.
typedef struct reference_file {
    char magic[8];
    uint64_t data, count, numbers; // hashes of the samples and of the numbers
} reference_file;
static const char MAGIC[8] = "TRMREF1";

static reference_file file_of(const reference_data *d, const double *logp)
{
    const uint64_t count = d->first[d->base.samples];
    reference_file f = {.data = d->hash,
                        .count = count,
                        .numbers = XXH3_64bits(logp, (size_t)count * sizeof *logp)};
    memcpy(f.magic, MAGIC, sizeof f.magic);
    return f;
}

static status write_file(const reference_data *d, const char *folder, const double *logp, err *e)
{
    status result = OK;
    char *path = NULL;
    text all = {0};
    const reference_file f = file_of(d, logp);
    TRY(file_join(folder, d->file, &path, e));
    text_add_bytes(&all, (const char *)&f, sizeof f);
    text_add_bytes(&all, (const char *)logp, (size_t)f.count * sizeof *logp);
    TRY(text_check(&all, e));
    TRY(file_replace(path, all.chars, all.bytes, e));
done:
    text_clear(&all);
    free(path);
    return result;
}

// Reads the file of the run that wrote the checkpoint, <run>/checkpoints/step-N.
static status read_file(const reference_data *d, const char *checkpoint, double *logp, err *e)
{
    status result = OK;
    text folder = {0};
    char *path = NULL, *chars = NULL;
    size_t bytes;
    reference_file f;
    text_addf(&folder, "%s/../..", checkpoint);
    TRY(text_check(&folder, e));
    TRY(file_join(folder.chars, d->file, &path, e));
    if (!file_exists(path))
        FAIL(E_USAGE,
             "%s: not there; it has the log-probabilities of the reference, which a resumed run "
             "cannot compute again; valid: the file of the run that wrote %s",
             path, checkpoint);
    TRY(file_read(path, &chars, &bytes, e));
    const size_t numbers = (size_t)d->first[d->base.samples] * sizeof *logp;
    if (bytes != sizeof f + numbers)
        FAIL(E_USAGE, "%s: %zu bytes; valid for %s: %zu, of the same samples", path, bytes, d->key,
             sizeof f + numbers);
    memcpy(&f, chars, sizeof f);
    memcpy(logp, chars + sizeof f, numbers);
    const reference_file valid = file_of(d, logp);
    if (memcmp(&f, &valid, sizeof f) != 0)
        FAIL(E_USAGE, "%s: damaged, or of other samples than %s", path, d->key);
done:
    text_clear(&folder);
    free(chars);
    free(path);
    return result;
}

// ---- Computing

// Replaces the weights by those of a folder.
static status load_weights(trainer *t, const char *folder, err *e)
{
    status result = OK;
    const model *m = trainer_get_model(t);
    safetensors *weights = NULL;
    float *space = NULL;
    uint64_t most = 0;
    TRY(safetensors_open_weights(folder, &weights, e));
    result = model_param_check_all(m, weights, e);
    if (result != OK) err_prefix(e, "%s: ", folder);
    if (result != OK) goto done;
    for (int p = 0; p < m->params; p++) {
        const uint64_t count = (uint64_t)m->param[p].count;
        if (count > most) most = count;
    }
    TRY(alloc_array(&space, (size_t)most, sizeof *space, "the weights of the reference", e));
    for (int p = 0; p < m->params; p++) TRY(trainer_write_weight(t, p, weights, space, e));
    TRY(trainer_restore(t, trainer_steps_done(t), e));
done:
    free(space);
    safetensors_close(weights);
    return result;
}

// Rank 0 reads the file, and the others take its numbers.
static status take_file(const session_rank *r, reference_data *d, double *logp, err *e)
{
    status result = OK;
    bool failed = false;
    err why = {.code = OK};
    const status read = r->rank == 0 ? read_file(d, r->resumed->folder, logp, &why) : OK;
    TRY(trainer_agree(r->session.trainer, read != OK, &failed, e));
    if (read != OK) {
        *e = why;
        return read;
    }
    if (failed) FAIL(E_USAGE, "rank 0 has no reference of %s", d->key);
    TRY(infer_documents_share(r->session.trainer, logp, d->first[d->base.samples], e));
done:
    return result;
}

static status prepare(session_rank *r, reference_data *d, err *e)
{
    status result = OK;
    const job *j = r->run->job;
    trainer *t = r->session.trainer;
    double *logp = NULL;
    TRY(alloc_zeroed(&logp, (size_t)d->first[d->base.samples], sizeof *logp, d->key, e));
    if (r->resumed)
        TRY(take_file(r, d, logp, e));
    else
        TRY(infer_documents(t, d->source, d->first, logp, e));
    if (r->rank == 0) TRY(write_file(d, j->train.out, logp, e));
    set_numbers(d, logp);
    logp = NULL;
done:
    free(logp);
    return result;
}

status session_reference_prepare(session_rank *r, err *e)
{
    status result = OK;
    const job *j = r->run->job;
    trainer *t = r->session.trainer;
    const kernel_preference p = session_preference(j);
    reference_data *train = (reference_data *)r->run->inputs.train,
                   *valid = (reference_data *)r->run->inputs.valid;
    if (!kernel_preference_refers(&p) || r->has_reference) return OK;
    r->has_reference = true;
    const bool other = reference_folder(j) && !r->resumed;
    if (other) TRY(load_weights(t, reference_folder(j), e));
    TRY(prepare(r, train, e));
    if (valid) TRY(prepare(r, valid, e));
    if (other) TRY(load_weights(t, j->model.path, e));
    batches_forget(t);
done:
    return result;
}
