// tokenizer_post.c -- reads the field `post_processor` of a tokenizer.json: the ids before and after
// a text that is encoded with special tokens. tokenizer_load.c calls it; tokenizer_encode.c adds the
// ids. It ignores the form for pairs of texts, because Trireme encodes single texts.
#include "base/text.h"
#include "data/tokenizer/tokenizer_private.h"

#include <string.h>

static status add_id(tokenizer_special_ids *list, const tokenizer *t, const char *field,
                     const json_t *id, err *e)
{
    if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) >= t->vocab)
        return err_set(e, E_USAGE, "%s: an id must be a whole number below the vocabulary, %d",
                       field, (int)t->vocab);
    if (list->count == SPECIAL_IDS)
        return err_set(e, E_USAGE, "%s: more than %d special tokens on one side of a text", field,
                       SPECIAL_IDS);
    list->id[list->count++] = (int32_t)json_integer_value(id);
    return OK;
}

// Refuses a second step that adds tokens, as HuggingFace's tokenizers do.
static status set_special_ids(tokenizer *t, const tokenizer_special_ids *before,
                              const tokenizer_special_ids *after, err *e)
{
    if (tokenizer_adds_special_tokens(t))
        return err_set(e, E_USAGE,
                       "post_processor.processors: two steps add special tokens; valid is one");
    t->before = *before;
    t->after = *after;
    return OK;
}

static status read_template(tokenizer *t, const json_t *post, err *e)
{
    status result = OK;
    const char *field = "post_processor.single";
    tokenizer_special_ids side[2] = {{.count = 0}};
    const json_t *pieces = json_object_get(post, "single"),
                 *known = json_object_get(post, "special_tokens");
    int texts = 0;
    for (size_t i = 0; i < json_array_size(pieces); i++) {
        const json_t *piece = json_array_get(pieces, i);
        const json_t *sequence = json_object_get(piece, "Sequence");
        const char *name =
            json_string_value(json_object_get(json_object_get(piece, "SpecialToken"), "id"));
        const char *which = json_string_value(json_object_get(sequence, "id"));
        if (which && strcmp(which, "A") == 0 && texts == 0) {
            texts++;
            continue;
        }
        if (!name)
            FAIL(E_USAGE, "%s[%zu]: valid are one Sequence A, and SpecialTokens around it", field,
                 i);
        const json_t *ids = json_object_get(json_object_get(known, name), "ids");
        if (!json_is_array(ids))
            FAIL(E_USAGE, "%s[%zu]: \"%.*s\" is not in post_processor.special_tokens", field, i,
                 TEXT_CUT(name, 100));
        for (size_t k = 0; k < json_array_size(ids); k++)
            TRY(add_id(&side[texts], t, field, json_array_get(ids, k), e));
    }
    if (texts == 0) FAIL(E_USAGE, "%s has no Sequence A, which stands for the text", field);
    TRY(set_special_ids(t, &side[0], &side[1], e));
done:
    return result;
}

// BertProcessing and RobertaProcessing: "cls": [token, id] before, "sep": [token, id] after.
static status read_cls_sep(tokenizer *t, const json_t *post, err *e)
{
    status result = OK;
    tokenizer_special_ids before = {.count = 0}, after = {.count = 0};
    const json_t *cls = json_object_get(post, "cls"), *sep = json_object_get(post, "sep");
    TRY(add_id(&before, t, "post_processor.cls", json_array_get(cls, 1), e));
    TRY(add_id(&after, t, "post_processor.sep", json_array_get(sep, 1), e));
    TRY(set_special_ids(t, &before, &after, e));
done:
    return result;
}

status tokenizer_read_post(tokenizer *t, const json_t *post, err *e)
{
    status result = OK;
    const char *type = json_string_value(json_object_get(post, "type"));
    if (!post || json_is_null(post)) goto done;
    if (!type) FAIL(E_USAGE, "post_processor.type is missing");
    if (strcmp(type, "ByteLevel") == 0) goto done; // it changes offsets, not ids
    if (strcmp(type, "TemplateProcessing") == 0) {
        TRY(read_template(t, post, e));
    } else if (strcmp(type, "BertProcessing") == 0 || strcmp(type, "RobertaProcessing") == 0) {
        TRY(read_cls_sep(t, post, e));
    } else if (strcmp(type, "Sequence") == 0) {
        const json_t *list = json_object_get(post, "processors");
        if (!json_is_array(list)) FAIL(E_USAGE, "post_processor.processors must be a list");
        for (size_t i = 0; i < json_array_size(list); i++)
            TRY(tokenizer_read_post(t, json_array_get(list, i), e));
    } else {
        FAIL(E_USAGE,
             "post_processor.type is %.*s; valid are ByteLevel, TemplateProcessing, "
             "BertProcessing, RobertaProcessing and a Sequence of them",
             TEXT_CUT(type, 100));
    }
done:
    return result;
}
