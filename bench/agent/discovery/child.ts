import { connect, createServer } from "node:http2";
import { Registry } from "prom-client";
import type { ConnectionTrust } from "../../../src/agent/identity/ca-channel.ts";
import { XdsProxy } from "../../../src/agent/xds/xds-proxy.ts";
import { pause } from "../../../src/foundation/pause.ts";

/** The process under test: the agent's XDS proxy, or nothing but a pipe between the same connections. */
const [kind, socket = "", address = "", rootFile = ""] = process.argv.slice(2);

if (kind === "bare") runBarePipe();
else await runProxy();
process.send?.("ready");

async function runProxy(): Promise<void> {
  const istiod = {
    address,
    isPlaintext: true,
    files: { rootFile, clientCertificate: undefined, serverName: undefined },
    preferredRootFile: undefined,
    token: { kind: "file" as const, path: "/nowhere" },
    headers: {},
  };
  const log = { operation: () => undefined };
  const known: ConnectionTrust = { rootsFor: (file) => file, isWithdrawn: () => false };
  const ports = { clock: () => new Date(), pause, known, log, registry: new Registry() };
  await new XdsProxy({ socket, istiod }, ports).listen();
}

function runBarePipe(): void {
  const settings = { initialWindowSize: 1 << 20 };
  const server = createServer({ settings });
  server.on("session", (session) => session.setLocalWindowSize(1 << 20));
  server.on("stream", (downstream, headers) => {
    const session = connect(`http://${address}`, { settings });
    session.on("connect", () => session.setLocalWindowSize(1 << 20));
    const upstream = session.request({ ":method": "POST", ":path": headers[":path"] });
    for (const each of [downstream, upstream, session]) each.on("error", () => session.destroy());
    downstream.on("close", () => session.destroy());
    downstream.respond({ ":status": 200 });
    downstream.pipe(upstream).pipe(downstream);
  });
  server.listen(socket);
}
