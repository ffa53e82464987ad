// Loading and saving: an error names the field that is broken or not supported, in any file.
#include "tokenizer_golden.h"

// A tokenizer of four tokens; %s are pre_tokenizer, normalizer, added_tokens, model fields, vocab
// and merges.
#define SMALL                                                                                      \
    "{\"pre_tokenizer\": %s, \"normalizer\": %s, \"added_tokens\": %s, \"decoder\": "              \
    "{\"type\": \"ByteLevel\"}, \"model\": {\"type\": \"BPE\", %s \"vocab\": %s, \"merges\": %s}}"
#define LEVEL  "{\"type\": \"ByteLevel\", \"add_prefix_space\": false}"
#define VOCAB  "{\"a\": 0, \"b\": 1, \"ab\": 2, \"c\": 7}"
#define MERGES "[\"a b\"]"
#define SPLIT(regex)                                                                               \
    "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Split\", \"pattern\": {\"Regex\": " \
    "\"" regex "\"}, \"behavior\": \"Isolated\"}, " LEVEL "]}"

typedef struct small {
    const char *pre_tokenizer, *normalizer, *added, *model, *vocab, *merges, *says;
} small;

static status load_small(small s, tokenizer **t, err *e)
{
    text json = {0};
    text_addf(&json, SMALL, s.pre_tokenizer ? s.pre_tokenizer : LEVEL,
              s.normalizer ? s.normalizer : "null", s.added ? s.added : "[]",
              s.model ? s.model : "", s.vocab ? s.vocab : VOCAB, s.merges ? s.merges : MERGES);
    status result = tokenizer_parse(json.chars, json.bytes, t, e);
    text_clear(&json);
    return result;
}

static const small refused[] = {
    {.normalizer = "{\"type\": \"BertNormalizer\"}",
     .says = "normalizer.type is BertNormalizer; valid are NFC, NFD, NFKC, NFKD, Prepend"},
    {.normalizer = "{\"type\": \"Strip\", \"strip_left\": true}",
     .says = "normalizer.strip_right must be true or false"},
    {.normalizer = "{\"type\": \"Precompiled\"}",
     .says = "normalizer.precompiled_charsmap must be a string"},
    {.normalizer = "{\"type\": \"Precompiled\", \"precompiled_charsmap\": \"AAA?\"}",
     .says = "normalizer: precompiled_charsmap must be base64 of a double array"},
    {.normalizer = "{\"type\": \"Precompiled\", \"precompiled_charsmap\": \"//8AAAAA\"}",
     .says = "normalizer: precompiled_charsmap must be base64 of a double array"},
    {.normalizer = "{\"type\": \"Precompiled\", \"precompiled_charsmap\": \"BAAAAAAAAAD/\"}",
     .says = "normalizer: precompiled_charsmap has texts that are not UTF-8"},
    {.normalizer = "{\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"Prepend\"}]}",
     .says = "normalizer.normalizers[0].prepend must be a string"},
    {.normalizer = "{\"type\": \"Sequence\"}", .says = "normalizer.normalizers must be a list"},
    {.normalizer = "{}", .says = "normalizer.type is missing"},
    {.normalizer = "{\"type\": \"Replace\", \"pattern\": {\"String\": \"\"}, \"content\": \"\"}",
     .says = "normalizer.pattern must be"},
    {.normalizer = "{\"type\": \"Replace\", \"pattern\": {\"Regex\": \"(\"}, \"content\": \"\"}",
     .says = "normalizer: the pattern \"(\" does not compile"},
    {.normalizer = "{\"type\": \"Replace\", \"pattern\": {\"String\": \"<x>\"}, \"content\": \"\"}",
     .added = "[{\"id\": 4, \"content\": \"<x>\", \"normalized\": true}]",
     .says = "nothing of \"<x>\" is left when it is normalized"},
    {.model = "\"byte_fallback\": true,",
     .says = "model.byte_fallback is true, and pre_tokenizer has ByteLevel"},
    {.model = "\"dropout\": 0.1,", .says = "model.dropout is set"},
    {.model = "\"continuing_subword_prefix\": \"##\",",
     .says = "model.continuing_subword_prefix is set"},
    {.model = "\"end_of_word_suffix\": \"</w>\",", .says = "model.end_of_word_suffix is set"},
    {.model = "\"unk_token\": \"<unk>\",",
     .says = "model.unk_token \"<unk>\" is not in model.vocab"},
    {.pre_tokenizer = "{\"type\": \"Metaspace\"}",
     .says = "pre_tokenizer.replacement must be a character"},
    {.pre_tokenizer =
         "{\"type\": \"Metaspace\", \"replacement\": \"_\", \"prepend_scheme\": \"last\"}",
     .says = "pre_tokenizer.prepend_scheme is last; valid are always, first and never"},
    {.pre_tokenizer = "{\"type\": \"UnicodeScripts\"}",
     .says = "pre_tokenizer.type is UnicodeScripts; valid are"},
    {.pre_tokenizer = "{\"type\": \"CharDelimiterSplit\", \"delimiter\": \"ab\"}",
     .says = "pre_tokenizer.delimiter must be one character"},
    {.pre_tokenizer = "{\"type\": \"Punctuation\", \"behavior\": \"Odd\"}",
     .says = "pre_tokenizer.behavior is Odd; valid are Isolated"},
    {.pre_tokenizer = "{\"type\": \"Sequence\"}",
     .says = "pre_tokenizer.pretokenizers must be a list"},
    {.pre_tokenizer = "{\"type\": \"Sequence\", \"pretokenizers\": [" LEVEL ", {}]}",
     .says = "pre_tokenizer.pretokenizers[1].type is missing"},
    {.pre_tokenizer = "{\"type\": \"ByteLevel\", \"use_regex\": 1}",
     .says = "pre_tokenizer.use_regex must be true or false"},
    {.pre_tokenizer =
         "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"a\"}, \"behavior\": \"Odd\"}",
     .says = "pre_tokenizer.behavior is Odd; valid are Isolated, Removed, Contiguous"},
    {.pre_tokenizer = "{\"type\": \"Split\", \"pattern\": \"a\", \"behavior\": \"Isolated\"}",
     .says = "pre_tokenizer.pattern must be"},
    {.pre_tokenizer = SPLIT("(a"),
     .says = "pre_tokenizer.pretokenizers[0]: the pattern \"(a\" does not compile"},
    {.pre_tokenizer = SPLIT("\\\\w+"),
     .says = "such a backslash sequence (character 1), which is not supported"},
    {.pre_tokenizer = SPLIT("a\\\\b"), .says = "such a backslash sequence (character 2)"},
    {.pre_tokenizer = SPLIT("\\\\p{Han}"),
     .says = "the property {Han}; valid are general categories"},
    {.pre_tokenizer = SPLIT("\\\\pL"), .says = "\\p without {category}"},
    {.pre_tokenizer = SPLIT("[\\\\P{L}]"), .says = "\\P{...} inside [...]"},
    {.pre_tokenizer = SPLIT("[a&&b]"), .says = "&& inside [...]"},
    {.pre_tokenizer = SPLIT("[[:alpha:]]"), .says = "such a [ inside [...]"},
    {.pre_tokenizer = SPLIT("[ab"), .says = "a [ without ]"},
    {.pre_tokenizer = SPLIT("(?m:a)"), .says = "such a (?"},
    {.pre_tokenizer = SPLIT("a(?i)b"), .says = "such a (?"},
    {.pre_tokenizer = SPLIT("a{,3}"), .says = "a { that is not {n}, {n,} or {n,m}"},
    {.pre_tokenizer = SPLIT("a{1,3}+"), .says = "{n,m} followed by + or ?"},
    {.pre_tokenizer = SPLIT("\\\\xE9"), .says = "such a \\x or \\u"},
    {.pre_tokenizer = SPLIT("(*ACCEPT)"), .says = "(*"},
    {.pre_tokenizer = SPLIT("ab\\\\"), .says = "such a backslash sequence"},
    {.pre_tokenizer = SPLIT(""), .says = "the pattern is empty"},
    {.model = "\"fuse_unk\": 1,", .says = "model.fuse_unk must be true or false"},
    {.vocab = "{}", .says = "model.vocab must map tokens to ids"},
    {.vocab = "[]", .says = "model.vocab must map tokens to ids"},
    {.vocab = "{\"a\": 0, \"b\": 0}", .says = "model.vocab: \"b\" and \"a\" have the same id 0"},
    {.vocab = "{\"a\": 0, \"a\": 1}", .says = "broken JSON: duplicate object key"},
    {.vocab = "{\"a\": -1}", .says = "the id of \"a\" must be a whole number from 0 to 4194303"},
    {.vocab = "{\"a\": 99999999999}", .says = "the id of \"a\" must be a whole number"},
    {.vocab = "{\"a\": 99999999999999999999}", .says = "the id of \"a\" must be a whole number"},
    {.vocab = "{\"a\": 1.5}", .says = "the id of \"a\" must be a whole number"},
    {.vocab = "{\"a\\nb\": \"x\"}", .says = "the id of \"a b\" must be a whole number"},
    {.merges = "{}", .says = "model.merges must be a list"},
    {.merges = "[\"a b\", \"a x\"]",
     .says = "model.merges[1]: the token \"x\" is not in model.vocab"},
    {.merges = "[\"a c\"]", .says = "model.merges[0]: the token \"ac\" is not in model.vocab"},
    {.merges = "[\"ab\"]", .says = "model.merges[0] must be"},
    {.merges = "[\"a b c\"]", .says = "model.merges[0] must be"},
    {.merges = "[[\"a\"]]", .says = "model.merges[0] must be"},
    {.merges = "[[\"a\", 1]]", .says = "model.merges[0] must be"},
    {.merges = "[7]", .says = "model.merges[0] must be"},
    {.added = "{}", .says = "added_tokens must be a list"},
    {.added = "[3]", .says = "added_tokens[0].content must be a string"},
    {.added = "[{\"content\": \"\", \"id\": 9}]",
     .says = "added_tokens[0].content must be a string"},
    {.added = "[{\"content\": \"<x>\"}]",
     .says = "added_tokens[0].id of \"<x>\" must be a whole number"},
    {.added = "[{\"content\": \"<x>\", \"id\": -3}]",
     .says = "added_tokens[0].id of \"<x>\" must be a whole number"},
    {.added = "[{\"content\": \"<x>\", \"id\": 1}]",
     .says = "added_tokens[0].id of \"<x>\" is 1; HuggingFace's tokenizers make it 4"},
    {.vocab = "{\"a\": 0, \"b\": 1, \"ab\": 3}",
     .added = "[{\"content\": \"<x>\", \"id\": 3}]",
     .says = "added_tokens[0]: the id 3 of \"<x>\" is already the id of \"ab\""},
    {.added = "[{\"content\": \"b\", \"id\": 9}]",
     .says = "added_tokens[0].id of \"b\" is 9; HuggingFace's tokenizers make it 1"},
    {.added = "[{\"content\": \"<x>\", \"id\": 4}, {\"content\": \"<x>\", \"id\": 4}]",
     .says = "added_tokens[1]: \"<x>\" is given twice"},
    {.added = "[{\"content\": \"<x>\", \"id\": 4, \"special\": 1}]",
     .says = "added_tokens[0].special must be true or false"},
};

static void broken_and_unsupported_fields_are_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        tokenizer *t = NULL;
        err e = {0};
        if (load_small(refused[i], &t, &e) != E_USAGE) fail_msg("not refused: %s", refused[i].says);
        assert_null(t);
        assert_says(&e, refused[i].says);
    }
}

static void other_kinds_of_file_are_named(void **state)
{
    (void)state;
    static const char *const files[][2] = {
        {"", "broken JSON"},
        {"[]", "this is no tokenizer"},
        {"{}", "model is missing"},
        {"{\"model\": {}}", "decoder is missing; a tokenizer without ByteLevel"},
        {"{\"model\": {\"type\": \"WordPiece\"}}",
         "model.type is WordPiece; valid are BPE and Unigram"},
        {"{\"model\": {}, \"decoder\": {\"type\": \"Sequence\", \"decoders\": [{\"type\": "
         "\"Strip\", "
         "\"content\": \" \", \"start\": 1, \"stop\": 0}]}}",
         "decoder.decoders[0]: Strip is supported once, after Fuse, with stop 0"},
        {"{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": [], \"byte_fallback\": true}, "
         "\"decoder\": "
         "{\"type\": \"Fuse\"}}",
         "model.byte_fallback is true, but model.vocab lacks <0x00>"},
        {"{\"pre_tokenizer\": " LEVEL "}", "model is missing"},
        {"{\"pre_tokenizer\": " LEVEL ", \"model\": {\"type\": \"Unigram\"}}",
         "pre_tokenizer ends with ByteLevel, which is not supported with Unigram"},
        {"{\"model\": {}, \"pre_tokenizer\": " LEVEL ", \"decoder\": {\"type\": \"Metaspace\"}}",
         "decoder is Metaspace"},
        {"{\n\n  \"model\": }", "line 3: broken JSON"},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        const char *path = in_folder(state, "bad.json");
        tokenizer *t = NULL;
        err e = {0};
        put_text(path, files[i][0]);
        assert_int_equal(tokenizer_load(path, &t, &e), E_USAGE);
        assert_says(&e, "bad.json: ");
        assert_says(&e, files[i][1]);
        assert_null(t);
    }
    tokenizer *t = NULL;
    err e = {0};
    assert_int_equal(tokenizer_load(in_folder(state, "absent.json"), &t, &e), E_USAGE);
    assert_says(&e, "absent.json");
}

static void unused_ids_and_old_merges_are_read(void **state)
{
    (void)state;
    tokenizer *t = NULL;
    tokenizer_workspace *w = NULL;
    err e = {0};
    const int32_t *ids;
    size_t count;
    text out = {0};
    small s = {.merges = "[\"#version: 0.2\", \"a b\"]",
               .added = "[{\"content\": \"<x>\", \"id\": 4, \"special\": true}]"};
    if (load_small(s, &t, &e) != OK) fail_msg("%s", e.text);
    assert_int_equal(tokenizer_vocab(t), 8);
    assert_int_equal(tokenizer_id(t, "<x>"), 4);
    assert_int_equal(tokenizer_workspace_open(t, &w, NULL), OK);
    assert_int_equal(tokenizer_encode(w, "abc<x>zb", 8, &ids, &count, NULL), OK);
    static const int32_t expected[] = {2, 7, 4, 1};
    assert_int_equal(count, 4);
    assert_memory_equal(ids, expected, sizeof expected);
    static const int32_t hole[] = {0, 3, 5, 6, 4};
    tokenizer_decode(t, hole, 5, false, &out);
    assert_string_equal(out.chars, "a<x>");
    text_clear(&out);
    tokenizer_workspace_close(w);
    tokenizer_close(t);
}

static void try_bytes(const char *json, size_t bytes)
{
    static const char line[] = "don't <|endoftext|> \n\n 12 \xC3\xA9\xF0\x9F\x98\x80 abab";
    tokenizer *t = NULL;
    tokenizer_workspace *w = NULL;
    err e = {0};
    const int32_t *ids;
    size_t count;
    status result = tokenizer_parse(json, bytes, &t, &e);
    if (result != OK) {
        assert_int_equal(result, E_USAGE);
        assert_null(t);
        assert_true(e.text[0] != 0 && !strchr(e.text, '\n'));
        return;
    }
    assert_int_equal(tokenizer_workspace_open(t, &w, &e), OK);
    result = tokenizer_encode(w, line, strlen(line), &ids, &count, &e);
    assert_true(result == OK || result == E_USAGE);
    for (size_t i = 0; result == OK && i < count; i++)
        assert_in_range(ids[i], 0, tokenizer_vocab(t) - 1);
    tokenizer_workspace_close(w);
    tokenizer_close(t);
}

// A small trained tokenizer is truncated or changed at many positions. The result is an error or a
// tokenizer that works, never a crash.
static void truncated_and_corrupted_files_never_crash(void **state)
{
    (void)state;
    static const char *const other[] = {"\"", "0", "-",   "}",       "]",   "\xFF",
                                        " ",  ",", "9e9", "\\u0000", "null"};
    static const char *const specials[] = {"<|endoftext|>"};
    tokenizer_document doc = {"abab abab don't 12 12", 21};
    tokenizer_train_options o = {.vocab = 266,
                                 .pattern = TOKENIZER_LLAMA3,
                                 .special = specials,
                                 .specials = 1,
                                 .threads = 1};
    tokenizer *t = NULL;
    assert_int_equal(tokenizer_train(&o, &doc, 1, &t, NULL), OK);
    for (size_t bytes = 0; bytes < t->json_bytes; bytes += 13) try_bytes(t->json, bytes);
    text broken = {0};
    for (size_t offset = 0, turn = 0; offset < t->json_bytes; offset += 3, turn++) {
        // The 256 bytes of the vocabulary are alike, so fewer positions among them are changed.
        if (offset > 2200 && offset + 1500 < t->json_bytes && turn % 8) continue;
        const char *put = other[turn % (sizeof other / sizeof *other)];
        broken.bytes = 0;
        text_add_bytes(&broken, t->json, offset);
        text_add(&broken, put);
        text_add_bytes(&broken, t->json + offset + 1, t->json_bytes - offset - 1);
        try_bytes(broken.chars, broken.bytes);
    }
    text_clear(&broken);
    tokenizer_close(t);
}

static char *read_all(const char *path)
{
    char *content = NULL;
    err e = {0};
    if (file_read(path, &content, NULL, &e) != OK) fail_msg("%s", e.text);
    return content;
}

static void a_saved_file_equals_the_loaded_file(void **state)
{
    tokenizer *t = golden_tokenizer("llama3.json");
    err e = {0};
    assert_int_equal(tokenizer_save(t, in_folder(state, "copy.json"), &e), OK);
    char *saved = read_all(in_folder(state, "copy.json")),
         *golden = read_all(GOLDEN_FOLDER "llama3.json");
    assert_string_equal(saved, golden);
    free(saved);
    free(golden);
    assert_int_not_equal(tokenizer_save(t, in_folder(state, "no/such/folder/x.json"), &e), OK);
    assert_says(&e, "no/such/folder");
    tokenizer_close(t);
}

static void a_saved_folder_has_what_transformers_needs(void **state)
{
    tokenizer *t = golden_tokenizer("gpt2.json"), *again = NULL;
    json_error_t broken;
    err e = {0};
    assert_int_equal(tokenizer_save_folder(t, *state, &e), OK);
    assert_int_equal(files_in(*state), 2);
    json_t *settings = json_load_file(in_folder(state, "tokenizer_config.json"), 0, &broken);
    assert_string_equal(json_string_value(json_object_get(settings, "tokenizer_class")),
                        "PreTrainedTokenizerFast");
    assert_string_equal(json_string_value(json_object_get(settings, "eos_token")), "<|endoftext|>");
    json_decref(settings);
    assert_int_equal(tokenizer_load(in_folder(state, "tokenizer.json"), &again, &e), OK);
    assert_int_equal(tokenizer_vocab(again), tokenizer_vocab(t));
    tokenizer_close(again);
    tokenizer_close(t);
}

static void settings_beside_a_tokenizer_are_used_and_kept(void **state)
{
    static const char config[] =
        "{\"eos_token\": {\"content\": \"<|pad|>\"}, \"model_max_length\": "
        "1000000000000000019884624838656, \"x\": [NaN, -Infinity]}";
    tokenizer *t = golden_tokenizer("gpt2.json");
    err e = {0};
    assert_int_equal(tokenizer_save(t, in_folder(state, "tokenizer.json"), &e), OK);
    tokenizer_close(t);
    put_text(in_folder(state, "tokenizer_config.json"), config);
    put_text(in_folder(state, "chat_template.jinja"), "{{ x }}");
    assert_int_equal(tokenizer_load(in_folder(state, "tokenizer.json"), &t, &e), OK);
    assert_int_equal(tokenizer_end_of_text(t), 1);
    assert_int_equal(file_make_directories(in_folder(state, "out"), &e), OK);
    assert_int_equal(tokenizer_save_folder(t, in_folder(state, "out"), &e), OK);
    char *kept = read_all(in_folder(state, "out/tokenizer_config.json")),
         *chat = read_all(in_folder(state, "out/chat_template.jinja"));
    assert_string_equal(kept, config);
    assert_string_equal(chat, "{{ x }}");
    free(kept);
    free(chat);
    tokenizer_close(t);
    put_text(in_folder(state, "tokenizer_config.json"), "{broken");
    assert_int_equal(tokenizer_load(in_folder(state, "tokenizer.json"), &t, &e), E_USAGE);
    assert_says(&e, "tokenizer_config.json: line 1: broken JSON");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(broken_and_unsupported_fields_are_named),
        SCRATCH_TEST(other_kinds_of_file_are_named),
        cmocka_unit_test(unused_ids_and_old_merges_are_read),
        cmocka_unit_test(truncated_and_corrupted_files_never_crash),
        SCRATCH_TEST(a_saved_file_equals_the_loaded_file),
        SCRATCH_TEST(a_saved_folder_has_what_transformers_needs),
        SCRATCH_TEST(settings_beside_a_tokenizer_are_used_and_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
