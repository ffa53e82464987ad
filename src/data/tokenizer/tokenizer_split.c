// tokenizer_split.c -- reads the pre-tokenizers, and sequences of them, as a list of stages. A stage splits text, or rewrites
// it. tokenizer_split_run.c runs the list. Where ByteLevel is the last pre-tokenizer, the words keep their bytes, and the
// vocabulary is read as bytes; elsewhere a stage spells bytes as characters (bpe_bytes.h), which the next ones split.
#include "data/tokenizer/tokenizer_split.h"

#include "base/alloc.h"
#include "base/text.h"
#include "data/tokenizer/tokenizer_characters.h"
#include "data/tokenizer/tokenizer_split_private.h"
#include "data/tokenizer/tokenizer_unicode.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { DEPTH = 16 };

// HuggingFace's Digits uses Rust's tables of Unicode 17; its regular expressions use Unicode 16.
#define DIGIT "[\\p{N}\\x{11DE0}-\\x{11DE9}\\x{16FF4}-\\x{16FF6}]"

static const char *const BEHAVIOR_WORDS[BEHAVIORS] = {"Isolated", "Removed", "Contiguous",
                                                      "MergedWithPrevious", "MergedWithNext"};

void tokenizer_splitter_close(tokenizer_splitter *s)
{
    if (!s) return;
    for (size_t i = 0; i < s->count; i++) {
        tokenizer_pattern_close(s->stages[i].pattern);
        free(s->stages[i].replacement);
    }
    free(s);
}

uint64_t tokenizer_splitter_hash(const tokenizer_splitter *s)
{
    return s->hash;
}

bool tokenizer_splitter_spells_bytes(const tokenizer_splitter *s)
{
    return s->has_byte_level;
}

// Adds a stage. `hashed`: what the hash of the stages takes in, with the number `salt`.
static status add_stage(tokenizer_splitter *s, const char *field, tokenizer_stage_kind kind,
                        const char *hashed, uint64_t salt, err *e)
{
    if (s->count == STAGES) return err_set(e, E_USAGE, "%s: more than %d steps", field, STAGES);
    s->stages[s->count++] = (tokenizer_stage){.kind = kind};
    s->hash = XXH3_64bits_withSeed(hashed, strlen(hashed), s->hash + salt);
    return OK;
}

static status add_pattern(tokenizer_splitter *s, const char *field, const char *source, err *e)
{
    status result = OK;
    TRY(add_stage(s, field, STAGE_PATTERN, source, 1, e));
    result = tokenizer_pattern_open(source, &s->stages[s->count - 1].pattern, e);
    if (result != OK) err_prefix(e, "%s: ", field);
done:
    return result;
}

// Splits at characters.
static status add_characters(tokenizer_splitter *s, const char *field, const char *name,
                             bool (*is_match)(uint32_t), tokenizer_behavior behavior, err *e)
{
    status result = OK;
    TRY(add_stage(s, field, STAGE_CHARACTERS, name, 3 + (uint64_t)behavior, e));
    s->stages[s->count - 1].is_match = is_match;
    s->stages[s->count - 1].behavior = behavior;
done:
    return result;
}

// Reads a field that is true, false or absent.
static status read_flag(const json_t *object, const char *field, const char *key, bool absent,
                        bool *out, err *e)
{
    const json_t *value = json_object_get(object, key);
    if (value && !json_is_boolean(value))
        return err_set(e, E_USAGE, "%s.%s must be true or false", field, key);
    *out = value ? json_is_true(value) : absent;
    return OK;
}

static status read_byte_level(tokenizer_splitter *s, const json_t *object, const char *field,
                              err *e)
{
    status result = OK;
    bool prefix = false, regex = false;
    TRY(read_flag(object, field, "add_prefix_space", true, &prefix, e));
    TRY(read_flag(object, field, "use_regex", true, &regex, e));
    if (prefix) TRY(add_stage(s, field, STAGE_SPACE, "", 2, e));
    if (regex) TRY(add_pattern(s, field, tokenizer_pattern_gpt2, e));
    s->has_byte_level = true;
done:
    return result;
}

static status read_digits(tokenizer_splitter *s, const json_t *object, const char *field, err *e)
{
    status result = OK;
    bool individual = false;
    TRY(read_flag(object, field, "individual_digits", false, &individual, e));
    TRY(add_pattern(s, field, individual ? DIGIT : DIGIT "+", e));
done:
    return result;
}

static status read_behavior(const json_t *object, const char *field, tokenizer_behavior *out,
                            err *e)
{
    const char *word = json_string_value(json_object_get(object, "behavior"));
    for (int i = 0; word && i < BEHAVIORS; i++)
        if (strcmp(word, BEHAVIOR_WORDS[i]) == 0) {
            *out = (tokenizer_behavior)i;
            return OK;
        }
    return err_set(e, E_USAGE,
                   "%s.behavior is %s; valid are Isolated, Removed, Contiguous, "
                   "MergedWithPrevious and MergedWithNext",
                   field, word ? word : "missing");
}

// Of the last stage, whose hash is that of Isolated.
static void set_behavior(tokenizer_splitter *s, tokenizer_behavior behavior, bool invert)
{
    const uint8_t how[] = {(uint8_t)behavior, invert};
    s->stages[s->count - 1].behavior = behavior;
    s->stages[s->count - 1].invert = invert;
    if (behavior != BEHAVIOR_ISOLATED || invert)
        s->hash = XXH3_64bits_withSeed(how, sizeof how, s->hash);
}

static status read_split(tokenizer_splitter *s, const json_t *object, const char *field, err *e)
{
    status result = OK;
    text quoted = {0};
    tokenizer_behavior behavior = BEHAVIOR_ISOLATED;
    bool invert = false;
    const json_t *what = json_object_get(object, "pattern");
    const char *regex = json_string_value(json_object_get(what, "Regex"));
    const char *literal = json_string_value(json_object_get(what, "String"));
    if (!regex == !literal)
        FAIL(E_USAGE, "%s.pattern must be {\"Regex\": text} or {\"String\": text}", field);
    TRY(read_behavior(object, field, &behavior, e));
    TRY(read_flag(object, field, "invert", false, &invert, e));
    if (literal) tokenizer_pattern_quote(literal, &quoted);
    TRY(text_check(&quoted, e));
    if (literal && !*literal) FAIL(E_USAGE, "%s.pattern is empty", field);
    TRY(add_pattern(s, field, literal ? quoted.chars : regex, e));
    set_behavior(s, behavior, invert);
done:
    text_clear(&quoted);
    return result;
}

// The first piece of a text is one at whose begin the text itself begins.
static status read_prepend(const json_t *object, const char *field, tokenizer_prepend *out, err *e)
{
    status result = OK;
    static const char *const words[] = {"always", "first", "never"};
    bool prefix = true;
    const json_t *scheme = json_object_get(object, "prepend_scheme");
    const char *word = json_string_value(scheme);
    TRY(read_flag(object, field, "add_prefix_space", true, &prefix, e));
    *out = prefix ? PREPEND_ALWAYS : PREPEND_NEVER;
    if (!scheme) return OK;
    for (int i = 0; word && i < 3; i++)
        if (strcmp(word, words[i]) == 0) {
            *out = (tokenizer_prepend)i;
            return OK;
        }
    FAIL(E_USAGE, "%s.prepend_scheme is %s; valid are always, first and never", field,
         word ? word : "no string");
done:
    return result;
}

static status read_metaspace(tokenizer_splitter *s, const json_t *object, const char *field, err *e)
{
    status result = OK;
    text quoted = {0};
    bool splits = true;
    tokenizer_prepend prepend = PREPEND_ALWAYS;
    const char *replacement = json_string_value(json_object_get(object, "replacement"));
    if (!replacement || !*replacement) FAIL(E_USAGE, "%s.replacement must be a character", field);
    TRY(read_prepend(object, field, &prepend, e));
    TRY(read_flag(object, field, "split", true, &splits, e));
    TRY(add_stage(s, field, STAGE_METASPACE, "", 2, e));
    tokenizer_stage *stage = &s->stages[s->count - 1];
    stage->prepend = prepend;
    TRY(text_copy(replacement, &stage->replacement, e));
    s->hash = XXH3_64bits_withSeed(replacement, strlen(replacement), s->hash + (uint64_t)prepend);
    if (!splits) goto done;
    tokenizer_pattern_quote(replacement, &quoted);
    TRY(text_check(&quoted, e));
    TRY(add_pattern(s, field, quoted.chars, e));
    set_behavior(s, BEHAVIOR_MERGED_NEXT, false);
done:
    text_clear(&quoted);
    return result;
}

static status read_punctuation(tokenizer_splitter *s, const json_t *object, const char *field,
                               err *e)
{
    status result = OK;
    tokenizer_behavior behavior = BEHAVIOR_ISOLATED;
    if (json_object_get(object, "behavior")) TRY(read_behavior(object, field, &behavior, e));
    TRY(add_characters(s, field, "Punctuation", unicode_is_punctuation, behavior, e));
done:
    return result;
}

static status read_white_space(tokenizer_splitter *s, const json_t *object, const char *field,
                               err *e)
{
    (void)object;
    return add_characters(s, field, "WhitespaceSplit", unicode_is_white_space, BEHAVIOR_REMOVED, e);
}

static status read_bert(tokenizer_splitter *s, const json_t *object, const char *field, err *e)
{
    status result = OK;
    TRY(read_white_space(s, object, field, e));
    TRY(add_characters(s, field, "Punctuation", unicode_is_punctuation, BEHAVIOR_ISOLATED, e));
done:
    return result;
}

// Words, and other text that is no white space.
static status read_whitespace(tokenizer_splitter *s, const json_t *object, const char *field,
                              err *e)
{
    status result = OK;
    (void)object;
    TRY(add_pattern(s, field, "[" UNICODE_WORD_CHARACTERS "]+|[^" UNICODE_WORD_CHARACTERS "\\s]+",
                    e));
    set_behavior(s, BEHAVIOR_REMOVED, true);
done:
    return result;
}

static status read_delimiter(tokenizer_splitter *s, const json_t *object, const char *field, err *e)
{
    status result = OK;
    const char *delimiter = json_string_value(json_object_get(object, "delimiter"));
    size_t length = 0;
    const uint32_t character = delimiter && *delimiter ? unicode_read(delimiter, &length) : 0;
    if (!character || delimiter[length]) FAIL(E_USAGE, "%s.delimiter must be one character", field);
    TRY(add_stage(s, field, STAGE_DELIMITER, delimiter, 9, e));
    s->stages[s->count - 1].delimiter = character;
    s->stages[s->count - 1].behavior = BEHAVIOR_REMOVED;
done:
    return result;
}

static const struct {
    const char *type;
    status (*read)(tokenizer_splitter *s, const json_t *object, const char *field, err *e);
} READERS[] = {{"ByteLevel", read_byte_level},
               {"Split", read_split},
               {"Digits", read_digits},
               {"Metaspace", read_metaspace},
               {"Punctuation", read_punctuation},
               {"WhitespaceSplit", read_white_space},
               {"Whitespace", read_whitespace},
               {"BertPreTokenizer", read_bert},
               {"CharDelimiterSplit", read_delimiter}};

static status read_one(tokenizer_splitter *s, const json_t *object, const char *field, err *e)
{
    status result = OK;
    const char *type = json_string_value(json_object_get(object, "type"));
    if (!type) FAIL(E_USAGE, "%s.type is missing", field);
    // What follows ByteLevel splits bytes that are spelled as characters.
    if (s->has_byte_level) TRY(add_stage(s, field, STAGE_BYTES, "", 10, e));
    s->has_byte_level = false;
    for (size_t i = 0; i < sizeof READERS / sizeof *READERS; i++)
        if (strcmp(type, READERS[i].type) == 0) return READERS[i].read(s, object, field, e);
    FAIL(E_USAGE,
         "%s.type is %.*s; valid are ByteLevel, Split, Digits, Metaspace, Punctuation, Whitespace, "
         "WhitespaceSplit, BertPreTokenizer, CharDelimiterSplit and a Sequence of them",
         field, TEXT_CUT(type, 60));
done:
    return result;
}

static status read_any(tokenizer_splitter *s, const json_t *object, const char *field, int depth,
                       err *e)
{
    status result = OK;
    const char *type = json_string_value(json_object_get(object, "type"));
    const json_t *list = json_object_get(object, "pretokenizers");
    text inner = {0};
    if (!type || strcmp(type, "Sequence") != 0) return read_one(s, object, field, e);
    if (!json_is_array(list)) FAIL(E_USAGE, "%s.pretokenizers must be a list", field);
    if (depth == DEPTH) FAIL(E_USAGE, "pre_tokenizer: sequences deeper than %d", DEPTH);
    for (size_t i = 0; i < json_array_size(list); i++) {
        inner.bytes = 0;
        text_addf(&inner, "%s.pretokenizers[%zu]", field, i);
        TRY(text_check(&inner, e));
        TRY(read_any(s, json_array_get(list, i), inner.chars, depth + 1, e));
    }
done:
    text_clear(&inner);
    return result;
}

status tokenizer_splitter_open(const json_t *pre_tokenizer, tokenizer_splitter **out, err *e)
{
    status result = OK;
    tokenizer_splitter *s = NULL;
    TRY(alloc_zeroed(&s, 1, sizeof *s, "a tokenizer", e));
    if (json_is_object(pre_tokenizer)) TRY(read_any(s, pre_tokenizer, "pre_tokenizer", 0, e));
    *out = s;
    s = NULL;
done:
    tokenizer_splitter_close(s);
    return result;
}
