/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_version.c - `mote version`: version, commit, compiler, instruction sets, libraries. */
#include "base/cpu.h"
#include "cli/args/command.h"
#include "cli/inspect/commit.h"
#include "json/json_writer.h"

#include <mote.h>
#include <utf8proc.h>

#if defined(__clang__)
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif

static int version_json(cli_out *o)
{
    mote_isa built[CPU_LEVELS];
    const size_t n = cpu_list_levels(built);
    strbuf j = {0};
    jw_open(&j, '{');
    jw_key_text(&j, "version", MOTE_VERSION);
    jw_key_text(&j, "commit", MOTE_COMMIT);
    jw_key_uint(&j, "numerics", MOTE_NUMERICS);
    jw_key_text(&j, "compiler", COMPILER);
    jw_key(&j, "isa");
    jw_open(&j, '{');
    jw_key(&j, "built");
    jw_open(&j, '[');
    for (size_t i = 0; i < n; i++)
        jw_text(&j, mote_isa_name(built[i]));
    jw_close(&j, ']');
    jw_key_text(&j, "used", mote_isa_name(cpu_best_isa()));
    jw_close(&j, '}');
    jw_key(&j, "libraries");
    jw_open(&j, '{');
    jw_key_text(&j, "utf8proc", utf8proc_version());
    jw_close(&j, '}');
    jw_close(&j, '}');
    return out_json(o, &j);
}

static int version_run(const cli_call *call)
{
    cli_out *o = call->out;
    mote_isa built[CPU_LEVELS];
    const size_t n = cpu_list_levels(built);
    if (call->common.json)
        return version_json(o);
    out_text(o, "mote " MOTE_VERSION "\n");
    if (call->common.quiet)
        return CLI_DONE;
    out_text(o, "  commit            " MOTE_COMMIT "\n");
    out_printf(o, "  numerics          %d\n", MOTE_NUMERICS);
    out_text(o, "  compiler          " COMPILER "\n  instruction sets ");
    for (size_t i = 0; i < n; i++)
        out_printf(o, " %s", mote_isa_name(built[i]));
    out_printf(o, "; this machine uses %s\n", mote_isa_name(cpu_best_isa()));
    out_printf(o, "  libraries         utf8proc %s\n", utf8proc_version());
    return CLI_DONE;
}

const cli_command cmd_version = {
    .name = "version",
    .section = "Understand",
    .summary = "version, compiler, instruction sets",
    .usage = "",
    .no_config = true,
    .about = "Prints version, commit, compiler, instruction sets and libraries. With -q only the "
             "version.",
    .run = version_run,
};
