/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main.c - the program `mote`: finds the command, parses its words, runs it, and
 * turns what happened into an exit code.
 */
#include "cli/args/args.h"
#include "cli/args/command.h"
#include "cli/args/help.h"
#include "cli/term/interrupt.h"
#include "cli/term/output_messages.h"
#include "cli/term/terminal.h"

#include "base/mem.h"
#include "media/sandbox/decoder.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* What stands where a command should: the flags people try first are answered. */
static const char *command_name(int argc, char *const *argv)
{
    if (argc < 2 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "--help") == 0)
        return "help";
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0)
        return "version";
    return argv[1];
}

static int run_command(const cli_command *command, int n, char *const *argv, cli_out *o)
{
    cli_call call = {.out = o};
    void *options = mem_new(command->options_bytes, 1);
    const char **words = mem_new((size_t)n + 1, sizeof *words);
    mote_error err;
    int code;
    if (options == NULL || words == NULL) {
        code = msg_fail(CLI_NO_MEMORY, mote_status_name(MOTE_E_MEMORY), "no memory to start");
    } else if (args_parse(&call, command, n, argv, options, words, &err) != MOTE_OK) {
        code = msg_error(&err);
    } else {
        term_init(&call.common);
        if (call.common.help)
            help_print(o, command);
        code = call.common.help ? CLI_DONE : command->run(&call);
    }
    mem_free(words);
    mem_free(options);
    return code;
}

/* A reader that went away has seen what it wanted; a full disk is something else. */
static int close_output(cli_out *o, int code)
{
    if (out_flush(o) || o->error == EPIPE || code != CLI_DONE)
        return code;
    return msg_fail(CLI_NOT_WRITABLE, "io_error", "cannot write the output: %s",
                    strerror(o->error));
}

int main(int argc, char **argv)
{
    static cli_out standard_output;
    fork_server_begin(argc, argv);
    interrupt_init();
    term_init(&(cli_common){0});
    out_open(&standard_output, STDOUT_FILENO);
    const cli_command *command;
    int code = cli_find_command(&command, command_name(argc, argv));
    if (code == CLI_DONE) {
        int skip = argc < 2 ? 1 : 2;
        code = run_command(command, argc - skip, argv + skip, &standard_output);
    }
    return close_output(&standard_output, code);
}
