import { createPrivateKey, X509Certificate } from "node:crypto";
import { connect } from "node:net";
import { type Client, Code, type ConnectError, createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { afterAll, beforeAll, expect, test } from "vitest";
import { SpiffeWorkloadAPI } from "../../src/gen/spiffe/workload_pb.ts";
import { type HttpCa, startHttpCa } from "./http-ca.ts";
import { type RunningAgent, runAgent, temporaryFolder } from "./running-agent.ts";

const headers = { "workload.spiffe.io": "true" };
const trustDomain = "spiffe://cluster.local";

let ca: HttpCa;
beforeAll(async () => {
  ca = await startHttpCa();
});
afterAll(() => ca.close());

interface Running extends RunningAgent {
  readonly client: Client<typeof SpiffeWorkloadAPI>;
}

async function start(variables: Record<string, string> = {}): Promise<Running> {
  const socket = `${await temporaryFolder()}/api`;
  const running = await runAgent(ca, { RAMPART_WORKLOAD_API_SOCKET: socket, ...variables });
  const nodeOptions = { createConnection: () => connect(socket) };
  const transport = createGrpcTransport({ baseUrl: "http://agent", nodeOptions });
  return { ...running, client: createClient(SpiffeWorkloadAPI, transport) };
}

async function first<T>(stream: AsyncIterable<T>): Promise<T> {
  for await (const message of stream) return message;
  throw new Error("the stream has ended");
}

const codeOf = async (work: Promise<unknown>): Promise<string> =>
  await work.then(
    () => "no error",
    (error: ConnectError) => Code[error.code] ?? "",
  );

test("gives a workload its certificate, its key and the bundle, in DER", async () => {
  const { client } = await start();
  const { svids, federatedBundles } = await first(client.fetchX509SVID({}, { headers }));
  expect(svids).toHaveLength(1);
  const [svid] = svids;
  if (!svid) throw new Error("there is one");
  const leaf = new X509Certificate(svid.x509Svid);
  const key = createPrivateKey({
    key: Buffer.from(svid.x509SvidKey),
    format: "der",
    type: "pkcs8",
  });
  expect(svid.spiffeId).toBe(`${trustDomain}/ns/foo/sa/bar`);
  expect(leaf.checkPrivateKey(key)).toBe(true);
  expect(leaf.verify(new X509Certificate(svid.bundle).publicKey)).toBe(true);
  expect(federatedBundles).toEqual({});
});

test("gives a verifier the bundle by its trust domain", async () => {
  const { client } = await start();
  const { bundles } = await first(client.fetchX509Bundles({}, { headers }));
  expect(Object.keys(bundles)).toEqual([trustDomain]);
  expect(new X509Certificate(bundles[trustDomain] ?? new Uint8Array()).ca).toBe(true);
});

test("sends the whole state again when the certificate is renewed", async () => {
  const { client } = await start({ SECRET_TTL: "2s" });
  const serials = new Set<string>();
  for await (const { svids } of client.fetchX509SVID({}, { headers })) {
    serials.add(new X509Certificate(svids[0]?.x509Svid ?? new Uint8Array()).serialNumber);
    if (serials.size === 2) break;
  }
  expect(serials.size).toBe(2);
});

test("refuses every method without the security header, and with another value of it", async () => {
  const { client } = await start();
  for (const options of [{}, { headers: { "workload.spiffe.io": "True" } }]) {
    const calls = [
      first(client.fetchX509SVID({}, options)),
      first(client.fetchX509Bundles({}, options)),
      client.fetchJWTSVID({ audience: ["a"] }, options),
      first(client.fetchJWTBundles({}, options)),
      client.validateJWTSVID({}, options),
    ];
    expect(await Promise.all(calls.map(codeOf))).toEqual(calls.map(() => "InvalidArgument"));
  }
});

test("says of the JWT profile that it is not served", async () => {
  const { client } = await start();
  const calls = [
    client.fetchJWTSVID({ audience: ["a"] }, { headers }),
    first(client.fetchJWTBundles({}, { headers })),
    client.validateJWTSVID({ audience: "a", svid: "b" }, { headers }),
  ];
  expect(await Promise.all(calls.map(codeOf))).toEqual(calls.map(() => "Unimplemented"));
});

test("says that it is not available while there is no certificate", async () => {
  const { client, event } = await start({ RAMPART_TOKEN_FILE: "/nowhere" });
  await event("renewal-failed");
  expect(await codeOf(first(client.fetchX509SVID({}, { headers })))).toBe("Unavailable");
});
