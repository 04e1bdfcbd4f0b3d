import { connect as connectTcp, type Socket } from "node:net";
import { connect, type TLSSocket } from "node:tls";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { bearer } from "../../contract/rpc-calls.ts";
import { issuerTables } from "../../contract/service-under-test.ts";
import { type ServedCa, serveCa, servedName } from "../../testkit/ca/served-ca.ts";
import { createTokenKey, jwksOf, type TokenKey } from "../../testkit/callers/tokens.ts";
import { createWorkloadKey } from "../../testkit/callers/workload-key.ts";
import { nativeClient } from "../../testkit/network/native-grpc.ts";
import { endOf } from "../../testkit/refusal.ts";

/** A key and the chain that certifies it, PEM. */
interface Svid {
  readonly keyPem: string;
  readonly chainPem: string;
}

let served: ServedCa;
let other: ServedCa;
let key: TokenKey;
let roots: string;
let svid: Svid;

beforeAll(async () => {
  key = await createTokenKey("ES256", "k1");
  const ISSUERS = [{ ...issuerTables.cluster, jwks: jwksOf(key) }];
  [served, other] = await Promise.all([
    serveCa({ ISSUERS, PLAINTEXT_LISTEN: "127.0.0.1:0" }),
    serveCa({ ISSUERS }),
  ]);
  roots = await served.bundle();
  svid = await obtain(served, "foo:bar");
});

afterAll(() => Promise.all([served.end(), other.end()]));

const service = () => ({ key, now: () => new Date() });

async function obtain(ca: ServedCa, account: string): Promise<Svid> {
  const { privateKey, csrPem } = await createWorkloadKey("spiffe://any/ns/a/sa/b");
  const client = nativeClient(ca.port, servedName, { roots: await ca.bundle() });
  const outcome = await client.createCertificate({ csr: csrPem }, await bearer(service(), account));
  client.close();
  if (!("certChain" in outcome)) throw new Error(outcome.message);
  const keyPem = privateKey.export({ type: "pkcs8", format: "pem" }).toString();
  return { keyPem, chainPem: outcome.certChain[0] ?? "" };
}

async function call(shown: Partial<Svid>, headers = {}, request: object = {}) {
  const client = nativeClient(served.port, servedName, { roots, ...shown });
  const { csrPem: csr } = await createWorkloadKey("spiffe://any/ns/a/sa/b");
  const outcome = await client.createCertificate({ csr, ...request }, headers);
  client.close();
  return outcome;
}

function openTcp(localAddress: string): Socket {
  const socket = connectTcp({ host: "127.0.0.1", port: served.port, localAddress });
  return socket.on("error", () => {});
}

/** The end of a connection, which may be a reset. */
const closed = (socket: Socket) => new Promise((resolve) => socket.once("close", resolve));

/** The outcome of a bare handshake: the server's answer to a request, or the end of the connection. */
async function handshake(shown: Partial<Svid>, localAddress = "127.0.0.1"): Promise<string> {
  const socket: TLSSocket = connect({
    socket: openTcp(localAddress),
    servername: servedName,
    ca: roots,
    ...(shown.chainPem && { cert: shown.chainPem, key: shown.keyPem }),
    ALPNProtocols: ["http/1.1"],
  });
  const ended = closed(socket);
  let answer = "";
  socket.on("data", (chunk: Buffer) => {
    answer += chunk.toString();
  });
  socket.on("error", () => {});
  socket.write("GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
  await ended;
  return answer.slice(0, answer.indexOf("\r\n"));
}

describe("a caller with an X509-SVID of this mesh", () => {
  test("has its SPIFFE ID, without a token, and beside another identity's, as in Istio's order", async () => {
    served.log.audits.length = 0;
    for (const headers of [{}, await bearer(service(), "shop:cart")]) {
      expect(await call(svid, headers)).toHaveProperty("certChain");
      const [line] = served.log.audits.splice(0);
      expect(line).toMatchObject({
        outcome: "issued",
        spiffeId: "spiffe://cluster.local/ns/foo/sa/bar",
      });
      expect(line).not.toHaveProperty("issuer");
    }
  });

  test("may not name another identity, not even a node proxy", async () => {
    const ztunnel = await obtain(served, "istio-system:ztunnel");
    const metadata = { ImpersonatedIdentity: "spiffe://cluster.local/ns/foo/sa/bar" };
    expect(await endOf(served.log, () => call(ztunnel, {}, { metadata }))).toBe(
      "PermissionDenied impersonation-denied account",
    );
  });

  test("can connect over HTTP/1.1 as well", async () => {
    expect(await handshake(svid)).toBe("HTTP/1.1 200 OK");
  });
});

test("a client certificate of another mesh of the same name counts as none, so that the caller's token decides", async () => {
  const host = "127.0.0.2";
  served.log.operations.length = 0;
  const stranger = await obtain(other, "foo:bar");
  for (let again = 0; again < 2; again++)
    expect(await handshake(stranger, host)).toBe("HTTP/1.1 200 OK");
  expect(await endOf(served.log, () => call(stranger))).toBe("Unauthenticated credential-missing");
  const headers = await bearer(service(), "shop:cart");
  expect(await call(stranger, headers)).toHaveProperty("certChain");
  expect(served.log.audits[0]).toMatchObject({
    proof: "token",
    spiffeId: "spiffe://cluster.local/ns/shop/sa/cart",
  });
  const { operations } = served.log;
  expect(operations.filter(({ peer }) => peer === host)).toEqual([
    expect.objectContaining({ event: "client-certificate-refused" }),
  ]);
});

test("a chain that takes long to verify has its caller's address refused, if it leads to no root", async () => {
  const [host, neighbour] = ["127.0.0.8", "127.0.0.9"];
  const good = "HTTP/1.1 200 OK";
  const stranger = await obtain(other, "foo:bar");
  expect(await handshake(stranger, host)).toBe(good);
  const long = (await other.bundle()).repeat(40);
  expect(await handshake({ ...svid, chainPem: svid.chainPem + long }, host)).toBe(good);
  const dropped = closed(openTcp(host));
  expect(await handshake({ ...stranger, chainPem: stranger.chainPem + long }, host)).toBe("");
  expect(await handshake({}, host)).toBe("");
  await dropped;
  expect(await handshake({}, neighbour)).toBe(good);
});

test.each(["TLSv1.2", "TLSv1.3"] as const)(
  "no session of %s is resumed, so that no certificate is believed longer than it is good",
  async (version) => {
    const sessions: Buffer[] = [];
    const isReused = (session?: Buffer) =>
      new Promise<boolean>((resolve, reject) => {
        let reused = false;
        const socket = connect({
          port: served.port,
          servername: servedName,
          ca: roots,
          cert: svid.chainPem,
          key: svid.keyPem,
          ...(session && { session }),
          minVersion: version,
          maxVersion: version,
          ALPNProtocols: ["http/1.1"],
        });
        socket.on("secureConnect", () => {
          reused = socket.isSessionReused();
          const session = socket.getSession();
          if (session) sessions.push(session);
        });
        socket.on("session", (each) => sessions.push(each));
        socket.on("error", reject);
        socket.on("close", () => resolve(reused));
        socket.resume();
        socket.write("GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
      });
    await isReused();
    for (const session of [...sessions]) expect(await isReused(session)).toBe(false);
  },
);
