// data.h -- the two halves of `trireme data`.
#ifndef TRIREME_CMD_DATA_H
#define TRIREME_CMD_DATA_H

// argv[0] is "prepare", "inspect". Return the exit code.
int data_prepare(int argc, char **argv);
int data_inspect(int argc, char **argv);

#endif
