// main.c -- the program: its command line goes to the command that it calls (command.c); the table
// of commands is commands.c.
#include "cmd/command.h"
#include "cmd/console.h"

int main(int argc, char **argv)
{
    console_open();
    return console_close(command_call(argc, argv));
}
