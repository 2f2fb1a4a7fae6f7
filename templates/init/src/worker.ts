import { http, worker } from "cordum/worker";
import { handle, TOPICS } from "./greeting.js";

const url = process.env.CORDUM_URL ?? "http://127.0.0.1:8081";
const stop = await worker({ topics: TOPICS, handle, transport: http({ url }) });
console.log(`serving ${TOPICS.join(", ")} of ${url}`);

// Running jobs are awaited.
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => void stop());
