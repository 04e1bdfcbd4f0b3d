import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { connectJson, grpcWeb } from "../../contract/rpc-calls.ts";
import { issuerTables, origin, rpcPath } from "../../contract/service-under-test.ts";
import { type ServedCa, serveCa, servedName } from "../../testkit/ca/served-ca.ts";
import { createTokenKey, jwksOf, mintAccountToken } from "../../testkit/callers/tokens.ts";
import { createWorkload } from "../../testkit/callers/workload.ts";
import { connectHttp2 } from "../../testkit/network/http2-client.ts";
import { eventually } from "../../testkit/time/eventually.ts";
import { hangMilliseconds } from "../../testkit/time/hang-limit.ts";

let served: ServedCa;
let authorization: string;

beforeEach(async () => {
  const key = await createTokenKey("ES256", "k1");
  const { issuer } = issuerTables.cluster;
  served = await serveCa({
    ISSUERS: [{ issuer, jwks: jwksOf(key) }],
    PLAINTEXT_LISTEN: "127.0.0.1:0",
    CRL: "on",
    // A long poll that held a turn would keep all other requests waiting.
    LIMITS: { requests_at_work: 1, requests_at_work_per_address: 1 },
  });
  authorization = `Bearer ${await mintAccountToken(key, issuer, "foo:bar", new Date())}`;
});

async function connectClient() {
  const client = connectHttp2(`https://127.0.0.1:${served.port}`, {
    ca: await served.bundle(),
    servername: servedName,
  });
  onTestFinished(() => client.session.destroy());
  client.session.on("error", () => {});
  await once(client.session, "remoteSettings");
  return client;
}

const plaintext = (): string => `http://127.0.0.1:${served.server.plaintextAddress?.port}`;

/** A call whose body comes only when it is told to. */
async function beginCall(over = connectJson) {
  const { csrPem } = await createWorkload();
  const message = over.encode({ csr: csrPem });
  const { promise: told, resolve: finish } = Promise.withResolvers<void>();
  const body = new ReadableStream<Uint8Array>({
    async start(controller) {
      controller.enqueue(message.subarray(0, 10));
      await told;
      controller.enqueue(message.subarray(10));
      controller.close();
    },
  });
  const client = await connectClient();
  const headers = { "content-type": over.contentType, authorization };
  const init = { method: "POST", headers, body, duplex: "half" } as RequestInit;
  const answer = client.send(new Request(`${origin}${rpcPath}`, init));
  answer.catch(() => {});
  await eventually(async () => expect(await hasBegun()).toBe(true));
  return { answer, finish };
}

/** Whether the server knows of a call; until then, it may still refuse it. */
async function hasBegun(): Promise<boolean> {
  return (await metric("rampart_requests_under_way")) === 1;
}

async function metric(name: string): Promise<number> {
  const response = await served.monitored("/metrics");
  const line = new RegExp(`^${name}(?:\\{.*\\})? (\\d+)$`, "m").exec(await response.text());
  return Number(line?.[1]);
}

/** The outcome of a new connection. */
async function knock(port: number): Promise<string> {
  const socket = connect(port, "127.0.0.1");
  const answered = once(socket, "connect").then(() => "answered");
  return answered.catch((error) => String(error.code)).finally(() => socket.destroy());
}

describe("a server that ends", () => {
  test("finishes the call under way, and accepts no other", async () => {
    const { answer, finish } = await beginCall();
    const closing = served.server.close(hangMilliseconds);
    await eventually(async () => expect(await knock(served.port)).toBe("ECONNREFUSED"));
    expect(await knock(served.server.plaintextAddress?.port ?? 0)).toBe("ECONNREFUSED");
    finish();
    const response = await answer;
    expect(response.status).toBe(200);
    expect(await response.json()).toHaveProperty("certChain");
    await closing;
    expect(await knock(served.monitoringPort)).toBe("ECONNREFUSED");
    expect(served.log.audits).toHaveLength(1);
  });

  test("answers probes with NOT_SERVING while it finishes", async () => {
    const { finish } = await beginCall();
    const closing = served.server.close(hangMilliseconds);
    const check = connectHttp2(`http://127.0.0.1:${served.monitoringPort}`);
    const request = new Request(`${origin}/grpc.health.v1.Health/Check`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: "{}",
    });
    const response = await check.send(request);
    expect(await response.json()).toEqual({ status: "NOT_SERVING" });
    check.session.destroy();
    finish();
    await closing;
  });

  test("cuts calls that do not end in time", async () => {
    const { answer } = await beginCall(grpcWeb);
    await served.server.close(100);
    await expect(answer).rejects.toThrow();
  });

  test.each<[string, () => Promise<Socket>]>([
    ["in plaintext", async () => connect(served.server.plaintextAddress?.port ?? 0, "127.0.0.1")],
    ["over TLS", async () => connect(served.port, "127.0.0.1")],
  ])(
    "ends without an error when a caller resets its connection meanwhile, %s",
    async (over, open) => {
      const raw = await open();
      const socket =
        over === "over TLS" ? connectTls({ socket: raw, rejectUnauthorized: false }) : raw;
      for (const each of [raw, socket]) each.on("error", () => {});
      socket.write("POST /bundle.pem HTTP/1.1\r\nhost: a\r\n");
      await eventually(async () => expect(await metric("rampart_connections")).toBe(1));
      const closing = served.server.close(hangMilliseconds);
      raw.resetAndDestroy();
      await closing;
      expect(await knock(served.monitoringPort)).toBe("ECONNREFUSED");
    },
  );

  test("ends a stream of health, and does not wait for idle connections of HTTP/1.1", async () => {
    expect((await fetch(`${plaintext()}/healthz`)).status).toBe(200);
    const { session } = connectHttp2(`http://127.0.0.1:${served.monitoringPort}`);
    onTestFinished(() => session.destroy());
    const headers = { ":method": "POST", "content-type": "application/grpc", te: "trailers" };
    const stream = session.request({ ...headers, ":path": "/grpc.health.v1.Health/Watch" });
    stream.end(Buffer.alloc(5));
    await once(stream, "data");
    expect(await metric("rampart_ready")).toBe(1);
    await served.server.close(hangMilliseconds);
  });

  describe("while callers wait for another bundle or CRL", () => {
    const waitFor = async (path: string, site = plaintext(), send: typeof fetch = fetch) => {
      const known = await fetch(`http://127.0.0.1:${served.monitoringPort}/${path}`);
      await known.text();
      const headers = { "if-none-match": known.headers.get("etag") ?? "", prefer: "wait=300" };
      return { answer: send(new Request(`${site}/${path}`, { headers })) };
    };

    test("answers them at once, over HTTP/1.1 and HTTP/2", async () => {
      const { send } = await connectClient();
      const waits = [
        await waitFor("bundle.json", origin, send as typeof fetch),
        await waitFor("bundle.json"),
        await waitFor("crl.pem"),
      ];
      // Whoever is answered after them shows that they have arrived.
      expect((await send(new Request(`${origin}/bundle.pem`))).status).toBe(200);
      await fetch(`${plaintext()}/healthz`);
      await served.server.close(hangMilliseconds);
      for (const { answer } of waits) {
        const { status, headers } = await answer;
        expect([status, headers.get("preference-applied")]).toEqual([304, "wait=50"]);
      }
    });

    test("does not wait for those that hung up", async () => {
      const caller = new AbortController();
      const { signal } = caller;
      const { answer } = await waitFor("bundle.json", plaintext(), (request) =>
        fetch(request, { signal }),
      );
      await fetch(`${plaintext()}/healthz`);
      caller.abort();
      await expect(answer).rejects.toThrow();
      await served.server.close(hangMilliseconds);
    });
  });
});
