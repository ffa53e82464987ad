// sanitized.h -- for tests: the sanitizer of this build. There, memory and threads are what is tested, and a test runs as
// much as shows that. Numbers are compared in Release, where all of it runs.
#ifndef TRIREME_TESTS_SANITIZED_H
#define TRIREME_TESTS_SANITIZED_H

#if defined __SANITIZE_ADDRESS__
enum { SANITIZED = 1, SANITIZED_ADDRESS = 1, SANITIZED_THREAD = 0 };
#elif defined __SANITIZE_THREAD__
enum { SANITIZED = 1, SANITIZED_ADDRESS = 0, SANITIZED_THREAD = 1 };
#else
enum { SANITIZED = 0, SANITIZED_ADDRESS = 0, SANITIZED_THREAD = 0 };
#endif

#endif
