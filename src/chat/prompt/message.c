/* SPDX-License-Identifier: Apache-2.0 */
/* message.c - words and numbers of the settings in message.h. */
#include "chat/prompt/message.h"

#include <mote_chat.h>

static const char *const mode_names[] = {
    [CHAT_STABLE] = "keep-thinking", [CHAT_OFFICIAL] = "official"};

bool chat_mode_parse(str word, chat_mode *mode)
{
    for (int i = CHAT_STABLE; i <= CHAT_OFFICIAL; i++)
        if (str_is(word, mode_names[i])) {
            *mode = (chat_mode)i;
            return true;
        }
    return false;
}

chat_effort chat_effort_of_budget(uint32_t budget)
{
    if (budget == 0)
        return CHAT_EFFORT_AUTO;
    return budget <= MOTE_THINK_LOW      ? CHAT_EFFORT_LOW
           : budget <= MOTE_THINK_MEDIUM ? CHAT_EFFORT_MEDIUM
                                         : CHAT_EFFORT_XHIGH;
}
