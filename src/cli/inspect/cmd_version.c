/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_version.c - `mote version`: what this program is made of. */
#include "cli/args/commands.h"
#include "cli/term/json_out.h"

#include "base/cpu.h"
#include "cli/inspect/commit.h"

#include <mote.h>
#include <utf8proc.h>

#if defined(__clang__)
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif

#if defined(__x86_64__)
static const mote_isa built[] = {MOTE_ISA_REF, MOTE_ISA_AVX2, MOTE_ISA_AVX512, MOTE_ISA_AMX};
#else
static const mote_isa built[] = {MOTE_ISA_REF};
#endif

enum { N_BUILT = sizeof built / sizeof *built };

static void print_json(cli_out *o)
{
    json j = {.to = o};
    json_begin_object(&j);
    json_key_text(&j, "version", MOTE_VERSION);
    json_key_text(&j, "commit", MOTE_COMMIT);
    json_key_u64(&j, "numerics", MOTE_NUMERICS);
    json_key_text(&j, "compiler", COMPILER);
    json_key(&j, "isa");
    json_begin_object(&j);
    json_key(&j, "built");
    json_begin_array(&j);
    for (size_t i = 0; i < N_BUILT; i++)
        json_text(&j, mote_isa_name(built[i]));
    json_end_array(&j);
    json_key_text(&j, "used", mote_isa_name(cpu_best_isa()));
    json_end_object(&j);
    json_key(&j, "libraries");
    json_begin_object(&j);
    json_key_text(&j, "utf8proc", utf8proc_version());
    json_end_object(&j);
    json_end_object(&j);
}

static int run(const cli_call *call)
{
    cli_out *o = call->out;
    if (call->common.json) {
        print_json(o);
        return CLI_DONE;
    }
    out_text(o, "mote " MOTE_VERSION "\n");
    if (call->common.quiet)
        return CLI_DONE;
    out_text(o, "  commit            " MOTE_COMMIT "\n");
    out_printf(o, "  numerics          %d\n", MOTE_NUMERICS);
    out_text(o, "  compiler          " COMPILER "\n  instruction sets ");
    for (size_t i = 0; i < N_BUILT; i++)
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
    .about = "Says what this program is made of. With -q only its version.",
    .run = run,
};
