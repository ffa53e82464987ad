// safetensors_nf4.c -- see safetensors_nf4.h. The names and fields are those of bitsandbytes' QuantState.as_dict.
#include "store/safetensors_nf4.h"

#include "base/alloc.h"
#include "base/json.h"
#include "base/text.h"
#include "store/safetensors_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char STATE[] = ".quant_state.bitsandbytes__";

// ---- Finding the tensors

// The tensors of one quantised tensor, while they are joined.
typedef struct nf4_parts {
    safetensors *s;
    bool *hidden;                    // [count] of s
    safetensors_tensor *codes;       // gets the shape and the type
    const safetensors_tensor *state; // the JSON object
    json_t *object;
} nf4_parts;

// Finds NAME.part, of `count` elements of a type, and hides it.
static status find_part(nf4_parts *p, const char *part, dtype type, int64_t count,
                        const unsigned char **out, err *e)
{
    status result = OK;
    text name = {0};
    text_addf(&name, "%s.%s", p->codes->name, part);
    TRY(text_check(&name, e));
    const safetensors_tensor *t = safetensors_find(p->s, name.chars);
    if (!t) FAIL(E_USAGE, "tensor %s is missing: %s is quantised", name.chars, p->codes->name);
    if (!t->known_type || t->type != type || t->bytes != (uint64_t)count * dtype_bytes(type))
        FAIL(E_USAGE, "tensor %s: valid: %" PRId64 " elements of %s", name.chars, count,
             dtype_name(type));
    p->hidden[t - p->s->tensors] = true;
    *out = t->data;
done:
    text_clear(&name);
    return result;
}

static status find_table(nf4_parts *p, const char *part, int64_t count, float *out, err *e)
{
    const unsigned char *data;
    const status result = find_part(p, part, F32, count, &data, e);
    if (result == OK) memcpy(out, data, (size_t)count * sizeof *out);
    return result;
}

static status find_whole(const nf4_parts *p, const char *key, int64_t most, int64_t *out, err *e)
{
    const json_t *x = json_object_get(p->object, key);
    *out = json_integer_value(x);
    if (json_is_integer(x) && *out > 0 && *out <= most) return OK;
    return err_set(e, E_USAGE, "tensor %s: %s: valid: a whole number from 1 to %" PRId64,
                   p->state->name, key, most);
}

// Sets the shape, the type and the number of elements of the tensor.
static status read_shape(nf4_parts *p, safetensors_nf4 *q, err *e)
{
    static const struct {
        const char *word;
        dtype type;
    } types[] = {{"bfloat16", BF16}, {"float16", F16}, {"float32", F32}};
    status result = OK;
    safetensors_tensor *t = p->codes;
    const json_t *shape = json_object_get(p->object, "shape");
    const char *word = json_string_value(json_object_get(p->object, "dtype"));
    size_t k = 0;
    while (k < 3 && (!word || strcmp(word, types[k].word) != 0)) k++;
    if (k == 3)
        FAIL(E_USAGE, "tensor %s: dtype: found %.*s; valid: bfloat16, float16, float32",
             p->state->name, TEXT_CUT(word ? word : "nothing", 40));
    if (!json_is_array(shape) || json_array_size(shape) < 1 ||
        json_array_size(shape) > SAFETENSORS_DIMS_MAX)
        FAIL(E_USAGE, "tensor %s: shape: valid: a list of 1 to %d numbers", p->state->name,
             SAFETENSORS_DIMS_MAX);
    const uint64_t bytes = t->bytes;
    q->count = 1;
    t->dims = (int)json_array_size(shape);
    for (int i = 0; i < t->dims; i++) {
        t->dim[i] = json_integer_value(json_array_get(shape, (size_t)i));
        if (t->dim[i] < 1 || __builtin_mul_overflow(q->count, t->dim[i], &q->count) ||
            (uint64_t)q->count > 2 * bytes)
            FAIL(E_USAGE, "tensor %s: its shape has other elements than %s has codes",
                 p->state->name, t->name);
    }
    if (((uint64_t)q->count + 1) / 2 != bytes)
        FAIL(E_USAGE, "tensor %s: its shape has other elements than %s has codes", p->state->name,
             t->name);
    t->type = types[k].type, t->known_type = true;
    t->bytes = (uint64_t)q->count * dtype_bytes(t->type);
done:
    return result;
}

static status read_nested(nf4_parts *p, int64_t blocks, safetensors_nf4 *q, err *e)
{
    status result = OK;
    const json_t *mean = json_object_get(p->object, "nested_offset");
    if (!mean) return find_part(p, "absmax", F32, blocks, &q->absmax, e);
    if (!json_is_number(mean))
        FAIL(E_USAGE, "tensor %s: nested_offset: valid: a number", p->state->name);
    q->nested = true;
    q->mean = (float)json_number_value(mean);
    TRY(find_whole(p, "nested_blocksize", INT32_MAX, &q->group, e));
    TRY(find_part(p, "absmax", U8, blocks, &q->absmax, e));
    TRY(find_part(p, "nested_absmax", F32, (blocks - 1) / q->group + 1, &q->maxima, e));
    TRY(find_table(p, "nested_quant_map", NF4_SCALE_CODES, q->scale, e));
done:
    return result;
}

static status read_state(nf4_parts *p, safetensors_nf4 *q, err *e)
{
    status result = OK;
    json_error_t why;
    p->object = json_load_python(p->state->data, p->state->bytes, JSON_REJECT_DUPLICATES, &why);
    if (!json_is_object(p->object))
        FAIL(E_USAGE, "tensor %s: holds no JSON object", p->state->name);
    TRY(find_whole(p, "blocksize", INT32_MAX, &q->block, e));
    TRY(read_shape(p, q, e));
    q->codes = p->codes->data;
    TRY(find_table(p, "quant_map", NF4_CODES, q->value, e));
    TRY(read_nested(p, (q->count - 1) / q->block + 1, q, e));
    p->codes->nf4 = q;
done:
    json_decref(p->object);
    return result;
}

// ---- Joining

// Finds the tensor NAME of the object that lies in tensor i; *found NULL: i is none.
static status find_codes(safetensors *s, size_t i, safetensors_tensor **found, err *e)
{
    status result = OK;
    text name = {0};
    const char *of = s->tensors[i].name, *end = strstr(of, STATE);
    *found = NULL;
    if (!end) goto done;
    if (strcmp(end + strlen(STATE), "nf4") != 0)
        FAIL(E_USAGE, "tensor %.*s: quantised by bitsandbytes as %.*s; valid: nf4",
             TEXT_CUT(of, 200), TEXT_CUT(end + strlen(STATE), 20));
    text_add_bytes(&name, of, (size_t)(end - of));
    TRY(text_check(&name, e));
    const safetensors_tensor *t = safetensors_find(s, name.chars);
    if (!t) FAIL(E_USAGE, "tensor %s is missing: %s is there", name.chars, of);
    *found = &s->tensors[t - s->tensors];
done:
    text_clear(&name);
    return result;
}

// Leaves out what is hidden. by_name points to tensors, whose order stays.
static void leave_out(safetensors *s, const bool *hidden, size_t *moved)
{
    size_t kept = 0, names = 0;
    for (size_t i = 0; i < s->count; i++) moved[i] = hidden[i] ? SIZE_MAX : kept++;
    for (size_t i = 0; i < s->count; i++) {
        const size_t from = (size_t)(s->by_name[i] - s->tensors);
        if (!hidden[from]) s->by_name[names++] = &s->tensors[moved[from]];
    }
    for (size_t i = 0; i < s->count; i++)
        if (!hidden[i]) {
            s->tensors[moved[i]] = s->tensors[i];
            s->file_index[moved[i]] = s->file_index[i];
        }
    s->count = kept;
}

status safetensors_nf4_join(safetensors *s, err *e)
{
    status result = OK;
    size_t states = 0, *moved = NULL;
    bool *hidden = NULL;
    for (size_t i = 0; i < s->count; i++) states += strstr(s->tensors[i].name, STATE) != NULL;
    if (states == 0) return OK;
    TRY(alloc_zeroed(&s->nf4, states, sizeof *s->nf4, "the quantised tensors", e));
    TRY(alloc_zeroed(&hidden, s->count, sizeof *hidden, "the list of tensors", e));
    TRY(alloc_array(&moved, s->count, sizeof *moved, "the list of tensors", e));
    states = 0;
    for (size_t i = 0; i < s->count; i++) {
        nf4_parts p = {.s = s, .hidden = hidden, .state = &s->tensors[i]};
        TRY(find_codes(s, i, &p.codes, e));
        if (!p.codes) continue;
        hidden[i] = true;
        TRY(read_state(&p, &s->nf4[states++], e));
    }
    leave_out(s, hidden, moved);
done:
    free(hidden);
    free(moved);
    return result;
}

status safetensors_open_weights(const char *folder, safetensors **out, err *e)
{
    status result = OK;
    safetensors *s = NULL;
    TRY(safetensors_open_folder(folder, &s, e));
    result = safetensors_nf4_join(s, e);
    if (result != OK) err_prefix(e, "%s: ", folder);
    if (result == OK) *out = s, s = NULL;
done:
    safetensors_close(s);
    return result;
}

// ---- Reading

static float absmax_of(const safetensors_nf4 *q, int64_t b)
{
    if (!q->nested) return nf4_number(q->absmax, b);
    return nf4_scaled(q->scale[q->absmax[b]], nf4_number(q->maxima, b / q->group), q->mean);
}

void safetensors_nf4_read(const safetensors_nf4 *q, int64_t first, int64_t count, float *out)
{
    for (int64_t i = first, end; i < first + count; i = end) {
        const float absmax = absmax_of(q, i / q->block);
        end = (i / q->block + 1) * q->block;
        if (end > first + count) end = first + count;
        for (int64_t k = i; k < end; k++)
            *out++ = q->value[k % 2 ? q->codes[k / 2] & 15 : q->codes[k / 2] >> 4] * absmax;
    }
}

void safetensors_read(const safetensors_tensor *t, int64_t first, int64_t count, float *out)
{
    if (t->nf4) {
        safetensors_nf4_read(t->nf4, first, count, out);
        dtype_round(t->type, out, (size_t)count, out);
    } else {
        dtype_convert(out, F32, (const char *)t->data + (size_t)first * dtype_bytes(t->type),
                      t->type, (size_t)count);
    }
}

bool safetensors_nf4_fits(const safetensors_tensor *t)
{
    const safetensors_nf4 *q = t->nf4;
    if (!q || !q->nested || q->block != NF4_BLOCK || q->group != NF4_GROUP) return false;
    for (int i = 0; i < NF4_SCALE_CODES; i++)
        if (q->scale[i] != nf4_scale(i)) return false;
    return memcmp(q->value, NF4_VALUE, sizeof q->value) == 0;
}
