#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Pictures and films in the chat, on a real terminal (tmux): the answers are those of `mote run --image`,
# and whatever is wrong with a file is said and forgotten.
. "$(dirname "$0")/lib.sh"
model=$DATA/mote-tiny-BF16.gguf
golden=$DATA/golden/vision/media
need_model
[ -f "$golden/see0.png" ] || { echo "there is no $golden"; exit 77; }
. "$here/talk_lib.sh"
cp "$golden"/see0.png "$golden"/two?.png "$golden"/video?.png "$work"
cp "$work/see0.png" "$work/my picture.png"
echo "no picture" >"$work/text.png"
mkdir "$work/frames" && cp "$golden"/video?.png "$work/frames"

# said ARGUMENTS...: what `mote run` answers to them.
said() { (cd "$work" && "$MOTE" run "$model" --temp 0 -t 1 "$@" 2>/dev/null </dev/null); }
see=$(said --image see0.png "Describe the picture.")
two=$(said --image two0.png --image two1.png "What is in the pictures?")
film=$(said --video frames "Which way does the ball move?")
for answer in "$see" "$two" "$film"; do
    [ -n "$answer" ] || fail "mote run says nothing: '$see', '$two', '$film'"
done

begin --temp 0 -t 1
type_line "/help"
sees '^  /image FILE'
sees '^  /video FILE'
fresh
type_line "/image"
sees '^nothing is attached'

# A picture with the next message, or with text behind it; two of them; a film.
type_line "/image see0.png"
sees '^see0.png   256 x 256, resized to 256 x 256   64 tokens in '
sees '^attached to the next message'
at_prompt
type_line "Describe the picture."
sees "^$see\$"
at_prompt
type_line "/stats"
sees '^  sampling small/direct/vision'
type_line "/clear"
fresh
type_line "/image \"my picture.png\" Describe the picture."
sees "^$see\$"
at_prompt
type_line "/clear"
fresh
type_line "/image two0.png"
sees '^two0.png   .* tokens in '
at_prompt
type_line "/image two1.png"
sees '^two1.png   .* tokens in '
at_prompt
type_line "/image"
sees '^  two0.png'
sees '^  two1.png'
type_line "What is in the pictures?"
sees "^$two\$"
at_prompt
type_line "/clear"
fresh
type_line "/video frames Which way does the ball move?"
sees '^frames   .*, 8 frames of 3.5 s   [0-9]+ tokens in '
sees "^$film\$"
at_prompt

# Again, and taken back.
fresh
type_line "/retry"
sees "^$film\$"
at_prompt
type_line "/undo"
sees '^removed the last question and its answer'
fresh
type_line "/image my\\ picture.png Describe the picture."
sees "^$see\$"
at_prompt
type_line "/stats"
sees '^  sampling small/direct/vision'

# Faults are the file's, and the chat goes on.
fresh
type_line "/image gone.png What is this?"
sees '^mote: cannot open gone.png: No such file'
at_prompt
type_line "/image text.png"
sees '^mote: text.png: not a JPEG, PNG, WebP, GIF or AVI'
at_prompt
type_line "/video nothing-*.png"
sees '^mote: no images in nothing-'
at_prompt
type_line "/image see0.png"
sees '^attached to the next'
at_prompt
fresh
type_line "/image -"
sees '^nothing is attached'
type_line "/bye"
sees '^READY:'

# What is named on the command line belongs to the first message. A message that finds no room keeps what it
# shows, and /retry means it and not the one before.
begin --temp 0 -t 1 --image see0.png
type_line "Describe the picture."
sees "^$see\$"
at_prompt
type_line "/bye"
sees '^READY:'
begin --temp 0 -t 1 -c 80
type_line "Hello!"
sees '^Hello! How can I help you'
at_prompt
type_line "/image see0.png"
sees '^attached to the next'
at_prompt
fresh
type_line "Describe the picture."
sees 'leaves no room for an answer'
at_prompt
fresh
type_line "/retry"
sees 'leaves no room for an answer'
at_prompt
misses 'How can I help'
type_line "/image"
sees '^  see0.png'
type_line "/bye"
sees '^READY:'

# Without a tower, or with one that is none.
mkdir "$work/blind" && ln -s "$model" "$work/blind/model.gguf"
tower=$model
model=$work/blind/model.gguf
begin -t 1
type_line "/image see0.png"
sees '^this model was opened without a vision encoder'
type_line "/bye"
sees '^READY:'
echo "no tower" >"$work/blind/mmproj-x.gguf"
begin -t 1
sees '^no vision encoder: '
type_line "/bye"
sees '^READY:'
model=$tower
finish
