// A conversation as tokens with labels: what is trained, with generation blocks and without, in how many texts, what is
// refused and how, and that text of the conversation spells no special token.
#include "scratch.h"

#include "data/chat/chat.h"

#include <string.h>

static const char CHATML[] =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
static const char MARKED[] =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.role == 'assistant' %}{% generation %}{{ m.content }}<|im_end|>{% endgeneration %}\n"
    "{% else %}{{ m.content }}<|im_end|>\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
static const char TWO[] =
    "[{\"role\": \"user\", \"content\": \"one\"}, {\"role\": \"assistant\", \"content\": \"two\"},"
    " {\"role\": \"user\", \"content\": \"three\"}, {\"role\": \"assistant\", \"content\": "
    "\"four\"}]";

// A tokenizer of single bytes and some special tokens.
static tokenizer *bytes_tokenizer(void)
{
    static const char *const SPECIAL[] = {"<|im_start|>", "<|im_end|>", "<|eot|>"};
    const tokenizer_train_options o = {
        .vocab = 259, .pattern = TOKENIZER_GPT2, .special = SPECIAL, .specials = 3, .threads = 1};
    const tokenizer_document d = {"a", 1};
    err e = {0};
    tokenizer *t = NULL;
    if (tokenizer_train(&o, &d, 1, &t, &e) != OK) fail_msg("%s", e.text);
    return t;
}

typedef struct chat_rig {
    tokenizer *t;
    chat_template *c;
    chat_workspace *w;
    json_t *messages;
    const bool *untrained;
    chat_tokens tokens;
    err e;
} chat_rig;

static void rig_open(chat_rig *r, const char *source)
{
    *r = (chat_rig){.t = bytes_tokenizer()};
    if (chat_template_open_text(r->t, "t.jinja", source, strlen(source), &r->c, &r->e) != OK ||
        chat_workspace_open(r->c, &r->w, &r->e) != OK)
        fail_msg("%s", r->e.text);
}

static void rig_close(chat_rig *r)
{
    chat_workspace_close(r->w);
    chat_template_close(r->c);
    tokenizer_close(r->t);
    json_decref(r->messages);
}

// Encodes the first `count` messages; 0: all.
static status rig_go_on(chat_rig *r, size_t count, chat_train_on train_on)
{
    const chat_conversation c = {
        .messages = r->messages, .count = count, .untrained = r->untrained, .now = 1};
    return chat_encode(r->w, &c, train_on, &r->tokens, &r->e);
}

static status rig_encode(chat_rig *r, const char *messages, chat_train_on train_on)
{
    json_decref(r->messages);
    r->messages = json_loads(messages, JSON_DECODE_ANY, NULL);
    assert_non_null(r->messages);
    r->e = (err){0};
    return rig_go_on(r, 0, train_on);
}

// What is trained, with "|" between runs.
static void trained(const chat_rig *r, text *out)
{
    const size_t begin = out->bytes;
    bool before = true;
    text_add(out, "");
    for (size_t i = 0; i < r->tokens.count; i++) {
        if (r->tokens.trained[i] && !before && out->bytes > begin) text_add(out, "|");
        if (r->tokens.trained[i]) tokenizer_decode_next(r->t, r->tokens.ids[i], false, out);
        before = r->tokens.trained[i];
    }
}

// What is trained in all texts, with " / " between them. `untrained` may be NULL.
static void check_texts(const char *source, const char *messages, const bool *untrained,
                        chat_train_on train_on, const char *wanted)
{
    chat_rig r;
    text found = {0};
    rig_open(&r, source);
    r.untrained = untrained;
    if (rig_encode(&r, messages, train_on) != OK) fail_msg("%s", r.e.text);
    trained(&r, &found);
    while (r.tokens.rest > 0) {
        text_add(&found, " / ");
        if (rig_go_on(&r, r.tokens.rest, train_on) != OK) fail_msg("%s", r.e.text);
        trained(&r, &found);
    }
    assert_string_equal(found.chars, wanted);
    text_clear(&found);
    rig_close(&r);
}

static void check_trained(const char *source, const char *messages, chat_train_on train_on,
                          const char *wanted)
{
    check_texts(source, messages, NULL, train_on, wanted);
}

static void check_refused(const char *source, const char *messages, chat_train_on train_on,
                          const char *wanted)
{
    chat_rig r;
    rig_open(&r, source);
    assert_int_equal(rig_encode(&r, messages, train_on), E_USAGE);
    assert_says(&r.e, wanted);
    rig_close(&r);
}

static void labels(void **state)
{
    (void)state;
    check_trained(CHATML, TWO, CHAT_ASSISTANT, "two<|im_end|>\n|four<|im_end|>\n");
    check_trained(CHATML, TWO, CHAT_COMPLETION, "four<|im_end|>\n");
    check_trained(MARKED, TWO, CHAT_ASSISTANT, "two<|im_end|>|four<|im_end|>");
    check_trained(MARKED, TWO, CHAT_COMPLETION, "four<|im_end|>");
    // The first token has no label.
    check_trained(CHATML, "[{\"role\": \"user\", \"content\": \"x\"}]", CHAT_ALL,
                  "user\nx<|im_end|>\n");
    check_trained(CHATML, "[{\"role\": \"user\", \"content\": \"x\"}]", CHAT_ASSISTANT, "");
}

// The generation prompt supplies the beginning of a turn, also where a block holds it.
static void prompts(void **state)
{
    static const char THINKS[] =
        "{% for m in messages %}{% if m.role == 'assistant' %}<|im_start|>assistant\n<think>\n{{ "
        "m.thinking }}</think>{{ m.content }}<|im_end|>"
        "{% else %}{{ m.content }}{% endif %}{% endfor %}{% if add_generation_prompt "
        "%}<|im_start|>assistant\n<think>\n{% endif %}";
    static const char BLOCK[] =
        "{% for m in messages %}{% if m.role == 'assistant' %}{% generation "
        "%}<|im_start|>assistant\n{{ m.content }}<|im_end|>{% endgeneration %}"
        "{% else %}{{ m.content }}{% endif %}{% endfor %}{% if add_generation_prompt "
        "%}<|im_start|>assistant\n{% endif %}";
    (void)state;
    check_trained(
        THINKS,
        "[{\"role\": \"user\", \"content\": \"q\"}, {\"role\": \"assistant\", \"content\": \"a\", "
        "\"reasoning\": \"hm\"}]",
        CHAT_ASSISTANT, "hm</think>a<|im_end|>");
    check_trained(BLOCK, TWO, CHAT_ASSISTANT, "two<|im_end|>|four<|im_end|>");
    // A prompt that history does not have: only what both have is the prompt's.
    check_trained("{% for m in messages %}{{ m.role }}: {{ m.content }}<|im_end|>{% endfor %}"
                  "{% if add_generation_prompt %}assistant: <t>{% endif %}",
                  TWO, CHAT_ASSISTANT, "two<|im_end|>|four<|im_end|>");
    // The words of a message are never the prompt's, even where they begin like it.
    check_trained(
        "{% for m in messages %}<|im_start|>{{ m.role }}: {{ m.content }}<|im_end|>{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant: fo{% endif %}",
        TWO, CHAT_COMPLETION, "four<|im_end|>");
}

// A template ends the last turn in another way than the others.
static void ends(void **state)
{
    (void)state;
    check_trained(
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% else %}<|eot|>{% endif %}",
        TWO, CHAT_ASSISTANT, "two<|im_end|>\n|four<|im_end|>\n<|eot|>");
    check_trained(
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
        "{{ '<|eot|>' if loop.last and m.role == 'assistant' else '<|im_end|>' }}{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
        TWO, CHAT_ASSISTANT, "four<|eot|> / two<|eot|>");
    // A message without words, whose end depends on what follows.
    check_trained(
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' %}{% "
        "generation %}{{ m.content }}"
        "{{ '<|eot|>' if loop.last else '<|im_end|>' }}{% endgeneration %}{% else %}{{ m.content "
        "}}{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
        "[{\"role\": \"user\", \"content\": \"one\"}, {\"role\": \"assistant\", \"content\": \"\"},"
        " {\"role\": \"assistant\", \"content\": \"four\"}]",
        CHAT_ASSISTANT, "<|im_end|>|four<|eot|>");
}

// A template that writes the thinking of a message on a condition.
#define THINKS_WHERE(condition)                                                                    \
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.reasoning_content and (" condition   \
    ") %}({{ m.reasoning_content }}){% endif %}{{ m.content }}<|im_end|>\n{% endfor %}{% if "      \
    "add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
static const char REWRITES[] = THINKS_WHERE("loop.last");
// Before its second turn a conversation has the thinking of the first, and through it it has not.
static const char FORGETS[] = THINKS_WHERE("messages[-1].role != 'assistant' or loop.last");
static const char THOUGHT[] =
    "[{\"role\": \"user\", \"content\": \"one\"}, {\"role\": \"assistant\", \"content\": \"two\", "
    "\"thinking\": \"hm\"}, {\"role\": \"user\", \"content\": \"three\"}, {\"role\": "
    "\"assistant\", "
    "\"content\": \"four\", \"thinking\": \"so\"}]";

static void rewritten_history_takes_several_texts(void **state)
{
    static const char THREE[] =
        "[{\"role\": \"assistant\", \"content\": \"one\"}, {\"role\": \"assistant\", \"content\": "
        "\"two\", \"thinking\": \"hm\"}, {\"role\": \"user\", \"content\": \"three\"}]";
    static const bool FIRST[] = {false, true, false, false}, LAST[] = {false, false, false, true};
    (void)state;
    check_trained(REWRITES, THOUGHT, CHAT_ASSISTANT, "(so)four<|im_end|>\n / (hm)two<|im_end|>\n");
    check_trained(REWRITES, THOUGHT, CHAT_COMPLETION, "(so)four<|im_end|>\n");
    // The text ends with the turn where the message behind it would rewrite it.
    check_trained(REWRITES, THREE, CHAT_ASSISTANT, "one<|im_end|>\n|(hm)two<|im_end|>\n");
    // Turns without thinking agree, and messages behind them follow.
    check_trained(REWRITES, TWO, CHAT_ASSISTANT, "two<|im_end|>\n|four<|im_end|>\n");
    // A turn that is not trained on takes no text, and is not checked.
    check_texts(REWRITES, THOUGHT, FIRST, CHAT_ASSISTANT, "(so)four<|im_end|>\n");
    check_texts(FORGETS, THOUGHT, LAST, CHAT_ASSISTANT, "(hm)two<|im_end|>\n");
    check_texts(REWRITES, THOUGHT, LAST, CHAT_COMPLETION, "");
}

// The last turn is joined to the text that the model sees before it.
static void joined_texts(void **state)
{
    chat_rig r;
    (void)state;
    check_trained(FORGETS, THOUGHT, CHAT_ASSISTANT, "(so)four<|im_end|>\n / (hm)two<|im_end|>\n");
    rig_open(&r, FORGETS);
    if (rig_encode(&r, THOUGHT, CHAT_ASSISTANT) != OK) fail_msg("%s", r.e.text);
    assert_string_equal(
        r.tokens.text,
        "<|im_start|>user\none<|im_end|>\n<|im_start|>assistant\n(hm)two<|im_end|>\n"
        "<|im_start|>user\nthree<|im_end|>\n<|im_start|>assistant\n(so)four<|im_end|>\n");
    assert_int_equal(r.tokens.rest, 2);
    assert_int_equal(r.tokens.end[r.tokens.count - 1], r.tokens.bytes);
    rig_close(&r);
}

static void untrained_messages(void **state)
{
    static const bool SECOND[] = {false, true, false, false}, THIRD[] = {false, false, true, false};
    static const char MARKED_THINKS[] =
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' %}{% "
        "generation "
        "%}{% if m.reasoning_content and loop.last %}({{ m.reasoning_content }}){% endif %}"
        "{{ m.content }}<|im_end|>{% endgeneration %}{% else %}{{ m.content }}<|im_end|>"
        "{% endif %}{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
    (void)state;
    check_texts(CHATML, TWO, SECOND, CHAT_ASSISTANT, "four<|im_end|>\n");
    check_texts(MARKED, TWO, SECOND, CHAT_ASSISTANT, "four<|im_end|>");
    check_trained(MARKED_THINKS, THOUGHT, CHAT_ASSISTANT, "two<|im_end|>|(so)four<|im_end|>");
    check_texts(MARKED_THINKS, THOUGHT, SECOND, CHAT_ASSISTANT, "(so)four<|im_end|>");
    check_texts(CHATML, TWO, SECOND, CHAT_ALL,
                "user\none<|im_end|>\n<|im_start|>assistant\n|<|im_start|>user\nthree<|im_end|>\n"
                "<|im_start|>assistant\nfour<|im_end|>\n");
    check_texts(
        CHATML, TWO, THIRD, CHAT_ALL,
        "user\none<|im_end|>\n<|im_start|>assistant\ntwo<|im_end|>\n|<|im_start|>assistant\n"
        "four<|im_end|>\n");
}

static void refusals(void **state)
{
    static const char ENDS[] = "{% for m in messages %}{{ m.content }}{{ '<|eot|>' if loop.last "
                               "else '<|im_end|>' }}{% endfor %}"
                               "{% if add_generation_prompt %}<|im_start|>{% endif %}";
    static const char ANSWERS[] = "[{\"role\": \"user\", \"content\": \"one\"}, {\"role\": "
                                  "\"assistant\", \"content\": \"two\"}, "
                                  "{\"role\": \"assistant\", \"content\": \"three\"}]";
    static const char ASKED[] =
        "[{\"role\": \"assistant\", \"content\": \"two\", \"thinking\": \"hm\"}, "
        "{\"role\": \"user\", \"content\": \"three\"}]";
    static const char SHORT[] =
        "{% for m in messages %}<|im_start|>{{ m.role }}\n"
        "{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{% endgeneration %}<|im_end|>"
        "{% else %}{{ m.content }}{% endif %}{% endfor %}{% if add_generation_prompt "
        "%}<|im_start|>assistant\n{% endif %}";
    (void)state;
    check_refused(ENDS, ANSWERS, CHAT_ASSISTANT,
                  "messages[2]: the template writes the messages up to this one in another way "
                  "than where the model goes on from them");
    check_refused(REWRITES, ASKED, CHAT_COMPLETION, "valid: a conversation that ends with it");
    check_refused(SHORT, TWO, CHAT_ASSISTANT,
                  "messages[1]: the template's {% generation %} leaves out what the model has to "
                  "write: \"<|im_end|>\"");
    check_refused("{{ messages[0].content }}", TWO, CHAT_ASSISTANT,
                  "messages[3]: the template writes nothing for this message");
    check_refused("{{ raise_exception('no system') }}", TWO, CHAT_ALL,
                  "t.jinja:1: the template refuses the conversation: no system");
    check_refused(CHATML, "[]", CHAT_ALL, "found no messages");
    check_refused(CHATML, "[{\"role\": \"user\"}, 3]", CHAT_ALL, "messages[1]: found no object");
    check_refused("{% if messages | length == 1 and add_generation_prompt %}{{ "
                  "raise_exception('x') }}{% endif %}{% for m in messages %}{{ m.content }}"
                  "{% endfor %}",
                  TWO, CHAT_ASSISTANT,
                  "messages[1]: the conversation before this message cannot be rendered");
}

static size_t count_id(const chat_rig *r, int32_t id)
{
    size_t n = 0;
    for (size_t i = 0; i < r->tokens.count; i++) n += r->tokens.ids[i] == id;
    return n;
}

static void control_tokens_are_text(void **state)
{
    chat_rig r;
    (void)state;
    rig_open(&r, CHATML);
    const int32_t end = tokenizer_id(r.t, "<|im_end|>");
    assert_int_equal(rig_encode(&r,
                                "[{\"role\": \"user\", \"content\": \"a<|im_end|>b\"},"
                                " {\"role\": \"assistant\", \"content\": \"<|im_end|>\"}]",
                                CHAT_ASSISTANT),
                     OK);
    assert_int_equal(count_id(&r, end), 2);
    assert_non_null(strstr(r.tokens.text, "a<|im_end|>b<|im_end|>"));
    rig_close(&r);
}

static void end_of_turn(void **state)
{
    chat_rig r;
    int32_t id = 0;
    (void)state;
    rig_open(&r, CHATML);
    assert_int_equal(chat_end_of_turn(r.w, &id, &r.e), OK);
    assert_int_equal(id, tokenizer_id(r.t, "<|im_end|>"));
    rig_close(&r);
    rig_open(&r, "{% for m in messages %}{{ m.content }}{% endfor %}");
    assert_int_equal(chat_end_of_turn(r.w, &id, &r.e), OK);
    assert_int_equal(id, -1);
    rig_close(&r);
}

// Opens a folder with these files beside tokenizer.json, and renders one conversation.
static void check_folder(void **state, const char *config, const char *source, const json_t *tools,
                         const char *wanted)
{
    err e = {0};
    tokenizer *made = bytes_tokenizer(), *t = NULL;
    chat_template *c = NULL;
    chat_workspace *w = NULL;
    chat_tokens tokens;
    assert_int_equal(tokenizer_save_folder(made, *state, &e), OK);
    put_text(in_folder(state, "tokenizer_config.json"), config);
    remove(in_folder(state, "chat_template.jinja"));
    if (source) put_text(in_folder(state, "chat_template.jinja"), source);
    if (tokenizer_load(in_folder(state, "tokenizer.json"), &t, &e) != OK) fail_msg("%s", e.text);
    json_t *messages = json_loads("[{\"role\": \"user\", \"content\": \"x\"}]", 0, NULL);
    const chat_conversation one = {.messages = messages, .tools = tools, .generation_prompt = true};
    const status s = chat_template_open(t, "folder", &c, &e);
    if (!wanted) {
        assert_int_equal(s, OK);
        assert_null(c);
    } else if (s != OK) {
        assert_string_equal(e.text, wanted);
    } else if (chat_workspace_open(c, &w, &e) != OK ||
               chat_encode(w, &one, CHAT_ALL, &tokens, &e) != OK) {
        fail_msg("%s", e.text);
    } else {
        assert_string_equal(tokens.text, wanted);
    }
    chat_workspace_close(w);
    chat_template_close(c);
    tokenizer_close(t);
    tokenizer_close(made);
    json_decref(messages);
}

static void folders(void **state)
{
    json_t *tools = json_loads("[{\"name\": \"f\"}]", 0, NULL);
    static const char LIST[] =
        "{\"bos_token\": {\"content\": \"<s>\"}, \"pad_token\": null, \"chat_template\": ["
        "{\"name\": \"default\", \"template\": \"{{ bos_token }}{{ pad_token is defined }}\"},"
        "{\"name\": \"tool_use\", \"template\": \"{{ tools | tojson }}\"}]}";
    check_folder(state, "{}", NULL, NULL, NULL);
    check_folder(state, "{\"chat_template\": \"{{ messages[0].content }}{{ tools }}\"}", NULL, NULL,
                 "xNone");
    check_folder(state, "{\"chat_template\": \"no\"}", "file {{ add_generation_prompt }}", NULL,
                 "file True");
    check_folder(state, LIST, NULL, NULL, "<s>False");
    check_folder(state, LIST, NULL, tools, "[{\"name\": \"f\"}]");
    check_folder(
        state, "{\"chat_template\": [{\"name\": \"rag\", \"template\": \"\"}]}", NULL, NULL,
        "folder/tokenizer_config.json: chat_template: found no entry \"default\"; valid is a "
        "string, or a list with one");
    check_folder(state, "{}", "a\n{{ x | nope }}", NULL,
                 "folder/chat_template.jinja:2: unknown filter 'nope'");
    json_decref(tools);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(labels),       cmocka_unit_test(prompts),
        cmocka_unit_test(ends),         cmocka_unit_test(rewritten_history_takes_several_texts),
        cmocka_unit_test(joined_texts), cmocka_unit_test(untrained_messages),
        cmocka_unit_test(refusals),     cmocka_unit_test(control_tokens_are_text),
        cmocka_unit_test(end_of_turn),  SCRATCH_TEST(folders)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
