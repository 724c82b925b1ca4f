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
#include "pull/pull_main.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static bool main_is(const char *word, const char *letter, const char *name)
{
    return strcmp(word, letter) == 0 || strcmp(word, name) == 0;
}

/* Finds the command and removes its name from the n arguments, so that flags before it count like
 * those after it. --help and --version are accepted instead of a command. Returns an exit code. */
static int main_take_command(const cli_command **out, int *n, char **argv)
{
    int at = 0, taken;
    while (at < *n && !main_is(argv[at], "-h", "--help") &&
           (taken = args_common_flag(*n - at, argv + at)) > 0)
        at += taken;
    if (at == *n)
        return cli_find_command(out, "help");
    const char *word = argv[at];
    const char *name = main_is(word, "-h", "--help")      ? "help"
                       : main_is(word, "-V", "--version") ? "version"
                                                          : word;
    if (name[0] == '-')
        return msg_usage(
            "unknown flag %.60s before the command; flags of a command follow its name "
            "(try: mote help)",
            name);
    memmove(argv + at, argv + at + 1, (size_t)(--*n - at) * sizeof *argv);
    return cli_find_command(out, name);
}

typedef struct config_findings {
    bool strict;
    int code;
} config_findings;

/* A config_unknown_fn. Only the first error is reported. */
static void main_on_unknown_key(void *with, const char *sentence)
{
    config_findings *f = with;
    if (!f->strict)
        msg_note("warning: %s", sentence);
    else if (f->code == CLI_DONE)
        f->code = msg_usage("%s", sentence);
}

/* Runs a parsed command with the settings that are not among its arguments. */
static int main_run_parsed(cli_call *call, void *options)
{
    config c = {0};
    config_findings findings = {0};
    mote_error err;
    int code;
    if ((!call->command->no_config && config_open(&c, &err) != MOTE_OK) ||
        args_set_defaults(call, options, &c, &err) != MOTE_OK) {
        code = msg_error(&err);
    } else {
        term_init(&call->common);
        findings.strict = call->common.strict;
        config_check(&c, &cli_commands, main_on_unknown_key, &findings);
        code = findings.code == CLI_DONE ? call->command->run(call) : findings.code;
    }
    config_close(&c);
    return code;
}

static int main_run_command(const cli_command *command, int n, char *const *argv, cli_out *o)
{
    cli_call call = {.out = o};
    void *options = mem_new(command->options_bytes, 1);
    const char **words = mem_new((size_t)n + 1, sizeof *words);
    mote_error err;
    int code = CLI_DONE;
    if (options == NULL || words == NULL) {
        code = msg_no_memory("the options of the command");
    } else if (args_parse(&call, command, n, argv, options, words, &err) != MOTE_OK) {
        code = msg_error(&err);
    } else {
        term_init(&call.common);
        if (call.common.help)
            help_print(o, &cli_commands, command);
        else
            code = main_run_parsed(&call, options);
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
#ifdef MOTE_ONE_FILE
    if (argc > 0 && strcmp(argv[0], PULL_PROGRAM) == 0)
        return pull_main(argc, argv);
#endif
    fork_server_begin(argc, argv);
    interrupt_init();
    mote_guard_files(NULL); /* a truncated model file is an error, not the end of the process */
    term_init(&(cli_common){0});
    out_open(&standard_output, STDOUT_FILENO);
    const cli_command *command;
    int n = argc > 0 ? argc - 1 : 0;
    int code = main_take_command(&command, &n, argv + 1);
    if (code == CLI_DONE)
        code = main_run_command(command, n, argv + 1, &standard_output);
    return main_close_output(&standard_output, code);
}
