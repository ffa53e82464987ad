// main.c -- the entry of the program. command.c finds and runs the command; commands.c has the table.
#include "cmd/command.h"
#include "cmd/console.h"

int main(int argc, char **argv)
{
    console_open();
    return console_close(command_call(argc, argv));
}
