// child.h -- runs a piece of a test in a process of its own, with its own environment: the stand-in of the CUDA
// runtime reads the environment at its first call, and ends the process where a rule is broken. Included by
// tests of the stand-in.
#ifndef TRIREME_GPU_CHILD_H
#define TRIREME_GPU_CHILD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#include <cmocka.h>
#ifdef __cplusplus
}
#endif

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHILD_SECONDS = 100, CHILD_FAILED = 99 };

// In a child. A failure ends it, with a line.
#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) child_failed(__FILE__, __LINE__, #condition);                            \
    } while (0)
#define CHECK_IS(error, call)                                                                      \
    do {                                                                                           \
        const cudaError_t got_ = (call);                                                           \
        if (got_ != (error)) {                                                                     \
            fprintf(stderr, "%s gave %s, not %s\n", #call, cudaGetErrorName(got_), #error);        \
            child_failed(__FILE__, __LINE__, #call);                                               \
        }                                                                                          \
    } while (0)
#define CUDA(call) CHECK_IS(cudaSuccess, call)

static inline void child_failed(const char *file, int line, const char *what)
{
    fprintf(stderr, "%s:%d: %s\n", file, line, what);
    _exit(CHILD_FAILED);
}

// Runs `body` in a child whose environment has NAME=VALUE for each word of `environment`. Returns the exit
// ended, and in `text` (of 2048 bytes) what it wrote to stderr.
static inline int child_run(const char *environment, void (*body)(void), char *text)
{
    int ends[2], ended, room = 2047;
    ssize_t got;
    char words[512], *word, *rest = words;
    assert_int_equal(pipe(ends), 0);
    snprintf(words, sizeof words, "%s", environment);
    fflush(NULL);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        alarm(CHILD_SECONDS);
        while ((word = strsep(&rest, " ")))
            if (*word) putenv(strdup(word));
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        body();
        _exit(0);
    }
    close(ends[1]);
    char *end = text;
    while ((got = read(ends[0], end, (size_t)room)) > 0) end += got, room -= (int)got;
    *end = 0;
    close(ends[0]);
    assert_int_equal(waitpid(pid, &ended, 0), pid);
    return WIFEXITED(ended) ? WEXITSTATUS(ended) : 1000 + WTERMSIG(ended);
}

// The body passes.
static inline void child_passes(const char *environment, void (*body)(void))
{
    char text[2048];
    const int ended = child_run(environment, body, text);
    if (ended != 0 || *text) fail_msg("with '%s': status %d: %s", environment, ended, text);
}

// The body passes with each of six orders.
static inline void child_passes_in_all_orders(void (*body)(void))
{
    char environment[64];
    for (int seed = 0; seed < 6; seed++) {
        snprintf(environment, sizeof environment, "TRIREME_STAND_IN_SEED=%d", seed);
        child_passes(environment, body);
    }
}

// The stand-in ends the body with one line that has `line` in it.
static inline void child_is_ended(void (*body)(void), const char *line)
{
    char text[2048];
    const int ended = child_run("", body, text);
    if (ended != 1 || strncmp(text, "cuda stand-in: ", 15) || !strstr(text, line) ||
        strchr(text, '\n') != text + strlen(text) - 1)
        fail_msg("status %d, '%s'; expected is 1 and one line with '%s'", ended, text, line);
}

// The body fails by a CHECK in at least one of twelve orders: a mistake shows.
static inline void child_fails_in_some_order(void (*body)(void))
{
    char environment[64], text[2048];
    int failures = 0;
    for (int seed = 0; seed < 12; seed++) {
        snprintf(environment, sizeof environment, "TRIREME_STAND_IN_SEED=%d", seed);
        const int ended = child_run(environment, body, text);
        if (ended != 0 && ended != CHILD_FAILED) fail_msg("status %d: %s", ended, text);
        failures += ended == CHILD_FAILED;
    }
    assert_in_range(failures, 1, 12);
}

#endif
