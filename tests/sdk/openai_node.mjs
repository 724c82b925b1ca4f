// SPDX-License-Identifier: Apache-2.0
// The npm package openai: chat completions, responses, embeddings, models, errors.
import OpenAI from 'openai';
import * as c from './cases.mjs';

const { assert } = c;
const client = new OpenAI({ baseURL: c.url + '/v1', apiKey: c.key, maxRetries: 0 });
const greedy = { model: 'gpt-4o', temperature: 0 };
const format = { type: 'json_schema', json_schema: { name: 'point', schema: c.pointSchema, strict: true } };

await c.run({
    async models() {
        assert.equal((await client.models.list()).data[0].id, c.model);
    },
    async plain() {
        const r = await client.chat.completions.create({ messages: c.ask(c.fact), ...greedy });
        assert.equal(r.choices[0].message.content, c.factAnswer);
        assert.equal(r.choices[0].finish_reason, 'stop');
        assert.match(r._request_id, /^req_/);
    },
    async stream() {
        const chunks = await c.collect(await client.chat.completions.create({
            messages: c.ask(c.fact), stream: true, stream_options: { include_usage: true }, ...greedy,
        }));
        assert.equal(chunks.map((k) => k.choices[0]?.delta.content ?? '').join(''), c.factAnswer);
        assert.ok(chunks.at(-1).usage.total_tokens > 5);
    },
    async streamWrapper() {
        const stream = client.chat.completions.stream({ messages: c.ask(c.fact), ...greedy });
        assert.equal(await stream.finalContent(), c.factAnswer);
    },
    async tools() {
        const messages = c.ask(c.weather);
        let r = await client.chat.completions.create({ messages, tools: [c.weatherTool], ...greedy });
        const call = r.choices[0].message.tool_calls[0];
        assert.deepEqual(JSON.parse(call.function.arguments), { city: 'Haldon' });
        messages.push(r.choices[0].message);
        messages.push({ role: 'tool', tool_call_id: call.id, content: c.weatherResult });
        r = await client.chat.completions.create({ messages, tools: [c.weatherTool], ...greedy });
        assert.equal(r.choices[0].message.content, c.weatherAnswer);
    },
    async toolRunner() {
        const runner = client.chat.completions.runTools({
            messages: c.ask(c.weather), stream: true, ...greedy,
            tools: [{
                type: 'function',
                function: { ...c.weatherTool.function, parse: JSON.parse, function: () => c.weatherResult },
            }],
        });
        assert.equal(await runner.finalContent(), c.weatherAnswer);
    },
    async structured() {
        const r = await client.chat.completions.parse({
            messages: c.ask(c.point), response_format: format, ...greedy,
        });
        assert.deepEqual(JSON.parse(r.choices[0].message.content), { x: 91, y: 26 });
    },
    async responses() {
        const r = await client.responses.create({ input: c.fact, ...greedy });
        assert.equal(r.output_text, c.factAnswer);
        const stream = client.responses.stream({ input: c.fact, ...greedy });
        const events = await c.collect(stream);
        assert.equal(events[0].type, 'response.created');
        assert.equal((await stream.finalResponse()).output_text, c.factAnswer);
    },
    async responsesTools() {
        const tools = [{ type: 'function', strict: false, ...c.weatherTool.function }];
        const r = await client.responses.create({ input: c.weather, tools, ...greedy });
        const call = r.output.find((o) => o.type === 'function_call');
        assert.deepEqual(JSON.parse(call.arguments), { city: 'Haldon' });
        const stream = client.responses.stream({ input: c.weather, tools, ...greedy });
        const final = await stream.finalResponse();
        assert.equal(final.output.find((o) => o.type === 'function_call').arguments, call.arguments);
    },
    async embeddings() {
        const r = await client.embeddings.create({ model: 'x', input: ['The owl.', 'A red ball.'] });
        assert.equal(r.data[1].embedding.length, 256);
        const norm = r.data[0].embedding.reduce((s, x) => s + x * x, 0);
        assert.ok(Math.abs(norm - 1) < 1e-4);
    },
    async errors() {
        let e = await c.failure(client.chat.completions.create({
            messages: c.ask('Hi'), model: 'x', temperature: 9,
        }));
        assert.ok(e instanceof OpenAI.BadRequestError);
        e = await c.failure(client.chat.completions.create({ messages: c.ask(c.long), ...greedy }));
        assert.equal(e.code, 'context_length_exceeded');
        e = await c.failure(client.chat.completions.create({
            messages: c.ask(c.long), stream: true, ...greedy,
        }));
        assert.equal(e.status, 400);
        const wrong = new OpenAI({ baseURL: c.url + '/v1', apiKey: 'wrong', maxRetries: 0 });
        assert.ok((await c.failure(wrong.models.list())) instanceof OpenAI.AuthenticationError);
    },
    async filesAndBatches() {
        const body = { model: 'x', messages: c.ask(c.fact), temperature: 0 };
        const lines = [0, 1, 2].map((i) => JSON.stringify({
            custom_id: `r${i}`, method: 'POST', url: '/v1/chat/completions', body,
        }));
        const file = await client.files.create({
            file: new File([lines.join('\n')], 'in.jsonl'), purpose: 'batch',
        });
        let batch = await client.batches.create({
            input_file_id: file.id, endpoint: '/v1/chat/completions', completion_window: '24h',
        });
        while (!['completed', 'failed'].includes(batch.status)) {
            await new Promise((wake) => setTimeout(wake, 50));
            batch = await client.batches.retrieve(batch.id);
        }
        assert.equal(batch.request_counts.completed, 3);
        const text = await (await client.files.content(batch.output_file_id)).text();
        const results = text.trim().split('\n').map((line) => JSON.parse(line));
        assert.deepEqual(results.map((r) => r.custom_id), ['r0', 'r1', 'r2']);
        assert.equal(results[2].response.body.choices[0].message.content, c.factAnswer);
        assert.equal((await c.collect(client.files.list())).length, 2);
        assert.equal((await c.collect(client.batches.list())).length, 1);
        assert.ok((await client.files.delete(file.id)).deleted);
    },
    async leftEarly() {
        const stream = await client.chat.completions.create({
            messages: c.ask('Count to 23.'), stream: true, ...greedy,
        });
        for await (const _ of stream) break;
        const r = await client.chat.completions.create({ messages: c.ask(c.fact), ...greedy });
        assert.equal(r.choices[0].message.content, c.factAnswer);
    },
});
