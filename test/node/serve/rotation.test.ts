import { X509Certificate } from "node:crypto";
import { once } from "node:events";
import { connect } from "node:tls";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createWorkloadKey } from "../../../dev/certificate-request.ts";
import { issuers, issuerTables } from "../../contract/service-under-test.ts";
import { type ServedCa, serveCa, servedName } from "../../testkit/ca/served-ca.ts";
import {
  createTokenKey,
  jwksOf,
  mintAccountToken,
  type TokenKey,
} from "../../testkit/callers/tokens.ts";
import { eventually } from "../../testkit/eventually.ts";
import { type ClientTls, connectHttp2 } from "../../testkit/network/http2-client.ts";
import {
  type CallerTls,
  type NativeClient,
  nativeClient,
} from "../../testkit/network/native-grpc.ts";

// Leaves of 36 s, authorities of 144 s: minted 18 s on, signs 54 s on, the first is gone after 108 s.
// All of it within the two minutes that certificates are backdated, because TLS has the machine's clock.
const leafSeconds = 36;
const start = Date.now();
let passed = 0;
const clock = (): Date => new Date(Date.now() + passed * 1000);
const at = (seconds: number): void => {
  passed = seconds - (Date.now() - start) / 1000;
};

let served: ServedCa;
let key: TokenKey;

beforeAll(async () => {
  key = await createTokenKey("ES256", "k1");
  const values = {
    ISSUERS: [{ ...issuerTables.cluster, jwks: jwksOf(key) }],
    MAX_WORKLOAD_CERT_TTL: `${leafSeconds}s`,
    AUTHORITY_LIFETIME: `${4 * leafSeconds}s`,
  };
  served = await serveCa(values, clock);
});

afterAll(() => served.end());

async function obtain(client: NativeClient, withToken: boolean): Promise<CallerTls> {
  const { privateKey, csrPem } = await createWorkloadKey("spiffe://any/ns/a/sa/b");
  const token = await mintAccountToken(key, issuers.cluster, "foo:vm", clock());
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

test("a rotation renews the serving certificate and the roots of clients, and drops no connection", async () => {
  const [first = ""] = rootsIn(await served.bundle());
  const lasting = nativeClient(served.port, servedName, { roots: first });
  const early = await obtain(lasting, true);
  expect(await renew(early)).toMatchObject({ roots: first });
  const before = await servingCertificate();
  expect(before.verify(new X509Certificate(first).publicKey)).toBe(true);

  const tls = { ca: first, cert: early.chainPem, key: early.keyPem, servername: servedName };
  const certified = connectHttp2(`https://127.0.0.1:${served.port}`, tls as ClientTls);
  await once(certified.session, "connect");

  at(19);
  await eventually(async () => expect(rootsIn(await served.bundle())).toHaveLength(2));
  const second = rootsIn(await served.bundle()).find((root) => root !== first) ?? "";

  // What a certificate has opened is opened anew, against the roots of now.
  await once(certified.session, "close");

  at(50);
  const middle = await renew(await obtain(lasting, true));
  at(56);
  await eventually(async () => {
    const shown = await servingCertificate();
    expect(shown.verify(new X509Certificate(second).publicKey)).toBe(true);
  });
  const late = await renew(middle);
  expect(
    new X509Certificate(late.chainPem ?? "").verify(new X509Certificate(second).publicKey),
  ).toBe(true);
  expect(await renew(late)).toHaveProperty("chainPem");

  at(110);
  await eventually(async () => expect(await served.bundle()).not.toContain(first));
  await eventually(() => expect(renew({ ...middle, roots: second })).rejects.toThrow());
  expect(await obtain(lasting, true)).toHaveProperty("chainPem");
  lasting.close();
});
