#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Images and videos in the interactive chat (tmux): the answers equal those of `mote run --image`, and an
# invalid file is reported without ending the chat.
. "$(dirname "$0")/lib.sh"
model=$DATA/mote-tiny-BF16.gguf
golden=$DATA/golden/vision/media
need_model
[ -f "$golden/see0.png" ] || { echo "no $golden"; exit 77; }
. "$here/talk_lib.sh"
cp "$golden"/see0.png "$golden"/two?.png "$golden"/video?.png "$work"
cp "$work/see0.png" "$work/my photo.png"
echo "not an image" >"$work/text.png"
mkdir "$work/frames" && cp "$golden"/video?.png "$work/frames"

# answer_of ARGUMENTS...: the answer of `mote run`.
answer_of() { (cd "$work" && "$MOTE" run "$model" --temp 0 -t 1 "$@" 2>/dev/null </dev/null); }
see=$(answer_of --image see0.png "Describe the picture.")
two=$(answer_of --image two0.png --image two1.png "What is in the pictures?")
video=$(answer_of --video frames "Which way does the ball move?")
for answer in "$see" "$two" "$video"; do
    [ -n "$answer" ] || fail "mote run gives no answer: '$see', '$two', '$video'"
done

begin --temp 0 -t 1
type_line "/help"
shows '^  /image FILE'
shows '^  /video FILE'
fresh
type_line "/image"
shows '^nothing is attached'

# An image for the next message, or with its text; two images; a video.
type_line "/image see0.png"
shows '^see0.png   256 x 256, resized to 256 x 256   64 tokens in '
shows '^attached to the next message'
at_prompt
type_line "Describe the picture."
shows "^$see\$"
at_prompt
type_line "/stats"
shows '^  sampling small/direct/vision'
type_line "/clear"
fresh
type_line "/image \"my photo.png\" Describe the picture."
shows "^$see\$"
at_prompt
type_line "/clear"
fresh
type_line "/image two0.png"
shows '^two0.png   .* tokens in '
at_prompt
type_line "/image two1.png"
shows '^two1.png   .* tokens in '
at_prompt
type_line "/image"
shows '^  two0.png'
shows '^  two1.png'
type_line "What is in the pictures?"
shows "^$two\$"
at_prompt
type_line "/clear"
fresh
type_line "/video frames Which way does the ball move?"
shows '^frames   .*, 8 frames of 3.5 s   [0-9]+ tokens in '
shows "^$video\$"
at_prompt

# A plain name with spaces, and the path of an image in a message: plain, quoted, escaped, as a URL. It is removed
# from the text, so the answer is the same. Other names stay text.
for message in "/image my photo.png Describe the picture." "Describe the picture. see0.png" \
    "'my photo.png' Describe the picture." "my\\ photo.png Describe the picture." \
    "file://$work/my%20photo.png Describe the picture." "$work/my photo.png Describe the picture."; do
    type_line "/clear"
    fresh
    type_line "$message"
    shows "^$see\$"
    at_prompt
done
shows '^attached /'
type_line "/clear"
fresh
type_line "see0.png"
shows '^attached to the next message'
at_prompt
type_line "Describe the picture."
shows "^$see\$"
at_prompt
type_line "/clear"
fresh
type_line "Describe gone.png and text.png and see0.pn."
shows 't/s'
at_prompt
shows_no '^attached'
asked="Describe the picture. see0.png"
[ "$(answer_of "$asked")" = "$see" ] || fail "mote run does not attach the image of its prompt"
[ "$(echo "see0.png" | (cd "$work" && "$MOTE" run "$model" --json -n 1 -t 1 "What is" 2>/dev/null) | grep -c '"images"')" = 0 ] ||
    fail "a path in piped text attaches an image"

# Tab completes file names: what is common, then one of several; spaces are escaped.
fresh
key -l '/image two'
key Tab
shows '^two0.png  two1.png$'
key -l '0'
key Tab
shows '^>>> /image two0.png$'
fresh
key -l '/image my'
key Tab
shows '^>>> /image my\\ photo.png$'
key Enter
shows '^my photo.png   256 x 256'
at_prompt
type_line "/image -"
shows '^nothing is attached'
fresh
key -l '/video fra'
key Tab
shows '^>>> /video frames/$'
fresh
key -l 'what is in see'
key Tab
shows '^>>> what is in see0.png$'
fresh

# /retry and /undo.
type_line "/clear"
fresh
type_line "/video frames Which way does the ball move?"
shows "^$video\$"
at_prompt
fresh
type_line "/retry"
shows "^$video\$"
at_prompt
type_line "/undo"
shows '^removed the last question and its answer'
fresh
type_line "/image my\\ photo.png Describe the picture."
shows "^$see\$"
at_prompt
type_line "/stats"
shows '^  sampling small/direct/vision'

# A session keeps the paths of its images.
type_line "/clear"
fresh
type_line "/image see0.png Describe the picture."
shows "^$see\$"
at_prompt
type_line "/save look"
shows '^saved as the session look'
at_prompt
type_line "/clear"
fresh
type_line "/switch look"
shows '^2 messages'
at_prompt
fresh
type_line "/retry"
shows "^$see\$"
at_prompt
type_line "/clear"
fresh

# Invalid files are reported and the chat continues.
fresh
type_line "/image gone.png What is this?"
shows '^mote: cannot open gone.png: No such file'
at_prompt
type_line "/image text.png"
shows '^mote: text.png: not a JPEG, PNG, WebP, GIF or AVI'
at_prompt
type_line "/video nothing-*.png"
shows '^mote: no images in nothing-'
at_prompt
type_line "/image see0.png"
shows '^attached to the next'
at_prompt
fresh
type_line "/image -"
shows '^nothing is attached'
type_line "/bye"
shows '^READY:'

# Files of the command line belong to the first message. If the context is full, the images stay attached and
# /retry repeats that message, not the one before it.
begin --temp 0 -t 1 --image see0.png
type_line "Describe the picture."
shows "^$see\$"
at_prompt
type_line "/bye"
shows '^READY:'
begin --temp 0 -t 1 -c 80
type_line "Hello!"
shows '^Hello! How can I help you'
at_prompt
type_line "/image see0.png"
shows '^attached to the next'
at_prompt
fresh
type_line "Describe the picture."
shows 'leaves no room for an answer'
at_prompt
fresh
type_line "/retry"
shows 'leaves no room for an answer'
at_prompt
shows_no 'How can I help'
type_line "/image"
shows '^  see0.png'
type_line "/bye"
shows '^READY:'

# Without a vision encoder, or with an invalid one.
mkdir "$work/text-only" && ln -s "$model" "$work/text-only/model.gguf"
vision_model=$model
model=$work/text-only/model.gguf
begin -t 1
type_line "/image see0.png"
shows '^this model was opened without a vision encoder'
type_line "/bye"
shows '^READY:'
echo "invalid" >"$work/text-only/mmproj-x.gguf"
begin -t 1
shows '^no vision encoder: '
type_line "/bye"
shows '^READY:'
model=$vision_model
finish
