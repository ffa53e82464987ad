// generation.c -- see generation.h. A model that was tuned on conversations ends its turns with the template's token; a folder
// whose eos_token_id lacks that token makes a model that never stops.
#include "convert/generation.h"

#include "base/file.h"
#include "data/chat/chat.h"
#include "model/folder.h"

#include <inttypes.h>
#include <stdlib.h>

// *id is -1 where the folder has no template, or one that ends a turn with no token of its own.
static status find_end_of_turn(const char *folder, int32_t *id, text *warnings, err *e)
{
    status result = OK;
    char *path = NULL;
    tokenizer *t = NULL;
    chat_template *c = NULL;
    chat_workspace *w = NULL;
    err why = {.code = OK};
    *id = -1;
    TRY(file_join(folder, "tokenizer.json", &path, e));
    if (!file_exists(path)) goto done;
    // A tokenizer or a template that Trireme cannot read is copied all the same.
    if (tokenizer_load(path, &t, &why) != OK || chat_template_open(t, path, &c, &why) != OK ||
        (c && chat_workspace_open(c, &w, &why) != OK) || (w && chat_end_of_turn(w, id, &why) != OK))
        text_addf(warnings, "the token that ends a turn is not known: %s\n", why.text);
done:
    chat_workspace_close(w);
    chat_template_close(c);
    tokenizer_close(t);
    free(path);
    return result;
}

static bool has_id(const json_t *ids, int64_t id)
{
    for (size_t i = 0; i < json_array_size(ids); i++)
        if (json_integer_value(json_array_get(ids, i)) == id) return true;
    return false;
}

static void add_id(json_t *ids, int64_t id)
{
    if (id >= 0 && !has_id(ids, id)) json_array_append_new(ids, json_integer((json_int_t)id));
}

// The tokens at which text ends: those of the folder's generation_config.json, or of config.json where it names none.
static status list_ids(const char *folder, const model_config *c, json_t *ids, err *e)
{
    status result = OK;
    int64_t *listed = NULL;
    size_t count;
    TRY(model_folder_ends(folder, "generation_config.json", &listed, &count, e));
    for (size_t i = 0; i < count; i++) add_id(ids, listed[i]);
    if (count > 0) goto done;
    add_id(ids, c->eos);
    for (int i = 0; i < c->more_eos_count; i++) add_id(ids, c->more_eos[i]);
done:
    free(listed);
    return result;
}

static status copy_file(const char *folder, const convert_output *o, err *e)
{
    status result = OK;
    char *path = NULL, *chars = NULL;
    size_t bytes;
    TRY(file_join(folder, "generation_config.json", &path, e));
    TRY(file_read_small(path, FILE_MOST_CONFIG, &chars, &bytes, e));
    TRY(convert_output_put(o, "generation_config.json", chars, bytes, e));
done:
    free(chars);
    free(path);
    return result;
}

status convert_put_generation(const char *folder, const char *tokenizer_folder,
                              const model_config *c, const convert_output *o, text *warnings,
                              err *e)
{
    status result = OK;
    json_t *root = NULL, *ids = json_array();
    int32_t end;
    TRY(find_end_of_turn(tokenizer_folder, &end, warnings, e));
    TRY(convert_read_json(folder, "generation_config.json", &root, e));
    TRY(list_ids(folder, c, ids, e));
    if (root && (end < 0 || has_id(ids, end))) {
        TRY(copy_file(folder, o, e));
        goto done;
    }
    add_id(ids, end);
    if (json_array_size(ids) == 0) goto done;
    if (!root) {
        root = json_object();
        if (c->bos >= 0)
            json_object_set_new(root, "bos_token_id", json_integer((json_int_t)c->bos));
        if (c->pad >= 0)
            json_object_set_new(root, "pad_token_id", json_integer((json_int_t)c->pad));
    }
    if (json_object_set(root, "eos_token_id",
                        json_array_size(ids) == 1 ? json_array_get(ids, 0) : ids))
        FAIL(E_MEMORY, "no memory for generation_config.json");
    TRY(convert_output_put_json(o, "generation_config.json", root, e));
done:
    json_decref(ids);
    json_decref(root);
    return result;
}
