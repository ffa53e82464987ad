// job_lora.c -- the section `lora`: takes what the job does not give from the adapter of lora.start, and checks it. job_open
// calls it when the model is known. It reads no weights.
#include "config/private.h"

#include "ckpt/ckpt.h"

#include <stdio.h>
#include <stdlib.h>

static bool gives(const job *j, const char *path)
{
    return setting_is_given(settings_of(j->values, path));
}

// Exchanges two lists, of which the loser is freed with its owner.
#define TAKE(path, list, count)                                                                    \
    do {                                                                                           \
        if (gives(j, path)) break;                                                                 \
        void *const own = j->lora.how.list;                                                        \
        const size_t items = j->lora.how.count;                                                    \
        j->lora.how.list = there.list, j->lora.how.count = there.count;                            \
        there.list = own, there.count = items;                                                     \
    } while (0)

static status take_start(job *j, err *e)
{
    status result = OK;
    model_lora there = {.rank = 0};
    char *found = NULL;
    TRY(ckpt_locate(j->lora.start, &found, NULL, e));
    TRY(model_lora_read(found, &there, NULL, e));
    free(j->lora.start);
    j->lora.start = found;
    found = NULL;
    if (!gives(j, "lora.rank")) j->lora.how.rank = there.rank;
    if (!gives(j, "lora.alpha")) j->lora.how.alpha = there.alpha;
    if (!gives(j, "lora.dropout")) j->lora.how.dropout = there.dropout;
    if (!gives(j, "lora.rslora")) j->lora.how.rslora = there.rslora;
    TAKE("lora.target_modules", targets, target_count);
    TAKE("lora.exclude_modules", excluded, excluded_count);
    TAKE("lora.modules_to_save", saved, saved_count);
    TAKE("lora.layers_to_transform", layers, layer_count);
    TAKE("lora.rank_pattern", ranks, rank_count);
    TAKE("lora.alpha_pattern", alphas, alpha_count);
done:
    if (result != OK) setting_prefix(j->values, settings_of(j->values, "lora.start"), e);
    model_lora_clear(&there);
    free(found);
    return result;
}

void job_place_lora(const job *j, const char *key, err *e)
{
    char path[64];
    snprintf(path, sizeof path, "lora.%s", key);
    setting_prefix(j->values, settings_of(j->values, path), e);
}

status job_read_lora(job *j, err *e)
{
    status result = OK;
    const char *key;
    if (j->lora.start) TRY(take_start(j, e));
    if (j->lora.how.rank == 0) goto done;
    if (j->own.model)
        KEY_ERROR("lora.rank", "given, but the program brings a model of its own; valid: none");
    result = model_lora_check(&j->lora.how, &key, e);
    if (result != OK) job_place_lora(j, key, e);
done:
    return result;
}
