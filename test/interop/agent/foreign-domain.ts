import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { createTestAuthority } from "../../testkit/agent/test-authority.ts";
import { createTlsIdentity } from "../../testkit/network/tls-identity.ts";

/** The foreign trust domain `other.test`, with a bundle endpoint of the profile `https_web`. */
interface ForeignDomain {
  /** The variables that federate an agent with it. */
  readonly variables: Readonly<Record<string, string>>;
  /** Publishes another bundle. */
  publish(sequence: number, roots: number): void;
  close(): void;
}

export async function startForeignDomain(folder: string): Promise<ForeignDomain> {
  const names = ["foreign-1", "foreign-2", "foreign-3"];
  const authorities = await Promise.all(
    names.map((name) => createTestAuthority(name, "spiffe://other.test")),
  );
  const keys = authorities.map(({ certificate }) => ({
    use: "x509-svid",
    kty: "EC",
    x5c: [certificate.raw.toString("base64")],
  }));
  let bundle = {};
  const publish = (sequence: number, roots: number): void => {
    bundle = { spiffe_sequence: sequence, spiffe_refresh_hint: 1, keys: keys.slice(0, roots) };
  };
  publish(1, 1);
  const { key, ca } = await createTlsIdentity();
  const server = createServer({ key, cert: ca }, (_request, response) => {
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify(bundle));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const rootFile = join(folder, "foreign-web-root.pem");
  await writeFile(rootFile, ca);
  return {
    variables: {
      RAMPART_FEDERATED_BUNDLES: `other.test=https://127.0.0.1:${port}/bundle.json`,
      RAMPART_FEDERATED_ROOT_CA: rootFile,
    },
    publish,
    close: () => void server.close(),
  };
}
