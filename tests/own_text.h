// own_text.h -- copies of texts and joined paths for tests. The test frees them.
#ifndef TRIREME_TESTS_OWN_TEXT_H
#define TRIREME_TESTS_OWN_TEXT_H

#include "base/file.h"
#include "base/text.h"

static inline char *own_copy(const char *s)
{
    char *copy = NULL;
    (void)text_copy(s, &copy, NULL);
    return copy;
}

static inline char *own_path(const char *folder, const char *name)
{
    char *path = NULL;
    (void)file_join(folder, name, &path, NULL);
    return path;
}

#endif
