// folder.c -- see folder.h.
#include "model/folder.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void model_folder_close(model_folder *f)
{
    if (!f) return;
    for (size_t i = 0; i < f->file_count; i++) {
        if (f->file[i].fd >= 0) close(f->file[i].fd);
        free(f->file[i].path);
    }
    for (size_t i = 0; i < f->carried_count; i++) free((char *)f->carried[i].info.name);
    for (int i = 0; f->name && i < f->files.count; i++) free(f->name[i]);
    free(f->file);
    free(f->carried);
    free(f->name);
    model_param_files_clear(&f->files);
    free(f->config);
    free(f->path);
    free(f);
}

// ---- The tensors

// Finds the open file of this path, or opens it.
static status find_file(model_folder *f, const char *path, int *out, err *e)
{
    status result = OK;
    for (size_t i = 0; i < f->file_count; i++)
        if (strcmp(f->file[i].path, path) == 0) {
            *out = (int)i;
            return OK;
        }
    TRY(alloc_grow(&f->file, &f->file_room, f->file_count + 1, sizeof *f->file, path, e));
    model_folder_file *x = &f->file[f->file_count];
    *x = (model_folder_file){.fd = -1};
    TRY(text_copy(path, &x->path, e));
    f->file_count++;
    TRY(file_open_input(path, &x->fd, NULL, e));
    *out = (int)f->file_count - 1;
done:
    return result;
}

static status add_carried(model_folder *f, const safetensors *from, const safetensors_tensor *t,
                          err *e)
{
    status result = OK;
    model_carried x = {.info = *t};
    char *name = NULL;
    if (t->nf4)
        FAIL(E_USAGE,
             "tensor %s is quantised, and no part of the model that is computed; valid: "
             "such tensors as they were",
             t->name);
    TRY(find_file(f, safetensors_locate(from, t, &x.offset), &x.file, e));
    TRY(alloc_grow(&f->carried, &f->carried_room, f->carried_count + 1, sizeof *f->carried,
                   "a list of tensors", e));
    TRY(text_copy(t->name, &name, e));
    x.info.name = name;
    x.info.data = NULL;
    f->carried[f->carried_count++] = x;
done:
    return result;
}

// A checkpoint lacks the copy, so the copy must not differ from the token table.
static status check_copy(const safetensors *from, const safetensors_tensor *table,
                         const safetensors_tensor *copy, err *e)
{
    if (!copy->nf4 && !table->nf4 && copy->type == table->type && copy->bytes == table->bytes &&
        memcmp(copy->data, table->data, copy->bytes) == 0)
        return safetensors_check_whole(from, e);
    return err_set(e, E_USAGE,
                   "tensor %s differs from %s, but tie_word_embeddings is true; valid: equal "
                   "tensors, or tie_word_embeddings false",
                   copy->name, table->name);
}

static status list_tensors(model_folder *f, const model *m, const safetensors *from, err *e)
{
    status result = OK;
    model_tensor_match match = {.pieces = 0};
    TRY(model_param_match(m, from, &match, e));
    TRY(model_param_files_make(m, F32, &f->files, e));
    TRY(alloc_zeroed(&f->name, (size_t)f->files.count, sizeof *f->name, "a list of tensors", e));
    for (int i = 0; i < f->files.count; i++)
        TRY(text_copy(match.piece[i] ? match.piece[i]->name : f->files.file[i].name, &f->name[i],
                      e));
    for (size_t i = 0; i < safetensors_count(from); i++) {
        const safetensors_tensor *t = safetensors_get(from, i);
        if (match.use[i] == TENSOR_TIED_COPY) TRY(check_copy(from, match.piece[0], t, e));
        if (match.use[i] == TENSOR_CARRIED) TRY(add_carried(f, from, t, e));
    }
done:
    model_param_match_clear(&match);
    return result;
}

status model_folder_open(const char *path, const model *m, const safetensors *from,
                         model_folder **out, err *e)
{
    status result = OK;
    model_folder *f = NULL;
    char *config = NULL;
    TRY(alloc_zeroed(&f, 1, sizeof *f, path, e));
    TRY(text_copy(path, &f->path, e));
    TRY(file_join(path, "config.json", &config, e));
    TRY(file_read_small(config, FILE_MOST_CONFIG, &f->config, NULL, e));
    TRY(list_tensors(f, m, from, e));
    *out = f;
    f = NULL;
done:
    model_folder_close(f);
    free(config);
    return result;
}

const model_carried *model_folder_find(const model_folder *f, const char *name)
{
    for (size_t i = 0; i < f->carried_count; i++)
        if (strcmp(f->carried[i].info.name, name) == 0) return &f->carried[i];
    return NULL;
}

uint64_t model_folder_carried_bytes(const model_folder *f)
{
    uint64_t bytes = 0;
    for (size_t i = 0; f && i < f->carried_count; i++) bytes += f->carried[i].info.bytes;
    return bytes;
}

// The length of the name of a tensor's part: "mtp", "vision_tower", "model.visual"; the name itself where it is of the
// model's layers.
static size_t part_length(const char *name)
{
    const size_t outer = strncmp(name, "model.", 6) == 0 ? 6 : 0,
                 length = outer + strcspn(name + outer, ".");
    return strncmp(name + outer, "layers", 6) == 0 || !name[length] ? strlen(name) : length;
}

void model_folder_describe(const model_folder *f, text *out)
{
    enum { PARTS_MOST = 6 };
    size_t parts = 0, length = 0;
    const char *last = "";
    if (!f || f->carried_count == 0) return;
    text_addf(out,
              "%zu tensors of %s are no part of the model that is computed and are carried into "
              "checkpoints as they are: ",
              f->carried_count, file_shown(f->path));
    for (size_t i = 0; i < f->carried_count; i++) {
        const char *name = f->carried[i].info.name;
        if (i > 0 && part_length(name) == length && strncmp(name, last, length) == 0) continue;
        last = name;
        length = part_length(name);
        if (++parts > PARTS_MOST) break;
        text_addf(out, "%s%.*s%s", i ? ", " : "", TEXT_CUT(name, length), name[length] ? ".*" : "");
    }
    if (parts > PARTS_MOST) text_add(out, ", …");
}

status model_folder_copy(const model_folder *f, const model_carried *t, char *buffer,
                         size_t buffer_bytes, int fd, const char *path, uint64_t offset, err *e)
{
    status result = OK;
    const model_folder_file *from = &f->file[t->file];
    for (uint64_t copied = 0; copied < t->info.bytes;) {
        const uint64_t left = t->info.bytes - copied;
        const ssize_t n = pread(from->fd, buffer, left < buffer_bytes ? left : buffer_bytes,
                                (off_t)(t->offset + copied));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            result = err_errno(e, "cannot read %s", from->path);
            goto done;
        }
        if (n == 0)
            FAIL(E_IO, "%s: became shorter during the run; tensor %s is gone", from->path,
                 t->info.name);
        TRY(file_write_at(fd, path, buffer, (size_t)n, offset + copied, e));
        copied += (uint64_t)n;
    }
done:
    return result;
}

// ---- config.json. Its syntax has been checked.

// Returns the end of the string that begins at s.
static const char *string_end(const char *s)
{
    for (s++; *s != '"'; s++)
        if (*s == '\\') s++;
    return s + 1;
}

static bool is_string(const char *s, const char *end, const char *word)
{
    return (size_t)(end - s) == strlen(word) + 2 && strncmp(s + 1, word, strlen(word)) == 0;
}

// Returns the value of the key that ends at `end`; NULL: the string there is no key.
static const char *value_of(const char *end)
{
    static const char space[] = " \t\r\n";
    end += strspn(end, space);
    return *end == ':' ? end + 1 + strspn(end + 1, space) : NULL;
}

// Returns the end of the value that begins at s.
static const char *value_end(const char *s)
{
    int depth = 0;
    do {
        if (*s == '"') {
            s = string_end(s);
            continue;
        }
        depth += (*s == '{' || *s == '[') - (*s == '}' || *s == ']');
        s++;
    } while (depth > 0 || !strchr(",}] \t\r\n", *s));
    return s;
}

// Leaves a key out of its object, whose text ends with what stands before the key. Returns where the copying goes on.
static const char *leave_out(text *t, const char *value)
{
    static const char space[] = " \t\r\n";
    const char *end = value_end(value);
    end += strspn(end, space);
    if (*end == ',') return end + 1 + strspn(end + 1, space);
    while (t->bytes && strchr(" \t\r\n,", t->chars[t->bytes - 1])) t->chars[--t->bytes] = 0;
    return end;
}

static bool names_type(const char *s, const char *end)
{
    return is_string(s, end, "dtype") || is_string(s, end, "torch_dtype");
}

status model_folder_config(const model_folder *f, const char *dtype_word, char **out, err *e)
{
    text t = {0};
    int depth = 0;
    bool in_text = false; // the innermost object of depth 2 is text_config
    const char *copied = f->config;
    for (const char *s = f->config; *s;) {
        if (*s != '"') {
            depth += (*s == '{' || *s == '[') - (*s == '}' || *s == ']');
            s++;
            continue;
        }
        const char *end = string_end(s), *value = value_of(end);
        if (value && depth == 1) in_text = is_string(s, end, "text_config");
        const bool counts = value && (depth == 1 || (depth == 2 && in_text));
        if (counts && *value == '{' && is_string(s, end, "quantization_config")) {
            text_add_bytes(&t, copied, (size_t)(s - copied));
            copied = end = leave_out(&t, value);
        } else if (counts && dtype_word && *value == '"' && names_type(s, end)) {
            text_add_bytes(&t, copied, (size_t)(value - copied));
            text_addf(&t, "\"%s\"", dtype_word);
            copied = end = string_end(value);
        }
        s = end;
    }
    text_add(&t, copied);
    return text_take(&t, out, e);
}

// ---- End tokens

static void add_end(int64_t *ids, size_t *count, int64_t id)
{
    for (size_t i = 0; i < *count; i++)
        if (ids[i] == id) return;
    ids[(*count)++] = id;
}

status model_folder_ends(const char *folder, const char *file, int64_t **ids, size_t *count, err *e)
{
    status result = OK;
    char *path = NULL, *chars = NULL;
    size_t bytes;
    json_t *root = NULL;
    json_error_t why;
    *count = 0;
    TRY(file_join(folder, file, &path, e));
    if (!file_exists(path)) goto done;
    TRY(file_read_small(path, FILE_MOST_CONFIG, &chars, &bytes, e));
    root = json_load_python(chars, bytes, 0, &why);
    if (!root) FAIL(E_USAGE, "%s:%d: %s", path, why.line, why.text);
    const json_t *eos = json_object_get(root, "eos_token_id");
    const bool listed = json_is_array(eos);
    const size_t most = listed ? json_array_size(eos) : 1;
    if (!eos || json_is_null(eos) || most == 0) goto done;
    TRY(alloc_array(ids, most, sizeof **ids, "the end tokens", e));
    for (size_t i = 0; i < most; i++) {
        const json_t *id = listed ? json_array_get(eos, i) : eos;
        if (!json_is_integer(id))
            FAIL(E_USAGE, "%s: eos_token_id: valid: a token id or a list of token ids", path);
        add_end(*ids, count, json_integer_value(id));
    }
done:
    json_decref(root);
    free(chars);
    free(path);
    return result;
}
