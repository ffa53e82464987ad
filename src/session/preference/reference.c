// reference.c -- see reference.h.
#include "session/preference/reference.h"

#include "base/alloc.h"
#include "base/file.h"
#include "infer/documents.h"
#include "session/preference/mismatched.h"
#include "session/preference/preference.h"
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
    // [reference_count] of the documents, and then of the mismatched answers; NULL: not known yet, and read as 0
    double *logp;
    bool estimates;
    mismatched other; // where it estimates
} reference_data;

static uint64_t reference_count(const reference_data *d)
{
    return d->first[d->base.samples] + d->other.answers;
}

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
    mismatched_close(&d->other);
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
        if (d->estimates) TRY(mismatched_add(&d->other, s, inputs, labels, e));
    }
done:
    free(inputs);
    free(labels);
    return result;
}

status session_reference_wrap(dataset **data, const job *j, const char *key, const char *file,
                              err *e)
{
    status result = OK;
    reference_data *d = NULL;
    TRY(alloc_zeroed(&d, 1, sizeof *d, key, e));
    pthread_mutex_init(&d->lock, NULL);
    d->base = **data;
    d->source = *data;
    d->key = key, d->file = file;
    d->estimates = session_preference_estimates(j);
    if (d->estimates) {
        d->hash = (uint64_t)j->train.global_batch; // whose answers are mismatched with each other
        TRY(mismatched_open(d->source, d->hash, &d->other, e));
    }
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

const char *session_reference_folder(const job *j)
{
    return j->train.loss == LOSS_KTO ? j->kto.reference : j->dpo.reference;
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
    const uint64_t count = reference_count(d);
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

// Reads the file of a run.
static status read_file(const reference_data *d, const char *run, double *logp, err *e)
{
    status result = OK;
    char *path = NULL, *chars = NULL;
    size_t bytes;
    reference_file f;
    TRY(file_join(run, d->file, &path, e));
    if (!file_exists(path))
        FAIL(E_USAGE,
             "%s: not there; it has the log-probabilities of the reference, which a resumed run "
             "cannot compute again; valid: the file of the run that wrote the checkpoint",
             path);
    TRY(file_read(path, &chars, &bytes, e));
    const size_t numbers = (size_t)reference_count(d) * sizeof *logp;
    if (bytes != sizeof f + numbers)
        FAIL(E_USAGE, "%s: %zu bytes; valid for %s: %zu, of the same samples", path, bytes, d->key,
             sizeof f + numbers);
    memcpy(&f, chars, sizeof f);
    memcpy(logp, chars + sizeof f, numbers);
    const reference_file valid = file_of(d, logp);
    if (memcmp(&f, &valid, sizeof f) != 0)
        FAIL(E_USAGE, "%s: damaged, or of other samples than %s", path, d->key);
done:
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
static status take_file(const session_rank *r, reference_data *d, const char *run, double *logp,
                        err *e)
{
    status result = OK;
    bool failed = false;
    err why = {.code = OK};
    const status read = r->rank == 0 ? read_file(d, run, logp, &why) : OK;
    TRY(trainer_agree(r->session.trainer, read != OK, &failed, e));
    if (read != OK) {
        *e = why;
        return read;
    }
    if (failed) FAIL(E_USAGE, "rank 0 has no reference of %s", d->key);
    TRY(infer_documents_share(r->session.trainer, logp, reference_count(d), e));
done:
    return result;
}

// Computes the log-probabilities of the mismatched answers of samples: *logp [(*rows)->answers]. The caller frees both.
static status compute_other(trainer *t, const reference_data *d, const uint64_t *sample,
                            uint64_t samples, mismatched_rows **rows, double **logp, err *e)
{
    status result = OK;
    TRY(mismatched_rows_open(&d->other, sample, samples, rows, e));
    TRY(alloc_zeroed(logp, (*rows)->answers, sizeof **logp, d->key, e));
    TRY(infer_documents(t, &(*rows)->base, (*rows)->first, *logp, e));
done:
    return result;
}

// Of all samples.
static status compute_all_other(trainer *t, const reference_data *d, double *logp, err *e)
{
    status result = OK;
    mismatched_rows *rows = NULL;
    double *made = NULL;
    uint64_t *sample = NULL;
    if (!d->estimates) goto done;
    TRY(alloc_array(&sample, d->base.samples, sizeof *sample, d->key, e));
    for (uint64_t s = 0; s < d->base.samples; s++) sample[s] = s;
    TRY(compute_other(t, d, sample, d->base.samples, &rows, &made, e));
    memcpy(logp, made, (size_t)rows->answers * sizeof *logp); // they are in the order of answers
done:
    if (rows) dataset_close(&rows->base);
    free(made);
    free(sample);
    return result;
}

status session_reference_divergence(session_rank *r, dataset *data, const uint64_t *sample,
                                    uint64_t samples, double *out, err *e)
{
    status result = OK;
    const reference_data *d = (const reference_data *)data;
    mismatched_rows *rows = NULL;
    double *made = NULL, sum = 0;
    *out = 0;
    if (!d->logp) return OK;
    TRY(compute_other(r->session.trainer, d, sample, samples, &rows, &made, e));
    for (uint64_t i = 0; i < rows->answers; i++)
        sum += made[i] - d->logp[d->first[d->base.samples] + rows->answer[i]];
    if (rows->answers > 0 && sum > 0) *out = sum / (double)rows->answers;
done:
    if (rows) dataset_close(&rows->base);
    free(made);
    return result;
}

// Takes the numbers from the folder of a run, or computes them (NULL) with the weights that the trainer has.
static status prepare(session_rank *r, reference_data *d, const char *run, err *e)
{
    status result = OK;
    const job *j = r->run->job;
    trainer *t = r->session.trainer;
    double *logp = NULL;
    TRY(alloc_zeroed(&logp, (size_t)reference_count(d), sizeof *logp, d->key, e));
    if (run) {
        TRY(take_file(r, d, run, logp, e));
    } else {
        TRY(infer_documents(t, d->source, d->first, logp, e));
        TRY(compute_all_other(t, d, logp + d->first[d->base.samples], e));
    }
    if (r->rank == 0 && r->run->trains) TRY(write_file(d, j->train.out, logp, e));
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
    text run = {0};
    if (!kernel_preference_refers(&p) || r->has_reference) return OK;
    r->has_reference = true;
    const bool other = session_reference_folder(j) && !r->resumed;
    if (r->resumed) text_addf(&run, "%s/../..", r->resumed->folder);
    TRY(text_check(&run, e));
    if (other) TRY(load_weights(t, session_reference_folder(j), e));
    TRY(prepare(r, train, run.chars, e));
    if (valid) TRY(prepare(r, valid, run.chars, e));
    if (other) TRY(load_weights(t, j->model.path, e));
    batches_forget(t);
done:
    text_clear(&run);
    return result;
}

// ---- The reference of a model that is evaluated

// Writes the folder of the run that has the numbers of d to *run: that of the model or adapter, or the job's. Without one
// it stays empty.
static status find_run(const job *j, const reference_data *d, text *run, err *e)
{
    status result = OK;
    const char *const folders[] = {j->lora.start, j->model.path, j->train.out};
    char *path = NULL;
    for (int i = 0; i < 3 && !path; i++) {
        text_clear(run);
        if (!folders[i]) continue;
        text_addf(run, i < 2 ? "%s/../.." : "%s", folders[i]);
        TRY(text_check(run, e));
        TRY(file_join(run->chars, d->file, &path, e));
        if (file_exists(path)) break;
        free(path);
        path = NULL;
    }
    if (!path) text_clear(run);
done:
    free(path);
    return result;
}

status session_reference_find(session_rank *r, err *e)
{
    status result = OK;
    const job *j = r->run->job;
    const kernel_preference p = session_preference(j);
    reference_data *d = (reference_data *)r->run->inputs.valid;
    text run = {0};
    bool found;
    if (!kernel_preference_refers(&p)) return OK;
    if (r->rank == 0) TRY(find_run(j, d, &run, e));
    TRY(trainer_agree(r->session.trainer, run.bytes > 0, &found, e));
    if (!found && !session_reference_folder(j))
        FAIL(E_USAGE,
             "%s: no %s beside the checkpoints of the run; it has the log-probabilities of the "
             "reference; valid: the folder of a checkpoint of a run with these data as %s, or "
             "%s.reference: DIR",
             d->key, d->file, d->key, job_loss_name(j));
    if (!found) TRY(load_weights(r->session.trainer, session_reference_folder(j), e));
    TRY(prepare(r, d, !found ? NULL : run.bytes ? run.chars : "", e));
    if (!found) TRY(load_weights(r->session.trainer, j->model.path, e));
done:
    text_clear(&run);
    return result;
}
