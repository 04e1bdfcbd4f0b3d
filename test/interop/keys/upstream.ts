import { X509Certificate } from "node:crypto";
import { createServer } from "node:http";
import { json } from "node:stream/consumers";
import { addSeconds } from "../../../src/pki/x509/validity.ts";
import { listenOnLoopback } from "../../testkit/network/loopback.ts";
import { signIntermediate } from "../../testkit/pki/company-ca.ts";
import { createCa } from "../../testkit/pki/plugged-in.ts";

/** A CA upstream by the clock of a story, which Vault's own engine does not have. */
export interface Upstream {
  readonly url: string;
  /** Of its root. */
  readonly fingerprint: string;
  readonly close: () => Promise<void>;
}

/** Answers as Vault's documentation describes `sign-intermediate`. */
export async function startUpstream(now: () => Date): Promise<Upstream> {
  const root = await createCa("O=company,CN=upstream root");
  const server = createServer(async (request, response) => {
    const { csr, ttl } = (await json(request)) as { readonly csr: string; readonly ttl: string };
    const notAfter = addSeconds(now(), Number.parseInt(ttl, 10));
    const certificate = await signIntermediate(root, csr, { notAfter });
    const data = { certificate, issuing_ca: root.pem, ca_chain: [certificate, root.pem] };
    response.end(JSON.stringify({ data }));
  });
  const { host, close } = await listenOnLoopback(server);
  const { fingerprint256: fingerprint } = new X509Certificate(root.pem);
  return { url: `http://${host}`, fingerprint, close };
}
