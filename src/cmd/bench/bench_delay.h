// bench_delay.h -- the time in which this thread was ready to run but another program had its core, as Linux counts it. On a
// machine that does other things meanwhile, benchmarks of kernels leave that time out.
#ifndef TRIREME_CMD_BENCH_DELAY_H
#define TRIREME_CMD_BENCH_DELAY_H

// A file of this thread, for bench_delay_seconds; -1: the system does not count it. The caller closes it.
int bench_delay_open(void);
double bench_delay_seconds(int file); // since the thread began; 0 for -1
void bench_delay_close(int file);

#endif
