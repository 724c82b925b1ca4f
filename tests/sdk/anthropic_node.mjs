// SPDX-License-Identifier: Apache-2.0
// The npm package @anthropic-ai/sdk: messages, streams, tools, structured output, errors.
import Anthropic from '@anthropic-ai/sdk';
import * as c from './cases.mjs';

const { assert } = c;
const client = new Anthropic({ baseURL: c.url, apiKey: c.key, maxRetries: 0 });
const greedy = { model: 'claude-sonnet-4-5', temperature: 0, max_tokens: 300 };
const tool = { name: 'get_weather', description: 'Get the weather of a city', input_schema: c.weatherSchema };
const textOf = (m) => m.content.filter((b) => b.type === 'text').map((b) => b.text).join('');

await c.run({
    async plain() {
        const r = await client.messages.create({ messages: c.ask(c.fact), ...greedy });
        assert.equal(textOf(r), c.factAnswer);
        assert.equal(r.stop_reason, 'end_turn');
        assert.match(r._request_id, /^req_/);
    },
    async stream() {
        const stream = client.messages.stream({ messages: c.ask(c.fact), ...greedy });
        const events = await c.collect(stream);
        assert.equal(events[0].type, 'message_start');
        assert.equal(events.at(-1).type, 'message_stop');
        assert.equal(await stream.finalText(), c.factAnswer);
    },
    async tools() {
        const messages = c.ask(c.weather);
        const r = await client.messages.create({ messages, tools: [tool], ...greedy });
        const use = r.content.find((b) => b.type === 'tool_use');
        assert.deepEqual(use.input, { city: 'Haldon' });
        const streamed = await client.messages.stream({ messages, tools: [tool], ...greedy }).finalMessage();
        assert.deepEqual(streamed.content.find((b) => b.type === 'tool_use').input, { city: 'Haldon' });
        messages.push({ role: 'assistant', content: r.content }, {
            role: 'user',
            content: [{ type: 'tool_result', tool_use_id: use.id, content: c.weatherResult }],
        });
        assert.equal(textOf(await client.messages.create({ messages, tools: [tool], ...greedy })), c.weatherAnswer);
    },
    async thinking() {
        const r = await client.messages.create({
            messages: c.ask(c.identity), thinking: { type: 'enabled', budget_tokens: 1024 }, ...greedy, max_tokens: 2000,
        });
        assert.deepEqual(r.content.map((b) => b.type), ['thinking', 'text']);
        assert.equal(textOf(r), c.identityAnswer);
    },
    async structured() {
        const r = await client.messages.create({
            messages: c.ask(c.point), output_config: { format: { type: 'json_schema', schema: c.pointSchema } }, ...greedy,
        });
        assert.deepEqual(JSON.parse(textOf(r)), { x: 91, y: 26 });
    },
    async counting() {
        const n = await client.messages.countTokens({ model: 'x', messages: c.ask(c.fact) });
        assert.ok(n.input_tokens > 5);
    },
    async errors() {
        let e = await c.failure(client.messages.create({ messages: c.ask('Hi'), ...greedy, temperature: 9 }));
        assert.ok(e instanceof Anthropic.BadRequestError);
        e = await c.failure(client.messages.create({ messages: c.ask(c.long), ...greedy }));
        assert.match(e.message, /prompt is too long/);
        e = await c.failure(client.messages.stream({ messages: c.ask(c.long), ...greedy }).finalMessage());
        assert.equal(e.status, 400);
        const wrong = new Anthropic({ baseURL: c.url, apiKey: 'wrong', maxRetries: 0 });
        e = await c.failure(wrong.messages.create({ messages: c.ask('Hi'), ...greedy }));
        assert.ok(e instanceof Anthropic.AuthenticationError);
    },
});
