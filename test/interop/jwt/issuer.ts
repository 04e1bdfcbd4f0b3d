import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { createServer } from "node:https";
import { join } from "node:path";
import { Mint, mintTokenKey } from "../../../src/ca/mint.ts";
import { addSeconds } from "../../../src/pki/x509/validity.ts";
import { startHttpCa } from "../../testkit/agent/http-ca.ts";
import { freePorts } from "../../testkit/network/free-ports.ts";
import { createTlsIdentity } from "../../testkit/network/tls-identity.ts";
import { audience } from "./relying-parties.ts";

export type IssuingCa = Awaited<ReturnType<typeof startIssuingCa>>;

const day = 24 * 3600;

/** How long a relying party may keep a document here. */
export const cachedMilliseconds = 1_000;

/** Starts a CA whose documents are behind TLS, with a short life in caches. */
export async function startIssuingCa(folder: string) {
  const [port = 0] = await freePorts(1);
  const { key, ca: root } = await createTlsIdentity(true);
  const rootFile = join(folder, "issuer.pem");
  await writeFile(rootFile, root);
  const url = `https://127.0.0.1:${port}`;
  const audiences = { jwt_audiences: [audience, "step-*", "sts.amazonaws.com"] };
  const ca = await startHttpCa({ JWT_ISSUER: url }, audiences);
  const server = createServer({ key, cert: root }, async (request, response) => {
    const answered = await fetch(`${ca.url}${request.url}`).catch(() => undefined);
    const headers = {
      "content-type": answered?.headers.get("content-type") ?? "text/plain",
      "cache-control": `public, max-age=${cachedMilliseconds / 1000}`,
    };
    response.writeHead(answered?.status ?? 503, headers);
    response.end(await answered?.text());
  });
  server.listen(port, "127.0.0.1");
  await once(server, "listening");
  let rotations = 0;
  const rotate = async (): Promise<void> => {
    const now = new Date();
    // Of several keys that may sign, the one that ends first does.
    const signsUntil = addSeconds(now, day - 3600 * ++rotations);
    const [publishedFrom, signsFrom] = [addSeconds(now, -2 * day), addSeconds(now, -1)];
    const retiresAt = addSeconds(now, 2 * day);
    await mintTokenKey(ca.mint, "ES256", { publishedFrom, signsFrom, signsUntil, retiresAt });
  };
  // The cron's first key would wait for the followers of a bundle without one.
  await rotate();
  return {
    url,
    root,
    rootFile,
    ca,
    /** Has a new key sign from now on. It counts as published a day ago, for no cache keeps a document that long here. */
    rotate,
    taint: async (id: string): Promise<void> => {
      const now = new Date();
      await Mint.recordTaint(ca.mint, { id, taintedAt: now, retiresAt: now });
    },
    end: async () => {
      server.close();
      server.closeAllConnections();
      await ca.close();
    },
  };
}
