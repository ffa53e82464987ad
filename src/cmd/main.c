// main.c -- the program: its command line goes to the command that it calls (command.c); the table
// of commands is commands.c.
#include "cmd/command.h"

int main(int argc, char **argv)
{
    return command_call(argc, argv);
}
