/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_serve_unavailable.c - `mote serve` of a program that was built without the service. */
#include "cli/args/commands.h"
#include "cli/term/output_messages.h"

static int run(const cli_call *call)
{
    (void)call;
    return msg_fail(CLI_FAILED, "unsupported",
                    "this mote was built without its service: install libuv1-dev and libssl-dev "
                    "and build again with -DMOTE_SERVER=ON");
}

const cli_command cmd_serve = {
    .name = "serve",
    .section = "Server",
    .summary = "answer programs over HTTP (not in this build)",
    .usage = "[FILE]",
    .min_words = 0,
    .max_words = 1,
    .about = "Serves a model to programs that speak HTTP. This build lacks it.",
    .run = run,
};
