/* SPDX-License-Identifier: Apache-2.0 */
/*
 * command.h - what a command is: a row with its name, its flags and its help text.
 *
 * Parsing (args.c), --help and `mote help` (help.c) and spelling suggestions all use the row, so
 * nothing is stated twice. To add a command, write cmd_NAME.c with its row, declare the row below
 * and list it in commands.c.
 */
#ifndef MOTE_CLI_ARGS_COMMAND_H
#define MOTE_CLI_ARGS_COMMAND_H

#include "base/err.h"
#include "cli/term/output.h"

#include <stdint.h>

typedef enum flag_kind {
    FLAG_SWITCH, /* bool: takes no value */
    FLAG_TIMES,  /* uint64_t: how often it was given; takes no value */
    FLAG_COUNT,  /* uint64_t */
    FLAG_NUMBER, /* double */
    FLAG_TEXT,   /* const char *, NULL when absent */
    FLAG_CHOICE, /* uint64_t: index into the words of `value`, from 0 */
    FLAG_LIST    /* flag_list: repeatable */
} flag_kind;

enum { FLAG_LIST_MAX = 16 };

typedef struct flag_list {
    const char *items[FLAG_LIST_MAX];
    size_t n;
} flag_list;

typedef struct cli_flag {
    const char *name; /* without dashes */
    char letter;      /* 0: no short form */
    flag_kind kind;
    const char *value;   /* name of the value in help: "N"; for a choice its words: "f16|f32" */
    const char *initial; /* default, parsed like a given value; NULL: all zero */
    const char *shown;   /* default as help shows it; NULL: `initial` */
    const char *env;     /* environment variable that overrides `initial`; NULL: none */
    double min, max;     /* of a count or number, inclusive; max 0: no limit */
    size_t at;           /* offset of the value in the options struct */
    size_t given;        /* offset of a bool set if the value is not the default; 0: none */
    const char *help;
} cli_flag;

/* Flags with one heading in help. `at` of the flags counts from `base`, so several commands can
 * share a group. */
typedef struct flag_group {
    const char *title;
    const cli_flag *flags;
    size_t n;
    size_t base;
} flag_group;

#define FLAG_GROUP(title, flags, base)                                                             \
    {                                                                                              \
        title, flags, sizeof(flags) / sizeof *(flags), base                                        \
    }

/* Fills a cli_common. */
extern const flag_group cli_common_flags;

typedef struct cli_command cli_command;

/* The command table, in the order of the overview. */
typedef struct cli_command_table {
    const cli_command *const *rows;
    size_t n;
} cli_command_table;

/* One invocation of a command, parsed. */
typedef struct cli_call {
    const cli_command *command;
    cli_common common;
    const void *options; /* the command's own struct, filled from its flags */
    const char **words;  /* arguments that are not flags */
    size_t n_words;
    cli_out *out; /* for results only; messages go to stderr */
} cli_call;

struct cli_command {
    const char *name;
    const char *section; /* heading in the overview */
    const char *summary; /* a few words for the overview */
    const char *usage;   /* "FILE [TEXT]" */
    size_t min_words, max_words;
    const flag_group *groups;
    size_t n_groups;
    size_t options_bytes;
    const char *about;    /* paragraphs, one line each */
    const char *examples; /* one command per line; NULL: none */
    int (*run)(const cli_call *call);
};

/* ---- the table (commands.c) ---- */

extern const cli_command_table cli_commands;
/* Returns an exit code. An unknown name is reported with the nearest command. */
int cli_find_command(const cli_command **out, const char *name);

extern const cli_command cmd_bench;
extern const cli_command cmd_env;
extern const cli_command cmd_help;
extern const cli_command cmd_logits;
extern const cli_command cmd_ps;
extern const cli_command cmd_run;
extern const cli_command cmd_serve;
extern const cli_command cmd_show;
extern const cli_command cmd_stop;
extern const cli_command cmd_tokenize;
extern const cli_command cmd_top;
extern const cli_command cmd_version;
extern const cli_command cmd_why;

/* ---- arguments (args.c) ---- */

/*
 * Parses the n arguments after the command's name. Flags may appear anywhere, as --name value,
 * --name=value, -x value or -xvalue; switches can be combined after one dash; "--" ends the flags
 * and "-" is an ordinary word. A flag that is not given takes its value from the environment, then
 * from the table.
 *
 * `options` has command->options_bytes zeroed bytes, `words` has n entries; both must outlive the
 * call. With --help the number of words is not checked.
 */
mote_status args_parse(cli_call *call, const cli_command *command, int n, char *const *argv,
                       void *options, const char **words, mote_error *err);

/* ---- help (help.c) ---- */

/* Help of `command`, or the overview of the table if it is NULL. */
void help_print(cli_out *o, const cli_command_table *table, const cli_command *command);
/* The same as one JSON document. Returns an exit code. */
int help_json(cli_out *o, const cli_command_table *table, const cli_command *command);

#endif
