// tokenizer_encode_literal: where special tokens are text, and where in the text each token ends, also where a normalizer
// or a pre-tokenizer changed the text.
#include "tokenizer_golden.h"

#define MARK "\xe2\x96\x81"
#define PREPEND                                                                                    \
    "{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":"   \
    "\"" MARK "\"},{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"" MARK       \
    "\"}]},\"pre_tokenizer\":null,\"decoder\":{\"type\":\"Fuse\"}}"
#define METASPACE                                                                                  \
    "{\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"" MARK       \
    "\",\"prepend_scheme\":\"first\",\"split\":false},\"decoder\":{\"type\":\"Fuse\"}}"

typedef struct literal_case {
    const char *base, *set, *text;
    tokenizer_range literal[2];
    size_t literals;
    const char *tokens[16]; // as the vocabulary spells them
    uint32_t ends[16];
} literal_case;

static const literal_case CASES[] = {
    // A special token is text where it begins in a literal range, and there only.
    {"llama3.json", "{}", "<|pad|>", {{0, 0}}, 0, {"<|pad|>"}, {7}},
    {"llama3.json",
     "{}",
     "<|pad|>",
     {{0, 7}},
     1,
     {"<", "|", "p", "a", "d", "|", ">"},
     {1, 2, 3, 4, 5, 6, 7}},
    {"llama3.json",
     "{}",
     "<|pad|><|pad|>1<|pad|>",
     {{7, 7}, {15, 1}},
     2,
     {"<|pad|>", "<", "|", "p", "a", "d", "|", ">", "1", "<", "|", "p", "a", "d", "|", ">"},
     {7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22}},
    // What begins before a range is a token.
    {"llama3.json", "{}", "<|pad|>", {{1, 6}}, 1, {"<|pad|>"}, {7}},
    // Bytes of one character.
    {"llama3.json",
     "{}",
     "\xe4\xb8\xad",
     {{0, 0}},
     0,
     {"\xc3\xa4", "\xc2\xb8", "\xc5\x83"},
     {1, 2, 3}},
    // e and an acute become one character, which is not in the vocabulary as one token.
    {"llama3.json",
     "{\"normalizer\":{\"type\":\"NFC\"}}",
     "ae\xcc\x81"
     "1",
     {{0, 0}},
     0,
     {"a", "\xc3\x83", "\xc2\xa9", "1"},
     {1, 4, 4, 5}},
    {"characters.json", PREPEND, "1 2", {{0, 0}}, 0, {MARK, "1", MARK, "2"}, {0, 1, 2, 3}},
    {"characters.json", METASPACE, "1 2", {{0, 0}}, 0, {MARK, "1", MARK, "2"}, {0, 1, 2, 3}},
    {"characters.json", METASPACE, " \xc3\xbe", {{0, 0}}, 0, {MARK, "<0xC3>", "<0xBE>"}, {1, 2, 3}},
};

static void check(const literal_case *c)
{
    json_t *root = golden_json(c->base), *set = json_loads(c->set, 0, NULL);
    json_object_update(root, set);
    json_object_set_new(json_object_get(root, "model"), "merges", json_array());
    tokenizer *t = tokenizer_of_json(root);
    tokenizer_workspace *w = NULL;
    const int32_t *ids;
    const uint32_t *ends;
    size_t count;
    assert_int_equal(tokenizer_workspace_open(t, &w, NULL), OK);
    for (int again = 0; again < 2; again++) { // the second time from the cache
        assert_int_equal(tokenizer_encode_literal(w, c->text, strlen(c->text), c->literal,
                                                  c->literals, &ids, &ends, &count, NULL),
                         OK);
        for (size_t i = 0; i < count; i++) {
            assert_non_null(c->tokens[i]);
            assert_int_equal(ids[i], tokenizer_id(t, c->tokens[i]));
            assert_int_equal(ends[i], c->ends[i]);
        }
        assert_true(count == 16 || !c->tokens[count]);
    }
    tokenizer_workspace_close(w);
    tokenizer_close(t);
    json_decref(set);
    json_decref(root);
}

static void tokens_and_ends_are_right(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) check(&CASES[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(tokens_and_ends_are_right)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
