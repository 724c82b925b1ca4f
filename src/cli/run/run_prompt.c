/* SPDX-License-Identifier: Apache-2.0 */
/* run_prompt.c - the prompt of `mote run`, from words, file and pipe; see run.h. */
#include "cli/run/run.h"

#include "base/os.h"
#include "cli/term/output_messages.h"

#include <string.h>
#include <sys/random.h>

int run_no_memory(void)
{
    return msg_fail(CLI_NO_MEMORY, mote_status_name(MOTE_E_MEMORY), "no memory for the prompt");
}

uint64_t run_new_seed(void)
{
    uint32_t seed = 0;
    if (getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed)
        seed = (uint32_t)(os_now() * 1e6);
    return seed;
}

static bool add_words(input_text *prompt, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if ((i > 0 && !input_add(prompt, " ", 1)) || !input_add(prompt, words[i], strlen(words[i])))
            return false;
    return true;
}

/* Appends a file after a blank line. One newline at its end is the file's, not the prompt's. */
static int add_file(input_text *prompt, const char *path)
{
    input_text text = {0};
    int code = input_read(&text, path);
    if (text.n > 0 && text.p[text.n - 1] == '\n')
        text.n--;
    bool gap = prompt->n > 0 && text.n > 0;
    if (code == CLI_DONE &&
        ((gap && !input_add(prompt, "\n\n", 2)) || !input_add(prompt, text.p, text.n)))
        code = run_no_memory();
    input_text_free(&text);
    return code;
}

int run_read_prompt(input_text *prompt, const cli_call *call)
{
    const run_options *o = call->options;
    const char *const *words = call->words + 1; /* behind the model */
    size_t n_words = call->n_words - 1;
    if (o->prompt != NULL && n_words > 0)
        return msg_usage("there are two prompts: '%.40s' and --prompt", words[0]);
    if (!add_words(prompt, o->prompt != NULL ? &o->prompt : words, o->prompt != NULL ? 1 : n_words))
        return run_no_memory();
    const char *path = o->file != NULL ? o->file : input_waits_on_stdin() ? "-" : NULL;
    return path != NULL ? add_file(prompt, path) : CLI_DONE;
}
