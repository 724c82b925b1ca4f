/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main.c - the program `mote`: finds the command, parses its arguments, runs it and returns its
 * exit code.
 */
#include "base/mem.h"
#include "cli/args/command.h"
#include "cli/term/output.h"
#include "cli/term/terminal.h"
#include "media/sandbox/decoder.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* --help and --version are accepted instead of a command. */
static const char *main_command_name(int argc, char *const *argv)
{
    if (argc < 2 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "--help") == 0)
        return "help";
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0)
        return "version";
    return argv[1];
}

static int main_run_command(const cli_command *command, int n, char *const *argv, cli_out *o)
{
    cli_call call = {.out = o};
    void *options = mem_new(command->options_bytes, 1);
    const char **words = mem_new((size_t)n + 1, sizeof *words);
    mote_error err;
    int code;
    if (options == NULL || words == NULL) {
        code = msg_no_memory("the options of the command");
    } else if (args_parse(&call, command, n, argv, options, words, &err) != MOTE_OK) {
        code = msg_error(&err);
    } else {
        term_init(&call.common);
        if (call.common.help)
            help_print(o, &cli_commands, command);
        code = call.common.help ? CLI_DONE : command->run(&call);
    }
    mem_free(words);
    mem_free(options);
    return code;
}

/* A closed pipe is not an error: the reader has what it wanted. */
static int main_close_output(cli_out *o, int code)
{
    if (out_flush(o) || o->error == EPIPE || code != CLI_DONE)
        return code;
    return msg_fail(CLI_NOT_WRITABLE, "io_error", "cannot write to stdout: %s", strerror(o->error));
}

int main(int argc, char **argv)
{
    static cli_out standard_output;
    fork_server_begin(argc, argv);
    interrupt_init();
    term_init(&(cli_common){0});
    out_open(&standard_output, STDOUT_FILENO);
    const cli_command *command;
    int code = cli_find_command(&command, main_command_name(argc, argv));
    if (code == CLI_DONE) {
        int skip = argc < 2 ? 1 : 2;
        code = main_run_command(command, argc - skip, argv + skip, &standard_output);
    }
    return main_close_output(&standard_output, code);
}
