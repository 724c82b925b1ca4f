#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Text to ids and back, in all output formats.
. "$(dirname "$0")/lib.sh"
need_model

call 0 tokenize "$model" "Hello, world ünï 你好"
stdout_is "39,4638,11,1814,1624,120,77,127,107,220,160,121,254,161,98,121"
stderr_is ""
call 0 tokenize --ids "$model" "Hello, world ünï 你好"
stdout_is "39,4638,11,1814,1624,120,77,127,107,220,160,121,254,161,98,121"
call 0 tokenize "$model" --count "Hello, world"
stdout_is 4
call 0 tokenize "$model" ""
stdout_is ""
call 0 tokenize "$model" -- "--count"
stdout_is "312,1767"

# A token may be part of a character; its bytes are escaped.
call 0 tokenize "$model" --pieces 'a "é"
你'
stdout_is '     64  "a"
    328  " \""
    933  "é"
      1  "\""
    198  "\n"
    160  "\xe4"
    121  "\xbd"
    254  "\xa0"'

# Control tokens are plain text without --special.
call 0 tokenize "$model" --special "<|im_start|>user"
stdout_is "7937,846"
call 0 tokenize "$model" "<|im_start|>user"
stdout_is "27,91,316,4747,91,29,846"

# A pipe is read byte for byte, including the final newline.
printf 'Hello\n' | "$MOTE" tokenize "$model" >"$work/out"
stdout_is "39,4638,198"
printf 'Hello\n' | "$MOTE" tokenize "$model" - >"$work/out"
stdout_is "39,4638,198"

# Decoding restores the exact text; invalid bytes become U+FFFD.
printf 'Hello, wörld\n\n你好 \360\237\246\212' >"$work/text"
ids=$("$MOTE" tokenize "$model" <"$work/text")
"$MOTE" tokenize "$model" --decode "$ids" >"$work/back" || fail "--decode"
cmp "$work/text" "$work/back" || fail "the decoded text differs"
call 0 tokenize "$model" --decode "160 121"
stdout_is "$(printf '\357\277\275')"
call 0 tokenize "$model" --decode ""
stdout_is ""

call 0 tokenize "$model" --json --pieces "é<|im_end|>" --special
json 'd == {"count": 2, "ids": [933, 7938], "pieces": [{"id": 933, "text": "é", "hex": "c3a9", "control": False}, {"id": 7938, "text": "<|im_end|>", "hex": "3c7c696d5f656e647c3e", "control": True}]}'
call 0 tokenize "$model" --json --count "Hello"
json 'd == {"count": 2}'
call 0 tokenize "$model" --json --decode "39,4638,198,160"
json 'd == {"count": 4, "text": "Hello\n\ufffd"}'

# Messages: an array, or a body with settings; tools of a file replace those of the body.
echo '[{"role": "user", "content": "Hi"}]' >"$work/messages"
call 0 tokenize "$model" --messages "$work/messages" --think on --text
stdout_is "<|im_start|>user
Hi<|im_end|>
<|im_start|>assistant
<think>"
call 0 tokenize "$model" --messages "$work/messages" --no-generation-prompt
stdout_is "7937,846,198,39,72,7938,198"
echo '{"messages": [{"role": "user", "content": "Hi"}], "tools": [{"name": "old"}], "enable_thinking": true}' >"$work/body"
echo '[{"name": "new"}]' >"$work/tools"
call 0 tokenize "$model" --messages "$work/body" --tools "$work/tools" --json --text
json '"new" in d["text"] and "old" not in d["text"] and d["text"].endswith("<think>\n") and d["count"] == len(d["ids"])'
call 2 tokenize "$model" --messages "$work/messages" --template other
echo '{' >"$work/broken"
call 6 tokenize "$model" --messages "$work/broken"
finish
