// Every row of the tables of causes: its words, the checks and the pages that it names, and that a case of
// tests/golden/diagnose/ shows it.
#include "diagnose/cause.h"

#include "base/file.h"
#include "doctor/doctor.h"

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *const GOLDEN[] = {"seen.txt", "unseen.txt", "later.txt",
                                     "last.txt", "own.txt",    "printed.txt"};
enum { GOLDENS = sizeof GOLDEN / sizeof *GOLDEN, LITERAL_LEAST = 3, CAUSES_LEAST = 60 };

static void codes_are_words_and_unique(void **state)
{
    (void)state;
    for (int i = 0; i < diagnose_cause_count(); i++) {
        const char *code = diagnose_cause_at(i)->code;
        assert_int_equal(strspn(code, "abcdefghijklmnopqrstuvwxyz0123456789-"), strlen(code));
        for (int j = 0; j < i; j++) assert_string_not_equal(code, diagnose_cause_at(j)->code);
    }
}

static void causes_have_a_sentence_and_help(void **state)
{
    (void)state;
    int causes = 0;
    for (int i = 0; i < diagnose_cause_count(); i++) {
        const diagnose_cause *c = diagnose_cause_at(i);
        if (!c->pattern[0].literal) fail_msg("%s has no pattern", c->code);
        for (int p = 0; p < DIAGNOSE_PATTERNS && c->pattern[p].literal; p++)
            if (strlen(c->pattern[p].literal) < LITERAL_LEAST)
                fail_msg("%s: a literal of %s is so short that each line has it", c->code,
                         c->pattern[p].literal);
        if (!c->sentence) fail_msg("%s has no sentence", c->code);
        if (c->weight == DIAGNOSE_ECHO) continue;
        causes++;
        if (!c->remedy[0]) fail_msg("%s says nothing that helps", c->code);
    }
    assert_true(causes >= CAUSES_LEAST);
}

static void each_cause_has_a_case(void **state)
{
    (void)state;
    char *golden[GOLDENS], path[512], head[128];
    int missing = 0;
    for (size_t i = 0; i < GOLDENS; i++) {
        snprintf(path, sizeof path, TESTS_DIR "/golden/diagnose/%s", GOLDEN[i]);
        assert_int_equal(file_read(path, &golden[i], NULL, NULL), OK);
    }
    for (int i = 0; i < diagnose_cause_count(); i++) {
        const diagnose_cause *c = diagnose_cause_at(i);
        bool found = c->weight == DIAGNOSE_ECHO;
        snprintf(head, sizeof head, "\n@ %s ", c->code);
        for (size_t g = 0; g < GOLDENS; g++) found |= strstr(golden[g], head) != NULL;
        if (found) continue;
        printf("no case shows %s\n", c->code);
        missing++;
    }
    for (size_t i = 0; i < GOLDENS; i++) free(golden[i]);
    assert_int_equal(missing, 0);
}

static void checks_are_those_of_the_doctor(void **state)
{
    (void)state;
    for (int i = 0; i < diagnose_cause_count(); i++) {
        const diagnose_cause *c = diagnose_cause_at(i);
        for (int k = 0; k < DIAGNOSE_CHECKS && c->check[k]; k++)
            if (!doctor_check_find(c->check[k]))
                fail_msg("%s names the check %s, which doctor does not have", c->code, c->check[k]);
    }
}

// Whether a heading of the page has this anchor: its words in small letters, joined by '-'.
static bool has_heading(const char *page, const char *anchor)
{
    for (const char *h = page; (h = strstr(h, "\n#"));) {
        size_t n = 0;
        bool same = true;
        h += 1 + strspn(h + 1, "# ");
        for (; *h && *h != '\n'; h++) {
            const char c = *h == ' ' ? '-' : (char)tolower((unsigned char)*h);
            if (c != '-' && !isalnum((unsigned char)c)) continue;
            same = same && anchor[n] == c;
            n += same;
        }
        if (same && !anchor[n]) return true;
    }
    return false;
}

static void references_lead_somewhere(void **state)
{
    (void)state;
    for (int i = 0; i < diagnose_cause_count(); i++) {
        const char *reference = diagnose_cause_at(i)->reference;
        char path[512], *page = NULL;
        if (!reference || strncmp(reference, "docs/", 5) != 0) continue;
        const size_t name = strcspn(reference, "#");
        snprintf(path, sizeof path, TESTS_DIR "/../%.*s", (int)name, reference);
        assert_int_equal(file_read(path, &page, NULL, NULL), OK);
        if (reference[name] && !has_heading(page, reference + name + 1))
            fail_msg("%s has no such heading", reference);
        free(page);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_are_words_and_unique),
        cmocka_unit_test(causes_have_a_sentence_and_help),
        cmocka_unit_test(each_cause_has_a_case),
        cmocka_unit_test(checks_are_those_of_the_doctor),
        cmocka_unit_test(references_lead_somewhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
