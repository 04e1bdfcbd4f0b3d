import { reset } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { renewWorker } from "./current-worker.ts";

// The files of tests share a runtime. Each begins with empty storage and with a Worker that has seen nothing.
await reset();
// A reset may leave the records that a test before wrote last.
const { keys } = await env.AUTHORITIES.list();
for (const { name } of keys) await env.AUTHORITIES.delete(name);
renewWorker();
