// One turn of an agent: recall before the model's call, remember after it, and forget again.
//
//   node turn.js                          the server of your home, whose token it reads
//   FUSION_API_KEY=… node turn.js URL     any other server
import { Client } from "memory-fusion-client";
import { homeClient } from "memory-fusion-client/home";

const url = process.argv[2];
const memory = url ? new Client(url, { apiKey: process.env.FUSION_API_KEY }) : homeClient();
const scope = { user_id: "nadia" };

const { memories } = await memory.remember({ text: "The bookings moved to Postgres on 21 April.", ...scope });
await memory.settle(); // only because the next line asks at once: delivery is in the background

const { block, reason } = await memory.recall("where do the bookings live?", scope, { timeoutMs: 2000 });
console.log(block || `The prompt goes on without memories: ${reason}`);

for (const { ref } of memories) {
  const { status } = await memory.why(ref, scope);
  await memory.forget(ref, scope);
  console.log(`${ref} was ${status}, and is forgotten.`);
}
