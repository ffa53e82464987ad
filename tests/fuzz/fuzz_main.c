// fuzz_main.c -- the driver of a fuzz target. A child process runs the files of the corpus, and then
// inputs that are made of them. When an input ends the child, the driver writes the input to a file
// and names it.
//
//   fuzz_NAME CORPUS [--runs N | --seconds S] [--seed N]   without options: only the corpus
//   fuzz_NAME FILE...                                      only these inputs
//
// Exit codes: 0 no input ended the child, 1 one did, 2 bad usage. Files of a corpus whose names begin
// with "good" must be accepted, so that the corpus stays up to date.
#include "fuzz.h"
#include "mutate.h"

#include "base/clock.h"
#include "base/text.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

// An input that uses this much CPU time hangs.
enum { CPU_SECONDS = 60 };
// Limit of the address space, which finds readers that trust a size in a file. Sanitizers need
// terabytes of address space, so it is not set under them.
#define MEMORY_MOST ((rlim_t)6 << 30)

typedef struct fuzz_shared {
    uint64_t number; // inputs so far
    size_t bytes;    // of `input`
    char name[256];  // of the file; "" for a mutated input
    uint8_t input[FUZZ_INPUT_MAX];
} fuzz_shared;

typedef struct fuzz_options {
    const char *program;
    char **path;
    int paths;
    int64_t runs, seconds, seed;
} fuzz_options;

static void limit(void)
{
    const struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    const struct rlimit memory = {MEMORY_MOST, MEMORY_MOST};
    setrlimit(RLIMIT_AS, &memory);
#endif
}

static bool run_input(fuzz_shared *x)
{
    const struct itimerval cpu = {.it_value = {.tv_sec = CPU_SECONDS}};
    setitimer(ITIMER_PROF, &cpu, NULL);
    const bool accepted = fuzz_this.run(x->input, x->bytes);
    x->number++;
    return accepted;
}

static void run_file(fuzz_shared *x, const char *name, const uint8_t *bytes, size_t count)
{
    snprintf(x->name, sizeof x->name, "%s", name);
    x->bytes = count;
    memcpy(x->input, bytes, count);
    const bool accepted = run_input(x);
    const bool good = strncmp(name, "good", 4) == 0;
    FUZZ_CLAIM(accepted || !good, "%s is refused", name);
}

static bool more(const fuzz_options *o, uint64_t done, double began)
{
    if (o->seconds > 0) return clock_seconds() - began < (double)o->seconds;
    return done < (uint64_t)o->runs;
}

static void run_corpus(const fuzz_options *o, fuzz_shared *x)
{
    fuzz_corpus c;
    const double began = clock_seconds();
    fuzz_corpus_open(o->path[0], &c);
    for (int i = 0; i < c.files; i++) run_file(x, c.file[i].name, c.file[i].bytes, c.file[i].count);
    x->name[0] = 0;
    for (uint64_t i = 0; more(o, i, began); i++) {
        x->bytes = fuzz_mutate(&c, (uint64_t)o->seed, i, fuzz_this.binary, x->input);
        if (fuzz_this.mend && i % 4) fuzz_this.mend(x->input, x->bytes);
        run_input(x);
    }
    fuzz_corpus_close(&c);
}

static void run_files(const fuzz_options *o, fuzz_shared *x)
{
    for (int i = 0; i < o->paths; i++) {
        FILE *f = fopen(o->path[i], "rb");
        if (!f) {
            perror(o->path[i]);
            exit(2);
        }
        static uint8_t bytes[FUZZ_INPUT_MAX];
        const size_t count = fread(bytes, 1, sizeof bytes, f);
        fclose(f);
        run_file(x, o->path[i], bytes, count);
    }
}

static bool is_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static int report(const fuzz_options *o, const fuzz_shared *x, int how)
{
    char path[256];
    const char *base = strrchr(o->program, '/');
    snprintf(path, sizeof path, "%s-%lld-%llu.input", base ? base + 1 : o->program,
             (long long)o->seed, (unsigned long long)x->number);
    if (x->name[0]) {
        snprintf(path, sizeof path, "%s", x->name);
    } else {
        FILE *f = fopen(path, "wb");
        if (!f || fwrite(x->input, 1, x->bytes, f) != x->bytes || fclose(f) != 0) perror(path);
    }
    if (WIFSIGNALED(how) && WTERMSIG(how) == SIGPROF)
        fprintf(stderr, "%s: %s needs more than %d s of CPU time\n", o->program, path, CPU_SECONDS);
    else if (WIFSIGNALED(how))
        fprintf(stderr, "%s: %s ends it by signal %d (%s)\n", o->program, path, WTERMSIG(how),
                strsignal(WTERMSIG(how)));
    else
        fprintf(stderr, "%s: %s, or one before it, ends it with exit code %d\n", o->program, path,
                WEXITSTATUS(how));
    return 1;
}

static int supervise(const fuzz_options *o)
{
    fuzz_shared *x =
        mmap(NULL, sizeof *x, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (x == MAP_FAILED) {
        perror("mmap");
        return 2;
    }
    fuzz_begin();
    const pid_t child = fork();
    if (child == 0) {
        limit();
        (is_folder(o->path[0]) ? run_corpus : run_files)(o, x);
        exit(0);
    }
    int how = 0;
    waitpid(child, &how, 0);
    fuzz_end();
    if (how != 0) return report(o, x, how);
    printf("%llu inputs\n", (unsigned long long)x->number);
    return 0;
}

int main(int argc, char **argv)
{
    fuzz_options o = {.program = argv[0], .path = calloc((size_t)argc, sizeof *o.path), .seed = 1};
    bool good = o.path != NULL;
    for (int i = 1; i < argc && good; i++) {
        int64_t *number = strcmp(argv[i], "--runs") == 0      ? &o.runs
                          : strcmp(argv[i], "--seconds") == 0 ? &o.seconds
                          : strcmp(argv[i], "--seed") == 0    ? &o.seed
                                                              : NULL;
        if (!number)
            o.path[o.paths++] = argv[i];
        else
            good = i + 1 < argc && text_to_count(argv[++i], number);
    }
    if (!good || o.paths == 0 || (is_folder(o.path[0]) && o.paths > 1)) {
        fprintf(stderr, "usage: %s CORPUS [--runs N | --seconds S] [--seed N] | FILE...\n",
                argv[0]);
        return 2;
    }
    const int code = supervise(&o);
    free(o.path);
    return code;
}
