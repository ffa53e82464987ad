// param_group.c -- which group a parameter belongs to. See param_group.h.
#include "optim/param_group.h"

#include <stddef.h>

bool param_group_matches(const char *pattern, const char *name)
{
    // The last "*" takes one more character where a character differs.
    const char *star = NULL, *taken = NULL;
    if (!pattern) return true;
    while (*name) {
        if (*pattern == '*') {
            star = pattern++;
            taken = name;
        } else if (*pattern == *name) {
            pattern++, name++;
        } else if (star) {
            pattern = star + 1;
            name = ++taken;
        } else {
            return false;
        }
    }
    while (*pattern == '*') pattern++;
    return *pattern == '\0';
}

int param_group_find(const param_group *groups, int count, const char *name)
{
    for (int i = 0; i < count; i++) {
        const param_group *g = &groups[i];
        if (param_group_matches(g->match, name) &&
            (!g->trains || g->trains(g->trains_arg, name) != g->of_base))
            return i;
    }
    return -1;
}
