// general.c -- the keys of a GGUF file that every model and adapter has: its architecture, what it is, the name of its folder,
// and the settings of its generation_config.json; and the kinds of elements that --dtype names. Export calls it.
#include "convert/families.h"
#include "convert/output.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

// A folder's name as a title: words apart, their first letters large unless a word has large letters or begins with a digit.
static void add_name(const char *folder, gguf_keys *out)
{
    text t = {0};
    size_t n = strlen(folder);
    while (n > 1 && folder[n - 1] == '/') n--;
    size_t from = n;
    while (from > 0 && folder[from - 1] != '/') from--;
    for (size_t i = from; i < n;) {
        size_t end = i;
        bool lower = false, upper = false;
        for (; end < n && folder[end] != '-' && folder[end] != ' '; end++) {
            lower = lower || islower((unsigned char)folder[end]);
            upper = upper || isupper((unsigned char)folder[end]);
        }
        const bool version =
            folder[i] == 'v' && end > i + 1 && isdigit((unsigned char)folder[i + 1]);
        const bool title = lower && !upper && !version && !isdigit((unsigned char)folder[i]);
        if (end > i && t.bytes) text_add(&t, " ");
        bool begins = true;
        for (; i < end; i++) {
            const char ch = title && begins ? (char)toupper((unsigned char)folder[i]) : folder[i];
            begins = !isalpha((unsigned char)folder[i]);
            text_add_bytes(&t, &ch, 1);
        }
        i = end + 1;
    }
    if (t.failed) text_fail(&out->bytes);
    gguf_add_string(out, "general.name", t.chars ? t.chars : "", t.bytes);
    text_clear(&t);
}

static status add_sampling(const char *folder, gguf_keys *out, err *e)
{
    status result = OK;
    static const struct {
        const char *field, *key;
        bool whole;
    } fields[] = {{"top_k", "top_k", true},
                  {"top_p", "top_p", false},
                  {"min_p", "min_p", false},
                  {"temperature", "temp", false},
                  {"repetition_penalty", "penalty_repeat", false}};
    json_t *generation = NULL;
    TRY(convert_read_json(folder, "generation_config.json", &generation, e));
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        char key[64];
        const json_t *v = json_object_get(generation, fields[i].field);
        (void)snprintf(key, sizeof key, "general.sampling.%s", fields[i].key);
        if (!json_is_number(v)) continue;
        if (fields[i].whole) {
            const int32_t whole = (int32_t)json_number_value(v);
            gguf_add_int(out, key, whole);
        } else {
            gguf_add_real(out, key, json_number_value(v));
        }
    }
done:
    json_decref(generation);
    return result;
}

status convert_general_write(const char *arch, const char *type, const char *folder, gguf_keys *out,
                             err *e)
{
    status result = OK;
    gguf_add_string(out, "general.architecture", arch, strlen(arch));
    gguf_add_string(out, "general.type", type, strlen(type));
    TRY(add_sampling(folder, out, e));
    add_name(folder, out);
done:
    return result;
}

// ---- Kinds of elements

// The kinds by the words of CONVERT_GGUF_TYPES, and their number in general.file_type.
static const struct {
    gguf_kind_number kind;
    uint32_t file_type;
} KINDS[] = {{GGUF_F16, 1}, {GGUF_BF16, 32}, {GGUF_Q8_0, 7}, {GGUF_F32, 0}};

const gguf_kind *convert_kind(int type, int64_t cols)
{
    const gguf_kind *k = gguf_kind_find(KINDS[type].kind);
    return cols % k->elements ? gguf_kind_find(GGUF_F16) : k;
}

uint32_t convert_kind_file_type(int type)
{
    return KINDS[type].file_type;
}
