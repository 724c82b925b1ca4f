// SPDX-License-Identifier: Apache-2.0
// request.js - a branch of a conversation and its settings to the body of a chat completion.
//
// Earlier answers are sent back as they came, thinking and calls included. The server then finds their
// tokens in its prefix cache and prefills only what is new.

function userContent(message, media) {
  const parts = (message.media || []).map((id) => media.get(id)).filter(Boolean).map((item) => (
    item.kind === "video"
      ? {type: "video_frames", frames: item.frames, fps: item.fps}
      : {type: "image_url", image_url: {url: item.url}}));
  return parts.length === 0 ? message.text : [...parts, {type: "text", text: message.text}];
}

function assistantMessage(message) {
  const out = {role: "assistant", content: message.text};
  if (message.reasoning) out.reasoning_content = message.reasoning;
  if (message.calls && message.calls.length > 0)
    out.tool_calls = message.calls.map((c) => ({id: c.id, type: "function", function: {name: c.name, arguments: c.arguments}}));
  return out;
}

// `media` is a Map from id to record.
export function requestMessages(path, system, media) {
  const out = system ? [{role: "system", content: system}] : [];
  for (const m of path) {
    if (m.role === "user") out.push({role: "user", content: userContent(m, media)});
    else if (m.role === "tool") out.push({role: "tool", tool_call_id: m.call, content: m.text});
    else if (m.text || m.calls) out.push(assistantMessage(m)); // else it failed before its first token
  }
  return out;
}

export const SAMPLING = ["temperature", "top_p", "top_k", "min_p", "presence_penalty", "repetition_penalty", "seed", "max_tokens"];

export function requestBody(path, settings, media) {
  const body = {
    model: settings.model,
    messages: requestMessages(path, settings.system, media),
    stream: true,
  };
  if (settings.thinking) body.reasoning_effort = settings.thinking;
  if (settings.preset) body.preset = settings.preset;
  for (const name of SAMPLING)
    if (typeof settings[name] === "number") body[name] = settings[name];
  if (settings.alternatives) Object.assign(body, {logprobs: true, top_logprobs: 5});
  if (settings.schema)
    body.response_format = {type: "json_schema", json_schema: {name: "answer", schema: JSON.parse(settings.schema)}};
  if (settings.tools) body.tools = JSON.parse(settings.tools);
  return body;
}
