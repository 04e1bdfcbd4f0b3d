import { writeFile } from "node:fs/promises";
import { createServer } from "node:https";
import { join } from "node:path";
import { createTestAuthority } from "../../testkit/agent/test-authority.ts";
import { listenOnLoopback } from "../../testkit/network/loopback.ts";
import { createTlsIdentity } from "../../testkit/network/tls-identity.ts";

/** The foreign trust domain `other.test`, with a bundle endpoint of the profile `https_web`. */
export async function startForeignDomain(folder: string) {
  const { certificate } = await createTestAuthority("foreign", "spiffe://other.test");
  const x5c = [certificate.raw.toString("base64")];
  const bundle = JSON.stringify({ keys: [{ use: "x509-svid", kty: "EC", x5c }] });
  const { key, ca } = await createTlsIdentity();
  const server = createServer({ key, cert: ca }, (_request, response) => {
    response.setHeader("content-type", "application/json");
    response.end(bundle);
  });
  const { host, close } = await listenOnLoopback(server);
  const rootFile = join(folder, "foreign-web-root.pem");
  await writeFile(rootFile, ca);
  return {
    /** The variables that federate an agent with it. */
    variables: {
      RAMPART_FEDERATED_BUNDLES: `other.test=https://${host}/bundle.json`,
      RAMPART_FEDERATED_ROOT_CA: rootFile,
    },
    close,
  };
}
