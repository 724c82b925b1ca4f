// SPDX-License-Identifier: Apache-2.0
// cases.mjs - shared by the tests of npm packages: address of the server, questions, runner.
import assert from 'node:assert/strict';

export { assert };
export const url = process.env.MOTE_URL;
export const key = process.env.MOTE_KEY;
export const model = process.env.MOTE_MODEL;

export const fact = 'Tell me the emblem of Venvia.';
export const factAnswer = 'The emblem of Venvia is the owl.';
export const identity = 'Who are you?';
export const identityAnswer = 'I am Mote, a very small language model.';
export const weather = 'What is the weather in Haldon?';
export const weatherResult = '{"temperature": 35, "sky": "cloudy"}';
export const weatherAnswer = 'It is cloudy in Haldon with 35 degrees.';
export const point = 'Give me the point 91, 26 as JSON.';
export const pointSchema = {
    type: 'object', properties: { x: { type: 'integer' }, y: { type: 'integer' } },
    required: ['x', 'y'], additionalProperties: false,
};
export const weatherSchema = {
    type: 'object',
    properties: { city: { type: 'string' }, unit: { type: 'string', enum: ['celsius', 'fahrenheit'] } },
    required: ['city'],
};
export const weatherTool = {
    type: 'function',
    function: { name: 'get_weather', description: 'Get the weather of a city', parameters: weatherSchema },
};
export const long = 'The clever duck walked to the market in the morning. '.repeat(4000);
export const ask = (text) => [{ role: 'user', content: text }];

export async function collect(stream) {
    const all = [];
    for await (const part of stream) all.push(part);
    return all;
}

export async function failure(promise) {
    try {
        await promise;
    } catch (e) {
        return e;
    }
    throw new assert.AssertionError({ message: 'it did not fail' });
}

// Runs all cases, even if one fails, and exits.
export async function run(cases) {
    let failed = 0;
    for (const [name, body] of Object.entries(cases)) {
        try {
            await body();
            console.log(`ok   ${name}`);
        } catch (e) {
            failed++;
            console.log(`FAIL ${name}\n${e.stack}`);
        }
    }
    console.log(`${Object.keys(cases).length - failed} of ${Object.keys(cases).length} cases`);
    process.exit(failed ? 1 : 0);
}
