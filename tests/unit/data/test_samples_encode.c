// Lines as tokens: ids and labels equal TRL's, forms are found by their keys, and broken lines are refused.
#include "unit/data/samples_golden.h"

typedef struct encoding {
    tokenizer *t;
    chat_template *chat;
    samples_options o;
    samples_encoder *x;
    samples_line line;
    err e;
} encoding;

static void open_encoding(encoding *n, bool chat, chat_train_on train_on, bool pairs)
{
    *n = (encoding){.t = sft_tokenizer()};
    if (chat) n->chat = sft_chat(n->t);
    n->o = (samples_options){
        .tokenizer = n->t, .chat = n->chat, .train_on = train_on, .pairs = pairs, .seq_len = 64};
    assert_int_equal(samples_encoder_open(&n->o, &n->x, &n->e), OK);
}

static void close_encoding(encoding *n)
{
    samples_encoder_close(n->x);
    chat_template_close(n->chat);
    tokenizer_close(n->t);
    samples_line_clear(&n->line);
}

static status encode(encoding *n, const char *line, samples_format format)
{
    return samples_encode(n->x, line, strlen(line), format, &n->line, &n->e);
}

static void compare_line(const encoding *n, const json_t *want, const char *name, size_t number)
{
    const json_t *ids = json_object_get(want, "ids"), *trained = json_object_get(want, "trained");
    if (n->line.count != json_array_size(ids))
        fail_msg("%s:%zu: %zu tokens, not %zu", name, number, n->line.count, json_array_size(ids));
    for (size_t i = 0; i < n->line.count; i++) {
        assert_int_equal(n->line.token[i] & ~SAMPLE_TRAINED, item(ids, i));
        if (((n->line.token[i] & SAMPLE_TRAINED) != 0) != (item(trained, i) != 0))
            fail_msg("%s:%zu: the label of token %zu differs", name, number, i);
    }
    if (json_object_get(want, "end")) assert_int_equal(n->line.end[0], whole(want, "end"));
}

static void compare_file(const char *name, samples_format format, chat_train_on train_on)
{
    encoding n;
    char path[512], *line = NULL;
    size_t room = 0, number = 0;
    json_t *all = sft_json("expected.json"), *want = json_object_get(all, name);
    open_encoding(&n, true, train_on, format == FORMAT_PREFERENCE);
    snprintf(path, sizeof path, SFT_FOLDER "%s.jsonl", name);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    while (getline(&line, &room, f) > 0) {
        if (encode(&n, line, FORMAT_AUTO) != OK) fail_msg("%s: %s", name, n.e.text);
        assert_int_equal(n.line.format, format);
        compare_line(&n, json_array_get(want, number), name, number + 1);
        number++;
    }
    assert_int_equal(number, json_array_size(want));
    fclose(f);
    free(line);
    json_decref(all);
    close_encoding(&n);
}

static void texts_and_completions_equal_trl(void **state)
{
    (void)state;
    compare_file("text", FORMAT_TEXT, CHAT_ASSISTANT);
    compare_file("prompt_completion", FORMAT_PROMPT_COMPLETION, CHAT_ASSISTANT);
    compare_file("preference", FORMAT_PREFERENCE, CHAT_ASSISTANT);
}

static void conversations_equal_trl(void **state)
{
    (void)state;
    compare_file("messages", FORMAT_MESSAGES, CHAT_ASSISTANT);
    compare_file("prompt_completion_messages", FORMAT_PROMPT_COMPLETION, CHAT_COMPLETION);
    compare_file("preference_messages", FORMAT_PREFERENCE, CHAT_ASSISTANT);
}

// Two lines with equal tokens and labels.
static void assert_same(encoding *n, const char *a, const char *b)
{
    samples_line kept;
    if (encode(n, a, FORMAT_AUTO) != OK) fail_msg("%s: %s", a, n->e.text);
    kept = n->line;
    n->line = (samples_line){.token = NULL};
    if (encode(n, b, FORMAT_AUTO) != OK) fail_msg("%s: %s", b, n->e.text);
    assert_int_equal(kept.count, n->line.count);
    assert_memory_equal(kept.token, n->line.token, kept.count * sizeof *kept.token);
    samples_line_clear(&kept);
}

#define MESSAGE(role, content) "{\"role\":\"" role "\",\"content\":\"" content "\"}"

static void other_forms_are_the_same_conversations(void **state)
{
    (void)state;
    encoding n;
    open_encoding(&n, true, CHAT_ASSISTANT, false);
    const char *plain =
        "{\"messages\":[" MESSAGE("system", "be") "," MESSAGE("user", "a\\nb") "," //
        MESSAGE("assistant", "c") "]}";
    assert_same(&n, plain,
                "{\"conversations\":[{\"from\":\"system\",\"value\":\"be\"},{\"from\":\"human\","
                "\"value\":\"a\\nb\"},{\"from\":\"gpt\",\"value\":\"c\"}]}");
    assert_same(&n, plain,
                "{\"system\":\"be\",\"conversations\":[{\"from\":\"human\",\"value\":\"a\\nb\"},"
                "{\"from\":\"gpt\",\"value\":\"c\"}]}");
    assert_same(&n, plain,
                "{\"instruction\":\"a\",\"input\":\"b\",\"output\":\"c\",\"system\":\"be\"}");
    assert_same(
        &n,
        "{\"messages\":[" MESSAGE("user", "q") "," MESSAGE("assistant", "r") "," //
        MESSAGE("user", "a") "," MESSAGE("assistant", "c") "]}",
        "{\"instruction\":\"a\",\"input\":\"\",\"output\":\"c\",\"history\":[[\"q\",\"r\"]]}");
    close_encoding(&n);
}

static void a_message_that_says_so_is_not_trained_on(void **state)
{
    (void)state;
    encoding n;
    open_encoding(&n, true, CHAT_ASSISTANT, false);
    const char *head =
        "{\"messages\":[" MESSAGE("user", "one") ",{\"role\":\"assistant\",\"content\":"
                                                 "\"two\"";
    const char *ends[] = {"}", ",\"weight\":0}", ",\"train\":false}"};
    int labels[3] = {0};
    char line[512];
    for (int i = 0; i < 3; i++) {
        snprintf(line, sizeof line, "%s%s,%s]}", head, ends[i],
                 MESSAGE("user", "three") "," MESSAGE("assistant", "four"));
        if (encode(&n, line, FORMAT_AUTO) != OK) fail_msg("%s", n.e.text);
        for (size_t t = 0; t < n.line.count; t++)
            labels[i] += (n.line.token[t] & SAMPLE_TRAINED) != 0;
    }
    assert_true(labels[0] > labels[1] && labels[1] > 0);
    assert_int_equal(labels[1], labels[2]);
    close_encoding(&n);
}

static void instructlab_has_texts_and_unmasked_conversations(void **state)
{
    (void)state;
    encoding n;
    open_encoding(&n, true, CHAT_ASSISTANT, false);
    assert_int_equal(encode(&n,
                            "{\"messages\":[" MESSAGE("system", "x") "," //
                            MESSAGE("pretraining", "<|user|>\\none\\n<|assistant|>\\ntwo") "]}",
                            FORMAT_AUTO),
                     OK);
    assert_int_equal(n.line.format, FORMAT_INSTRUCTLAB);
    assert_int_equal(n.line.token[0], tokenizer_id(n.t, "<|user|>"));
    assert_int_equal(n.line.token[n.line.count - 1] & ~SAMPLE_TRAINED,
                     tokenizer_id(n.t, "<|endoftext|>"));
    for (size_t i = 1; i < n.line.count; i++) assert_true(n.line.token[i] & SAMPLE_TRAINED);
    assert_int_equal(encode(&n,
                            "{\"unmask\":true,\"messages\":[" MESSAGE("user", "a") "," //
                            MESSAGE("assistant", "b") "]}",
                            FORMAT_AUTO),
                     OK);
    for (size_t i = 1; i < n.line.count; i++) assert_true(n.line.token[i] & SAMPLE_TRAINED);
    close_encoding(&n);
}

static void alpaca_without_a_template_has_alpacas_prompt(void **state)
{
    (void)state;
    encoding n;
    text words = {0};
    open_encoding(&n, false, CHAT_ASSISTANT, false);
    assert_int_equal(encode(&n, "{\"instruction\":\"pull\",\"output\":\"done\"}", FORMAT_AUTO), OK);
    for (size_t i = 0; i < n.line.count; i++) n.line.token[i] &= ~SAMPLE_TRAINED;
    tokenizer_decode(n.t, n.line.token, n.line.count, false, &words);
    assert_non_null(
        strstr(words.chars, "### Instruction:\npull\n\n### Response:\ndone<|endoftext|>"));
    text_clear(&words);
    close_encoding(&n);
}

static void broken_lines_are_refused(void **state)
{
    (void)state;
    const struct {
        const char *line, *says;
    } cases[] = {
        {"{\"text\":\"a\",\"messages\":[]}", "found the keys of text and of messages"},
        {"{\"txt\":\"a\"}", "found the keys txt; valid: text, messages"},
        {"{}", "found the keys (none)"},
        {"[1]", "no object"},
        {"{\"text\":", "broken JSON"},
        {"{\"text\":\"a\",\"text\":\"b\"}", "broken JSON"},
        {"{\"text\":3}", "key \"text\" is no string"},
        {"{\"text\":\"\"}", "no token of the line would be trained on"},
        {"{\"text\":\"a\",\"weight\":0}", "key \"weight\" is no number > 0"},
        {"{\"text\":\"a\",\"weight\":\"2\"}", "key \"weight\" is no number > 0"},
        {"{\"messages\":[]}", "key \"messages\" is no list of messages"},
        {"{\"messages\":[3]}", "messages[0] is no object"},
        {"{\"messages\":[{\"content\":\"a\"}]}", "messages[0] has no role"},
        {"{\"messages\":[" MESSAGE("user", "a") "]}", "needs the tokenizer's chat template"},
        {"{\"messages\":[],\"tools\":\"[\"}", "tools: broken JSON"},
        {"{\"messages\":[],\"tools\":3}", "key \"tools\" is no list"},
        {"{\"messages\":[],\"chat_template_kwargs\":3}", "\"chat_template_kwargs\" is no object"},
        {"{\"prompt\":\"a\",\"completion\":[]}", "two strings or two lists"},
        {"{\"prompt\":\"a\",\"completion\":\"b\",\"label\":true}", "needs a loss of preferences"},
        {"{\"prompt\":\"a\",\"completion\":\"b\",\"label\":1}", "key \"label\" is no boolean"},
        {"{\"chosen\":\"a b\",\"rejected\":\"a c\"}", "needs a loss of preferences"},
        {"{\"chosen\":\"a\",\"rejected\":\"a\"}", "do not differ"},
        {"{\"conversations\":[{\"from\":\"bard\",\"value\":\"\"}]}",
         "conversations[0]: found from: bard"},
        {"{\"conversations\":[{\"from\":\"function_call\",\"value\":\"{\"}]}",
         "conversations[0]: function_call is no JSON"},
        {"{\"instruction\":\"a\",\"output\":\"b\",\"system\":\"c\"}", "need a tokenizer with"},
        {"{\"messages\":[" MESSAGE("pretraining", "a") "," MESSAGE("user", "b") "]}",
         "stands among others"},
    };
    encoding n;
    open_encoding(&n, false, CHAT_ASSISTANT, false);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(encode(&n, cases[i].line, FORMAT_AUTO), E_USAGE);
        assert_says(&n.e, cases[i].says);
    }
    close_encoding(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_and_completions_equal_trl),
        cmocka_unit_test(conversations_equal_trl),
        cmocka_unit_test(other_forms_are_the_same_conversations),
        cmocka_unit_test(a_message_that_says_so_is_not_trained_on),
        cmocka_unit_test(instructlab_has_texts_and_unmasked_conversations),
        cmocka_unit_test(alpaca_without_a_template_has_alpacas_prompt),
        cmocka_unit_test(broken_lines_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
