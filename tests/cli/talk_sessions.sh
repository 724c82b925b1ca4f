#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Named sessions in the interactive chat on a real terminal (tmux): /save, /switch, /list, a restart.
. "$(dirname "$0")/lib.sh"
need_model
. "$here/talk_lib.sh"
sessions=$work/cache/mote/sessions
on="-n 40 --temp 0 -t 1 --cache-disk 50MB"

# /save names the conversation; each answer saves it again.
begin $on
type_line "/list"
shows '^no sessions \(/save NAME makes one'
type_line "/save"
shows '^/save needs a name'
type_line "My name is Paul. $(for i in $(seq 40); do printf 'I like the number %s. ' "$i"; done)"
shows 't/s'
at_prompt
type_line "/save paul"
shows '^saved as the session paul'
[ -s "$sessions/paul.json" ] || fail "no file"
fresh
type_line "What is my name?"
shows 't/s'
at_prompt
[ "$(grep -c '"role"' "$sessions/paul.json")" -ge 4 ] || fail "the answer was not saved: $(cat "$sessions/paul.json")"

# /clear leaves it; another conversation gets another name; /switch returns.
type_line "/clear"
shows '^new conversation; /switch paul returns'
fresh
type_line "My name is Anna."
shows 't/s'
at_prompt
type_line "/save paul"
shows '^the session paul exists'
type_line "/save .x"
shows 'invalid name of a session'
type_line "/save anna"
shows '^saved as the session anna'
fresh
type_line "/list"
shows '^\* anna +1 turn, [0-9]+ tokens, '
shows '^  paul +2 turns, [0-9]+ tokens, '
fresh
key -l '/switch pa'
key Tab
shows '^>>> /switch paul$'
key Enter
shows '^4 messages'
fresh
type_line "What is my name?"
shows 't/s'
at_prompt
type_line "/switch other"
shows '^no session has the name other'
type_line "/bye"
shows '^READY:'

# Another process continues it: nothing of it is prefilled again but the end.
type_line "clear; ./mote chat $on --session paul"
shows '/help for help'
at_prompt
type_line "What is my name?"
shows 't/s'
at_prompt
fresh
type_line "/stats"
shows '^  prompt   [0-9]+ tokens, [0-9]{2,} cached'
[ "$(grep -o '"role": "user"' "$sessions/paul.json" | wc -l)" = 4 ] || fail "$(cat "$sessions/paul.json")"

# A fork: /save under a new name leaves the old session.
type_line "/fork paul-2"
shows '^saved as the session paul-2'
type_line "/undo"
shows '^removed the last question'
[ "$(grep -o '"role": "user"' "$sessions/paul-2.json" | wc -l)" = 3 ] || fail "/undo is not saved"
[ "$(grep -o '"role": "user"' "$sessions/paul.json" | wc -l)" = 4 ] || fail "the fork changed the original"
type_line "/bye"
shows '^READY:'

# /model keeps the system text of a session, and a question without an answer is not saved.
type_line "clear; ./mote run '$model' -q $on --session law --system 'You are a lawyer.' Hello"
shows '^READY:'
type_line "clear; ./mote chat $on --session law"
shows '/help for help'
at_prompt
type_line "/model $model"
shows '^model '
at_prompt
fresh
type_line "Hello"
shows 't/s'
at_prompt
grep -q '"You are a lawyer."' "$sessions/law.json" || fail "/model dropped the system text: $(cat "$sessions/law.json")"
[ "$(grep -o '"role": "user"' "$sessions/law.json" | wc -l)" = 2 ] || fail "$(cat "$sessions/law.json")"
type_line "/bye"
shows '^READY:'
finish
