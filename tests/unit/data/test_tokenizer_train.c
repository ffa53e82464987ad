// A trained tokenizer equals the one that HuggingFace's BpeTrainer learns from the same text.
#include "tokenizer_golden.h"

static const char *const specials[] = {"<|endoftext|>", "<|pad|>"};

typedef struct corpus {
    json_t *root;
    tokenizer_document docs[256];
    size_t count;
} corpus;

static void corpus_open(corpus *c)
{
    c->root = golden_json("documents.json");
    c->count = json_array_size(c->root);
    assert_true(c->count > 0 && c->count <= 256);
    for (size_t i = 0; i < c->count; i++) {
        const json_t *d = json_array_get(c->root, i);
        c->docs[i] = (tokenizer_document){json_string_value(d), json_string_length(d)};
    }
}

static tokenizer *train(tokenizer_train_options o, const tokenizer_document *docs, size_t count)
{
    err e = {0};
    tokenizer *t = NULL;
    if (tokenizer_train(&o, docs, count, &t, &e) != OK) fail_msg("%s", e.text);
    return t;
}

static void check_against(const char *golden, tokenizer_builtin pattern)
{
    corpus c;
    json_error_t broken;
    corpus_open(&c);
    tokenizer *t = train(
        (tokenizer_train_options){
            .vocab = 1258, .pattern = pattern, .special = specials, .specials = 2, .threads = 1},
        c.docs, c.count);
    json_t *expected = golden_json(golden),
           *trained = json_loadb(t->json, t->json_bytes, 0, &broken);
    json_t *merges = json_object_get(json_object_get(trained, "model"), "merges");
    assert_int_equal(json_array_size(merges), 1000);
    for (size_t i = 0; i < json_array_size(merges); i++) {
        if (!json_equal(
                json_array_get(merges, i),
                json_array_get(json_object_get(json_object_get(expected, "model"), "merges"), i)))
            fail_msg("%s: merge %zu differs", golden, i);
    }
    assert_true(json_equal(trained, expected)); // every other field too
    json_decref(expected);
    json_decref(trained);
    tokenizer_close(t);
    json_decref(c.root);
}

static void merges_equal_those_of_huggingface_with_the_gpt2_pattern(void **state)
{
    (void)state;
    check_against("gpt2.json", TOKENIZER_GPT2);
}

static void merges_equal_those_of_huggingface_with_the_llama3_pattern(void **state)
{
    (void)state;
    check_against("llama3.json", TOKENIZER_LLAMA3);
}

// One document of two megabytes is divided into pieces for the threads.
static void the_result_does_not_depend_on_threads(void **state)
{
    (void)state;
    corpus c;
    text joined = {0};
    corpus_open(&c);
    while (joined.bytes < 1 << 21) {
        for (size_t i = 0; i < c.count; i++)
            text_add_bytes(&joined, c.docs[i].chars, c.docs[i].bytes);
    }
    tokenizer_document one = {joined.chars, joined.bytes};
    for (int pattern = TOKENIZER_GPT2; pattern <= TOKENIZER_LLAMA3; pattern++) {
        tokenizer_train_options o = {
            .vocab = 700, .pattern = (tokenizer_builtin)pattern, .threads = 1};
        tokenizer *alone = train(o, &one, 1);
        for (o.threads = 2; o.threads <= 5; o.threads += 3) {
            tokenizer *many = train(o, &one, 1);
            assert_int_equal(alone->json_bytes, many->json_bytes);
            assert_memory_equal(alone->json, many->json, many->json_bytes);
            tokenizer_close(many);
        }
        tokenizer_close(alone);
    }
    text_clear(&joined);
    json_decref(c.root);
}

static void text_without_more_pairs_gives_a_smaller_vocabulary(void **state)
{
    (void)state;
    tokenizer_document docs[] = {{"abab abab", 9}, {"", 0}};
    tokenizer *t = train((tokenizer_train_options){.vocab = 5000}, docs, 2);
    assert_int_equal(tokenizer_vocab(t), 256 + 3); // ab, abab, and abab with a space before it
    assert_int_equal(tokenizer_end_of_text(t), -1);
    tokenizer_close(t);
    t = train((tokenizer_train_options){.vocab = 5000, .special = specials, .specials = 2}, docs,
              0);
    assert_int_equal(tokenizer_vocab(t), 258);
    assert_int_equal(tokenizer_end_of_text(t), 0);
    tokenizer_close(t);
}

static void bad_options_and_text_are_refused(void **state)
{
    (void)state;
    static const char *const twice[] = {"<a>", "<a>"}, *const empty[] = {""};
    tokenizer_document good = {"some text", 9}, docs[] = {{"fine", 4}, {"ab\x80", 3}};
    tokenizer *t = NULL;
    err e = {0};
    tokenizer_train_options o = {.vocab = 255};
    assert_int_equal(tokenizer_train(&o, &good, 1, &t, &e), E_USAGE);
    assert_says(&e,
                "a vocabulary of 255 is too small; the bytes and special tokens are 256 already");
    o = (tokenizer_train_options){.vocab = -1};
    assert_int_equal(tokenizer_train(&o, &good, 1, &t, &e), E_USAGE);
    o = (tokenizer_train_options){.vocab = 300, .special = twice, .specials = 2};
    assert_int_equal(tokenizer_train(&o, &good, 1, &t, &e), E_USAGE);
    assert_says(&e, "twice");
    o = (tokenizer_train_options){.vocab = 300, .special = empty, .specials = 1};
    assert_int_equal(tokenizer_train(&o, &good, 1, &t, &e), E_USAGE);
    assert_says(&e, "special token 0 is empty");
    o = (tokenizer_train_options){.vocab = 300};
    assert_int_equal(tokenizer_train(&o, docs, 2, &t, &e), E_USAGE);
    assert_says(&e, "document 1 is not valid UTF-8 at byte 2");
    assert_null(t);
}

typedef struct seen {
    int calls;
    double last;
    bool counting, learning, went_back;
} seen;

static void note(void *arg, const char *what, double done)
{
    seen *s = arg;
    bool learning = strcmp(what, "learning merges") == 0;
    if (learning && !s->learning) s->last = 0;
    s->learning = s->learning || learning;
    s->counting = s->counting || !learning;
    s->went_back = s->went_back || done < s->last || done > 1;
    s->last = done;
    s->calls++;
}

static void progress_grows_from_zero_to_one(void **state)
{
    (void)state;
    corpus c;
    seen s = {0};
    corpus_open(&c);
    tokenizer *t = train(
        (tokenizer_train_options){.vocab = 700, .threads = 1, .progress = note, .progress_arg = &s},
        c.docs, c.count);
    assert_true(s.calls > 5 && s.counting && s.learning && !s.went_back);
    tokenizer_close(t);
    json_decref(c.root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merges_equal_those_of_huggingface_with_the_gpt2_pattern),
        cmocka_unit_test(merges_equal_those_of_huggingface_with_the_llama3_pattern),
        cmocka_unit_test(the_result_does_not_depend_on_threads),
        cmocka_unit_test(text_without_more_pairs_gives_a_smaller_vocabulary),
        cmocka_unit_test(bad_options_and_text_are_refused),
        cmocka_unit_test(progress_grows_from_zero_to_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
