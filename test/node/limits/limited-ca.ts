import { once } from "node:events";
import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect as connectHttp2,
} from "node:http2";
import { connect, type Socket } from "node:net";
import { connect as connectTls, type TLSSocket } from "node:tls";
import { onTestFinished } from "vitest";
import { apiCredentialName, issuerTables, rpcPath } from "../../contract/service-under-test.ts";
import { type ServedCa, serveCa, servedName } from "../../testkit/ca/served-ca.ts";
import { createTokenKey, jwksOf, mintAccountToken } from "../../testkit/callers/tokens.ts";
import { createWorkload } from "../../testkit/callers/workload.ts";

const { issuer } = issuerTables.cluster;

/** A server with these limits, a workload with a good credential, and floods from 127.0.0.1. */
export async function start(
  LIMITS: object,
  atEnd: (end: () => Promise<void>) => void = onTestFinished,
  otherIssuers: readonly object[] = [],
) {
  const key = await createTokenKey("ES256", "k1");
  const served = await serveCa({
    ISSUERS: [{ issuer, jwks: jwksOf(key) }, ...otherIssuers],
    PLAINTEXT_LISTEN: "127.0.0.1:0",
    [apiCredentialName]: "secret",
    LIMITS,
  });
  atEnd(() => served.end());
  const ca = await served.bundle();
  const authorization = `Bearer ${await mintAccountToken(key, issuer, "foo:bar", new Date())}`;
  return { served, ca, authorization };
}

export type Started = Awaited<ReturnType<typeof start>>;

export function openSocket(port: number, localAddress = "127.0.0.1"): Socket {
  const socket = connect({ host: "127.0.0.1", port, localAddress });
  socket.on("error", () => {});
  onTestFinished(() => void socket.destroy());
  return socket;
}

export function openTls(
  { served, ca }: Started,
  protocol: "h2" | "http/1.1",
  localAddress = "127.0.0.1",
): TLSSocket {
  const socket = openSocket(served.port, localAddress);
  const tls = connectTls({ socket, ca, servername: servedName, ALPNProtocols: [protocol] });
  tls.on("error", () => {});
  tls.resume();
  return tls;
}

export function openSession(
  { served, ca }: Started,
  over: "TLS" | "plaintext",
  localAddress = "127.0.0.1",
  settings = {},
): ClientHttp2Session {
  const port = over === "TLS" ? served.port : (served.server.plaintextAddress?.port ?? 0);
  const session = connectHttp2(over === "TLS" ? "https://ca" : "http://ca", {
    settings,
    createConnection: () => {
      const socket = openSocket(port, localAddress);
      if (over === "plaintext") return socket;
      return connectTls({ socket, ca, servername: servedName, ALPNProtocols: ["h2"] });
    },
  });
  session.on("error", () => {});
  onTestFinished(() => session.destroy());
  return session;
}

/** A workload at another address asks for a certificate, over a connection of its own. */
export async function issueFor(started: Started, localAddress = "127.0.0.2"): Promise<number> {
  const { csrPem } = await createWorkload();
  const session = openSession(started, "TLS", localAddress);
  const stream = session.request({
    ":method": "POST",
    ":path": rpcPath,
    authorization: started.authorization,
    "content-type": "application/json",
  });
  stream.end(JSON.stringify({ csr: csrPem }));
  const [headers] = await once(stream, "response");
  session.destroy();
  return Number(headers[":status"]);
}

export async function limitsReached({
  monitoringPort,
}: Pick<ServedCa, "monitoringPort">): Promise<string[]> {
  const response = await fetch(`http://127.0.0.1:${monitoringPort}/metrics`);
  const lines = (await response.text()).split("\n");
  return lines.flatMap(
    (line) => /^rampart_limits_reached_total\{limit="(\w+)"/.exec(line)?.[1] ?? [],
  );
}

/** The code with which a stream ended; `once` would reject for a refused one. */
export function codeOf(stream: ClientHttp2Stream): Promise<number | undefined> {
  stream.on("error", () => {});
  stream.resume();
  return new Promise((resolve) => stream.once("close", () => resolve(stream.rstCode)));
}

/** The end of a connection, which may be a reset. */
export const endOf = (socket: Socket): Promise<void> =>
  new Promise((resolve) => {
    if (socket.destroyed) resolve();
    else socket.once("close", () => resolve());
  });
