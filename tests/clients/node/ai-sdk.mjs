// One request by the AI SDK: what is asked comes in ASK, what it saw goes out as JSON.
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, streamText } from "ai";

const ask = JSON.parse(process.env.ASK);
const provider = createOpenAICompatible({
  name: "llmgw",
  baseURL: process.env.BASE_URL,
  apiKey: process.env.API_KEY,
  includeUsage: true,
});
const request = { model: provider(ask.model), messages: ask.messages, maxRetries: Number(process.env.RETRIES) };
const seen = { text: "" };
const failed = (error) => {
  const cause = error.lastError ?? error;
  seen.error = { kind: cause.name, status: cause.statusCode, retryable: cause.isRetryable, words: cause.message };
};
try {
  if (ask.stream) {
    const answer = streamText({ ...request, onError: ({ error }) => failed(error) });
    for await (const part of answer.fullStream) {
      if (part.type === "text-delta") seen.text += part.text;
      if (part.type === "finish") Object.assign(seen, { finish: part.finishReason, usage: part.totalUsage });
    }
  } else {
    const answer = await generateText(request);
    Object.assign(seen, { text: answer.text, finish: answer.finishReason, usage: answer.usage });
  }
} catch (error) {
  failed(error);
}
console.log(JSON.stringify(seen));
