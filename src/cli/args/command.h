/* SPDX-License-Identifier: Apache-2.0 */
/*
 * command.h - what a command is: a row with its name, its flags and its help text.
 *
 * Parsing (args.c), the config file (config.c), --help and `mote help` (help.c), completion and man
 * pages all use the row, so nothing is stated twice. To add a command, write cmd_NAME.c with its
 * row, declare the row below and list it in commands.c.
 */
#ifndef MOTE_CLI_ARGS_COMMAND_H
#define MOTE_CLI_ARGS_COMMAND_H

#include "base/err.h"
#include "cli/args/config.h"
#include "cli/term/output.h"

#include <stdint.h>

typedef enum flag_kind {
    FLAG_SWITCH, /* bool: takes no value */
    FLAG_TIMES,  /* uint64_t: how often it was given; takes no value */
    FLAG_COUNT,  /* uint64_t */
    FLAG_NUMBER, /* double */
    FLAG_SIZE,   /* uint64_t: bytes; a number without a unit is GB */
    FLAG_RATE,   /* uint64_t: bytes per second; a number without a unit is bytes */
    FLAG_TEXT,   /* const char *, NULL when absent */
    FLAG_CHOICE, /* uint64_t: index into the words of `value`, from 0 */
    FLAG_LIST    /* flag_list: repeatable */
} flag_kind;

enum { FLAG_LIST_MAX = 16 };

typedef struct flag_list {
    const char *items[FLAG_LIST_MAX];
    size_t n;
} flag_list;

/* The maximum on this machine. *why: the reason for errors, such as "4 per CPU, 2 CPUs"; it must
 * stay valid. */
typedef double flag_limit(const char **why);
/* NULL: the text is valid. Else what it must be, such as "on or off", for "--x must be on or off".
 */
typedef const char *flag_check(const char *text);

typedef struct cli_flag {
    const char *name; /* without dashes */
    char letter;      /* 0: no short form */
    flag_kind kind;
    const char *value;   /* name of the value in help: "N"; for a choice its words: "f16|f32" */
    const char *initial; /* default, parsed like a given value; NULL: all zero */
    const char *shown;   /* default as help shows it; NULL: `initial` */
    const char *word;    /* a word that stands for 0, such as "auto"; NULL: none */
    const char *env;     /* environment variable that overrides `initial`; NULL: none */
    double min, max;     /* of a count, number or size, inclusive; max 0: no limit */
    flag_limit *limit;   /* lowers `max` on this machine; NULL: no */
    const char *range;   /* the range in help, if `max` does not say it; NULL: from min and max */
    flag_check *check;   /* of a text; NULL: any */
    size_t at;           /* offset of the value in the options struct */
    size_t given;        /* offset of a bool set if the value is not the default; 0: none */
    const char *aliases; /* other names that are accepted but not shown: "num-ctx|ctx-size" */
    const char *words;   /* values that completion offers for a text: "on|off"; NULL: by `value` */
    bool once;           /* for one invocation only: not a key of the config file */
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

typedef struct cli_command cli_command;

/* Group i of a command's flags: its own groups, then -m/--model if it takes a model, then the flags
 * of every command; NULL after the last one. */
const flag_group *command_group(const cli_command *command, size_t i);
/* The flags of every command, its last group. */
const flag_group *command_common_group(void);
/* The command works on a model: its first argument, or --model. */
bool command_takes_model(const cli_command *command);
/* The values that completion offers, separated by |; NULL: none. */
const char *flag_words(const cli_flag *flag);
/* MOTE_E_ARG: the flag refuses the text as its value. `source` names the flag in the error. */
mote_status flag_check_value(const cli_flag *flag, const char *source, const char *text,
                             mote_error *err);
/* The flag is --model of command_takes_model. */
bool command_is_model_flag(const cli_flag *flag);
/* True if `name` (n bytes) is the flag's name or one of its aliases. */
bool flag_is_named(const cli_flag *flag, const char *name, size_t n);

/* The command table, in the order of the overview. */
typedef struct cli_command_table {
    const cli_command *const *rows;
    size_t n;
} cli_command_table;

enum { COMMAND_MAX_FLAGS = 128 };

/* One invocation of a command, parsed. */
typedef struct cli_call {
    const cli_command *command;
    cli_common common;
    const void *options; /* the command's own struct, filled from its flags */
    const char **words;  /* arguments that are not flags; --model is the first one */
    size_t n_words;
    cli_out *out; /* for results only; messages go to stderr */
    const config *config;
    const char *model;            /* --model, its variable or its key; NULL: none */
    bool seen[COMMAND_MAX_FLAGS]; /* given as arguments, in the order of command_group */
} cli_call;

struct cli_command {
    const char *name;
    const char *alias;   /* another name: "ls"; NULL: none */
    const char *section; /* heading in the overview */
    const char *summary; /* a few words for the overview */
    const char *usage;   /* "MODEL [TEXT]" */
    /* What completion offers for the arguments, separated by spaces: MODEL, COMMAND, FILE, DIR, or
     * words such as "sh|fish"; "..." after the last one repeats it. NULL: nothing. With MODEL as
     * the first one the command has the flag --model. */
    const char *arguments;
    size_t min_words, max_words;
    const flag_group *groups;
    size_t n_groups;
    size_t options_bytes;
    const char *about;    /* paragraphs, one line each */
    const char *examples; /* one command per line; NULL: none */
    bool keeps_aliases;   /* a model argument that is an alias is not replaced by its model */
    bool optional_model;  /* MODEL may be absent; then MOTE_MODEL and the key `model` name it */
    bool no_config;       /* runs without the config file, so a mistake in it does not matter */
    int (*run)(const cli_call *call);
};

/* ---- the table (commands.c) ---- */

extern const cli_command_table cli_commands;
/* Returns an exit code. An unknown name is reported with the nearest command. */
int cli_find_command(const cli_command **out, const char *name);

extern const cli_command cmd_batch;
extern const cli_command cmd_bench;
extern const cli_command cmd_cache;
extern const cli_command cmd_chat;
extern const cli_command cmd_compare;
extern const cli_command cmd_completion;
extern const cli_command cmd_convert;
extern const cli_command cmd_cp;
extern const cli_command cmd_doctor;
extern const cli_command cmd_env;
extern const cli_command cmd_eval;
extern const cli_command cmd_fit;
extern const cli_command cmd_help;
extern const cli_command cmd_imatrix;
extern const cli_command cmd_list;
extern const cli_command cmd_logits;
extern const cli_command cmd_perplexity;
extern const cli_command cmd_pixels;
extern const cli_command cmd_ps;
extern const cli_command cmd_pull;
extern const cli_command cmd_quantize;
extern const cli_command cmd_rm;
extern const cli_command cmd_run;
extern const cli_command cmd_selftest;
extern const cli_command cmd_serve;
extern const cli_command cmd_session;
extern const cli_command cmd_show;
extern const cli_command cmd_stop;
extern const cli_command cmd_tokenize;
extern const cli_command cmd_top;
extern const cli_command cmd_verify;
extern const cli_command cmd_version;
extern const cli_command cmd_why;

/* ---- arguments (args.c) ---- */

/*
 * Parses the n arguments without the command's name. Flags may appear anywhere, as --name value,
 * --name=value, -x value or -xvalue; switches can be combined after one dash, and --switch=false
 * turns one off; "--" ends the flags and "-" is an ordinary word.
 *
 * `options` has command->options_bytes zeroed bytes, `words` has n + 1 entries; both must outlive
 * the call.
 */
mote_status args_parse(cli_call *call, const cli_command *command, int n, char *const *argv,
                       void *options, const char **words, mote_error *err);

/*
 * Completes a parsed call; not needed for --help. A flag that is not given takes its value from the
 * environment, then from the config file, then from the table (config_setting_find). So a variable
 * is not even read if its flag is given, and a repeatable flag replaces the values of its variable
 * and its keys. --model becomes the first word; of a command with one model, an alias becomes its
 * model. Checks the number of words.
 *
 * `options` as for args_parse; `c` must outlive the call.
 */
mote_status args_set_defaults(cli_call *call, void *options, const config *c, mote_error *err);

/* The flag is among the arguments. Its value may also come from elsewhere. */
bool args_given(const cli_call *call, const char *flag);

/* Flags of every command may also stand before its name. Returns how many arguments such a flag at
 * argv[0] takes, 1 or 2 with its value; 0: it is something else. */
int args_common_flag(int n, char *const *argv);

/* ---- help (help.c) ---- */

enum { FLAG_RANGE_BYTES = 96, FLAG_TEXT_BYTES = 512 };
/* Its help with range and default. Returns `text`, which has FLAG_TEXT_BYTES bytes. */
const char *flag_describe(const cli_flag *flag, char *text);
/* Help of `command`, or the overview of the table if it is NULL. */
void help_print(cli_out *o, const cli_command_table *table, const cli_command *command);
/* The same as one JSON document. Returns an exit code. */
int help_json(cli_out *o, const cli_command_table *table, const cli_command *command);

#endif
