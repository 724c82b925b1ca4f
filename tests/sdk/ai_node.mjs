// SPDX-License-Identifier: Apache-2.0
// The npm package ai with @ai-sdk/openai-compatible: text, streams, tools, objects, errors. The same with
// @ai-sdk/anthropic, and with the Responses API of @ai-sdk/openai, in short.
import { createAnthropic } from '@ai-sdk/anthropic';
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { APICallError, embedMany, generateText, jsonSchema, Output, stepCountIs, streamText, tool } from 'ai';
import * as c from './cases.mjs';

const { assert } = c;
const provider = createOpenAICompatible({
    name: 'mote', baseURL: c.url + '/v1', apiKey: c.key, includeUsage: true, supportsStructuredOutputs: true,
});
const greedy = { model: provider('gpt-4o'), temperature: 0, maxRetries: 0 };
const tools = {
    get_weather: tool({
        description: 'Get the weather of a city', inputSchema: jsonSchema(c.weatherSchema),
        execute: async () => c.weatherResult,
    }),
};


// Text, a stream, thinking and a tool call with its answer.
async function short(model, thinking) {
    const asked = { model, temperature: 0, maxOutputTokens: 300, maxRetries: 0 };
    assert.equal((await generateText({ prompt: c.fact, ...asked })).text, c.factAnswer);
    assert.equal((await c.collect(streamText({ prompt: c.fact, ...asked }).textStream)).join(''), c.factAnswer);
    const steps = await generateText({ prompt: c.weather, tools, stopWhen: stepCountIs(2), ...asked });
    assert.equal(steps.text, c.weatherAnswer);
    const thought = await generateText({ prompt: c.identity, providerOptions: thinking, ...asked, temperature: undefined });
    assert.ok(thought.usage.reasoningTokens > 3);
    return thought.reasoningText;
}

await c.run({
    async plain() {
        const r = await generateText({ prompt: c.fact, ...greedy });
        assert.equal(r.text, c.factAnswer);
        assert.ok(r.usage.totalTokens > 5);
    },
    async stream() {
        const r = streamText({ prompt: c.fact, ...greedy });
        const parts = await c.collect(r.textStream);
        assert.equal(parts.join(''), c.factAnswer);
        assert.ok(parts.length > 3);
        assert.equal(await r.finishReason, 'stop');
    },
    async tools() {
        const r = await generateText({ prompt: c.weather, tools, ...greedy });
        assert.deepEqual(r.toolCalls.map((t) => t.input), [{ city: 'Haldon' }]);
        const steps = await generateText({ prompt: c.weather, tools, stopWhen: stepCountIs(2), ...greedy });
        assert.equal(steps.text, c.weatherAnswer);
        const streamed = streamText({ prompt: c.weather, tools, stopWhen: stepCountIs(2), ...greedy });
        assert.equal((await c.collect(streamed.textStream)).join(''), c.weatherAnswer);
    },
    async structured() {
        const r = await generateText({
            prompt: c.point, output: Output.object({ schema: jsonSchema(c.pointSchema) }), ...greedy,
        });
        assert.deepEqual(r.output, { x: 91, y: 26 });
    },
    async thinking() {
        const r = await generateText({
            prompt: c.identity, providerOptions: { mote: { reasoningEffort: 'low' } }, ...greedy,
        });
        assert.equal(r.text, c.identityAnswer);
        assert.match(r.reasoningText, /simple question/);
    },
    async embeddings() {
        const r = await embedMany({ model: provider.embeddingModel('x'), values: ['The owl.', 'A ball.'] });
        assert.deepEqual(r.embeddings.map((e) => e.length), [256, 256]);
    },
    async anthropic() {
        const model = createAnthropic({ baseURL: c.url + '/v1', apiKey: c.key })('claude-sonnet-4-5');
        const thought = await short(model, { anthropic: { thinking: { type: 'enabled', budgetTokens: 1024 } } });
        assert.match(thought, /simple question/);
    },
    async responses() {
        const model = createOpenAI({ baseURL: c.url + '/v1', apiKey: c.key }).responses('gpt-4o');
        await short(model, { openai: { reasoningEffort: 'low', forceReasoning: true } });
    },
    async errors() {
        const e = await c.failure(generateText({ prompt: c.long, ...greedy }));
        assert.ok(APICallError.isInstance(e));
        assert.equal(e.statusCode, 400);
        assert.equal(e.isRetryable, false);
    },
});
