// SPDX-License-Identifier: Apache-2.0
// chat.js - the shown conversation: sends messages, receives answers, changes branches.
//
// One answer is received at a time. It belongs to its conversation, which may be hidden meanwhile. The
// answer is stored about once per second, so that a closed tab loses little.
import * as api from "./api.js";
import {newConversation, newId, newMessage, titleOf, Tree} from "./conversation.js";
import {byId, button, el, number, seconds} from "./dom.js";
import {MessageView} from "./message_view.js";
import {requestBody} from "./request.js";
import {settings} from "./settings.js";
import {Rate, statsOf} from "./stats.js";
import * as store from "./store.js";
import {recordToken} from "./tokens_view.js";

const SHOWN = 60;
const STORE_MS = 1000;
const LIVE_MS = 250;

export class Chat {
  // `hooks`: changed() when the list of conversations changed, lost() when the server does not answer,
  // unauthorized(error), contextOf(model) in tokens.
  constructor(hooks) {
    this.hooks = hooks;
    this.box = byId("messages");
    this.inner = el("div", {class: "inner"});
    this.box.append(this.inner);
    this.views = new Map();
    this.tree = null;
    this.media = new Map();
    this.run = null;
    byId("stop").addEventListener("click", () => this.stop());
    this.follow = true;
    this.box.addEventListener("scroll", () => (this.follow = this.atBottom()));
    new ResizeObserver(() => this.follow && this.scrollDown()).observe(this.inner);
    this.clear();
  }

  // ---- which conversation ----

  clear() {
    this.tree = new Tree(newConversation(), []);
    this.media = new Map();
    this.shown = SHOWN;
    this.views.clear();
    this.draw();
  }

  async open(conversation) {
    if (this.run && this.run.tree.conversation.id === conversation.id) {
      this.tree = this.run.tree;
      this.media = this.run.media;
    } else {
      const [messages, media] = await Promise.all([store.messagesOf(conversation.id), store.mediaOf(conversation.id)]);
      for (const m of messages) if (m.state === "running") m.state = "cut";
      this.tree = new Tree(conversation, messages);
      this.media = new Map(media.map((item) => [item.id, item]));
    }
    this.shown = SHOWN;
    this.views.clear();
    this.draw();
    this.scrollDown();
  }

  // For a conversation that is being deleted: its answer ends and is not stored any more.
  discard(id) {
    if (this.run && this.run.tree.conversation.id === id) {
      this.run.discarded = true;
      this.run.abort.abort();
      this.run = null;
      this.drawRunning();
    }
    if (this.tree.conversation.id === id) this.clear();
  }

  get isEmpty() {
    return this.tree.messages.size === 0;
  }

  // ---- what is shown ----

  draw() {
    const path = this.tree.path();
    const first = Math.max(0, path.length - this.shown);
    const parts = [];
    if (first > 0) parts.push(button(`Show ${number(first)} earlier messages`, () => this.showEarlier()));
    path.slice(first).forEach((m, i) => parts.push(this.viewOf(m, first + i === path.length - 1).root));
    this.inner.replaceChildren(...(parts.length > 0 ? parts : [this.welcome()]));
    this.drawUsage();
    this.drawRunning();
  }

  // What an empty conversation shows.
  welcome() {
    const keys = [["Enter", "send"], ["Shift+Enter", "new line"], ["Alt+N", "new chat"], ["Alt+S", "search"], ["Alt+D", "dashboard"]];
    return el("div", {class: "welcome"}, el("h2", {text: "New chat"}),
      el("p", {text: "Write a message, or paste, drop or attach images and videos."}),
      el("p", {class: "keys"}, ...keys.flatMap(([key, does]) => [el("span", {}, el("kbd", {text: key}), ` ${does}`)])),
      el("p", {class: "muted", text: "Conversations stay in this browser. The server keeps no text."}));
  }

  viewOf(message, last) {
    if (this.run && this.run.message.id === message.id) return this.run.view;
    const siblings = this.tree.siblings(message);
    const branches = {at: siblings.indexOf(message), n: siblings.length};
    const kept = this.views.get(message.id);
    if (kept && kept.last === last && kept.branches.at === branches.at && kept.branches.n === branches.n) return kept;
    const view = new MessageView(message, this.actions(), branches, last);
    this.views.set(message.id, view);
    return view;
  }

  showEarlier() {
    const below = this.box.scrollHeight - this.box.scrollTop;
    this.shown += 3 * SHOWN;
    this.draw();
    this.box.scrollTop = this.box.scrollHeight - below;
  }

  actions() {
    return {
      mediaOf: (m) => (m.media || []).map((id) => this.media.get(id)).filter(Boolean),
      edit: (view) => view.edit((text) => this.resend(view.message, text)),
      regenerate: (m) => this.answer(m.parent),
      showBranch: (m, step) => this.showBranch(m, step),
      answerCalls: (m, results) => this.answerCalls(m, results),
      endThinking: () => this.endThinking(),
      announce: (text) => this.announce(text),
    };
  }

  drawUsage() {
    const answered = this.tree.path().reverse().find((m) => m.stats && m.stats.prompt !== undefined && m.stats.answer !== undefined);
    const context = this.hooks.contextOf(settings.model);
    if (!answered || !context) {
      byId("usage").textContent = "";
      return;
    }
    const used = answered.stats.prompt + answered.stats.answer;
    byId("usage").textContent = `context ${number(used)} of ${number(context)} (${number((100 * used) / context)} %)`;
  }

  drawRunning() {
    byId("send").hidden = this.run !== null;
    byId("stop").hidden = this.run === null;
    if (this.run === null) byId("live").textContent = "";
  }

  atBottom() {
    return this.box.scrollHeight - this.box.scrollTop - this.box.clientHeight < 120;
  }

  scrollDown() {
    this.follow = true;
    this.box.scrollTop = this.box.scrollHeight;
  }

  say(text) {
    byId("status").textContent = text;
  }

  // For screen readers only: it is visible on the page.
  announce(text) {
    byId("announce").textContent = text;
  }

  // ---- changes ----

  isBusy() {
    if (this.run) this.say("Stop the running answer first.");
    return this.run !== null;
  }

  // false: an answer is being received.
  send(text, media) {
    if (this.isBusy()) return false;
    const records = media.map((item) => ({...item, id: newId(), conversation: this.tree.conversation.id}));
    for (const record of records) {
      this.media.set(record.id, record);
      store.putMedia(record).catch((error) => this.say(`An attachment could not be stored: ${error.message}`));
    }
    if (this.isEmpty) this.tree.conversation.title = titleOf(text);
    this.addMessage("user", this.tree.conversation.leaf, {text, media: records.map((r) => r.id)});
    this.answer(this.tree.conversation.leaf);
    return true;
  }

  addMessage(role, parent, fields) {
    const message = newMessage(this.tree.conversation, parent, role, fields);
    this.tree.add(message);
    this.storeMessage(this.tree, message);
    return message;
  }

  storeMessage(tree, message) {
    store.putAll({messages: [message], conversations: [tree.conversation]}).then(
      () => this.hooks.changed(), (error) => this.say(`The conversation could not be stored: ${error.message}`));
  }

  // Adds an edited version of a message. One of the user or a tool is answered; one of the model is kept as
  // its answer, and the conversation continues from there.
  resend(message, text) {
    if (this.isBusy()) return;
    const {media, call, model, reasoning, thinkingSeconds, calls, json} = message;
    const known = Object.fromEntries(Object.entries({media, call, model, reasoning, thinkingSeconds, calls, json})
      .filter(([, value]) => value !== undefined));
    const following = this.resultsAfter(message);
    let edited = this.addMessage(message.role, message.parent, {...known, text});
    for (const result of following) edited = this.addMessage("tool", edited.id, {text: result.text, call: result.call});
    if (message.role === "assistant") this.draw();
    else this.answer(edited.id);
  }

  // The other results of the same calls.
  resultsAfter(message) {
    if (message.role !== "tool") return [];
    const after = this.tree.path().slice(this.tree.path().indexOf(message) + 1);
    const end = after.findIndex((m) => m.role !== "tool");
    return end < 0 ? after : after.slice(0, end);
  }

  answerCalls(message, results) {
    if (this.isBusy()) return;
    let parent = message.id;
    for (const [call, text] of results) parent = this.addMessage("tool", parent, {text, call}).id;
    this.answer(parent);
  }

  showBranch(message, step) {
    const siblings = this.tree.siblings(message);
    this.tree.show(siblings[siblings.indexOf(message) + step]);
    store.putConversation(this.tree.conversation);
    this.draw();
  }

  // ---- answers ----

  answer(parent) {
    if (this.isBusy()) return;
    const path = this.tree.path(parent);
    let body;
    try {
      body = requestBody(path, settings, this.media);
    } catch (error) {
      this.say(`The request could not be made: ${error.message}`);
      return;
    }
    const message = this.addMessage("assistant", parent, {state: "running", json: Boolean(settings.schema), model: settings.model});
    const siblings = this.tree.siblings(message);
    const view = new MessageView(message, this.actions(), {at: siblings.length - 1, n: siblings.length}, true);
    this.run = {tree: this.tree, media: this.media, message, view, abort: new AbortController(), rate: new Rate(), stored: 0, live: 0};
    this.say("");
    this.draw();
    this.scrollDown();
    this.receive(this.run, body);
  }

  stop() {
    if (this.run) this.run.abort.abort();
  }

  async receive(run, body) {
    try {
      for await (const event of api.chat(body, run.abort.signal)) {
        if (run.discarded) return; // events that had arrived before
        if (event.chunk) this.onChunk(run, event.chunk);
        else this.onProgress(event);
      }
      if (run.message.state === "running") run.message.state = "done";
    } catch (error) {
      this.onFailure(run, error);
    }
    if (!run.discarded) this.finish(run);
  }

  onFailure(run, error) {
    const m = run.message;
    if (run.abort.signal.aborted) {
      m.state = "stopped";
    } else if (error instanceof api.ApiError && error.code !== "cut") {
      m.state = "error";
      m.error = error.message;
      if (error.status === 401) this.hooks.unauthorized(error);
    } else {
      m.state = "cut";
      this.hooks.lost();
    }
  }

  finish(run) {
    this.run = null;
    this.storeMessage(run.tree, run.message);
    run.view.finish();
    this.views.set(run.message.id, run.view);
    this.drawRunning();
    this.drawUsage();
    this.say("");
    this.announce(run.message.state === "done" ? "Answer complete." : "The answer has ended.");
  }

  onProgress({queue, prefill}) {
    if (queue !== undefined) byId("live").textContent = `queue position ${queue}`;
    if (prefill)
      byId("live").textContent = `prefill ${number(prefill.done)} of ${number(prefill.total)} tokens, ${seconds(prefill.seconds)} left`;
  }

  onChunk(run, chunk) {
    const choice = chunk.choices && chunk.choices[0];
    const m = run.message;
    if (chunk.id) run.id = chunk.id;
    if (chunk.mote || chunk.timings) m.stats = statsOf(chunk);
    if (!choice) return;
    this.onDelta(run, choice.delta || {});
    const tokens = (choice.logprobs && choice.logprobs.content) || [];
    if (tokens.length > 0) (m.tokens = m.tokens || []).push(...tokens.map(recordToken));
    if (choice.finish_reason === "length") m.state = "length";
    this.drawLive(run, choice.delta || {}, tokens.length);
  }

  onDelta(run, delta) {
    const m = run.message;
    if (delta.reasoning_content) {
      run.thinkingBegan = run.thinkingBegan || performance.now();
      m.reasoning = (m.reasoning || "") + delta.reasoning_content;
      run.view.appendReasoning(delta.reasoning_content);
    }
    if ((delta.content || delta.tool_calls) && run.thinkingBegan && m.thinkingSeconds === undefined)
      m.thinkingSeconds = (performance.now() - run.thinkingBegan) / 1000;
    if (delta.content) {
      m.text += delta.content;
      run.view.appendText(delta.content);
    }
    for (const part of delta.tool_calls || []) this.onCall(run, part);
  }

  onCall(run, part) {
    const calls = (run.message.calls = run.message.calls || []);
    const call = (calls[part.index] = calls[part.index] || {id: "", name: "", arguments: ""});
    if (part.id) call.id = part.id;
    if (part.function && part.function.name) call.name = part.function.name;
    if (part.function && part.function.arguments) call.arguments += part.function.arguments;
    run.view.growCalls();
  }

  drawLive(run, delta, tokens) {
    if (delta.content || delta.reasoning_content || delta.tool_calls) run.rate.add(Math.max(1, tokens));
    const now = performance.now();
    if (now - run.live > LIVE_MS) {
      run.live = now;
      if (run.thinkingBegan && run.message.thinkingSeconds === undefined) run.view.tickThinking((now - run.thinkingBegan) / 1000);
      if (run.rate.value > 0) byId("live").textContent = `${number(run.rate.value, 1)} tokens/s`;
    }
    if (now - run.stored > STORE_MS) {
      run.stored = now;
      store.putMessage({...run.message, tokens: undefined}).catch(() => {}); // they are many, and stored at the end
    }
  }

  async endThinking() {
    if (!this.run || !this.run.id) return;
    try {
      await api.endThinking(this.run.id);
    } catch (error) {
      this.say(error.message);
    }
  }
}
