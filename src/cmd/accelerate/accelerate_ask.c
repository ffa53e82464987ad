// accelerate_ask.c -- asks the questions of `accelerate config` that come up, and makes the configuration file of the
// answers. `trireme accelerate config` calls it. accelerate_questions.c has the questions.
#include "cmd/accelerate/accelerate_file.h"
#include "cmd/accelerate/accelerate_questions.h"
#include "cmd/console.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

// The answers, as the file has them ("yes" and "no" of truth values). NULL: not asked. Owned.
typedef struct answers {
    char *of[QUESTION_COUNT];
} answers;

// ---- conditions

// Returns the answer with a name of so many bytes, or NULL.
static const char *find_answer(const answers *a, const char *name, size_t bytes)
{
    for (int i = 0; i < QUESTION_COUNT; i++)
        if (a->of[i] && strlen(QUESTIONS[i].name) == bytes &&
            memcmp(QUESTIONS[i].name, name, bytes) == 0)
            return a->of[i];
    return NULL;
}

// Returns whether a list of words, separated by '|' up to a space, has the word.
static bool list_has(const char *list, const char *word)
{
    const size_t bytes = strlen(word);
    while (true) {
        const size_t length = strcspn(list, "| ");
        if (length == bytes && memcmp(list, word, bytes) == 0) return true;
        if (list[length] != '|') return false;
        list += length + 1;
    }
}

static bool condition_holds(const answers *a, const char *condition)
{
    const size_t bytes = strcspn(condition, "=!~>");
    const char *given = find_answer(a, condition, bytes), *list = condition + bytes + 1;
    if (condition[bytes] == '~') return !given || !list_has(list, given);
    if (!given) return false;
    if (condition[bytes] == '>') return atoll(given) > atoll(list);
    return list_has(list, given) == (condition[bytes] == '=');
}

static bool comes_up(const answers *a, const config_query *q)
{
    for (const char *c = q->when; c; c = strchr(c, ' ') ? strchr(c, ' ') + 1 : NULL)
        if (!condition_holds(a, c)) return false;
    return true;
}

// ---- asking

// Returns word `number` of a list that is separated by spaces; *bytes is its length, 0 behind the last.
static const char *word_of(const char *words, int number, size_t *bytes)
{
    for (; number > 0 && *words; number--) {
        words += strcspn(words, " ");
        words += *words == ' ';
    }
    *bytes = strcspn(words, " ");
    return words;
}

static void print_question(const config_query *q)
{
    const char *default_word = q->fallback ? q->fallback : "";
    size_t bytes, of_file;
    if (q->kind == ASK_WORD) {
        console_line("%s", q->text);
        for (int i = 0;; i++) {
            const char *word = word_of(q->words, i, &bytes);
            const char *value = word_of(q->values ? q->values : q->words, i, &of_file);
            if (!bytes) break;
            if (strlen(default_word) == of_file && memcmp(default_word, value, of_file) == 0)
                printf("  %d  %.*s (default)\n", i, (int)bytes, word);
            else
                printf("  %d  %.*s\n", i, (int)bytes, word);
        }
        printf("> ");
    } else if (q->fallback) {
        printf("%s [%s] ", q->text, q->fallback);
    } else {
        printf("%s ", q->text);
    }
    fflush(stdout);
}

static bool read_whole(const char *s, int64_t *out)
{
    char *end;
    errno = 0;
    *out = strtoll(s, &end, 10);
    return end != s && !*end && !errno;
}

static bool equals(const char *line, const char *word, size_t bytes)
{
    return strlen(line) == bytes && strncasecmp(line, word, bytes) == 0;
}

// Finds the chosen word by its number, or by itself in either form. Returns false where it is none.
static bool read_word(const config_query *q, const char *line, text *out)
{
    const char *values = q->values ? q->values : q->words;
    size_t bytes, of_file;
    int64_t number;
    const char *value = read_whole(line, &number) && number >= 0 && number < 64
                            ? word_of(values, (int)number, &of_file)
                            : "";
    for (int i = 0; !*value; i++) {
        const char *word = word_of(q->words, i, &bytes);
        if (!bytes) return false;
        const char *in_file = word_of(values, i, &of_file);
        if (equals(line, word, bytes) || equals(line, in_file, of_file)) value = in_file;
    }
    text_add_bytes(out, value, of_file);
    return true;
}

// Turns a line into an answer. Returns what is valid where it is none, else NULL.
static const char *read_answer(const answers *a, const config_query *q, const char *line, text *out)
{
    int64_t whole;
    double number;
    if (!*line && q->fallback) line = q->fallback;
    switch (q->kind) {
    case ASK_WORD:
        if (line == q->fallback) break;
        return read_word(q, line, out) ? NULL : "the number of a line above, or its word";
    case ASK_BOOL:
        if (strcasecmp(line, "yes") != 0 && strcasecmp(line, "no") != 0) return "yes or no";
        return text_add(out, strcasecmp(line, "yes") == 0 ? "yes" : "no"), NULL;
    case ASK_RANK:
        if (!read_whole(line, &whole) || whole < 0 ||
            whole >= atoll(find_answer(a, "num_machines", strlen("num_machines"))))
            return "a number from 0 to the number of machines less 1";
        break;
    case ASK_WHOLE:
        if (!read_whole(line, &whole)) return "a whole number";
        break;
    case ASK_NUMBER:
        if (!text_to_double(line, &number)) return "a number";
        break;
    default:
        break;
    }
    text_add(out, line);
    return NULL;
}

// Asks until the answer is valid.
static status ask(const answers *a, const config_query *q, char **out, err *e)
{
    status result = OK;
    char *line = NULL;
    size_t room = 0;
    text answer = {0};
    const char *valid = NULL;
    do {
        if (valid) console_line("valid: %s", valid);
        print_question(q);
        const ssize_t bytes = getline(&line, &room, stdin);
        if (bytes < 0)
            FAIL(E_USAGE, "accelerate config: the answers end before the question \"%s\"", q->text);
        line[strcspn(line, "\r\n")] = 0;
        if (!isatty(STDIN_FILENO)) console_line("%s", line);
        valid = read_answer(a, q, line, &answer);
    } while (valid);
    TRY(text_take(&answer, out, e));
done:
    text_clear(&answer);
    free(line);
    return result;
}

// ---- the file

// Sets a dotted path of at most two words. Takes the value.
static void set_path(json_t *config, const char *path, json_t *value)
{
    const char *point = strchr(path, '.');
    if (!point) {
        json_object_set_new(config, path, value);
        return;
    }
    char section[40];
    snprintf(section, sizeof section, "%.*s", (int)(point - path), path);
    if (!json_object_get(config, section)) json_object_set_new(config, section, json_object());
    json_object_set_new(json_object_get(config, section), point + 1, value);
}

static json_t *answer_value(const config_query *q, const char *answer)
{
    int64_t whole;
    double number = 0;
    if (q->kind == ASK_BOOL) return json_boolean(strcmp(answer, "yes") == 0);
    if (q->kind == ASK_NUMBER && text_to_double(answer, &number)) return json_real(number);
    if (q->kind != ASK_TEXT && read_whole(answer, &whole)) return json_integer(whole);
    return json_string(answer);
}

static bool is_yes(const answers *a, const char *name)
{
    const char *given = find_answer(a, name, strlen(name));
    return given && strcmp(given, "yes") == 0;
}

// Fields that follow from several answers, and those of which nothing is asked.
static void set_rest(const answers *a, json_t *config)
{
    const char *machine = find_answer(a, "?machine", strlen("?machine"));
    const char *type = is_yes(a, "?use_deepspeed")  ? "DEEPSPEED"
                       : is_yes(a, "?use_fsdp")     ? "FSDP"
                       : is_yes(a, "?use_megatron") ? "MEGATRON_LM"
                                                    : machine;
    set_path(config, "distributed_type", json_string(type));
    set_path(config, "downcast_bf16", json_string("no"));
    set_path(config, "tpu_env", json_array());
    if (strcmp(machine, "MULTI_CPU") == 0) set_path(config, "use_cpu", json_true());
    if (!json_object_get(config, "num_processes"))
        set_path(config, "num_processes", json_integer(1));
    if (!json_object_get(config, "same_network")) set_path(config, "same_network", json_true());
    const json_t *fsdp = json_object_get(config, "fsdp_config");
    if (json_integer_value(json_object_get(fsdp, "fsdp_version")) == 1 &&
        is_yes(a, "fsdp_config.fsdp_cpu_ram_efficient_loading"))
        set_path(config, "fsdp_config.fsdp_sync_module_states", json_true());
}

static status make_config(const answers *a, json_t **out, err *e)
{
    status result = OK;
    char *path = NULL;
    json_t *config = json_object();
    if (!config) FAIL(E_MEMORY, "no memory for a configuration of Accelerate");
    for (int i = 0; i < QUESTION_COUNT; i++) {
        const config_query *q = &QUESTIONS[i];
        if (!a->of[i] || q->name[0] == '?') continue;
        free(path);
        path = NULL;
        TRY(accelerate_expand_home(a->of[i], &path, e));
        const bool is_path = strcmp(q->name, "mpirun_config.mpirun_hostfile") == 0;
        set_path(config, q->name, answer_value(q, is_path ? path : a->of[i]));
    }
    set_rest(a, config);
    TRY(accelerate_complete(config, out, e));
done:
    json_decref(config);
    free(path);
    return result;
}

status accelerate_ask(json_t **out, err *e)
{
    status result = OK;
    answers a = {{NULL}};
    for (int i = 0; i < QUESTION_COUNT; i++) {
        const config_query *q = &QUESTIONS[i];
        if (!comes_up(&a, q)) continue;
        if (q->kind == REFUSE) FAIL(E_USAGE, "accelerate config: %s", q->text);
        TRY(ask(&a, q, &a.of[i], e));
    }
    TRY(make_config(&a, out, e));
done:
    for (int i = 0; i < QUESTION_COUNT; i++) free(a.of[i]);
    return result;
}
