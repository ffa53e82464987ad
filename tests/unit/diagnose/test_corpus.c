// Logs of public threads with their causes (tests/golden/diagnose/): each must get its cause, its rank and its host.
// Healthy logs get none. The files say how a case is written.
//   unit_diagnose_test_corpus --table    prints each case and its answer instead, for docs/results/
#include "diagnose/cause.h"
#include "diagnose/diagnose.h"

#include "base/file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { WORD_BYTES = 128 };

// What a case expects, and its log.
typedef struct corpus_case {
    char cause[WORD_BYTES], rank[WORD_BYTES], host[WORD_BYTES], from[WORD_BYTES];
    const char *log;
    size_t bytes;
} corpus_case;

static char *read_golden(const char *name)
{
    char path[512];
    char *chars = NULL;
    snprintf(path, sizeof path, TESTS_DIR "/golden/diagnose/%s", name);
    assert_int_equal(file_read(path, &chars, NULL, NULL), OK);
    return chars;
}

// The case that begins at *from, which moves to the next one. Returns false at the end.
static bool next_case(const char **from, corpus_case *out)
{
    const char *begin = *from[0] == '@' ? *from : strstr(*from, "\n@ ");
    if (!begin) return false;
    if (*begin == '\n') begin++;
    assert_int_equal(
        sscanf(begin, "@ %127s %127s %127s %127s", out->cause, out->rank, out->host, out->from), 4);
    out->log = strchr(begin, '\n') + 1;
    const char *end = out->log[0] == '@' ? out->log - 1 : strstr(out->log, "\n@ ");
    *from = end ? end : out->log + strlen(out->log);
    out->bytes = (size_t)(*from - out->log) + (end != NULL);
    return true;
}

static bool is_known(const char *code)
{
    for (int i = 0; i < diagnose_cause_count(); i++)
        if (strcmp(diagnose_cause_at(i)->code, code) == 0) return true;
    return false;
}

// Compares, and prints what differs. A case "none" has no cause that a row knows, "healthy" no failure.
static bool is_right(const corpus_case *c, bool prints)
{
    diagnosis *d = NULL;
    char rank[24] = "-";
    assert_int_equal(diagnose_open(&d, NULL), OK);
    assert_int_equal(diagnose_read_bytes(d, "log", c->log, c->bytes, NULL), OK);
    const diagnose_answer a = diagnose_answer_of(d);
    const char *code = a.code ? a.code : a.has_failure ? "none" : "healthy";
    const char *host = a.host ? a.host : "-";
    if (a.local >= 0) snprintf(rank, sizeof rank, "local:%d", a.local);
    if (a.rank >= 0) snprintf(rank, sizeof rank, "%d", a.rank);
    const bool is_cause = strcmp(code, c->cause) == 0;
    const bool is_place = strcmp(rank, c->rank) == 0 && strcmp(host, c->host) == 0;
    if (prints || !is_cause || !is_place)
        printf("%s %s: wants %s %s %s, found %s %s %s: %s\n",
               !is_cause   ? "WRONG"
               : !is_place ? "place"
                           : "right",
               c->from, c->cause, c->rank, c->host, code, rank, host, a.sentence ? a.sentence : "");
    diagnose_close(d);
    return is_cause && is_place;
}

static int check_file(const char *name, int least, bool prints)
{
    char *chars = read_golden(name);
    const char *from = chars;
    corpus_case c;
    int count = 0, wrong = 0;
    while (next_case(&from, &c)) {
        if (strcmp(c.cause, "none") != 0 && strcmp(c.cause, "healthy") != 0 && !is_known(c.cause))
            printf("%s: no row has the code %s\n", c.from, c.cause);
        wrong += !is_right(&c, prints);
        count++;
    }
    free(chars);
    printf("%s: %d of %d right\n", name, count - wrong, count);
    if (count < least) wrong++;
    return wrong;
}

static void logs_that_the_patterns_were_written_with(void **state)
{
    (void)state;
    assert_int_equal(check_file("seen.txt", 80, false), 0);
}

static void logs_that_were_collected_later(void **state)
{
    (void)state;
    assert_int_equal(check_file("unseen.txt", 77, false), 0);
    assert_int_equal(check_file("later.txt", 21, false), 0);
    assert_int_equal(check_file("last.txt", 25, false), 0);
}

static void own_lines_and_echoes(void **state)
{
    (void)state;
    assert_int_equal(check_file("own.txt", 14, false), 0);
    assert_int_equal(check_file("printed.txt", 34, false), 0);
}

static void logs_without_a_known_cause(void **state)
{
    (void)state;
    assert_int_equal(check_file("none.txt", 16, false), 0);
}

int main(int argc, char **argv)
{
    static const char *const FILES[] = {"seen.txt",    "unseen.txt", "later.txt", "own.txt",
                                        "printed.txt", "last.txt",   "none.txt"};
    if (argc > 1 && strcmp(argv[1], "--table") == 0) {
        for (size_t i = 0; i < sizeof FILES / sizeof *FILES; i++) check_file(FILES[i], 0, true);
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logs_that_the_patterns_were_written_with),
        cmocka_unit_test(logs_that_were_collected_later),
        cmocka_unit_test(own_lines_and_echoes),
        cmocka_unit_test(logs_without_a_known_cause),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
