import { methods } from "./methods.ts";

const [, , name = "", port = "", seconds = "", localAddress = "127.0.0.1", tls] = process.argv;
const method = methods.get(name);
if (!method) throw new Error(`no method is called ${name}`);
// Connections that the server cuts in the middle of whatever a library does with them are no fault.
process.on("uncaughtException", () => {});
const target = { port: Number(port), localAddress, isPlaintext: tls === "plaintext" };
setTimeout(() => process.exit(), 1000 * Number(seconds) + 2000).unref();
await method(target, AbortSignal.timeout(1000 * Number(seconds)));
process.exit();
