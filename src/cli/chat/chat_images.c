/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chat_images.c - /image and /video: what the next message shows.
 *
 * A file is decoded and looked at when it is named, so that whatever is wrong with it is said at
 * once. What an answer could not be given to stays attached; what /undo takes back is gone.
 */
#include "cli/chat/chat_loop.h"
#include "cli/term/output_messages.h"
#include "cli/term/text.h"

#include "base/mem.h"

#include <string.h>

static const char blanks[] = " \t\n";

/* The name at the beginning of *words, which moves to what follows it. It is in quotes, or blanks
 * in it have a backslash before them, as terminals paste it. For mem_free; NULL: no memory. */
static char *take_name(const char **words)
{
    const char *p = *words;
    char *name = mem_new(strlen(p) + 1, 1);
    const char quote = *p == '"' || *p == '\'' ? *p++ : '\0';
    size_t n = 0;
    if (name == NULL)
        return NULL;
    while (*p != '\0' && (quote != '\0' ? *p != quote : strchr(blanks, *p) == NULL)) {
        if (*p == '\\' && quote != '\'' && p[1] != '\0')
            p++;
        name[n++] = *p++;
    }
    if (*p == quote && quote != '\0')
        p++;
    *words = p + strspn(p, blanks);
    return name;
}

static void list_attached(const images *p)
{
    if (p->sent == p->n)
        msg_reply("nothing is attached (/image FILE shows a picture with the next message)");
    for (size_t i = p->sent; i < p->n; i++)
        msg_reply("  %.200s", p->list[i].path);
}

static bool can_see(const chat_loop *c)
{
    mote_model_info info;
    mote_model_describe(c->talk.on.model, &info);
    return info.vision;
}

static void attach(chat_loop *c, bool video, const char *words)
{
    talk *t = &c->talk;
    char *name = take_name(&words);
    char *path = name != NULL ? chat_path(name) : NULL;
    int code = CLI_NO_MEMORY;
    if (path == NULL)
        msg_reply("no memory for the name");
    else
        code = images_add(&t->shows, path, video, t->on.model, t->options);
    mem_free(name);
    mem_free(path);
    if (code == CLI_DONE && words[0] != '\0')
        chat_ask(c, words, strlen(words));
    else if (code == CLI_DONE)
        msg_reply("it is shown with the next message");
}

void chat_show(chat_loop *c, bool video, const char *words)
{
    images *p = &c->talk.shows;
    if (!can_see(c)) {
        msg_reply("%s", images_blind);
    } else if (words[0] == '\0') {
        list_attached(p);
    } else if (strcmp(words, "-") == 0) {
        images_drop(p, p->sent);
        msg_reply("nothing is attached");
    } else {
        attach(c, video, words);
    }
}
