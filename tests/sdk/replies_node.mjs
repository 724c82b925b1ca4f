// SPDX-License-Identifier: Apache-2.0
// Every kind of reply against the zod schemas of the AI SDK: @ai-sdk/anthropic, @ai-sdk/openai and
// @ai-sdk/openai-compatible. The packages do not export the schemas, so each recorded reply is given to a provider
// as the result of its fetch function.
import { readFileSync } from 'node:fs';
import { createAnthropic } from '@ai-sdk/anthropic';
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { APICallError } from 'ai';
import * as c from './cases.mjs';

const { assert } = c;
const replies = JSON.parse(readFileSync(process.env.MOTE_REPLIES, 'utf8'));
const prompt = [{ role: 'user', content: [{ type: 'text', text: c.fact }] }];

// The models of all providers that read a kind of reply, made with a fetch function.
const models = {
    'openai.chat': [
        (fetch) => createOpenAI({ apiKey: 'x', fetch }).chat('m'),
        (fetch) => createOpenAICompatible({ name: 'mote', baseURL: 'http://mote/v1', fetch }).chatModel('m'),
    ],
    'openai.completion': [
        (fetch) => createOpenAI({ apiKey: 'x', fetch }).completion('m'),
        (fetch) => createOpenAICompatible({ name: 'mote', baseURL: 'http://mote/v1', fetch }).completionModel('m'),
    ],
    'openai.response': [(fetch) => createOpenAI({ apiKey: 'x', fetch }).responses('m')],
    'openai.embeddings': [
        (fetch) => createOpenAI({ apiKey: 'x', fetch }).embedding('m'),
        (fetch) => createOpenAICompatible({ name: 'mote', baseURL: 'http://mote/v1', fetch }).embeddingModel('m'),
    ],
    'anthropic.message': [(fetch) => createAnthropic({ apiKey: 'x', fetch })('m')],
};

// Replies that these clients cannot request.
const unasked = (r) =>
    (r.kind === 'openai.embeddings' && r.name === 'base64')
    || (r.kind === 'openai.response.stream' && r.name === 'failed');

// Reads a reply as the client does. An error of a schema is thrown or is a part of the stream.
async function read(model, reply) {
    if (reply.kind === 'openai.embeddings') return model.doEmbed({ values: Array(2).fill(c.fact) });
    if (!reply.kind.endsWith('.stream')) return model.doGenerate({ prompt });
    const { stream } = await model.doStream({ prompt });
    const parts = await c.collect(stream);
    const broken = parts.find((p) => p.type === 'error');
    if (broken) throw broken.error;
    assert.equal(parts.at(-1).type, 'finish');
    return parts;
}

async function check(make, reply) {
    const model = make(async () => new Response(reply.text, { status: reply.status, headers: reply.headers }));
    if (reply.status < 400) {
        await read(model, reply);
        return;
    }
    const e = await c.failure(read(model, reply));
    assert.ok(APICallError.isInstance(e), e.stack);
    assert.ok(e.data !== undefined, 'the error body does not match the schema');
    assert.equal(e.message, JSON.parse(reply.text).error.message);
    assert.equal(e.statusCode, reply.status);
}

const cases = {};
for (const [kind, makers] of Object.entries(models)) {
    cases[kind] = async () => {
        const complaints = [];
        let n = 0;
        for (const reply of replies.filter((r) => r.kind.replace('.stream', '') === kind && !unasked(r))) {
            for (const make of makers) {
                n++;
                try {
                    await check(make, reply);
                } catch (e) {
                    const provider = make().provider;
                    complaints.push(`${provider} ${reply.kind} ${reply.name}: ${e.cause?.message ?? e.message}`);
                }
            }
        }
        assert.ok(n > 2);
        assert.deepEqual(complaints.map((text) => text.slice(0, 1500)), []);
    };
}
await c.run(cases);
