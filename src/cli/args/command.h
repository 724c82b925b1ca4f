/* SPDX-License-Identifier: Apache-2.0 */
/*
 * command.h - what a command is: a row of a table.
 *
 * The row holds the command's words, its flags with kinds, ranges and defaults,
 * and the text about them. Parsing, --help, `mote help` and the nearest spelling
 * of a wrong flag all come from it; nothing is said twice. A new command is one
 * file cmd_NAME.c with its row, and the row's name in commands.c.
 */
#ifndef MOTE_CLI_ARGS_COMMAND_H
#define MOTE_CLI_ARGS_COMMAND_H

#include "cli/term/output.h"

#include <stdint.h>

/* What the program's exit code says. */
enum {
    CLI_DONE = 0,
    CLI_FAILED = 1,
    CLI_USAGE = 2,
    CLI_NO_MODEL = 3,
    CLI_NO_MEMORY = 4,
    CLI_DAMAGED = 6,
    CLI_NO_SERVER = 7,
    CLI_NO_ROOM = 8,
    CLI_CUT = 9,
    CLI_NOT_VALID = 10,
    CLI_REFUSED = 11,
    CLI_NOT_WRITABLE = 12
};

typedef enum flag_kind {
    FLAG_SWITCH, /* bool: takes no value */
    FLAG_TIMES,  /* uint64_t: how often it was given; takes no value */
    FLAG_COUNT,  /* uint64_t */
    FLAG_NUMBER, /* double */
    FLAG_TEXT,   /* const char *, NULL when absent */
    FLAG_CHOICE, /* uint64_t: which of the words in `value`, the first is 0 */
    FLAG_LIST    /* flag_list: may be given several times */
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
    const char *value;   /* what help calls the value: "N"; for a choice its words: "f16|f32" */
    const char *initial; /* as if it had been given; NULL: all zero */
    const char *shown;   /* how help words the default; NULL: `initial` */
    const char *env;     /* environment variable that comes before `initial`; NULL: none */
    double min, max;     /* of a count or number, inclusive; max 0: no limit */
    size_t at;           /* where in the options struct */
    size_t given;        /* where a bool says that it is no default; 0: nobody asks */
    const char *help;
} cli_flag;

/* Flags that belong together, in help and in the options struct. A group may
 * serve several commands: `at` counts from `base`. */
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

/* Flags of every command. */
typedef struct cli_common {
    bool help;
    bool json;
    bool quiet;
    uint64_t verbose;
    uint64_t color; /* cli_color */
    bool no_progress;
} cli_common;

typedef enum cli_color { COLOR_AUTO, COLOR_ALWAYS, COLOR_NEVER } cli_color;

extern const flag_group cli_common_flags;

typedef struct cli_command cli_command;

/* One call of a command, parsed. */
typedef struct cli_call {
    const cli_command *command;
    cli_common common;
    const void *options; /* the command's own struct, filled from its flags */
    const char **words;  /* the arguments that are not flags */
    size_t n_words;
    cli_out *out; /* results go here, and nothing else does */
} cli_call;

struct cli_command {
    const char *name;
    const char *section; /* of the overview */
    const char *summary; /* a few words for the overview */
    const char *usage;   /* "FILE [TEXT]" */
    size_t min_words, max_words;
    const flag_group *groups;
    size_t n_groups;
    size_t options_bytes;
    const char *about;    /* paragraphs, one line each */
    const char *examples; /* one command a line; NULL: none */
    int (*run)(const cli_call *call);
};

/* The table, in the order of the overview. */
extern const cli_command *const cli_commands[];
extern const size_t cli_n_commands;
/* Returns an exit code; says which command was probably meant if there is none of this name. */
int cli_find_command(const cli_command **out, const char *name);

#endif
