// SPDX-License-Identifier: Apache-2.0
// The npm package ollama: chat, generate, streams, tools, formats, models, errors.
import { Ollama } from 'ollama';
import * as c from './cases.mjs';

const { assert } = c;
const client = new Ollama({ host: c.url, headers: { Authorization: 'Bearer ' + c.key } });
const greedy = { model: c.model, options: { temperature: 0, num_predict: 300 } };

await c.run({
    async plain() {
        const r = await client.chat({ messages: c.ask(c.fact), ...greedy });
        assert.equal(r.message.content, c.factAnswer);
        assert.equal(r.done_reason, 'stop');
    },
    async stream() {
        const parts = await c.collect(await client.chat({ messages: c.ask(c.fact), stream: true, ...greedy }));
        assert.equal(parts.map((p) => p.message.content).join(''), c.factAnswer);
        assert.ok(parts.length > 3 && parts.at(-1).done);
    },
    async tools() {
        const messages = c.ask(c.weather);
        let r = await client.chat({ messages, tools: [c.weatherTool], ...greedy });
        assert.deepEqual(r.message.tool_calls[0].function.arguments, { city: 'Haldon' });
        messages.push(r.message, { role: 'tool', content: c.weatherResult, tool_name: 'get_weather' });
        r = await client.chat({ messages, tools: [c.weatherTool], ...greedy });
        assert.equal(r.message.content, c.weatherAnswer);
    },
    async structured() {
        const r = await client.chat({ messages: c.ask(c.point), format: c.pointSchema, ...greedy });
        assert.deepEqual(JSON.parse(r.message.content), { x: 91, y: 26 });
    },
    async thinking() {
        const r = await client.chat({ messages: c.ask(c.identity), think: true, ...greedy });
        assert.equal(r.message.content, c.identityAnswer);
        assert.match(r.message.thinking, /simple question/);
    },
    async generate() {
        const r = await client.generate({ prompt: c.fact, ...greedy });
        assert.equal(r.response, c.factAnswer);
    },
    async models() {
        assert.equal((await client.list()).models[0].model, c.model);
        assert.ok((await client.show({ model: c.model })).capabilities.includes('tools'));
        assert.equal((await client.ps()).models[0].model, c.model);
        assert.equal((await client.embed({ model: c.model, input: 'The owl.' })).embeddings[0].length, 256);
        assert.match((await client.version()).version, /^\d+\.\d+/);
    },
    async errors() {
        let e = await c.failure(client.chat({ ...greedy, model: 'no-such-model', messages: c.ask('Hi') }));
        assert.equal(e.status_code, 404);
        e = await c.failure(client.chat({ messages: c.ask(c.long), ...greedy }));
        assert.match(e.message, /prompt is too long/);
    },
    async aborted() {
        const stream = await client.chat({ messages: c.ask('Count to 23.'), stream: true, ...greedy });
        for await (const _ of stream) { stream.abort(); break; }
        assert.equal((await client.chat({ messages: c.ask(c.fact), ...greedy })).message.content, c.factAnswer);
    },
});
