import { X509Certificate } from "node:crypto";
import { once } from "node:events";
import { connect } from "node:tls";
import { afterEach, expect, onTestFinished, test } from "vitest";
import { addSeconds } from "../../../src/pki/x509/validity.ts";
import { issuers, issuerTables } from "../../contract/service-under-test.ts";
import { type ServedCa, serveCa, servedName } from "../../testkit/ca/served-ca.ts";
import {
  createTokenKey,
  jwksOf,
  mintAccountToken,
  type TokenKey,
} from "../../testkit/callers/tokens.ts";
import { createWorkloadKey } from "../../testkit/callers/workload-key.ts";
import { type ClientTls, connectHttp2 } from "../../testkit/network/http2-client.ts";
import {
  type CallerTls,
  type NativeClient,
  nativeClient,
} from "../../testkit/network/native-grpc.ts";
import { createVirtualTime, type VirtualTime } from "../../testkit/time/virtual-time.ts";

/**
 * How long a leaf lives. An authority signs for three such lives. Its successor is minted after half of one
 * and signs after one and a half; after three the first is gone.
 */
const leafDays = 10;
const values = {
  DEFAULT_WORKLOAD_CERT_TTL: `${24 * leafDays}h`,
  MAX_WORKLOAD_CERT_TTL: `${24 * leafDays}h`,
  AUTHORITY_LIFETIME: `${4 * 24 * leafDays}h`,
};
const key: TokenKey = await createTokenKey("ES256", "k1");

let time: VirtualTime;
let served: ServedCa;

/**
 * Serves a CA that was founded so many lives of a leaf ago by its clock. Real TLS knows only the real
 * time, at which whatever was issued in the last life of a leaf is good.
 */
async function serveSince(lives: number): Promise<void> {
  time = createVirtualTime(addSeconds(new Date(), -lives * leafDays * 86_400));
  const ISSUERS = [{ ...issuerTables.cluster, jwks: jwksOf(key) }];
  served = await serveCa({ ...values, ISSUERS }, time, "tenant");
}

/** Moves on by so many lives of a leaf. */
const pass = (lives: number): void => time.pass(lives * leafDays * 86_400);

afterEach(() => served.end());

async function obtain(client: NativeClient, withToken: boolean): Promise<CallerTls> {
  const { privateKey, csrPem } = await createWorkloadKey("spiffe://any/ns/a/sa/b");
  const token = await mintAccountToken(key, issuers.cluster, "foo:vm", time.clock());
  const headers = { authorization: `Bearer ${token}` };
  const outcome = await client.createCertificate({ csr: csrPem }, withToken ? headers : {});
  if (!("certChain" in outcome)) throw new Error(`${outcome.code}: ${outcome.message}`);
  const [chainPem = "", roots = ""] = outcome.certChain;
  const keyPem = privateKey.export({ type: "pkcs8", format: "pem" }).toString();
  return { chainPem, roots, keyPem };
}

/** Renews with nothing but a certificate, on a connection of its own. */
async function renew(shown: CallerTls): Promise<CallerTls> {
  const client = nativeClient(served.port, servedName, shown);
  try {
    return await obtain(client, false);
  } finally {
    client.close();
  }
}

/** The certificate that a handshake shows now. */
function servingCertificate(): Promise<X509Certificate> {
  return new Promise((resolve, reject) => {
    const options = { port: served.port, servername: servedName, rejectUnauthorized: false };
    const socket = connect(options, () => {
      const certificate = socket.getPeerX509Certificate();
      if (certificate) resolve(certificate);
      socket.destroy();
    });
    socket.on("error", reject);
  });
}

const rootsIn = (pem: string): string[] =>
  (pem.match(/-----BEGIN[^-]+-----[^-]+-----END[^-]+-----\n/g) ?? []).toSorted();

const isSignedBy = (leaf: X509Certificate, root: string): boolean =>
  leaf.verify(new X509Certificate(root).publicKey);

/** The roots of the bundle, once there are others than these. */
async function rootsBeyond(...known: readonly string[]): Promise<readonly string[]> {
  return time.passUntil(async () => {
    const roots = rootsIn(await served.bundle()).filter((root) => !known.includes(root));
    expect(roots).not.toEqual([]);
    return roots;
  });
}

/** A client that connects once the server shows a certificate that is good in real time. */
async function connectLasting(roots: string): Promise<NativeClient> {
  const isGood = async () => (await servingCertificate()).validToDate > new Date();
  await time.passUntil(async () => expect(await isGood()).toBe(true));
  const client = nativeClient(served.port, servedName, { roots });
  onTestFinished(() => client.close());
  return client;
}

/** Moves on until the successor of the first authority signs. @returns Their roots. */
async function passToSuccessor(): Promise<readonly [string, string]> {
  const [first = ""] = await rootsBeyond();
  pass(0.53);
  const [second = ""] = await rootsBeyond(first);
  return [first, second];
}

test("a root that is published reaches clients, and opens anew what a certificate has opened", async () => {
  await serveSince(0.9);
  const [first = ""] = await rootsBeyond();
  const lasting = await connectLasting(first);
  const early = await obtain(lasting, true);
  expect(await renew(early)).toMatchObject({ roots: first });
  expect(isSignedBy(await servingCertificate(), first)).toBe(true);
  const tls = { ca: first, cert: early.chainPem, key: early.keyPem, servername: servedName };
  const certified = connectHttp2(`https://127.0.0.1:${served.port}`, tls as ClientTls);
  await once(certified.session, "connect");
  const closed = once(certified.session, "close");

  pass(0.53);
  const [second = ""] = await rootsBeyond(first);
  await time.passWhile(closed);
  expect(rootsIn((await renew(early)).roots)).toEqual([first, second].toSorted());
  expect(rootsIn((await obtain(lasting, true)).roots)).toEqual([first, second].toSorted());
});

test("an authority that begins to sign signs the serving certificate, and drops no connection", async () => {
  await serveSince(1.65);
  const [first, second] = await passToSuccessor();
  pass(0.42);
  const lasting = await connectLasting(first);
  const middle = await renew(await obtain(lasting, true));
  pass(0.6);
  await time.passUntil(async () =>
    expect(isSignedBy(await servingCertificate(), second)).toBe(true),
  );
  const late = await renew(middle);
  expect(isSignedBy(new X509Certificate(late.chainPem ?? ""), second)).toBe(true);
  expect(await renew(late)).toHaveProperty("chainPem");
  expect(await obtain(lasting, true)).toHaveProperty("chainPem");
});
