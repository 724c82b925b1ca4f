/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_pull.c - `mote pull`: downloads models into the Hugging Face cache. */
#include "cli/args/command.h"
#include "cli/load/choose_size.h"
#include "cli/load/find_model.h"
#include "cli/load/pull_model.h"
#include "cli/models/pull_quantize.h"
#include "json/json_writer.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

typedef struct pull_flags {
    pull_options pull;
    const char *quant;
    const char *grade;
    const char *quantize;
} pull_flags;

#define AT(member) offsetof(pull_flags, member)

static const cli_flag pull_flag_rows[] = {
    {.name = "file",
     .kind = FLAG_TEXT,
     .value = "QUANT|FILE",
     .once = true,
     .at = AT(quant),
     .help = "another quantisation or file than that of the name, such as Q8_0"},
    {.name = "grade",
     .kind = FLAG_TEXT,
     .value = "GRADE",
     .once = true,
     .words = "small|balanced|best",
     .at = AT(grade),
     .help = "small, balanced or best: a quantisation from the table of known models"},
    {.name = "quantize",
     .kind = FLAG_TEXT,
     .value = "TYPE",
     .once = true,
     .words = "small|balanced|best|Q4_K_M|Q5_K_M|Q6_K|Q8_0|Q3_K_M|BF16",
     .at = AT(quantize),
     .help = "pull Safetensors files, convert and quantise them, as mote quantize does"},
    {.name = "from",
     .kind = FLAG_TEXT,
     .value = "DIR|URL",
     .once = true,
     .shown = "HF_ENDPOINT, else huggingface.co",
     .at = AT(pull.from),
     .help = "copy from a directory or another Hugging Face cache, or download from another hub"},
    {.name = "jobs",
     .kind = FLAG_COUNT,
     .value = "N",
     .min = 1,
     .max = PULL_JOBS_MAX,
     .initial = "4",
     .at = AT(pull.jobs),
     .help = "parallel connections"},
    {.name = "limit-rate",
     .kind = FLAG_RATE,
     .value = "BYTES",
     .min = 1000,
     .max = 1e15,
     .shown = "no limit",
     .range = "at least 1000; k, M, G: powers of 1000",
     .at = AT(pull.limit_rate),
     .help = "maximum bytes per second, such as 500000, 500k or 5M"},
    {.name = "retry-wait",
     .kind = FLAG_NUMBER,
     .value = "SECONDS",
     .min = 0.001,
     .max = 60,
     .shown = "1",
     .at = AT(pull.retry_wait),
     .help = "wait before the first retry of a failed request; it doubles, 5 retries"},
    {.name = "token-file",
     .kind = FLAG_TEXT,
     .value = "FILE",
     .shown = "HF_TOKEN, else the token of hf auth login",
     .at = AT(pull.token_file),
     .help = "token for private and gated repositories"},
    {.name = "dry-run",
     .kind = FLAG_SWITCH,
     .once = true,
     .at = AT(pull.dry_run),
     .help = "list the files, their sizes and hashes; download nothing"},
};

static const flag_group groups[] = {FLAG_GROUP("Download", pull_flag_rows, 0)};

/* --file and --grade replace the quantisation of the name. Returns an exit code. */
static int pull_apply_quant(model_name *name, const pull_flags *o)
{
    const char *word = o->quant != NULL ? o->quant : o->grade;
    if (o->quant != NULL && o->grade != NULL)
        return msg_usage("--file and --grade exclude each other");
    if (word == NULL)
        return CLI_DONE;
    if (name->kind == MODEL_NAME_KNOWN) {
        const char *quant = known_quant(name->known, str_of(word));
        if (quant == NULL)
            return msg_fail(CLI_NO_MODEL, "not_found", "%s has no %s", name->known->name, word);
        name->quant = quant;
        return CLI_DONE;
    }
    if (o->grade != NULL)
        return msg_usage("--grade needs a known model; use --file QUANT");
    snprintf(name->selector, sizeof name->selector, "%s", word);
    return CLI_DONE;
}

/* Without the network a model that is installed is enough. False: it is not. */
static bool pull_offline_hit(const cli_call *call, store *s, const char *argument)
{
    static model_name name;
    const store_model *m;
    mote_error err;
    if (store_find(s, argument, &name, &m, &err) != MOTE_OK || m == NULL || m->broken != NULL)
        return false;
    if (!call->common.json) {
        out_printf(call->out, "%s\n", m->weights);
        return true;
    }
    strbuf line = {0};
    jw_open(&line, '{');
    jw_key_text(&line, "event", "done");
    jw_key_text(&line, "repo", m->repo);
    jw_key_text(&line, "commit", m->commit);
    jw_key_uint(&line, "total", m->bytes);
    jw_key_uint(&line, "downloaded", 0);
    jw_close(&line, '}');
    return out_json(call->out, &line) == CLI_DONE;
}

/* Parses a name. That of a family, such as qwen3.5, is replaced by the name of the size that suits
 * this machine. Returns an exit code. */
static int pull_parse(model_name *name, store *s, const char **argument,
                      char chosen[CHOSEN_NAME_BYTES])
{
    mote_error err;
    mote_status status = model_name_parse(name, store_known(s), *argument, &err);
    if (status == MOTE_OK && name->kind == MODEL_NAME_FAMILY) {
        const int code = choose_size(chosen, s, name->text, CHOOSE_ALL, 0);
        if (code != CLI_DONE)
            return code;
        *argument = chosen;
        status = model_name_parse(name, store_known(s), chosen, &err);
    }
    return status == MOTE_OK ? CLI_DONE : msg_fail(CLI_NO_MODEL, "not_found", "%s", err.text);
}

static int pull_one(const cli_call *call, store *s, const char *argument)
{
    const pull_flags *o = call->options;
    static model_name name;
    static pulled_model pulled;
    char chosen[CHOSEN_NAME_BYTES];
    int code = pull_parse(&name, s, &argument, chosen);
    if (code != CLI_DONE)
        return code;
    if (name.kind != MODEL_NAME_KNOWN && name.kind != MODEL_NAME_HUB)
        return msg_fail(CLI_NO_MODEL, "not_found",
                        "%s is not the name of a model to download; try qwen3.5:4b or "
                        "hf:owner/repo:Q4_K_M",
                        argument);
    if (o->quantize != NULL)
        return o->quant != NULL || o->grade != NULL
                   ? msg_usage("--quantize excludes --file and --grade")
                   : pull_quantize(call, s, &name, &o->pull, o->quantize);
    code = pull_apply_quant(&name, o);
    if (code == CLI_DONE && o->pull.from == NULL && o->quant == NULL && o->grade == NULL &&
        pull_offline() != NULL && pull_offline_hit(call, s, argument))
        return CLI_DONE;
    if (code == CLI_DONE)
        code = pull_model(&pulled, &name, &o->pull, call->common.json ? call->out : NULL);
    if (code != CLI_DONE || call->common.json)
        return code;
    if (pulled.path[0] != '\0')
        out_printf(call->out, "%s\n", pulled.path);
    return CLI_DONE;
}

static int pull_run(const cli_call *call)
{
    store *s;
    int code = find_open_store(&s);
    if (code != CLI_DONE)
        return code;
    for (size_t i = 0; code == CLI_DONE && i < call->n_words; i++)
        code = pull_one(call, s, call->words[i]);
    store_close(s);
    return code;
}

const cli_command cmd_pull = {
    .name = "pull",
    .section = "Models",
    .summary = "download a model, or continue a download",
    .usage = "NAME...",
    .min_words = 1,
    .max_words = 64,
    .groups = groups,
    .n_groups = sizeof groups / sizeof *groups,
    .options_bytes = sizeof(pull_flags),
    .about =
        "Downloads the files of a model into the Hugging Face cache, where other programs find "
        "them: weights, vision encoder (mmproj) and MTP file. NAME is a known model such as "
        "qwen3.5:4b or qwen3.5:4b-q8_0, or a repository: hf:owner/repo:Q4_K_M. For qwen3.5, "
        "without "
        "a size, it chooses the one that suits this machine.\n"
        "A file becomes visible after its SHA-256 matched. After an interruption the same command "
        "continues. Prints the path of the weights.\n"
        "With --quantize the repository has the model as Safetensors files, such as "
        "hf:Qwen/Qwen3.5-4B. They are converted and quantised to REPO/REPO-TYPE.gguf in the first "
        "directory of MOTE_MODELS, else in $XDG_DATA_HOME/mote/models or "
        "~/.local/share/mote/models, where mote finds the model by that name. The Safetensors "
        "files stay in the cache.\n"
        "Variables: HF_TOKEN, HF_ENDPOINT, HF_HOME, HF_HUB_CACHE, HF_HUB_OFFLINE, HTTPS_PROXY, "
        "NO_PROXY, SSL_CERT_FILE. MOTE_NO_NETWORK=1 forbids the network.",
    .examples = "mote pull qwen3.5:4b\n"
                "mote pull hf:unsloth/Qwen3.5-4B-GGUF:Q8_0 --limit-rate 5M\n"
                "mote pull hf:Qwen/Qwen3.5-4B --quantize balanced\n"
                "mote pull qwen3.5:4b --dry-run --json\n"
                "mote pull qwen3.5:4b --from /media/usb",
    .run = pull_run,
};
