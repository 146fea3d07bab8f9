// One request by OpenAI's client: what is asked comes in ASK, what it saw goes out as JSON.
import OpenAI from "openai";

const ask = JSON.parse(process.env.ASK);
const client = new OpenAI({ baseURL: process.env.BASE_URL, apiKey: process.env.API_KEY, maxRetries: Number(process.env.RETRIES) });
const seen = { text: "", chunks: 0 };
try {
  const answer = await client.chat.completions.create(ask);
  if (ask.stream) {
    for await (const chunk of answer) {
      seen.chunks += 1;
      seen.usage = chunk.usage ?? seen.usage;
      for (const choice of chunk.choices) {
        seen.text += choice.delta.content ?? "";
        seen.finish = choice.finish_reason ?? seen.finish;
        if (choice.delta.tool_calls) seen.tools = [...(seen.tools ?? []), ...choice.delta.tool_calls];
      }
    }
  } else {
    const [choice] = answer.choices;
    Object.assign(seen, { text: choice.message.content, finish: choice.finish_reason, usage: answer.usage });
    seen.tools = choice.message.tool_calls;
  }
} catch (error) {
  seen.error = { kind: error.constructor.name, status: error.status, code: error.code, type: error.type };
}
console.log(JSON.stringify(seen));
