// vocab_pre.c -- how a tokenizer splits text into words, which GGUF files say with one name (tokenizer.ggml.pre). llama.cpp's
// converter finds the name by hashing the ids of a test text, so it knows published tokenizers only; we also compare
// the pre-tokenizer itself, so a tokenizer that someone trained has a name, too. The way back makes the pre-tokenizer of a
// name.
//
// Facts: the test text and the hashes of llama.cpp's conversion/base.py (of each SHA-256 the first 8 bytes), the patterns of
// the published tokenizers.
#include "convert/vocab.h"

#include "base/file.h"
#include "data/tokenizer/tokenizer.h"

#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>

static const char TEST_TEXT[] =
    "\n \n\n \n\n\n \t \t\t \t\n  \n   \n    \n     \n🚀 (normal) 😶\xe2\x80\x8d🌫️ "
    "(multiple "
    "emojis "
    "concatenated) ✅ 🦙🦙 3 33 333 3333 33333 333333 3333333 33333333 3.3 3..3 3...3 "
    "កាន់តែពិសេសអាច😁 ?我想在apple工作1314151天～ ------======= нещо на Български "
    "''''''```````\"\"\"\"......!!!!!!?????? I've been 'told he's there, 'RE you sure? 'M not sure "
    "I'll make it, 'D you like some tea? We'Ve a'lL";

static const struct {
    uint64_t hash; // the first 8 bytes
    const char *name;
} PUBLISHED[] = {
    {0xb6e8e1518dc4305b, "chatglm-bpe"},
    {0x81d72c7348a9f0eb, "chatglm-bpe"},
    {0xa1336059768a55c9, "glm4"},
    {0x9ca2dd618e8afaf0, "glm4"},
    {0xcdf5f35325780597, "glm4"},
    {0x1431a23e583c9743, "minerva-7b"},
    {0x7e57df22b1fe23a7, "hunyuan"},
    {0xbba3b3366b646dbd, "hunyuan-dense"},
    {0xe6ddf9c6686791c1, "hy_v4"},
    {0xa6b57017d60e6edb, "falcon-h1"},
    {0x60476e1243776c4f, "falcon-h1"},
    {0x3eda48b4c4dc7de7, "falcon-h1"},
    {0x48f8e02c0359c0bb, "falcon-h1"},
    {0x81212dc7cdb7e0c1, "kimi-k2"},
    {0xd4540891389ea895, "qwen2"},
    {0xe636dc30a262dcc0, "qwen2"},
    {0x1444df51289cfa80, "qwen35"},
    {0xd30d75d9059f1aa2, "qwen35"},
    {0x66b8d4e19ab16c3b, "grok-2"},
    {0xb3d1dd861f1d4c5c, "jina-v2-de"},
    {0x27949a2493fc4a9f, "jina-v2-de"},
    {0x0fe1cf6eda062318, "gpt-2"},
    {0x3ce83efda5659b07, "gpt-2"},
    {0x9e454714343b69b9, "lfm2"},
    {0x169bf0296a13c4d9, "lfm2"},
    {0x846deafc5b0fa786, "gemma4"},
    {0x0a766d034107bc73, "spark2_5"},
    {0x0ef9807a4087ebef, "llama-bpe"},
    {0x049ecf7629871e30, "deepseek-llm"},
    {0x347715f544604f91, "deepseek-coder"},
    {0x8aeee3860c56296a, "falcon"},
    {0x0876d13b50744004, "bert-bge"},
    {0x9d032fcbd5501f4a, "falcon3"},
    {0x8e62295832751ca1, "bert-bge-large"},
    {0xb6dc8df998e1cfbd, "mpt"},
    {0x35d91631860c815f, "starcoder"},
    {0x32d85c31273f8019, "stablelm2"},
    {0x6221ad2852e85ce9, "refact"},
    {0x9c2227e4dd922002, "command-r"},
    {0xd772b220ace2baec, "tiny_aya"},
    {0x52df12b4c8d4176e, "cohere2moe"},
    {0xb6dc8df998e1cfbd, "olmo"},
    {0xa8594e3edff7c29c, "dbrx"},
    {0xc7699093ba4255a9, "jina-v1-en"},
    {0x0876d13b50744004, "jina-v2-en"},
    {0x171aeeedd6fb548d, "jina-v2-es"},
    {0xa023e9fdc5a11f03, "jina-v5-nano"},
    {0xc136ed14d01c2745, "smaug-bpe"},
    {0xc7ea5862a53e4272, "poro-chat"},
    {0x7967bfa498ade6b7, "jina-v2-code"},
    {0x7fc505bd3104ca10, "viking"},
    {0xb53802fb28e26d64, "jais"},
    {0xbc5108ee1eb6a3d6, "jais-2"},
    {0x7b3e7548e4308f52, "codeshell"},
    {0x63b97e4253352e6f, "tekken"},
    {0x855059429035d75a, "smollm"},
    {0x3c30d3ad1d6b6420, "bloom"},
    {0xbc01ce58980e1db4, "gpt3-finnish"},
    {0x4e2b24cc4770243d, "exaone"},
    {0xfcace8b9cac38ce8, "phi-2"},
    {0x60824e3c0d9401f8, "chameleon"},
    {0x8b5a93ed70405748, "roberta-bpe"},
    {0xad851be1dba641f2, "gigachat"},
    {0xd4c8f286ea6b520b, "megrez"},
    {0x877081d19cf6996e, "deepseek-v3"},
    {0xb3f499bb4255f8ca, "deepseek-r1-qwen"},
    {0xccc2ef013c104be7, "gpt-4o"},
    {0x7dec86086fcc38b6, "superbpe"},
    {0x1994ffd01900cfb3, "trillion"},
    {0x96a5f08be6259352, "bailingmoe"},
    {0xd353350c764d8c3b, "llama4"},
    {0x0e9433cbbb161f89, "pixtral"},
    {0xd5f1dd6f980fec56, "seed-coder"},
    {0xb0a6b1c0bd5998eb, "a.x-4.0"},
    {0xf6791d196f87ce6b, "midm-2.0"},
    {0x2085e1638f6c377a, "exaone4"},
    {0xa1e163ecab2e718a, "mellum"},
    {0xa0b64b4385f12366, "modern-bert"},
    {0x49fc0303c9e0d2c2, "afmoe"},
    {0x9b1be57e70d20d95, "bailingmoe2"},
    {0x53e325976a6e1423, "granite-docling"},
    {0xf4f37b6c8eb9ea29, "minimax-m2"},
    {0x4a2e2abae11ca2b8, "kormo"},
    {0x9d70134b369a70e5, "youtu"},
    {0x16389f0a1f51ee53, "solar-open"},
    {0x6c81ce329e080288, "exaone-moe"},
    {0xb4b8ca1f9769494f, "joyai-llm"},
    {0xe4d54df1ebc1f2b9, "kanana2"},
    {0x862f827721df9560, "f2llmv2"},
    {0x62f6fb0a6fd5098c, "sarvam-moe"},
    {0xf728162c1315c26e, "talkie"},
    {0x36f3066e97b7f399, "minicpm5"},
    {0xf241072145675bf8, "granite-embed-multi-97m"},
    {0x789696f5946cc0fc, "granite-embed-multi-311m"},
    {0x9dcf830ee9990cdb, "mellum2"},
    {0x972da7b59cec44d1, "laguna"},
    {0x653660222fb704f6, "ufakzeka"},
};

// ---- Ways

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define TAIL         "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define LLAMA3                                                                                     \
    CONTRACTIONS                                                                                   \
    "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" TAIL
#define QWEN2                                                                                      \
    CONTRACTIONS                                                                                   \
    "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" TAIL
#define QWEN35                                                                                     \
    CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| "                                 \
                 "?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" TAIL
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define WORDS(end)                                                                                 \
    "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" end "|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER     \
    "*" end "|"
#define TEKKEN WORDS("") "\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" TAIL
#define GPT4O  WORDS(CONTRACTIONS "?") "\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" TAIL

// A way to split. Rows of one way are next to each other; the first one is the name that a tokenizer gets whose ids are
// not published.
static const struct {
    const char *name;
    const char *pattern; // NULL: GPT-2's, which is part of ByteLevel
    bool digits;         // digits are words of their own
    bool nfc;
    bool ignore_merges;
} WAYS[] = {
    {"gpt-2", NULL, false, false, false},
    {"phi-2", NULL, false, false, false},
    {"mpt", NULL, false, true, false},
    {"olmo", NULL, false, true, false},
    {"exaone4", NULL, false, true, false},
    {"smollm", NULL, true, false, false},
    {"starcoder", NULL, true, false, false},
    {"refact", NULL, true, false, false},
    {"codeshell", NULL, true, false, false},
    {"exaone", NULL, true, false, false},
    {"command-r", NULL, true, true, false},
    {"llama-bpe", LLAMA3, false, false, true},
    {"llama3", LLAMA3, false, false, true},
    {"llama-v3", LLAMA3, false, false, true},
    {"falcon3", LLAMA3, false, false, true},
    {"pixtral", LLAMA3, false, false, true},
    {"lfm2", LLAMA3, false, false, true},
    {"smaug-bpe", LLAMA3, false, false, false},
    {"dbrx", LLAMA3, false, false, false},
    {"chatglm-bpe", LLAMA3, false, false, false},
    {"glm4", LLAMA3, false, false, false},
    {"qwen2", QWEN2, false, true, false},
    {"deepseek-r1-qwen", QWEN2, false, false, false},
    {"megrez", QWEN2, false, true, false},
    {"stablelm2", QWEN2, false, false, false},
    {"qwen35", QWEN35, false, false, false},
    {"tekken", TEKKEN, false, false, true},
    {"gpt-4o", GPT4O, false, false, false},
    {"llama4", GPT4O, false, false, false},
};
enum { WAY_COUNT = sizeof WAYS / sizeof *WAYS };

static json_t *byte_level(bool regex)
{
    return json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 0,
                     "trim_offsets", 1, "use_regex", regex);
}

void vocab_pre_make(const gguf_string *name, json_t **normalizer, json_t **pre_tokenizer,
                    bool *ignore_merges)
{
    *normalizer = *pre_tokenizer = NULL;
    for (int i = 0; i < WAY_COUNT; i++) {
        if (!gguf_string_is(name, WAYS[i].name)) continue;
        json_t *first = NULL;
        if (WAYS[i].digits)
            first = json_pack("{s:s, s:b}", "type", "Digits", "individual_digits", 1);
        if (WAYS[i].pattern)
            first = json_pack("{s:s, s:{s:s}, s:s, s:b}", "type", "Split", "pattern", "Regex",
                              WAYS[i].pattern, "behavior", "Isolated", "invert", 0);
        *pre_tokenizer = first ? json_pack("{s:s, s:[o, o]}", "type", "Sequence", "pretokenizers",
                                           first, byte_level(!WAYS[i].pattern))
                               : byte_level(true);
        *normalizer = WAYS[i].nfc ? json_pack("{s:s}", "type", "NFC") : json_null();
        *ignore_merges = WAYS[i].ignore_merges;
        return;
    }
}

void vocab_pre_describe(text *out)
{
    for (int i = 0; i < WAY_COUNT; i++) text_addf(out, "%s%s", i ? ", " : "", WAYS[i].name);
}

// Reads one item of a pre-tokenizer into the way. Returns false where no way has such an item.
static bool read_item(const json_t *item, bool *digits, const char **pattern, bool *ended)
{
    if (*ended) return false;
    if (vocab_is_type(item, "Digits")) {
        *digits = true;
        return json_is_true(json_object_get(item, "individual_digits"));
    }
    if (vocab_is_type(item, "Split")) {
        *pattern = json_string_value(json_object_get(json_object_get(item, "pattern"), "Regex"));
        const char *behavior = json_string_value(json_object_get(item, "behavior"));
        return *pattern && behavior && strcmp(behavior, "Isolated") == 0 &&
               !json_is_true(json_object_get(item, "invert"));
    }
    if (!vocab_is_type(item, "ByteLevel") ||
        json_is_true(json_object_get(item, "add_prefix_space")))
        return false;
    *ended = true;
    return json_is_false(json_object_get(item, "use_regex")) == (*pattern != NULL);
}

// Returns llama.cpp's name of the tokenizer's pre-tokenizer; NULL: it has none.
static const char *name_of_way(const json_t *root)
{
    const json_t *pre = json_object_get(root, "pre_tokenizer"),
                 *normal = json_object_get(root, "normalizer");
    const json_t *items = json_object_get(pre, "pretokenizers");
    bool digits = false, ended = false;
    const char *pattern = NULL;
    if (normal && !json_is_null(normal) && !vocab_is_type(normal, "NFC")) return NULL;
    const size_t count = vocab_is_type(pre, "Sequence") ? json_array_size(items) : 1;
    for (size_t i = 0; i < count; i++)
        if (!read_item(items ? json_array_get(items, i) : pre, &digits, &pattern, &ended))
            return NULL;
    const bool ignores =
        json_is_true(json_object_get(json_object_get(root, "model"), "ignore_merges"));
    const char *found = NULL;
    for (int i = 0; i < WAY_COUNT && ended; i++) {
        const char *p = WAYS[i].pattern;
        if (WAYS[i].digits != digits || (p == NULL) != (pattern == NULL) ||
            (p && strcmp(p, pattern) != 0))
            continue;
        if (WAYS[i].ignore_merges == ignores) return WAYS[i].name;
    }
    return found;
}

// Python's text of the list of ids, hashed.
static uint64_t hash_ids(const int32_t *ids, size_t count)
{
    text t = {0};
    uint8_t digest[SHA256_DIGEST_LENGTH];
    uint64_t hash = 0;
    text_add(&t, "[");
    for (size_t i = 0; i < count; i++) text_addf(&t, "%s%d", i ? ", " : "", ids[i]);
    text_add(&t, "]");
    SHA256((const unsigned char *)t.chars, t.bytes, digest);
    for (int i = 0; i < 8; i++) hash = hash << 8 | digest[i];
    text_clear(&t);
    return hash;
}

static status find_published(const char *folder, const char **out, err *e)
{
    status result = OK;
    char *path = NULL;
    tokenizer *t = NULL;
    tokenizer_workspace *w = NULL;
    const int32_t *ids;
    size_t count;
    *out = NULL;
    TRY(file_join(folder, "tokenizer.json", &path, e));
    TRY(tokenizer_load(path, &t, e));
    TRY(tokenizer_workspace_open(t, &w, e));
    TRY(tokenizer_encode_with_special_tokens(w, TEST_TEXT, strlen(TEST_TEXT), &ids, &count, e));
    const uint64_t hash = hash_ids(ids, count);
    for (size_t i = 0; i < sizeof PUBLISHED / sizeof *PUBLISHED; i++)
        if (PUBLISHED[i].hash == hash) *out = PUBLISHED[i].name;
done:
    tokenizer_workspace_close(w);
    tokenizer_close(t);
    free(path);
    return result;
}

status vocab_pre_find(const char *folder, const json_t *root, const char **out, err *e)
{
    status result = OK;
    text valid = {0};
    TRY(find_published(folder, out, e));
    if (!*out) *out = name_of_way(root);
    vocab_pre_describe(&valid);
    if (!*out)
        FAIL(E_USAGE,
             "%s/tokenizer.json: llama.cpp has no name for this pre_tokenizer; valid are those "
             "of published tokenizers, and the ways of %s",
             folder, valid.chars ? valid.chars : "");
done:
    text_clear(&valid);
    return result;
}
