/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_serve_unavailable.c - `mote serve` and `mote batch` in a build without the server. */
#include "cli/args/command.h"
#include "cli/term/output.h"

static int serve_run(const cli_call *call)
{
    (void)call;
    return msg_fail(
        CLI_FAILED, "unsupported",
        "this build has no server: install libuv1-dev and libssl-dev and build again with "
        "-DMOTE_SERVER=ON");
}

const cli_command cmd_serve = {
    .name = "serve",
    .section = "Server",
    .summary = "serve models over HTTP (not in this build)",
    .usage = "[FILE]",
    .min_words = 0,
    .max_words = 1,
    .about = "Serves models over HTTP. Not available in this build.",
    .run = serve_run,
};

const cli_command cmd_batch = {
    .name = "batch",
    .section = "Use a model",
    .summary = "answer the requests of a file (not in this build)",
    .usage = "IN.jsonl OUT.jsonl",
    .min_words = 0,
    .max_words = 2,
    .about = "Answers the requests of a file. Not available in this build.",
    .run = serve_run,
};
